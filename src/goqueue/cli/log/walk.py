"""Every good record of a segment, and every place where there is none.

Tells a torn tail from damage, and looks for the next good record behind damage. Reads a file of
any size in bounded memory, and hostile bytes in bounded time.

Invariant: chunks and flaws come in the order of their positions and do not overlap; the offsets
of the chunks rise and are never below the segment's base.
"""

from collections.abc import Iterator

import msgspec

from goqueue.cli.log.places import Segment
from goqueue.log import UnfinishedBatch, unfinished_batch
from goqueue.records import Corrupt
from goqueue.storage import Chunk, File, RecordSearch, chunks

__all__ = ["Flaw", "walk"]

FLAWS_MAX = 100

_WORDS = {
    "crc": "the bytes do not match their checksum",
    "magic": "no record begins here",
    "offset": "the offset is not one that may follow",
    "truncated": "the record is cut off",
    "version": "the record has an unknown version",
}


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that are no good record; `offset` is the first one that may be missing.

    What `is_cut` goes at the next start; it is a torn tail unless good records are in it.
    """

    position: int
    size: int
    offset: int
    reason: str
    is_torn: bool = False
    is_cut: bool = False


def walk(file: File, segment: Segment) -> Iterator[Chunk | Flaw]:
    """The records of one segment, all checked, and the flaws between them."""
    size = segment.entry.size
    durable = min(segment.promised, size)
    offset = int(segment.base)
    has_lost_end = False
    for part in _Durable(file, durable).walk(offset):
        if isinstance(part, Chunk):
            offset = part.columns.offsets[-1] + 1
            has_lost_end = False
        else:
            has_lost_end = True
        yield part
    if segment.promised > size:
        if not has_lost_end:
            missing = f"truncated: {segment.promised - size} bytes that were durable are gone"
            yield Flaw(position=size, size=0, offset=offset, reason=missing)
        return
    yield from _walk_tail(file, segment, offset)


def _walk_tail(file: File, segment: Segment, offset: int) -> Iterator[Chunk | Flaw]:
    """What lies above the recovery point, up to the first record that does not add up."""
    position, size = min(segment.promised, segment.entry.size), segment.entry.size
    batch: UnfinishedBatch | None = None
    try:
        for chunk in _rising(chunks(file, position, size, segment.expected), offset):
            batch = unfinished_batch(chunk.data, chunk.columns, chunk.position, batch)
            yield chunk
            position = chunk.position + chunk.end
            offset = chunk.columns.offsets[-1] + 1
    except Corrupt as corrupt:
        yield _tail_flaw(file, size, corrupt, offset, batch)
    except OSError as error:
        yield _unreadable(error, position, size, offset)
    else:
        if batch is not None:
            words = _words_of_cut(size, batch.position)
            reason = f"batch: the last records of a batch are missing; {words}"
            yield Flaw(
                position=size, size=0, offset=offset, reason=reason, is_torn=True, is_cut=True
            )


def _tail_flaw(
    file: File, size: int, corrupt: Corrupt, offset: int, batch: UnfinishedBatch | None
) -> Flaw:
    """A torn tail; with good records behind the bad one it may be damage, and is a problem."""
    start = corrupt.position
    try:
        following = RecordSearch(file, size).first_from(start, offset)
    except OSError as error:
        return _unreadable(error, start, size, offset)
    words = _words_of_cut(size, start if batch is None else batch.position)
    reason = f"{_explain(corrupt)}; {words}"
    is_torn = following == size
    if not is_torn:
        reason += f", and kept beside the log, because a good record follows at byte {following}"
    return Flaw(
        position=start,
        size=size - start,
        offset=offset,
        reason=reason,
        is_torn=is_torn,
        is_cut=True,
    )


def _words_of_cut(size: int, position: int) -> str:
    return f"the last {size - position} bytes are cut at the next start"


class _Durable:
    """The part of a segment that was durable: a bad record in it does not end it."""

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self._search = RecordSearch(file, size)

    def walk(self, offset: int) -> Iterator[Chunk | Flaw]:
        """Chunks and flaws from the start, where no record is below `offset`."""
        position = 0
        flaws = 0
        while position < self._size:
            try:
                for chunk in _rising(chunks(self._file, position, self._size), offset):
                    yield chunk
                    position = chunk.position + chunk.end
                    offset = chunk.columns.offsets[-1] + 1
            except Corrupt as corrupt:
                flaws += 1
                flaw = self._flaw(corrupt, offset, flaws >= FLAWS_MAX)
                yield flaw
                position = flaw.position + flaw.size
            except OSError as error:
                yield _unreadable(error, position, self._size, offset)
                return

    def _flaw(self, corrupt: Corrupt, offset: int, is_last: bool) -> Flaw:
        start = corrupt.position
        reason = _explain(corrupt)
        try:
            end = self._size if is_last else self._search.behind(start, offset)
        except OSError as error:
            return _unreadable(error, start, self._size, offset)
        if is_last:
            reason += f"; {FLAWS_MAX} flaws are enough, the rest of the segment was not read"
        elif end == self._size:
            reason += "; no good record follows in this segment"
        return Flaw(position=start, size=end - start, offset=offset, reason=reason)


def _rising(found: Iterator[Chunk], offset: int) -> Iterator[Chunk]:
    """The chunks as long as they go on from `offset`: the name of a file is a promise too."""
    for chunk in found:
        if chunk.columns.offsets[0] < offset:
            raise Corrupt(chunk.position, "offset")
        yield chunk
        offset = chunk.columns.offsets[-1] + 1


def _unreadable(error: OSError, position: int, size: int, offset: int) -> Flaw:
    reason = f"unreadable: {error.strerror or error}"
    return Flaw(position=position, size=size - position, offset=offset, reason=reason)


def _explain(corrupt: Corrupt) -> str:
    words = _WORDS.get(corrupt.reason, "the record is malformed")
    return f"{corrupt.reason}: {words}"
