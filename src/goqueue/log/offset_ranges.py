"""Sets of offsets, kept as ranges in two sorted columns: what is aborted, what is no message.

Invariant: ranges neither overlap nor touch.
Cost: 16 bytes for each range, and a bisection for each question.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from goqueue.model import Offset

__all__ = ["OffsetRanges"]


class OffsetRanges:
    """A set of offsets, kept as ranges [first, following)."""

    __slots__ = ("_firsts", "_followings")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._followings = array("q")

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset < self._followings[index]

    def add(self, first: int, following: int) -> None:
        """Add a range; adjacent ranges are merged."""
        index = bisect_left(self._firsts, first)
        if index and self._followings[index - 1] == first:
            self._followings[index - 1] = following
            index -= 1
        else:
            self._firsts.insert(index, first)
            self._followings.insert(index, following)
        after = index + 1
        if after < len(self._firsts) and self._firsts[after] == following:
            self._followings[index] = self._followings[after]
            del self._firsts[after], self._followings[after]

    def within(self, first: int, end: int) -> tuple[tuple[int, int], ...]:
        """The parts of ranges that lie in [first, end)."""
        if not self._firsts:
            return ()
        begin = max(0, bisect_right(self._firsts, first) - 1)
        upto = bisect_left(self._firsts, end)
        return tuple(
            (max(self._firsts[index], first), min(self._followings[index], end))
            for index in range(begin, upto)
            if self._followings[index] > first
        )

    def count_within(self, first: int, end: int) -> int:
        return sum(following - begin for begin, following in self.within(first, end))

    def skip(self, offset: Offset) -> Offset:
        """The first offset from this one on that is in no range."""
        index = bisect_right(self._firsts, offset) - 1
        if index >= 0 and offset < self._followings[index]:
            # Adjacent ranges are merged, so the next offset is in none.
            return Offset(self._followings[index])
        return offset

    def drop_below(self, start: int) -> None:
        count = bisect_right(self._followings, start)
        del self._firsts[:count], self._followings[:count]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._followings, strict=True)

    # Snapshots

    def copy(self) -> "OffsetRanges":
        copied = OffsetRanges()
        copied._firsts, copied._followings = self._firsts[:], self._followings[:]
        return copied

    def columns(self) -> tuple[bytes, bytes]:
        return self._firsts.tobytes(), self._followings.tobytes()

    def restore(self, firsts: bytes, followings: bytes) -> bool:
        """Restore from columns; False if they are inconsistent."""
        size = self._firsts.itemsize
        if len(firsts) != len(followings) or len(firsts) % size:
            return False
        columns = array("q", firsts), array("q", followings)
        previous = -1
        for first, following in zip(*columns, strict=True):
            if not previous < first < following:
                return False
            previous = following
        self._firsts, self._followings = columns
        return True
