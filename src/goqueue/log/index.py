"""The sparse index of one segment: offset to position, and time to offset.

Owns marks, one about every 4 KiB, from which a search in the segment may start. It is a cache:
built while writing, rebuilt by a scan when in doubt, and never trusted without checking the record
that it points to.

A mark has the newest timestamp of all records up to and including its own, so a search by time
finds the first record at or after a time even where clocks went back.

Invariant: offsets and positions rise strictly, newest timestamps never fall.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import le, lt

import msgspec

from goqueue.records import Buffer, IndexEntries

__all__ = ["ENTRY_SIZE", "IndexEntry", "SparseIndex"]

ENTRY_SIZE = 16
_PAIR = 2


class IndexEntry(msgspec.Struct, frozen=True):
    """A record that starts at `position`, and the newest timestamp up to it."""

    offset: int
    position: int
    newest: int = 0


class SparseIndex:
    """Marks of one segment that starts at offset `base`."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._offsets = array("q")
        self._positions = array("q")
        self._newest = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last_position(self) -> int:
        """Position of the newest mark, or -1 if there is none."""
        return self._positions[-1] if self._positions else -1

    def add(self, marks: IndexEntries, newest_before: int) -> None:
        """Add marks for records just written at the end of the segment.

        `newest_before` is the newest timestamp of all records before them, marked or not.
        """
        self._offsets.extend(marks.offsets)
        self._positions.extend(marks.positions)
        self._newest.extend(max(newest, newest_before) for newest in marks.timestamps)

    def entry(self, index: int) -> IndexEntry:
        """The mark of this number, negative numbers from the end; the first if there is none."""
        if not self._offsets:
            return IndexEntry(self._base, 0)
        index = max(index, -len(self._offsets))
        return IndexEntry(self._offsets[index], self._positions[index], self._newest[index])

    def floor(self, offset: int) -> IndexEntry:
        """The last mark at or before `offset`."""
        return self.entry(max(bisect_right(self._offsets, offset) - 1, 0))

    def position_from(self, offset: int) -> int | None:
        """The position of the first mark at or after `offset`; None if there is none yet."""
        index = bisect_left(self._offsets, offset)
        return self._positions[index] if index < len(self._positions) else None

    def floor_position(self, position: int) -> IndexEntry:
        """The last mark at or before `position`."""
        return self.entry(max(bisect_right(self._positions, position) - 1, 0))

    def floor_time(self, timestamp: int) -> IndexEntry:
        """A mark before which every record is older than `timestamp`."""
        return self.entry(max(bisect_left(self._newest, timestamp) - 1, 0))

    def cut(self, position: int) -> None:
        """Forget marks at or after `position`."""
        keep = bisect_left(self._positions, position)
        for column in (self._offsets, self._positions, self._newest):
            del column[keep:]

    def entries_from(self, position: int) -> list[IndexEntry]:
        """The marks at or after `position`."""
        return [self.entry(n) for n in range(bisect_left(self._positions, position), len(self))]

    def append(self, entry: IndexEntry) -> None:
        """Add a mark behind all others."""
        self._offsets.append(entry.offset)
        self._positions.append(entry.position)
        self._newest.append(entry.newest)

    def encode_offsets(self, first: int = 0) -> bytes:
        """The entries from number `first` on, in the format of an `.index` file."""
        return _interleave(self._offsets[first:], self._positions[first:])

    def encode_times(self, first: int = 0) -> bytes:
        """The entries from number `first` on, in the format of a `.timeindex` file."""
        return _interleave(self._newest[first:], self._offsets[first:])

    @classmethod
    def decode(cls, base: int, offsets: Buffer, times: Buffer) -> "SparseIndex | None":
        """Decode both files of an index; None when they are inconsistent."""
        if len(offsets) % ENTRY_SIZE or len(times) != len(offsets):
            return None
        index = cls(base)
        index._offsets, index._positions = _separate(offsets)
        index._newest, time_offsets = _separate(times)
        return index if time_offsets == index._offsets and index._is_plausible() else None

    def _is_plausible(self) -> bool:
        return (
            bool(self._offsets)
            and self._offsets[0] >= self._base
            and self._positions[0] == 0
            and all(map(lt, self._offsets, self._offsets[1:]))
            and all(map(lt, self._positions, self._positions[1:]))
            and all(map(le, self._newest, self._newest[1:]))
        )


def _interleave(first: "array[int]", second: "array[int]") -> bytes:
    entries = array("q", bytes(len(first) * ENTRY_SIZE))
    entries[0::_PAIR] = first
    entries[1::_PAIR] = second
    if sys.byteorder == "little":
        entries.byteswap()
    return entries.tobytes()


def _separate(data: Buffer) -> "tuple[array[int], array[int]]":
    entries = array("q")
    entries.frombytes(data)
    if sys.byteorder == "little":
        entries.byteswap()
    return entries[0::_PAIR], entries[1::_PAIR]
