"""Offsets as journals state them: in few ranges where they stand together, else step by step.

Invariant: what was folded unfolds to the same offsets, in order.
"""

from collections.abc import Sequence
from itertools import accumulate, chain
from operator import sub

import msgspec

from goqueue.delivery import Range, runs

__all__ = ["Folded", "fold", "unfold"]

# A range takes as much room as so many steps, or more.
_STEPS_PER_RANGE = 8


class Folded(msgspec.Struct, frozen=True):
    """Offsets in one of two forms: ranges, or the first and how far it is from each to the next."""

    ranges: list[Range]
    steps: list[int]


def fold(offsets: Sequence[int]) -> Folded:
    """The shorter form of sorted offsets."""
    if not offsets or offsets[-1] - offsets[0] + 1 == len(offsets):
        return Folded([(offsets[0], offsets[-1] + 1)] if offsets else [], [])
    steps = [offsets[0]]
    steps += map(sub, offsets[1:], offsets)
    range_count = len(steps) - steps.count(1)
    if range_count * _STEPS_PER_RANGE <= len(offsets):
        return Folded(runs(offsets), [])
    return Folded([], steps)


def unfold(ranges: Sequence[Range], steps: Sequence[int]) -> Sequence[int]:
    """The offsets themselves; of several ranges also if they were not written in order."""
    if steps:
        return list(accumulate(steps))
    if len(ranges) == 1:
        return range(*ranges[0])
    return sorted(set(chain.from_iterable(range(*each) for each in ranges)))
