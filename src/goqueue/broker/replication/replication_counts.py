"""What replication counts on this broker, by topic, since its process began.

Changes of an ISR and elections are counted by the broker that leads, bytes by the one that copies
them: the sum over all brokers is that of the cluster. Counts of a deleted topic go with it, those
of a follower when it is forgotten.

A follower is timed by one batch of a partition at a time, from when it is sent until it is
confirmed: the next one that is sent after that is timed again.

Cost: one addition for each event.
"""

import enum
from collections import Counter
from collections.abc import Container

from goqueue.metrics import Histogram

__all__ = ["ElectionType", "ReplicationCounts"]


class ElectionType(enum.StrEnum):
    """How a leader came to lead; the names are those of the metrics."""

    PREFERRED = "preferred"
    FAILOVER = "failover"
    UNCLEAN = "unclean"


class ReplicationCounts:
    """Counters by the name of the topic."""

    def __init__(self) -> None:
        self.isr_shrinks: Counter[str] = Counter()
        self.isr_expands: Counter[str] = Counter()
        self.bytes_copied: Counter[str] = Counter()
        self.elections: Counter[tuple[str, ElectionType]] = Counter()
        self.election_times: dict[str, Histogram] = {}
        # By the follower that asked for records, or confirmed some.
        self.fetch_requests: Counter[str] = Counter()
        self.fetch_times: dict[str, Histogram] = {}

    @property
    def unclean_elections(self) -> int:
        """How often this broker led after an election that may have lost records."""
        counts = self.elections.items()
        return sum(count for (_, kind), count in counts if kind is ElectionType.UNCLEAN)

    def change_isr(self, topic: str, before: int, after: int) -> None:
        """An ISR has so many members now."""
        if after < before:
            self.isr_shrinks[topic] += 1
        elif after > before:
            self.isr_expands[topic] += 1

    def elect(self, topic: str, duration_ns: int) -> None:
        """This broker leads a partition that was without a leader for so long."""
        self.election_times.setdefault(topic, Histogram()).observe(duration_ns)

    def confirm(self, follower: str, duration_ns: int) -> None:
        """A follower has a batch that it was sent so long ago."""
        self.fetch_times.setdefault(follower, Histogram()).observe(duration_ns)

    def keep_followers(self, known: Container[str]) -> None:
        """Forget all followers but those that are registered."""
        for broker in [each for each in self.fetch_requests if each not in known]:
            del self.fetch_requests[broker]
            self.fetch_times.pop(broker, None)

    def forget(self, topic: str) -> None:
        """A topic was deleted."""
        self.election_times.pop(topic, None)
        for counts in (self.isr_shrinks, self.isr_expands, self.bytes_copied):
            counts.pop(topic, None)
        for kind in ElectionType:
            self.elections.pop((topic, kind), None)
