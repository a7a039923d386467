"""When each pending timer is due, by its number.

A dict that grows copies itself: at a million entries that takes tens of milliseconds, in which the
node serves nobody. So timers are kept in blocks by number, and each block stays small.

Invariant: no block is empty, and none holds more than `BLOCK_SIZE` timers.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import cast

from goqueue.model import Timestamp

__all__ = ["BLOCK_SIZE", "DueTable"]

_BLOCK_BITS = 14
BLOCK_SIZE = 1 << _BLOCK_BITS


class DueTable:
    """Due times of timers; a number is there at most once."""

    __slots__ = ("_blocks", "_count")

    def __init__(self) -> None:
        self._blocks: dict[int, dict[int, Timestamp]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, timer: int) -> bool:
        return self.get(timer) is not None

    def block_sizes(self) -> Iterator[int]:
        """How many timers each block holds."""
        return map(len, self._blocks.values())

    def get(self, timer: int) -> Timestamp | None:
        """When a timer is due; None if it is not here."""
        block = self._blocks.get(timer >> _BLOCK_BITS)
        return None if block is None else block.get(timer)

    def add(self, timer: int, due: Timestamp) -> None:
        """Add a timer that is not here."""
        number = timer >> _BLOCK_BITS
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = {}
        assert timer not in block
        block[timer] = due
        self._count += 1

    def add_all(self, timers: "array[int]", dues: "array[int]") -> None:
        """Add timers that are not here; their numbers rise."""
        first = 0
        while first < len(timers):
            number = timers[first] >> _BLOCK_BITS
            end = bisect_left(timers, number + 1 << _BLOCK_BITS, first)
            block = self._blocks.setdefault(number, {})
            known = len(block)
            added = zip(timers[first:end], dues[first:end], strict=True)
            # An array cannot say that its integers are times.
            block.update(cast("Iterable[tuple[int, Timestamp]]", added))
            assert len(block) == known + end - first
            self._count += end - first
            first = end

    def pop(self, timer: int) -> Timestamp | None:
        """Remove a timer; when it was due, or None if it is not here."""
        number = timer >> _BLOCK_BITS
        block = self._blocks.get(number)
        due = None if block is None else block.pop(timer, None)
        if due is not None:
            self._count -= 1
            if not block:
                del self._blocks[number]
        return due
