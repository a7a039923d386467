"""Which leaders the controller asks to hand a partition over, and how often."""

from goqueue.broker.cluster.leader_transfers import LeaderTransfers
from goqueue.broker.replication.handovers import Handovers
from goqueue.cluster import (
    FEATURE_LEVEL,
    BrokerRegistered,
    FeatureLevelRaised,
    LeaderChange,
    LeadersChanged,
    MetadataChange,
    PartitionId,
    PartitionsAssigned,
    ReplicaAssignment,
    TopicStated,
)
from goqueue.model import SECOND, Instant, Now, ResignLeaderships, Send, Timestamp
from goqueue.model.requests import TopicConfig
from tests.unit.broker.cluster.metadata_bench import Bench

WHERE = PartitionId(1, 0)
NAMES = frozenset("abc")


class _Cluster:
    """Three brokers that live, and a partition that `b` leads although `c` is preferred."""

    def __init__(self) -> None:
        bench = Bench("abc")
        bench.elect("a", "bc")
        broker = bench.brokers["a"]
        broker.carry_out()
        self.state = broker.state
        self.image = broker.metadata.image
        self.transfers = LeaderTransfers(self.state, broker.metadata, Handovers(lambda _: None))
        self.now = Now(Instant(0), Timestamp(1))
        self._apply(*(_registered(name) for name in sorted(NAMES)))
        topic = TopicStated(
            name="orders", number=1, partitions=1, config=TopicConfig(), created_at=1
        )
        copies = ReplicaAssignment(("c", "a", "b"), "c")
        self._apply(topic, PartitionsAssigned(topic=1, partitions=(copies,)))
        self._apply(LeadersChanged(changes=(LeaderChange(1, 0, "b"),)))
        self._apply(FeatureLevelRaised(level=FEATURE_LEVEL))

    def _apply(self, *changes: MetadataChange) -> None:
        self.image.apply(changes, self.image.version + 1)

    def asked_for(self, seconds: int) -> list[str]:
        """Whom the leader was asked to hand its partition over to, while that passes."""
        heirs: list[str] = []
        for _ in range(seconds):
            self.now = Now(Instant(self.now.instant + SECOND), self.now.wall)
            self.transfers.decide(NAMES, self.now)
            self.transfers.finish(self.now, 0)
            for effect in self.state.outbox.drain():
                assert isinstance(effect, Send)
                assert isinstance(effect.message, ResignLeaderships)
                assert effect.broker == "b"
                heirs += effect.message.heirs
        return heirs


def _registered(name: str) -> BrokerRegistered:
    return BrokerRegistered(broker=name, directory=f"{name}-disk", incarnation=1)


def test_a_leader_that_did_not_hand_over_to_another_one_is_asked_for_the_preferred() -> None:
    """A move had asked for `a`, and was given up."""
    cluster = _Cluster()
    for _ in range(3):
        cluster.transfers.request(WHERE, "a", cluster.now)
        cluster.now = Now(Instant(cluster.now.instant + 3 * SECOND), cluster.now.wall)
    cluster.transfers.finish(cluster.now, None)
    cluster.state.outbox.drain()

    assert "c" in cluster.asked_for(5)


def test_a_leader_that_cannot_hand_over_is_asked_again_after_a_pause() -> None:
    cluster = _Cluster()
    assert len(cluster.asked_for(9)) == 3
    assert cluster.asked_for(5) == []
    assert cluster.asked_for(10) == ["c"]
