"""Messages that a transaction holds: nobody is handed them until it has ended.

Survives every crash, because the journal says what a transaction holds.
"""

from bisect import bisect_right
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
        merged: list[Range] = []
        for first, following in sorted([*self._held.get(holder, ()), *ranges]):
            if first >= following:
                continue
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(following, merged[-1][1]))
            else:
                merged.append((first, following))
        self._held[holder] = merged

    def remove(self, holder: Holder) -> None:
        """The transaction has ended: it holds nothing any longer."""
        self._held.pop(holder, None)


def _is_within(ranges: list[Range], offset: int) -> bool:
    """Whether one of the sorted ranges, which do not overlap, has it."""
    index = bisect_right(ranges, (offset, 1 << 63)) - 1
    return index >= 0 and offset < ranges[index][1]
