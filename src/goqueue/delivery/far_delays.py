"""Delayed messages that are due beyond the reach of the wheel: remembered by block, not one by one.

A message that is due in months needs no timer for weeks. It is known by its entry in the columns of
`Delays` alone, 24 bytes; here is kept, for each block of 1,024 entries, when the first of its far
messages is due. A block is looked through when that time comes within half of the reach; what is
due within the whole reach gets a timer then, so a block is looked through at most twice in a reach,
however many messages it has.

Invariant: no far message is due before the time of its block.
Cost: 16 bytes for each block that has a far message, and a step through its entries when one comes
near.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from goqueue.model import Timestamp

__all__ = ["FarDelays"]

_BLOCK_BITS = 10


class FarDelays:
    """Blocks of entries by when the first far message of each is due.

    Entries are named by their number since the beginning of the log, so that none changes its name
    when old ones are dropped.
    """

    def __init__(self) -> None:
        self.count = 0
        self._firsts: dict[int, int] = {}
        # By time; an entry whose block has another time by now is ignored when it surfaces.
        self._heap: list[tuple[int, int]] = []

    def add(self, entry: int, due: int) -> None:
        """A message begins to wait here."""
        self.count += 1
        self.lower(entry, due)

    def remove(self) -> None:
        """A message no longer waits here."""
        assert self.count, "no far message is left"
        self.count -= 1

    def lower(self, entry: int, due: int) -> None:
        """The block of this entry has a message that is due then."""
        block = entry >> _BLOCK_BITS
        known = self._firsts.get(block)
        if known is None or due < known:
            self._firsts[block] = due
            heappush(self._heap, (due, block))

    def first_due(self) -> Timestamp | None:
        """No far message is due before; one that was cancelled may have been."""
        while self._heap:
            due, block = self._heap[0]
            if self._firsts.get(block) == due:
                return Timestamp(due)
            heappop(self._heap)
        return None

    def pop_block(self) -> range:
        """The entries of the block that comes first; those that stay far are to be told again."""
        first = self.first_due()
        assert first is not None
        _, block = heappop(self._heap)
        del self._firsts[block]
        return range(block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS)

    def blocks(self) -> Iterator[range]:
        """The entries of every block that has a far message, or had one."""
        for block in sorted(self._firsts):
            yield range(block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS)
