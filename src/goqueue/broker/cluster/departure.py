"""How this broker leaves its cluster in order: others lead first what it leads.

    serving        until the process is told to stop
    handing over   it serves on, and hands over whatever a live replica in sync can lead
    resigning      it has told the controller that it goes: what is left gets other leaders, and
                   leaders take it out of their ISRs
    over           it serves no client any more; the process may end

Without that publishers wait for a failover, hear `replication_failed` for what was under way, and
then wait again for the copies of a node that is gone.

Invariant: nothing here is needed for safety, and nothing is durable but `BrokerResigned`, which the
controller commits. A process that ends at any moment was killed, as far as others can tell.

Bound: `_QUIET_NS` without a leadership handed over, `_TOTAL_NS` for all of them, `_RESIGN_NS` for
the rest; nothing where no other broker lives. Cost: what this broker leads and keeps, for each
version of the image while it leaves.
"""

import enum

from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.replication.handovers import Handovers
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    BrokerState,
    Liveness,
    MetadataImage,
    PartitionId,
    PartitionTable,
    elect_leaders,
)
from goqueue.model import MILLISECOND, SECOND, Instant, ResignLeaderships

__all__ = ["Departure"]

# So many leaderships are handed over at once.
_WAVE = 500
# How often leaders that could not hand over in time are asked again.
_LOOK_NS = 100 * MILLISECOND
_QUIET_NS = 2 * SECOND
_TOTAL_NS = 5 * SECOND
_RESIGN_NS = 1500 * MILLISECOND


class _Stage(enum.Enum):
    SERVING = enum.auto()
    HANDING_OVER = enum.auto()
    RESIGNING = enum.auto()
    OVER = enum.auto()


class Departure:
    """The way of this broker out of its cluster."""

    def __init__(self, state: NodeState, liveness: Liveness, handovers: Handovers) -> None:
        self._state = state
        self._me = state.node_id
        self._liveness = liveness
        self._handovers = handovers
        self._stage = _Stage.SERVING
        self.over_at = Instant(0)
        # Until when this stage lasts at most, and without another leadership handed over.
        self._until = self._quiet_until = Instant(0)
        self._led: int | None = None
        # By which version was looked last, and when to look again all the same.
        self._version = -1
        self._look_at = Instant(0)

    @property
    def is_begun(self) -> bool:
        return self._stage is not _Stage.SERVING

    @property
    def is_resigning(self) -> bool:
        """Whether what could be handed over is, or this takes too long: the controller lets go."""
        return self._stage in {_Stage.RESIGNING, _Stage.OVER}

    @property
    def is_over(self) -> bool:
        return self._stage is _Stage.OVER

    def begin(self, now: Instant) -> None:
        """The process is about to stop."""
        if self._stage is _Stage.SERVING:
            self._stage = _Stage.HANDING_OVER
            self._state.leaving = "stopping"
            self._until = Instant(now + _TOTAL_NS)
            self._look_at = now

    def next_deadline(self) -> Instant | None:
        """When to look again although nothing has changed."""
        is_waiting = self._stage in {_Stage.HANDING_OVER, _Stage.RESIGNING}
        return self._look_at if is_waiting else None

    def advance(self, metadata: ClusterMetadata | None, now: Instant) -> bool:
        """Take the next step; whether others should hear of it at once."""
        if self._stage not in {_Stage.HANDING_OVER, _Stage.RESIGNING}:
            return False
        others = frozenset() if metadata is None else self._others(metadata.image, now)
        if metadata is None or not others:
            # Nobody takes over, and nobody is left to count on this broker.
            self._end(now)
            return True
        image = metadata.image
        if image.version == self._version and now < self._look_at:
            return False
        self._version, self._look_at = image.version, Instant(now + _LOOK_NS)
        if self._stage is _Stage.HANDING_OVER:
            return self._hand_over(image.table, others, now)
        if now >= self._until or self._is_gone(image):
            self._end(now)
        return False

    def _end(self, now: Instant) -> None:
        self._stage = _Stage.OVER
        self.over_at = now

    def _others(self, image: MetadataImage, now: Instant) -> frozenset[str]:
        """The brokers that stay."""
        return frozenset(
            name
            for name, known in image.brokers.items()
            if name != self._me
            and known.state is BrokerState.ACTIVE
            and not self._liveness.is_lost(name, now)
            and not self._liveness.is_leaving(name)
        )

    def _hand_over(self, table: PartitionTable, others: frozenset[str], now: Instant) -> bool:
        """Let others lead what they can; whether that is over."""
        led = table.led_by(self._me)
        if self._led is None or len(led) < self._led:
            self._quiet_until = Instant(now + _QUIET_NS)
        self._led = len(led)
        elected = [each for each in elect_leaders(table, led, others) if each.leader is not None]
        if not elected or now >= min(self._until, self._quiet_until):
            self._stage = _Stage.RESIGNING
            self._until = Instant(now + _RESIGN_NS)
            return True
        partitions: list[tuple[int, int, int]] = []
        heirs: list[str] = []
        for each in elected[:_WAVE]:
            state = table.get(each.topic, each.partition)
            assert state is not None
            assert each.leader is not None
            partitions.append((each.topic, each.partition, state.epoch))
            heirs.append(each.leader)
        self._handovers.request(ResignLeaderships(partitions=tuple(partitions), heirs=tuple(heirs)))
        return False

    def _is_gone(self, image: MetadataImage) -> bool:
        """Whether nobody counts on this broker any more but where the minimum needs it."""
        known = image.brokers.get(self._me)
        if known is not None and known.state is BrokerState.ACTIVE:
            return False
        table = image.table
        return not any(self._is_counted_on(table, where) for where in table.hosted_by(self._me))

    def _is_counted_on(self, table: PartitionTable, where: PartitionId) -> bool:
        state, topic = table.get(*where), table.topics.get(where.topic)
        if state is None or topic is None or self._me not in state.isr:
            return False
        is_led_elsewhere = state.leader not in {None, self._me}
        return is_led_elsewhere and len(state.isr) > topic.config.min_insync_replicas
