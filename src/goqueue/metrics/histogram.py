"""Histograms: how often a quantity fell between two bounds.

Plain integers in a list, changed by one writer and read by any thread. Never reads a clock: times
are passed in as nanoseconds and shown as seconds.

Invariant: the sum of the counts is the number of observations, and no count ever falls.
"""

from bisect import bisect_left

import msgspec

from goqueue.model import SECOND

__all__ = ["BATCH_SIZES", "SECONDS", "Bounds", "Histogram"]


class Bounds(msgspec.Struct, frozen=True):
    """Upper bounds of buckets, rising; observations are shown divided by `unit`."""

    limits: tuple[int, ...]
    names: tuple[str, ...]
    unit: int = 1


def _bounds(names: str, unit: int) -> Bounds:
    shown = tuple(names.split())
    return Bounds(tuple(round(float(name) * unit) for name in shown), shown, unit)


SECONDS = _bounds("0.0005 0.001 0.002 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2 5", SECOND)
BATCH_SIZES = _bounds("1 2 5 10 25 50 100 250 500 1000", 1)


class Histogram:
    """Counts observations by bucket."""

    __slots__ = ("_counts", "_total", "bounds")

    def __init__(self, bounds: Bounds = SECONDS) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds.limits) + 1)
        self._total = 0

    def observe(self, quantity: int) -> None:
        self._counts[bisect_left(self.bounds.limits, quantity)] += 1
        self._total += quantity

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self._counts)

    @property
    def total(self) -> int:
        """The sum of all observations, not divided."""
        return self._total

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of observations per bucket; the last bucket is above all bounds."""
        return tuple(self._counts)
