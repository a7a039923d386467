"""How many messages of each lane stand where in a partition: a summary of a backlog of any size.

Counts by blocks of offsets, two bytes for each block and lane. A lane that looks for its next
message skips the blocks that hold none of it, so one critical message behind millions of others is
found without looking at them.

Shared by the groups of a partition, and rebuilt by passing over the log.

Invariant: a message at or above `start` and below `upto` is counted in its block and lane.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from goqueue.delivery.lanes import LANES
from goqueue.model import Offset

__all__ = ["BLOCK", "PriorityIndex"]

BLOCK = 4096


class PriorityIndex:
    """Messages by block and lane."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._first_block = start // BLOCK
        self._counts = tuple(array("H") for _ in range(LANES))
        self._upto = start

    @property
    def start(self) -> Offset:
        """Below this nothing was counted."""
        return Offset(self._start)

    @property
    def upto(self) -> Offset:
        """From here on nothing was counted yet."""
        return Offset(self._upto)

    def count(self, offsets: Sequence[int], lanes: bytes, upto: int) -> None:
        """Take in the messages from `upto` on: their offsets in order, and the lane of each."""
        place = bisect_left(offsets, self._upto)
        while place < len(offsets):
            block = offsets[place] // BLOCK
            following = bisect_left(offsets, (block + 1) * BLOCK, place)
            self._grow(block)
            part = lanes[place:following]
            for lane, counts in enumerate(self._counts):
                counts[block - self._first_block] += part.count(lane)
            place = following
        self._upto = max(self._upto, upto)

    def _grow(self, block: int) -> None:
        missing = block + 1 - self._first_block - len(self._counts[0])
        if missing > 0:
            for counts in self._counts:
                counts.frombytes(bytes(counts.itemsize * missing))

    def next(self, lane: int, offset: int) -> Offset:
        """The first offset from `offset` on where a message of the lane may stand."""
        if not self._start <= offset < self._upto:
            return Offset(offset)
        counts = self._counts[lane]
        block = offset // BLOCK - self._first_block
        while block < len(counts) and not counts[block]:
            block += 1
        if block >= len(counts):
            return Offset(self._upto)
        return Offset(max(offset, min((self._first_block + block) * BLOCK, self._upto)))

    def vacant(self, first: int, below: int) -> Iterator[tuple[int, int]]:
        """The stretches of [first, below) whose blocks hold no message at all."""
        place, below = max(first, self._start), min(below, self._upto)
        while place < below:
            index = place // BLOCK - self._first_block
            following = min((place // BLOCK + 1) * BLOCK, below)
            if not any(index < len(counts) and counts[index] for counts in self._counts):
                yield place, following
            place = following

    def drop_below(self, start: int) -> None:
        """The log begins later now."""
        gone = min(start // BLOCK - self._first_block, len(self._counts[0]))
        if gone > 0:
            for counts in self._counts:
                del counts[:gone]
            self._first_block += gone
        self._start = max(self._start, start)
        # A piece that was being read then may begin before it: none of that is counted.
        self._upto = max(self._upto, self._start)
