"""Offsets that are done with: everything below a floor, and ranges above it.

Invariant: the ranges are disjoint, sorted, not adjacent, and all above the floor; so two equal
sets have one representation, and the floor is the lowest offset that is not in the set.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from goqueue.model import Offset

__all__ = ["Range", "Ranges", "runs"]

Range = tuple[int, int]


def runs(offsets: Iterable[int]) -> list[Range]:
    """The same offsets as ranges [first, next), for journals; they must be sorted."""
    found: list[Range] = []
    first = following = -1
    for offset in offsets:
        if offset == following:
            following += 1
            continue
        if first >= 0:
            found.append((first, following))
        first, following = offset, offset + 1
    if first >= 0:
        found.append((first, following))
    return found


class Ranges:
    """A set of offsets that is nearly an interval."""

    def __init__(self, floor: int = 0, above: Iterable[Range] = ()) -> None:
        self._floor = floor
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._count = 0
        for first, following in above:
            self.add(first, following)

    @property
    def floor(self) -> Offset:
        """The lowest offset that is not in the set."""
        return Offset(self._floor)

    @property
    def above(self) -> list[Range]:
        """The ranges above the floor."""
        return list(zip(self._starts, self._ends, strict=True))

    @property
    def count_above(self) -> int:
        """How many offsets above the floor are in the set."""
        return self._count

    def __contains__(self, offset: int) -> bool:
        if offset < self._floor:
            return True
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def add(self, first: int, following: int) -> None:
        """Take in the offsets from `first` up to, not including, `following`."""
        if following <= max(first, self._floor):
            return
        if first <= self._floor:
            self.raise_floor(following)
            return
        # Everything that touches the new range becomes one with it.
        left = bisect_left(self._ends, first)
        right = bisect_right(self._starts, following)
        if left < right:
            first = min(first, self._starts[left])
            following = max(following, self._ends[right - 1])
            for index in range(left, right):
                self._count -= self._ends[index] - self._starts[index]
        self._starts[left:right] = [first]
        self._ends[left:right] = [following]
        self._count += following - first

    def raise_floor(self, floor: int) -> None:
        """Take in everything below `floor`; the floor goes on over what was in the set above."""
        if floor <= self._floor:
            return
        passed = bisect_right(self._starts, floor)
        for index in range(passed):
            self._count -= self._ends[index] - self._starts[index]
        if passed and self._ends[passed - 1] > floor:
            floor = self._ends[passed - 1]
        del self._starts[:passed], self._ends[:passed]
        self._floor = floor

    def count_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are in the set, be they below the floor or above."""
        below = max(0, min(self._floor, end) - first)
        if first <= self._floor and (not self._ends or self._ends[-1] <= end):
            return below + self._count
        return below + sum(
            max(0, min(following, end) - max(start, first))
            for start, following in zip(self._starts, self._ends, strict=True)
        )
