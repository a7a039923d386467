"""Offsets named together: as ranges [first, next) where they stand together, else step by step.

Invariant: what was folded unfolds to the same offsets, in order.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from operator import sub

import msgspec

__all__ = ["Folded", "Range", "runs"]

Range = tuple[int, int]

# A range is as long as so many steps, as JSON and to work on.
_STEPS_PER_RANGE = 8


class Folded(msgspec.Struct, frozen=True):
    """Offsets in order in one of two forms: ranges, or the first and each step to the next."""

    ranges: list[Range] = []
    steps: list[int] = []

    @classmethod
    def of(cls, offsets: Sequence[int]) -> "Folded":
        """The shorter form of sorted offsets."""
        if not offsets:
            return cls()
        if offsets[-1] - offsets[0] + 1 == len(offsets):
            return cls([(offsets[0], offsets[-1] + 1)])
        steps = [offsets[0]]
        steps += map(sub, offsets[1:], offsets)
        range_count = len(steps) - steps.count(1)
        if range_count * _STEPS_PER_RANGE <= len(offsets):
            return cls(runs(offsets))
        return cls(steps=steps)

    def __len__(self) -> int:
        """How many offsets there are; of ranges that overlap some are counted twice."""
        if self.steps:
            return len(self.steps)
        return sum([following - first for first, following in self.ranges])

    def unfold(self) -> Sequence[int]:
        """The offsets themselves; of several ranges also if they were not written in order."""
        if self.steps:
            return list(accumulate(self.steps))
        if len(self.ranges) == 1:
            return range(*self.ranges[0])
        return sorted(set(chain.from_iterable(range(*each) for each in self.ranges)))

    def as_ranges(self) -> list[Range]:
        """The same offsets as ranges."""
        return runs(accumulate(self.steps)) if self.steps else self.ranges


def runs(offsets: Iterable[int]) -> list[Range]:
    """The same offsets as ranges; they must be sorted, and each given once."""
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
