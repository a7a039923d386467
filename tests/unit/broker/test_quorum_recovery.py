"""What a node that is left makes of its logs when the voters are lost."""

from collections.abc import Sequence

import msgspec
import pytest

from goqueue.broker import ConvertedLog, StoredBrokerState, Survivor, decode_records
from goqueue.broker.cluster.broker_state import BrokerState, state_messages
from goqueue.broker.cluster.metadata_records import MetadataRecord
from goqueue.cluster import (
    BrokerRegistered,
    ClusterCreated,
    ClusterRecovered,
    MetadataChange,
    MetadataImage,
    PartitionId,
    PartitionsAssigned,
    ReplicaAssignment,
    ReplicasLost,
    TopicStated,
    Voter,
    Voters,
)
from goqueue.log import Log, LogState
from goqueue.model import Instant, LogId, LogSettings, Message, Now, Offset, Timestamp, Write
from goqueue.model.requests import TopicConfig
from goqueue.records import Buffer, build

A, B, C = (Voter(name, f"{name}-disk") for name in ("a", "b", "c"))
NOW = Now(Instant(0), Timestamp(1_700_000_000_000_000_000))
FORMED: tuple[tuple[MetadataChange, ...], ...] = (
    (ClusterCreated(cluster_id="old", voters=(A, B, C)),),
    tuple(
        BrokerRegistered(broker=each.broker, directory=each.directory, incarnation=1)
        for each in (A, B, C)
    ),
    (
        TopicStated(name="orders", number=1, partitions=3, config=TopicConfig(), created_at=1),
        PartitionsAssigned(
            topic=1,
            partitions=(
                ReplicaAssignment(("a", "b"), "a"),
                ReplicaAssignment(("b", "c"), "b"),
                ReplicaAssignment(("b", "a"), "b"),
            ),
        ),
    ),
    (ReplicasLost(broker="a", epoch=2, partitions=((1, 2),)),),
)


def survivor(
    *changes: Sequence[MetadataChange], directory: str = "a-disk", cluster_id: str = "old"
) -> Survivor:
    stored = StoredBrokerState()
    stored.state = BrokerState(incarnation=7, cluster_id=cluster_id)
    stored.ends = {PartitionId(1, 0): Offset(12)}
    records = [
        MetadataRecord(Offset(number), tuple(each)) for number, each in enumerate(changes, 1)
    ]
    return Survivor(directory, stored, records, Offset(3))


def data_of(log: ConvertedLog) -> Buffer:
    effects = Log(LogId("x", 0), LogSettings(), LogState()).append(build(log.records), NOW).effects
    (data,) = (each.data for each in effects if isinstance(each, Write))
    return data


def test_the_plan_names_what_may_be_lost() -> None:
    plan = survivor(*FORMED).plan()

    assert (plan.node, plan.lost_voters) == ("a", ("b", "c"))
    assert (plan.version, plan.committed) == (4, 3)
    assert plan.in_sync == 1
    assert plan.without_copy_in_sync == ("orders-1", "orders-2")
    assert plan.elsewhere == ()


def test_partitions_in_sync_on_nodes_that_did_not_vote_are_elsewhere() -> None:
    learner = BrokerRegistered(broker="d", directory="d-disk", incarnation=1)
    topic = TopicStated(name="bills", number=2, partitions=1, config=TopicConfig(), created_at=1)
    placed = PartitionsAssigned(topic=2, partitions=(ReplicaAssignment(("d", "b"), "d"),))

    assert survivor(*FORMED, (learner, topic, placed)).plan().elsewhere == ("bills-0",)


def test_the_new_cluster_begins_far_above_all_that_the_lost_voters_may_have_committed() -> None:
    left = survivor(*FORMED)
    metadata, own = left.logs(NOW.wall)

    image = MetadataImage()
    for record in decode_records(data_of(metadata)):
        image.apply(record.changes, record.version + left.start)

    assert left.start > 1_000_000
    assert image.table.next_topic > 1_000_000
    assert image.table.next_producer > 1_000_000
    assert image.cluster_id not in {"", "old"}
    assert image.voters == Voters((A,))
    assert set(image.brokers) == {"a", "b", "c"}
    assert image.table.partitions_of(1)[0].isr == ("a", "b")
    (said,) = msgspec.json.decode(metadata.records[-1].value or b"", type=list[ClusterRecovered])
    assert (said.previous, said.by, said.lost) == ("old", "a", (B, C))
    stored = StoredBrokerState()
    stored.read(data_of(own))
    assert stored.state.cluster_id == image.cluster_id
    assert stored.state.incarnation == 7, "runs are counted on"
    assert stored.state.recovered_from == "old"
    assert stored.ends == {PartitionId(1, 0): 12}


def test_a_node_that_follows_awaits_the_metadata_of_the_recovered_cluster() -> None:
    stored = StoredBrokerState()
    stored.read(data_of(survivor(*FORMED, directory="b-disk").following("new")))

    assert (stored.state.cluster_id, stored.state.recovered_from) == ("new", "old")
    assert stored.state.awaits_metadata
    assert stored.state.lost_metadata(Offset(0)) is None
    after = stored.state.followed("new", is_registered=False)
    assert "__metadata is gone" in (after.lost_metadata(Offset(0)) or "")


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (survivor(*FORMED, cluster_id=""), "belongs to no cluster"),
        (survivor(), "metadata log is empty"),
        (survivor(*FORMED, directory="wiped"), "does not know it"),
        (survivor((ClusterCreated(cluster_id="old", voters=(A,)),)), "only voter"),
    ],
)
def test_a_node_that_cannot_continue_the_cluster_says_why(left: Survivor, reason: str) -> None:
    assert reason in (left.obstacle() or "")


def test_a_state_of_an_earlier_version_is_read() -> None:
    stored = StoredBrokerState()
    old = b'{"incarnation":3,"ballot":{},"cluster_id":"x","is_unclean":true}'
    stored.read(data_of(ConvertedLog(LogId("x", 0), (Message(value=old),))))

    assert stored.state == BrokerState(incarnation=3, cluster_id="x", is_unclean=True)
    assert len(state_messages(stored.state, {})) == 2
