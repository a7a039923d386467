"""What replication counts on this broker, by topic, since its process began.

Changes of an ISR and elections are counted by the broker that leads, bytes by the one that copies
them: the sum over all brokers is that of the cluster. Counts of a deleted topic go with it.

Cost: one addition for each event.
"""

import enum
from collections import Counter

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

    def forget(self, topic: str) -> None:
        """A topic was deleted."""
        for counts in (self.isr_shrinks, self.isr_expands, self.bytes_copied):
            counts.pop(topic, None)
        for kind in ElectionType:
            self.elections.pop((topic, kind), None)
