"""The sparse index of one segment: offset to position, and time to offset.

Owns marks, one about every 4 KiB, that say where a search in the segment may begin. It is a
cache: built while writing, rebuilt by a scan when in doubt, and never believed without a look
at the record that it points to.

Invariant: offsets and positions rise strictly, and so do timestamps and their offsets. Each kind
of mark is one array that grows by one call, so a reader in another thread never sees half a mark.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right

import msgspec

from goqueue.records import Buffer, Marks

__all__ = ["ENTRY_SIZE", "IndexEntry", "SparseIndex"]

ENTRY_SIZE = 16
_PAIR = 2


class IndexEntry(msgspec.Struct, frozen=True):
    """A record that is known to begin at `position`."""

    offset: int
    position: int


class SparseIndex:
    """Marks of one segment that starts at offset `base`."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._marks = array("q")
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._marks) // _PAIR

    @property
    def times_count(self) -> int:
        return len(self._times) // _PAIR

    @property
    def last(self) -> IndexEntry | None:
        return IndexEntry(self._marks[-2], self._marks[-1]) if self._marks else None

    @property
    def last_position(self) -> int:
        """Position of the newest mark, or -1 if there is none."""
        return self._marks[-1] if self._marks else -1

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp that the marks account for; 0 if there is none."""
        return self._times[-2] if self._times else 0

    def add(self, marks: Marks, newest_before: int) -> None:
        """Take the marks of records just written at the end of the segment.

        `newest_before` is the newest timestamp of all records before them, marked or not: a time
        mark says that no record up to its offset is stamped later.
        """
        self._marks.extend(_interleave(marks.offsets, marks.positions))
        for offset, timestamp in zip(marks.offsets, marks.timestamps, strict=True):
            newest = max(timestamp, newest_before)
            if not self._times or newest > self._times[-2]:
                self._times.extend((newest, offset))

    def floor(self, offset: int) -> IndexEntry:
        """The last mark at or before `offset`."""
        marks = self._marks
        count = len(marks) // _PAIR
        return self._entry(bisect_right(range(count), offset, key=lambda i: marks[_PAIR * i]) - 1)

    def floor_position(self, position: int) -> IndexEntry:
        """The last mark at or before `position`."""
        marks = self._marks
        count = len(marks) // _PAIR
        key = bisect_right(range(count), position, key=lambda i: marks[_PAIR * i + 1])
        return self._entry(key - 1)

    def floor_time(self, timestamp: int) -> IndexEntry:
        """A mark before which every record is stamped earlier than `timestamp`."""
        times = self._times
        count = len(times) // _PAIR
        index = bisect_left(range(count), timestamp, key=lambda i: times[_PAIR * i]) - 1
        return self.floor(times[_PAIR * index + 1] if index >= 0 else self._base)

    def cut(self, position: int) -> None:
        """Forget marks at or after `position`, and times of records that may lie there."""
        last = self.floor_position(position - 1)
        while self._marks and self._marks[-1] >= position:
            del self._marks[-_PAIR:]
        while self._times and self._times[-1] > last.offset:
            del self._times[-_PAIR:]

    def encode_offsets(self, first: int = 0) -> bytes:
        """The entries from number `first` on, as they stand in an `.index` file."""
        return _big_endian(self._marks[_PAIR * first :])

    def encode_times(self, first: int = 0) -> bytes:
        """The entries from number `first` on, as they stand in a `.timeindex` file."""
        return _big_endian(self._times[_PAIR * first :])

    def _entry(self, index: int) -> IndexEntry:
        if not self._marks:
            return IndexEntry(self._base, 0)
        # Below the first mark there is nothing: compaction may have removed the first records.
        index = max(index, 0)
        return IndexEntry(self._marks[_PAIR * index], self._marks[_PAIR * index + 1])

    @classmethod
    def decode(cls, base: int, offsets: Buffer, times: Buffer) -> "SparseIndex | None":
        """Read both files of an index; None when they cannot be right."""
        if len(offsets) % ENTRY_SIZE or len(times) % ENTRY_SIZE:
            return None
        index = cls(base)
        index._marks = _native(offsets)
        index._times = _native(times)
        return index if index._is_plausible() else None

    def _is_plausible(self) -> bool:
        if not self._marks or not self._times:
            return False
        starts_right = self._marks[0] >= self._base and self._marks[1] == 0
        return starts_right and all(
            _rises(column[start::_PAIR])
            for column in (self._marks, self._times)
            for start in range(_PAIR)
        )


def _rises(column: "array[int]") -> bool:
    return all(map(int.__lt__, column, column[1:]))


def _interleave(first: "array[int]", second: "array[int]") -> "array[int]":
    entries = array("q", bytes(len(first) * ENTRY_SIZE))
    entries[0::_PAIR] = first
    entries[1::_PAIR] = second
    return entries


def _big_endian(entries: "array[int]") -> bytes:
    if sys.byteorder == "little":
        entries.byteswap()
    return entries.tobytes()


def _native(data: Buffer) -> "array[int]":
    entries = array("q")
    entries.frombytes(data)
    if sys.byteorder == "little":
        entries.byteswap()
    return entries
