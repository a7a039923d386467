"""Every good record of a segment, and every place where there is none.

Tells a torn tail from damage, and looks for the next good record behind damage. Reads a file of
any size in bounded memory, and hostile bytes in bounded time.

Invariant: chunks and flaws come in the order of their positions and do not overlap; the offsets
of the chunks rise and are never below the segment's base.
"""

from collections.abc import Iterator

import msgspec

from goqueue.cli.log.places import Segment
from goqueue.model import SEGMENT_BYTES
from goqueue.records import HEADER_SIZE, Corrupt, decode, scan
from goqueue.storage import Chunk, File, chunks

__all__ = ["Flaw", "walk"]

FLAWS_MAX = 100

_START = b"GQ\x01"
_WINDOW_BYTES = 256 * 1024
# What may be read for the sake of starts of records that turn out to be none.
_SEARCH_BYTES_MAX = 4 * SEGMENT_BYTES

_WORDS = {
    "crc": "the bytes do not match their checksum",
    "magic": "no record begins here",
    "offset": "the offset is not one that may follow",
    "truncated": "the record is cut off",
    "version": "the record has an unknown version",
}


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that are no good record; `offset` is the first one that may be missing."""

    position: int
    size: int
    offset: int
    reason: str
    is_torn: bool = False


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
    try:
        for chunk in _rising(chunks(file, position, size, segment.expected), offset):
            yield chunk
            position = chunk.position + chunk.end
            offset = chunk.columns.offsets[-1] + 1
    except Corrupt as corrupt:
        rest = size - corrupt.position
        reason = f"{_explain(corrupt)}; the last {rest} bytes are cut at the next start"
        yield Flaw(position=corrupt.position, size=rest, offset=offset, reason=reason, is_torn=True)
    except OSError as error:
        yield _unreadable(error, position, size, offset)


class _Durable:
    """The part of a segment that was durable: a bad record in it does not end it."""

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self._search_bytes_left = _SEARCH_BYTES_MAX

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
            end = self._size if is_last else self._find_next(start, offset)
        except OSError as error:
            return _unreadable(error, start, self._size, offset)
        if is_last:
            reason += f"; {FLAWS_MAX} flaws are enough, the rest of the segment was not read"
        elif end == self._size:
            reason += "; no good record follows in this segment"
        return Flaw(position=start, size=end - start, offset=offset, reason=reason)

    def _find_next(self, position: int, offset: int) -> int:
        """Where the next good record begins, at or above `offset`; the size if there is none."""
        # Mostly the length is right and the body is wrong. To look where it points first is
        # quick, and keeps a record that is the value of the damaged one from being taken for ours.
        announced = position + self._length_at(position)
        if announced > position and (announced == self._size or self._is_good(announced, offset)):
            return announced
        position += 1
        while position < self._size and self._search_bytes_left > 0:
            data = self._file.read_at(position, min(_WINDOW_BYTES, self._size - position))
            at = data.find(_START)
            while at >= 0 and self._search_bytes_left > 0:
                if self._is_good(position + at, offset):
                    return position + at
                at = data.find(_START, at + 1)
            # A start may lie across the border of two windows.
            position += max(1, len(data) - len(_START) + 1)
        return self._size

    def _length_at(self, position: int) -> int:
        """The length of the record at `position` by its own header, or 0 if that is no header."""
        found = scan(self._file.read_at(position, min(HEADER_SIZE, self._size - position)))
        self._search_bytes_left -= HEADER_SIZE
        if found.reason == "truncated" and position + found.needs <= self._size:
            return found.needs
        return found.end

    def _is_good(self, position: int, offset: int) -> bool:
        length = self._length_at(position)
        if length == 0 or self._search_bytes_left < length:
            return False
        self._search_bytes_left -= length
        try:
            return decode(self._file.read_at(position, length)).offset >= offset
        except Corrupt:
            return False


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
