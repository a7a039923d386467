"""What clients of queues and transactions were told in a run, and which promises that breaks.

Pure: filled by the load while nodes fail, judged when all is healed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

__all__ = ["QueueEvidence", "TransactionEvidence"]

Place = tuple[int, int]
VIOLATIONS_MAX = 100


class QueueEvidence(msgspec.Struct):
    """What the workers of one queue group saw; a place is a partition and an offset."""

    deliveries: Counter[Place] = msgspec.field(default_factory=Counter)
    # When the ack of a message was confirmed.
    acked: dict[Place, float] = msgspec.field(default_factory=dict)
    repeated: list[Place] = msgspec.field(default_factory=list)
    refused: int = 0

    def deliver(self, place: Place, asked_at: float) -> None:
        """A message was handed out to somebody who asked at that time."""
        self.deliveries[place] += 1
        if self.acked.get(place, asked_at) < asked_at:
            self.repeated.append(place)

    def violations(self, stored: Iterable[Place], lag: int) -> list[str]:
        """What is wrong, if all that is `stored` should have been handled by now."""
        found = [f"{each} was delivered after its ack was confirmed" for each in self.repeated]
        if lag:
            found.append(f"{lag} messages of the queue were never settled")
        known = set(stored)
        found += [f"{each} was stored and never delivered" for each in known - set(self.deliveries)]
        found += [
            f"{each} was delivered and is not stored" for each in set(self.deliveries) - known
        ]
        return found[:VIOLATIONS_MAX]

    def counts(self) -> dict[str, int]:
        return {
            "deliveries": self.deliveries.total(),
            "redeliveries": self.deliveries.total() - len(self.deliveries),
            "acks confirmed": len(self.acked),
            "acks refused or unknown": self.refused,
        }


class TransactionEvidence(msgspec.Struct):
    """The outcome of each transaction; it writes its number to two topics."""

    committed: set[str] = msgspec.field(default_factory=set)
    aborted: set[str] = msgspec.field(default_factory=set)
    unknown: set[str] = msgspec.field(default_factory=set)

    def violations(self, visible: Mapping[str, Counter[str]]) -> list[str]:
        """What is wrong, if committed readers see these values of each topic."""
        found = []
        for topic, values in visible.items():
            lost = self.committed - set(values)
            found += [f"{each} was committed and is not in {topic}" for each in lost]
            kept = self.aborted & set(values)
            found += [f"{each} was aborted and is in {topic}" for each in kept]
            strange = set(values) - self.committed - self.aborted - self.unknown
            found += [f"{each} is in {topic} and nobody wrote it" for each in strange]
            twice = [each for each, count in values.items() if count > 1]
            found += [f"{each} is in {topic} more than once" for each in twice]
        for each in sorted(self.unknown):
            if len({each in values for values in visible.values()}) > 1:
                found.append(f"{each} is in some topics of its transaction and not in all")
        return found[:VIOLATIONS_MAX]

    def counts(self) -> dict[str, int]:
        return {
            "transactions committed": len(self.committed),
            "transactions aborted": len(self.aborted),
            "transactions of unknown outcome": len(self.unknown),
        }
