"""Which stored records a reader may see, and in which form.

The broker serves whole ranges of the log. They also hold what no client may see: control records
(transaction markers, epochs), delayed records that are not due, records of aborted transactions,
and headers in which the log keeps its own notes. Every gateway leaves these out with the functions
of this module, so that clients of all protocols see the same messages.

The broker bounds what it serves by the isolation level: up to the last stable offset for committed
readers, with the aborted ranges below it; up to the high watermark for the others.

Values come out as they were published: compressed ones are decompressed one at a time, so a caller
that stops early pays only for what it has taken. A value that cannot be decompressed, or for which
the caller has no room, is returned as stored, with the header that names its codec.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from goqueue.model import BATCH_HEADER, Offset, Record
from goqueue.model.requests import Isolation, PartitionLeases, Records
from goqueue.records import (
    Corrupt,
    Flag,
    decode,
    decompress,
    has_compressed,
    last_offset,
    pick,
    visible,
    walk,
)

__all__ = [
    "INTERNAL_HEADERS",
    "AbortedRanges",
    "end_for_reader",
    "leased_records",
    "offset_after",
    "visible_records",
]

_HIDDEN = int(Flag.CONTROL | Flag.DELAYED)

# Headers that only the log reads: who wrote a batch.
INTERNAL_HEADERS = frozenset({BATCH_HEADER})


class AbortedRanges:
    """Ranges of offsets, each from its first to the one after its last; in order, none touches."""

    __slots__ = ("_firsts", "_followings")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._firsts: list[int] = []
        self._followings: list[int] = []
        for first, following in sorted(ranges):
            if self._followings and first <= self._followings[-1]:
                self._followings[-1] = max(following, self._followings[-1])
            else:
                self._firsts.append(first)
                self._followings.append(following)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset < self._followings[index]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """All of them, in order."""
        return list(zip(self._firsts, self._followings, strict=True))

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """The ranges that have offsets from `start` on and before `end`."""
        first = bisect_right(self._followings, start)
        after = bisect_left(self._firsts, end)
        return list(zip(self._firsts[first:after], self._followings[first:after], strict=True))


def visible_records(
    piece: memoryview, from_offset: int, count_max: int, aborted: AbortedRanges
) -> Iterable[Record]:
    """The records of one piece that a reader may see, from an offset on; a list if it is cheap."""
    if has_compressed(piece):
        return _decompressed(piece, from_offset, count_max, aborted)
    return visible(piece, from_offset, count_max, aborted.ranges)


def leased_records(share: PartitionLeases, room: int) -> Iterator[Record]:
    """The records of the leases of one partition, in offset order or that of delivery.

    Values are decompressed while their bytes fit into `room`; those after them come as stored.
    """
    offsets = sorted(share.offsets)
    for piece in share.data:
        if not share.is_gathered and not has_compressed(piece):
            yield from pick(piece, offsets)
        else:
            wanted = frozenset(offsets)
            for record in _stored(piece, 0):
                if record.offset in wanted:
                    shown = _decompress(record) if room > 0 else record
                    room -= len(shown.value or b"")
                    yield shown


def offset_after(records: Records) -> int:
    """The offset after everything that was read, visible or not: where the next read starts."""
    pieces = [piece for piece in records.data if len(piece)]
    return last_offset(pieces[-1]) + 1 if pieces else records.upto


def end_for_reader(records: Records, isolation: Isolation) -> Offset:
    """The offset from which on there is nothing for this reader at present."""
    is_committed = isolation is Isolation.READ_COMMITTED
    return records.stable if is_committed else records.high_watermark


def _decompressed(
    piece: memoryview, from_offset: int, count_max: int, aborted: AbortedRanges
) -> Iterator[Record]:
    kept = (record for record in _stored(piece, from_offset) if record.offset not in aborted)
    for record in itertools.islice(kept, count_max):
        yield _decompress(record)


def _stored(piece: memoryview, from_offset: int) -> Iterator[Record]:
    """The records of a piece that are neither control records nor delayed, as they are stored."""
    columns = walk(piece)
    for index, position in enumerate(columns.positions):
        is_hidden = columns.flags[index] & _HIDDEN
        if columns.offsets[index] >= from_offset and not is_hidden:
            yield decode(piece, position)


def _decompress(record: Record) -> Record:
    try:
        return decompress(record)
    except Corrupt:
        return record
