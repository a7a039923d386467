"""Which partition a message goes to.

The same rule as the broker's: an explicit partition wins, a key decides by its hash, and those
without key take turns over all partitions. The client decides it, so that every message learns
its own offset. Without a key it is batches that take turns, or each would hold little.
"""

from goqueue.client.errors import NotFound
from goqueue.records import murmur3

__all__ = ["Partitioner"]


class Partitioner:
    """The partitions of one topic, and whose turn it is."""

    __slots__ = ("_topic", "count", "turn")

    def __init__(self, topic: str, count: int) -> None:
        self._topic = topic
        self.turn = -1
        self.count = count

    def choose(self, key: bytes, partition: int | None) -> int:
        """The partition of a message; one without key begins a batch in the next."""
        if partition is not None:
            if not 0 <= partition < self.count:
                raise NotFound(
                    "partition_not_found",
                    f"{self._topic} has no partition {partition}",
                    details={"partitions": self.count},
                )
            return partition
        if key:
            return murmur3(key) % self.count
        self.turn = turn = (self.turn + 1) % self.count
        return turn
