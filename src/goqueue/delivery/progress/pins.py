"""Messages that a transaction holds: nobody is handed them until it has ended.

Survives every crash, because the journal says what a transaction holds.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from goqueue.delivery.progress.ranges import Range

__all__ = ["Pins"]

Holder = tuple[int, int]


class Pins:
    """Offsets by who holds them."""

    def __init__(self) -> None:
        self._held: dict[Holder, list[Range]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def __contains__(self, offset: int) -> bool:
        return any(_is_within(ranges, offset) for ranges in self._held.values())

    def has(self, holder: Holder, offset: int) -> bool:
        """Whether it is this one that holds an offset."""
        return _is_within(self._held.get(holder, []), offset)

    def add(self, holder: Holder, ranges: Iterable[Range]) -> None:
        """Hold these, too."""
        held = self._held.setdefault(holder, [])
        for each in ranges:
            _merge(held, *each)

    def remove(self, holder: Holder) -> None:
        """The transaction has ended: it holds nothing any longer."""
        self._held.pop(holder, None)


def _merge(ranges: list[Range], first: int, following: int) -> None:
    """Take one more into sorted ranges that neither overlap nor touch."""
    if first >= following:
        return
    low = bisect_left(ranges, (first, first))
    if low and ranges[low - 1][1] >= first:
        low -= 1
    high = low
    while high < len(ranges) and ranges[high][0] <= following:
        high += 1
    if low < high:
        first = min(first, ranges[low][0])
        following = max(following, ranges[high - 1][1])
    ranges[low:high] = [(first, following)]


def _is_within(ranges: list[Range], offset: int) -> bool:
    """Whether one of the sorted ranges, which do not overlap, has it."""
    index = bisect_right(ranges, (offset, 1 << 63)) - 1
    return index >= 0 and offset < ranges[index][1]
