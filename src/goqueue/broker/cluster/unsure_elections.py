"""Leaders for partitions of which no sure member of the ISR lives (`flush=interval`).

Members that may have lost their tails say how their logs end, again and again while nobody leads.
When all members of the ISR have said so, or half a minute after the first, the furthest leads. What
it lacks is lost, as `flush=interval` permits; the election is recorded as unclean.

Invariant: a report counts for the run of the broker that sent it, and for the version of the
partition that it names: no log grows while nobody leads.

Cost: one entry for each member that reported; forgotten when the partition changes.
"""

import msgspec

from goqueue.cluster import (
    BrokerState,
    LogEnd,
    MetadataImage,
    PartitionId,
    PartitionState,
    UncleanLeaderElected,
    choose_furthest,
)
from goqueue.model import SECOND, Instant, Offset, ReportLogEnds

__all__ = ["UnsureElections"]

# So long the others of an ISR are waited for.
WAIT_NS = 30 * SECOND
_LOGS_MAX = 4_096


class _Reports(msgspec.Struct):
    """What the members of one partition said, in one version of it."""

    version: int
    since: Instant | None = None
    ends: dict[str, tuple[int, LogEnd]] = msgspec.field(default_factory=dict)


class UnsureElections:
    """Collects how far logs reach, and elects by it."""

    def __init__(self) -> None:
        self._reports: dict[PartitionId, _Reports] = {}

    def clear(self) -> None:
        self._reports.clear()

    def receive(self, sender: str, message: ReportLogEnds, image: MetadataImage) -> None:
        """A broker says how its logs end that nobody leads."""
        for topic, partition, version, last, end in message.logs[:_LOGS_MAX]:
            where = PartitionId(topic, partition)
            state = image.table.get(topic, partition)
            if state is None or state.version != version or sender not in state.isr:
                continue
            reports = self._reports.get(where)
            if reports is None or reports.version != version:
                reports = self._reports[where] = _Reports(version)
            reports.ends[sender] = (message.broker_epoch, LogEnd(last, Offset(end)))

    def elect(
        self, image: MetadataImage, live: frozenset[str], now: Instant
    ) -> list[UncleanLeaderElected]:
        """The leaders that follow from what was said; `live` are those that may lead."""
        changes: list[UncleanLeaderElected] = []
        for where, reports in list(self._reports.items()):
            state = image.table.get(*where)
            if state is None or state.version != reports.version or state.leader is not None:
                del self._reports[where]
                continue
            if reports.since is None:
                reports.since = now
            ends = {
                broker: end
                for broker, (epoch, end) in reports.ends.items()
                if broker in live and image.brokers[broker].epoch == epoch
            }
            waits = now - reports.since < WAIT_NS
            leader = choose_furthest(state, ends, waits=waits)
            if leader is not None and not _has_sure(state, image):
                changes.append(
                    UncleanLeaderElected(
                        topic=where.topic,
                        partition=where.partition,
                        leader=leader,
                        is_by_operator=False,
                    )
                )
        return changes


def _has_sure(state: PartitionState, image: MetadataImage) -> bool:
    """Whether a member lives that has all: it leads as soon as it may."""
    return any(
        broker in image.brokers
        and image.brokers[broker].state is BrokerState.ACTIVE
        and not state.is_unsure(broker)
        for broker in state.isr
    )
