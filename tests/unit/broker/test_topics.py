"""Topics of a node: made, changed, listed, removed, made again."""

import msgspec
import pytest

from goqueue.broker.catalog import Catalog
from goqueue.broker.journal_changes import TopicStated
from goqueue.log import Log
from goqueue.model import (
    HOUR,
    MILLISECOND,
    SECOND,
    Cleanup,
    Code,
    LogId,
    LogSettings,
    Message,
    Refused,
)
from goqueue.model.requests import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    DescribePartitions,
    DescribeTopic,
    Done,
    LaneSettings,
    ListTopics,
    PartitionList,
    Read,
    Records,
    TopicChanges,
    TopicConfig,
    TopicDescription,
    TopicList,
)
from goqueue.records import build
from goqueue.storage import Storage
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import (
    create,
    publish,
    read_values,
)
from tests.unit.storage.memory_files import MemoryFiles

TOPICS = LogId("__topics", 0)
LANES = LaneSettings(weights=(5, 4, 3, 2, 1))


def topics(node: DrivenNode) -> tuple[str, ...]:
    return node.ask(ListTopics(), TopicList).topics


def describe(node: DrivenNode, name: str = "orders") -> TopicDescription:
    return node.ask(DescribeTopic(name=name), TopicDescription)


def alter(node: DrivenNode, changes: TopicChanges, name: str = "orders") -> TopicDescription:
    return node.ask(AlterTopic(name=name, changes=changes), TopicDescription)


def delete(node: DrivenNode, name: str = "orders") -> None:
    node.ask(DeleteTopic(name=name), Done)


def with_journal_record(node: DrivenNode, value: bytes) -> DrivenNode:
    """The same data directory after another version wrote this to the journal of topics."""
    files = MemoryFiles(node.files.copy())
    storage = Storage(files)
    log = Log(TOPICS, LogSettings(), storage.open(TOPICS, LogSettings()).state)
    storage.carry_out(list(log.append(build([Message(value=value)]), node.now).effects))
    storage.close()
    content = {path: data for path, data in files.copy().items() if "snapshot" not in path}
    return DrivenNode(MemoryFiles(content), node.limits, node.now_ns)


def test_a_topic_that_was_created_is_described_as_empty() -> None:
    node = DrivenNode()
    node.advance(5 * SECOND)
    created = create(node, partitions=2)

    assert created == describe(node)
    assert created.offsets == ((0, -1), (0, -1))
    assert (created.total_messages, created.total_size_bytes) == (0, 0)
    assert created.created_at == EPOCH_NS + 5 * SECOND
    assert created.config.dead_letter_topic == "orders.dlq"


def test_topics_are_listed_in_the_order_of_their_names() -> None:
    node = DrivenNode()
    for name in ("b", "a.z", "a"):
        create(node, name)

    assert topics(node) == ("a", "a.z", "b")


@pytest.mark.parametrize("name", ["__topics", "__groups"])
def test_a_topic_of_the_broker_is_described_as_it_is_read_and_left_out_of_lists(name: str) -> None:
    node = DrivenNode()
    create(node)
    records = node.ask(Read(topic=name, partition=0), Records)

    described = describe(node, name)
    assert described.total_messages == records.high_watermark
    assert described.offsets == ((0, records.high_watermark - 1),)
    (partition,) = node.ask(DescribePartitions(topic=name), PartitionList).partitions
    assert partition.high_watermark == records.high_watermark
    assert topics(node) == ("orders",)
    with pytest.raises(Refused):
        describe(node, "__others")


def test_a_description_counts_what_was_published() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    publish(node, "one", "two", "three", targets=[0, 0, 1])

    described = describe(node)
    assert described.total_messages == 3
    assert described.offsets == ((0, 1), (0, 0))
    assert described.total_size_bytes > 0


def test_partitions_are_described_with_their_leader_and_their_ends() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    publish(node, "one", targets=[1])

    first, second = node.ask(DescribePartitions(topic="orders"), PartitionList).partitions
    assert (first.partition, first.end_offset, first.size_bytes) == (0, 0, 0)
    assert (second.partition, second.end_offset, second.high_watermark) == (1, 1, 1)
    assert second.leader == "node-1"
    assert second.replicas == second.isr == ("node-1",)


def test_a_topic_cannot_be_created_twice() -> None:
    node = DrivenNode()
    create(node)

    with pytest.raises(Refused) as refused:
        create(node)
    assert refused.value.code is Code.TOPIC_EXISTS


def test_a_topic_survives_a_restart_with_its_settings_and_messages() -> None:
    node = DrivenNode()
    create(node, partitions=2, config=TopicConfig(retention_hours=5, max_deliveries=7))
    publish(node, "one", "two", targets=[0, 1])
    before = describe(node)
    node.restart()

    assert describe(node) == before
    assert read_values(node, LogId("orders", 1)) == ["two"]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({}, TopicConfig()),
        ({"max_deliveries": 9, "setting_of_a_later_version": 1}, TopicConfig(max_deliveries=9)),
        ({"lanes": {"weights": [5, 4, 3, 2, 1]}}, TopicConfig(lanes=LANES)),
    ],
)
def test_a_data_directory_of_another_version_is_read(
    stored: dict[str, object], expected: TopicConfig
) -> None:
    node = DrivenNode()
    create(node)
    change: dict[str, object] = {
        "type": "topic",
        "name": "orders",
        "number": 1,
        "partitions": 1,
        "created_at": 1,
    }
    change["config"] = {"dead_letter_topic": "orders.dlq", **stored}
    again = with_journal_record(node, msgspec.json.encode([change]))

    assert describe(again).config == expected.for_topic("orders")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "x" * 250, "a\n", "a\0"])
def test_a_topic_needs_a_proper_name(name: str) -> None:
    node = DrivenNode()

    with pytest.raises(Refused) as refused:
        create(node, name, config=TopicConfig(dead_letter_topic="letters"))
    assert refused.value.code is Code.NAME_INVALID
    assert topics(node) == ()


def test_names_of_the_brokers_own_topics_cannot_be_created_changed_or_deleted() -> None:
    node = DrivenNode()
    commands = (
        CreateTopic(name="__mine"),
        AlterTopic(name="__topics", changes=TopicChanges({"retention_hours": 1})),
        DeleteTopic(name="__groups"),
    )
    for command in commands:
        with pytest.raises(Refused) as refused:
            node.ask(command, Done)
        assert refused.value.code is Code.TOPIC_INTERNAL
    assert topics(node) == ()


@pytest.mark.parametrize("partitions", [0, -1, 10_001])
def test_a_topic_has_one_to_ten_thousand_partitions(partitions: int) -> None:
    node = DrivenNode()

    with pytest.raises(Refused) as refused:
        create(node, partitions=partitions)
    assert refused.value.code is Code.REQUEST_INVALID
    assert refused.value.facts["field"] == "num_partitions"


def test_a_name_too_long_for_its_dead_letters_needs_one_for_them() -> None:
    node = DrivenNode()
    name = "x" * 246

    with pytest.raises(Refused) as refused:
        create(node, name)
    assert refused.value.code is Code.NAME_INVALID
    assert refused.value.facts["field"] == "dead_letter_topic"
    assert "must be given" in str(refused.value.facts["reason"])
    given = create(node, name, config=TopicConfig(dead_letter_topic="letters"))
    assert given.config.dead_letter_topic == "letters"


# ---- dead-letter loops -----------------------------------------------------------------------


def test_a_topic_cannot_be_its_own_dead_letter_topic() -> None:
    node = DrivenNode()

    with pytest.raises(Refused) as refused:
        create(node, config=TopicConfig(dead_letter_topic="orders"))
    assert refused.value.code is Code.DEAD_LETTER_LOOP


def test_two_topics_cannot_send_their_dead_letters_to_each_other() -> None:
    node = DrivenNode()
    create(node, "a", config=TopicConfig(dead_letter_topic="b"))

    with pytest.raises(Refused) as refused:
        create(node, "b", config=TopicConfig(dead_letter_topic="a"))
    assert refused.value.code is Code.DEAD_LETTER_LOOP


def test_a_dead_letter_topic_cannot_get_one_of_its_own_later() -> None:
    node = DrivenNode()
    create(node, "a", config=TopicConfig(dead_letter_topic="b"))
    create(node, "b")

    with pytest.raises(Refused) as refused:
        alter(node, TopicChanges({"dead_letter_topic": "c"}), "b")
    assert refused.value.code is Code.DEAD_LETTER_LOOP
    assert describe(node, "b").config.dead_letter_topic == "b.dlq"


def test_a_topic_that_sends_its_dead_letters_on_cannot_take_those_of_another() -> None:
    node = DrivenNode()
    create(node, "b", config=TopicConfig(dead_letter_topic="c"))
    create(node, "a")

    with pytest.raises(Refused) as created:
        create(node, "x", config=TopicConfig(dead_letter_topic="b"))
    with pytest.raises(Refused) as altered:
        alter(node, TopicChanges({"dead_letter_topic": "b"}), "a")
    assert created.value.code is altered.value.code is Code.DEAD_LETTER_LOOP


def test_a_topic_that_takes_dead_letters_cannot_be_compacted() -> None:
    node = DrivenNode()
    create(node, "a", config=TopicConfig(dead_letter_topic="letters"))

    for policy in (Cleanup.COMPACT, Cleanup.COMPACT_AND_DELETE):
        with pytest.raises(Refused) as refused:
            create(node, "letters", config=TopicConfig(cleanup_policy=policy))
        assert refused.value.facts["field"] == "cleanup_policy"
    create(node, "letters")
    with pytest.raises(Refused) as refused:
        alter(node, TopicChanges({"cleanup_policy": Cleanup.COMPACT}), "letters")
    assert refused.value.code is Code.REQUEST_INVALID
    assert describe(node, "letters").config.cleanup_policy is Cleanup.DELETE


def test_a_compacted_topic_cannot_become_a_dead_letter_topic() -> None:
    node = DrivenNode()
    create(node, "table", config=TopicConfig(cleanup_policy=Cleanup.COMPACT))
    create(node, "b.dlq", config=TopicConfig(cleanup_policy=Cleanup.COMPACT))
    create(node, "a")

    with pytest.raises(Refused) as refused:
        create(node, "c", config=TopicConfig(dead_letter_topic="table"))
    assert refused.value.facts["field"] == "dead_letter_topic"
    with pytest.raises(Refused):
        alter(node, TopicChanges({"dead_letter_topic": "table"}), "a")
    with pytest.raises(Refused):
        create(node, "b")


def test_dead_letters_of_one_key_outlive_the_compaction_an_earlier_version_allowed() -> None:
    catalog = Catalog()
    config = TopicConfig(cleanup_policy=Cleanup.COMPACT).for_topic("letters")
    letters = catalog.apply(
        TopicStated(name="letters", number=1, partitions=1, config=config, created_at=0)
    )
    assert letters is not None
    assert catalog.log_settings(letters).cleanup is Cleanup.COMPACT

    sender = TopicConfig(dead_letter_topic="letters").for_topic("a")
    catalog.apply(TopicStated(name="a", number=2, partitions=1, config=sender, created_at=0))

    settings = catalog.log_settings(letters)
    assert not settings.cleanup.compacts
    # What was kept for ever still is.
    assert settings.retention_ns is None


def test_two_topics_may_share_one_dead_letter_topic_until_both_are_gone() -> None:
    node = DrivenNode()
    for name in ("a", "b"):
        create(node, name, config=TopicConfig(dead_letter_topic="letters"))
    create(node, "letters")
    delete(node, "a")

    with pytest.raises(Refused):
        alter(node, TopicChanges({"dead_letter_topic": "more"}), "letters")
    delete(node, "b")
    altered = alter(node, TopicChanges({"dead_letter_topic": "more"}), "letters")
    assert altered.config.dead_letter_topic == "more"


# ---- changing --------------------------------------------------------------------------------


def test_altering_changes_what_is_named_and_nothing_else() -> None:
    node = DrivenNode()
    before = create(node).config
    after = alter(node, TopicChanges({"retention_hours": 1, "visibility_timeout": SECOND})).config

    assert after == msgspec.structs.replace(before, retention_hours=1, visibility_ns=SECOND)
    node.restart()
    assert describe(node).config == after


def test_altering_out_of_range_changes_nothing() -> None:
    node = DrivenNode()
    before = create(node).config

    with pytest.raises(Refused) as refused:
        alter(node, TopicChanges({"retention_hours": 1, "visibility_timeout": MILLISECOND}))
    assert refused.value.code is Code.REQUEST_INVALID
    assert refused.value.facts["field"] == "visibility_timeout"
    assert describe(node).config == before


def test_a_limit_on_message_size_is_in_force_as_soon_as_it_is_altered() -> None:
    node = DrivenNode()
    create(node)
    alter(node, TopicChanges({"max_message_bytes": 3}))

    published = publish(node, "abc", "abcd")
    assert [target >= 0 for target in published.targets] == [True, False]


def test_retention_follows_the_altered_settings() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(retention_hours=-1))
    publish(node, "old")
    node.advance(2 * HOUR)
    assert read_values(node) == ["old"]

    alter(node, TopicChanges({"retention_hours": 1}))
    node.advance(60 * SECOND)
    assert read_values(node) == []
    assert describe(node).offsets == ((1, 0),)


def test_a_topic_that_does_not_exist_cannot_be_described_changed_or_deleted() -> None:
    node = DrivenNode()
    commands = (
        DescribeTopic(name="orders"),
        DescribePartitions(topic="orders"),
        AlterTopic(name="orders", changes=TopicChanges()),
        DeleteTopic(name="orders"),
    )
    for command in commands:
        with pytest.raises(Refused) as refused:
            node.ask(command, Done)
        assert refused.value.code is Code.TOPIC_NOT_FOUND
