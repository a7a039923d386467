"""Which partition a message goes to.

The same rule as the broker's: an explicit partition wins, a key decides by its hash, and those
without key take turns over all partitions. The client decides it, so that every message learns
its own offset.
"""

from goqueue.client.errors import NotFound
from goqueue.records import murmur3

__all__ = ["Partitioner"]


class Partitioner:
    """The partitions of one topic, and whose turn it is."""

    __slots__ = ("_topic", "_turn", "count")

    def __init__(self, topic: str, count: int) -> None:
        self._topic = topic
        self._turn = -1
        self.count = count

    def choose(self, key: bytes, partition: int | None) -> int:
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
        self._turn = turn = (self._turn + 1) % self.count
        return turn
