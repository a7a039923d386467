"""What a single node keeps, told as the logs with which a cluster begins."""

import pytest

from goqueue.broker import ConvertedLog, ConvertedNode, StoredBrokerState
from goqueue.broker.cluster.cluster_producers import TRANSACTIONAL_FROM
from goqueue.broker.cluster.metadata_records import decode_records
from goqueue.broker.journal_changes import CHANGES, Change, Numbered, PositionMoved
from goqueue.cluster import MetadataImage, PartitionId, Voter
from goqueue.groups import GroupStated
from goqueue.log import Log, LogState
from goqueue.model import (
    Compatibility,
    Level,
    LogId,
    LogSettings,
    RegisterSchema,
    SchemaDescription,
    SchemaText,
    SchemaType,
    SetCompatibility,
    Write,
)
from goqueue.model.requests import DeleteTopic, Done, InitProducer, KeyDescription, ProducerGranted
from goqueue.records import build
from goqueue.schemas import RegistryLimits, SchemaRegistry
from goqueue.transactions import KeyKept, ProducerStated
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import begin, commit_group, init, prepare, warm, write
from tests.unit.broker.users import ack, create, nack, poll, publish, shop
from tests.unit.security.secrets import new_key

ME = Voter("node-1", "d" * 32)
OTHERS = ("node-2", "node-3")


def converted(node: DrivenNode, others: tuple[str, ...] = OTHERS) -> dict[str, ConvertedLog]:
    """The new journals by the names of their topics."""
    node.stop()
    conversion = node.node.conversion
    assert conversion.obstacles() == []
    assert conversion.is_settled
    logs = conversion.logs(ConvertedNode(me=ME, others=others, at=node.now.wall))
    return {each.log.topic: each for each in logs}


def obstacles(node: DrivenNode) -> str:
    node.stop()
    return "; ".join(node.node.conversion.obstacles())


def image_of(node: DrivenNode, logs: dict[str, ConvertedLog]) -> MetadataImage:
    """What a broker makes of the records of the metadata log."""
    log = Log(LogId("__metadata", 0), LogSettings(), LogState())
    image = MetadataImage()
    for record in logs["__metadata"].records:
        for effect in log.append(build([record]), node.now).effects:
            if isinstance(effect, Write):
                for found in decode_records(effect.data):
                    image.apply(found.changes, found.version)
    return image


def changes(logs: dict[str, ConvertedLog]) -> list[Change]:
    records = logs["__consumer_offsets"].records
    return [change for record in records for change in CHANGES.decode(record.value or b"")]


def test_topics_keep_their_numbers_and_only_the_first_node_is_in_sync() -> None:
    node = DrivenNode()
    create(node, "gone")
    node.ask(DeleteTopic(name="gone"), Done)
    create(node, "orders", partitions=4)
    publish(node, "a", "b", targets=[3, 3])

    logs = converted(node)
    image = image_of(node, logs)

    topic, coordinator = image.table.topics.values()
    assert (topic.name, topic.number, topic.config.replication_factor) == ("orders", 2, 3)
    assert (coordinator.name, coordinator.number) == ("__consumer_offsets", 3)
    assert image.table.created_at(2) == 0, "no record may be older than its topic"
    assert image.table.next_topic == 4
    partitions = image.table.partitions_of(2)
    assert {each.isr for each in partitions} == {("node-1",)}
    assert {tuple(sorted(each.replicas)) for each in partitions} == {("node-1", *OTHERS)}
    assert {each.replicas[0] for each in partitions} == {"node-1", *OTHERS}
    assert image.voters.new == (ME,)
    stored = StoredBrokerState()
    assert stored.state.cluster_id == ""
    log = Log(LogId("__broker_state", 0), LogSettings(), LogState())
    for effect in log.append(build(logs["__broker_state"].records), node.now).effects:
        if isinstance(effect, Write):
            stored.read(effect.data)
    assert stored.state.cluster_id == image.cluster_id
    assert stored.ends == {PartitionId(2, 3): 2, PartitionId(3, 0): 1}


def test_of_more_than_three_nodes_each_partition_is_kept_by_the_first_and_two_others() -> None:
    node = DrivenNode()
    create(node, "orders", partitions=8)

    image = image_of(node, converted(node, ("b", "c", "d", "e")))

    kept = [each.replicas for each in image.table.partitions_of(1)]
    assert all(len(set(each)) == 3 and "node-1" in each for each in kept)
    assert {name for each in kept for name in each} == {"node-1", "b", "c", "d", "e"}


def test_groups_keep_what_they_settled_and_how_often_messages_came() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    first, second, _ = poll(node)
    nack(node, first)
    ack(node, second)

    told = changes(converted(node))

    (group,) = (each for each in told if isinstance(each, GroupStated))
    assert group.group == "shop"
    (moved,) = (each for each in told if isinstance(each, PositionMoved))
    assert (moved.group, moved.topic, moved.partition) == (group.number, 1, 0)
    assert moved.position.floor == 0
    assert moved.position.attempts, "how often they were delivered"
    assert moved.position.settled or moved.position.scattered


def test_a_producer_with_a_transactional_id_gets_a_number_of_the_cluster() -> None:
    node = warm(1)
    owner = init(node, "billing")
    begin(node, owner)
    write(node, owner, "x")
    commit_group(node, "spark-1", prepare(node, owner))
    nameless = node.ask(InitProducer(), ProducerGranted)

    logs = converted(node)

    told = changes(logs)
    named = {each.transactional_id: each for each in told if isinstance(each, ProducerStated)}
    assert None not in named
    producer = named["billing"]
    assert producer.producer == TRANSACTIONAL_FROM + owner.producer_id
    assert (producer.last, producer.outcome) == (1, "committed")
    (numbered,) = (each for each in told if isinstance(each, Numbered))
    assert numbered.producers_upto > producer.producer
    assert [each.key for each in told if isinstance(each, KeyKept)] == ["spark-1"]
    assert image_of(node, logs).table.next_producer > nameless.producer_id


def test_keys_follow_in_pieces_that_add_up() -> None:
    node = DrivenNode()
    for number in range(300):
        node.ask(new_key(number), KeyDescription)

    logs = converted(node)
    image = image_of(node, logs)

    assert len(logs["__metadata"].records) == 3
    assert image.access.is_whole
    assert len(image.access.keys) == 300


def register(node: DrivenNode, subject: str) -> SchemaDescription:
    text = SchemaText(type=SchemaType.JSON, text='{"type": "string"}')
    return node.ask(RegisterSchema(subject=subject, schema=text), SchemaDescription)


def test_schemas_follow_behind_the_keys_with_their_ids() -> None:
    node = DrivenNode()
    node.ask(new_key(1), KeyDescription)
    told = [register(node, f"subject-{number}") for number in range(200)]
    node.ask(SetCompatibility(level=Level.FULL), Compatibility)

    logs = converted(node)
    image = image_of(node, logs)

    assert image.is_whole
    registry = SchemaRegistry()
    registry.adopt(image.schemas.entries())
    assert {each.id for each in told} == {1}
    assert len(registry.subjects) == 200
    assert registry.content(1).schema == told[0].schema
    assert (registry.level("any"), registry.next_id) == (Level.FULL, 2)
    own = b"".join(each.value or b"" for each in logs["__topics"].records)
    assert b"schema" not in own


def test_what_cannot_be_taken_over_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    node = warm(1)
    begin(node, init(node))
    register(node, "orders-value")
    monkeypatch.setattr(
        "goqueue.broker.conversion.CLUSTER_LIMITS", RegistryLimits(bytes_max=5, entries_max=1)
    )

    found = obstacles(node)

    assert "1 transactions are open" in found
    assert "the schema registry holds 18 bytes, and that of a cluster at most 5" in found
    assert "the schema registry holds 2 versions and levels" in found


def test_damage_is_named_because_no_other_copy_can_repair_it() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a", "b")
    node.stop()
    content = node.files.copy()
    (path,) = (
        each for each in content if each.startswith("logs/orders/0/") and each.endswith(".log")
    )
    content[path] = content[path][:40] + b"\0" * 8 + content[path][48:]
    node.files = type(node.files)(content)
    node.restart()

    assert "records of orders are damaged" in obstacles(node)
