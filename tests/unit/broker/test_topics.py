"""Topics of a node: made, changed, listed, removed, made again."""

import errno

import msgspec
import pytest

from goqueue.model import HOUR, MILLISECOND, SECOND, Cleanup, Code, LogId, Offset, Refused, Reshape
from goqueue.model.requests import (
    AlterTopic,
    CommitOffsets,
    CreateTopic,
    DeleteTopic,
    DescribeGroup,
    DescribeNode,
    DescribePartitions,
    DescribeTopic,
    Done,
    GroupDescription,
    ListTopics,
    NodeDescription,
    Offsets,
    PartitionList,
    TopicChanges,
    TopicConfig,
    TopicDescription,
    TopicList,
)
from tests.unit.broker.driven_node import EPOCH_NS, Crashed, DrivenNode, Work
from tests.unit.broker.users import (
    ORDERS,
    begin_poll,
    committed,
    create,
    join,
    lag,
    nack,
    poll,
    polled,
    publish,
    read,
    read_values,
    values,
)


def topics(node: DrivenNode) -> tuple[str, ...]:
    return node.ask(ListTopics(), TopicList).topics


def describe(node: DrivenNode, name: str = "orders") -> TopicDescription:
    return node.ask(DescribeTopic(name=name), TopicDescription)


def alter(node: DrivenNode, changes: TopicChanges, name: str = "orders") -> TopicDescription:
    return node.ask(AlterTopic(name=name, changes=changes), TopicDescription)


def delete(node: DrivenNode, name: str = "orders") -> None:
    node.ask(DeleteTopic(name=name), Done)


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
        AlterTopic(name="__topics", changes=TopicChanges(retention_hours=1)),
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
        alter(node, TopicChanges(dead_letter_topic="c"), "b")
    assert refused.value.code is Code.DEAD_LETTER_LOOP
    assert describe(node, "b").config.dead_letter_topic == "b.dlq"


def test_a_topic_that_sends_its_dead_letters_on_cannot_take_those_of_another() -> None:
    node = DrivenNode()
    create(node, "b", config=TopicConfig(dead_letter_topic="c"))
    create(node, "a")

    with pytest.raises(Refused) as created:
        create(node, "x", config=TopicConfig(dead_letter_topic="b"))
    with pytest.raises(Refused) as altered:
        alter(node, TopicChanges(dead_letter_topic="b"), "a")
    assert created.value.code is altered.value.code is Code.DEAD_LETTER_LOOP


def test_two_topics_may_share_one_dead_letter_topic_until_both_are_gone() -> None:
    node = DrivenNode()
    for name in ("a", "b"):
        create(node, name, config=TopicConfig(dead_letter_topic="letters"))
    create(node, "letters")
    delete(node, "a")

    with pytest.raises(Refused):
        alter(node, TopicChanges(dead_letter_topic="more"), "letters")
    delete(node, "b")
    altered = alter(node, TopicChanges(dead_letter_topic="more"), "letters")
    assert altered.config.dead_letter_topic == "more"


# ---- changing --------------------------------------------------------------------------------


def test_altering_changes_what_is_named_and_nothing_else() -> None:
    node = DrivenNode()
    before = create(node).config
    after = alter(node, TopicChanges(retention_hours=1, visibility_ns=SECOND)).config

    assert after == msgspec.structs.replace(before, retention_hours=1, visibility_ns=SECOND)
    node.restart()
    assert describe(node).config == after


def test_altering_out_of_range_changes_nothing() -> None:
    node = DrivenNode()
    before = create(node).config

    with pytest.raises(Refused) as refused:
        alter(node, TopicChanges(retention_hours=1, visibility_ns=MILLISECOND))
    assert refused.value.code is Code.REQUEST_INVALID
    assert refused.value.facts["field"] == "visibility_timeout"
    assert describe(node).config == before


def test_a_limit_on_message_size_is_in_force_as_soon_as_it_is_altered() -> None:
    node = DrivenNode()
    create(node)
    alter(node, TopicChanges(max_message_bytes=3))

    published = publish(node, "abc", "abcd")
    assert [target >= 0 for target in published.targets] == [True, False]


def test_retention_follows_the_altered_settings() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(retention_hours=-1))
    publish(node, "old")
    node.advance(2 * HOUR)
    assert read_values(node) == ["old"]

    alter(node, TopicChanges(retention_hours=1))
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


# ---- deleting --------------------------------------------------------------------------------


def test_a_deleted_topic_is_gone_also_after_a_restart() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "one")
    delete(node)

    assert topics(node) == ()
    node.restart()
    assert topics(node) == ()


def test_a_topic_made_again_inherits_neither_messages_nor_positions_nor_leases() -> None:
    node = DrivenNode()
    create(node)
    join(node)
    publish(node, "one", "two")
    first, _ = poll(node)
    node.ask(CommitOffsets(group="shop", offsets={ORDERS: Offset(1)}, member_id="c1-c100"), Offsets)
    delete(node)
    create(node)

    assert committed(node) is None
    assert read(node) == []
    publish(node, "new")
    again = poll(node)
    assert [(each.record.offset, each.attempt) for each in again] == [(0, 1)]
    with pytest.raises(Refused) as refused:
        nack(node, first)
    assert refused.value.code is Code.RECEIPT_STALE


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_topic_made_again_inherits_nothing_over_a_restart(without_snapshots: bool) -> None:
    node = DrivenNode()
    create(node)
    join(node)
    publish(node, "one", "two")
    node.ask(CommitOffsets(group="shop", offsets={ORDERS: Offset(2)}, member_id="c1-c100"), Offsets)
    delete(node)
    create(node)
    publish(node, "new")
    node.stop()
    node.restart(without_snapshots=without_snapshots)

    assert committed(node) is None
    assert values(poll(node)) == ["new"]


def test_the_text_of_a_nack_is_not_inherited_by_a_message_of_a_topic_made_again() -> None:
    node = DrivenNode()
    one_delivery = TopicConfig(max_deliveries=2, visibility_ns=SECOND)
    create(node, config=one_delivery)
    join(node)
    publish(node, "old")
    nack(node, poll(node)[0], reason="of the old one")
    delete(node)
    create(node, config=one_delivery)
    publish(node, "new")
    poll(node)
    node.advance(SECOND)
    poll(node)
    node.advance(SECOND)

    (letter,) = read(node, LogId("orders.dlq", 0))
    assert "goqueue.dlq.reason" not in dict(letter.headers)


def test_a_name_is_busy_until_the_files_of_its_topic_are_gone() -> None:
    node = DrivenNode()
    create(node)
    node.slow_down(ORDERS)
    deleting = node.begin(DeleteTopic(name="orders"))

    with pytest.raises(Refused) as refused:
        create(node)
    assert refused.value.code is Code.LOG_BUSY
    assert topics(node) == ()
    assert not node.is_answered(deleting)
    node.speed_up()
    node.reply(deleting, Done)
    create(node)
    assert topics(node) == ("orders",)


def test_a_deletion_that_the_disk_refuses_is_answered_and_leaves_the_name_to_a_restart() -> None:
    node = DrivenNode()
    create(node)
    node.files.faults.broken[("rename", "orders")] = errno.EIO
    node.files.faults.broken[("rename", "orders/0")] = errno.EIO
    deleting = node.begin(DeleteTopic(name="orders"))

    assert node.is_answered(deleting)
    node.restart()
    create(node)
    assert read(node) == []


def test_a_creation_that_the_disk_refuses_is_refused() -> None:
    node = DrivenNode()
    node.files.faults.broken[("make_directory", "orders/0")] = errno.EIO

    with pytest.raises(Refused) as refused:
        create(node)
    assert refused.value.code is Code.STORAGE_FAILED


def test_a_topic_whose_creation_was_refused_does_not_stand_in_the_way_of_trying_again() -> None:
    node = DrivenNode()
    node.files.faults.broken[("make_directory", "orders/0")] = errno.EIO
    with pytest.raises(Refused):
        create(node)
    node.files.faults.broken.clear()

    assert create(node).name == "orders"


def test_a_crash_in_the_middle_of_a_deletion_ends_it() -> None:
    node = DrivenNode()
    create(node, partitions=3)
    publish(node, "a", "b", "c")

    def is_deletion(work: Work) -> bool:
        return isinstance(work, Reshape) and work.log == LogId("orders", 1)

    node.crash_before = is_deletion
    with pytest.raises(Crashed):
        node.begin(DeleteTopic(name="orders"))
    node.restart()
    assert topics(node) == ()
    create(node, partitions=3)
    assert [read(node, LogId("orders", n)) for n in range(3)] == [[], [], []]


def test_a_crash_in_the_middle_of_a_creation_leaves_a_whole_topic() -> None:
    node = DrivenNode()

    def is_second_log(work: Work) -> bool:
        return isinstance(work, Reshape) and work.log == LogId("orders", 1)

    node.crash_before = is_second_log
    with pytest.raises(Crashed):
        node.begin(CreateTopic(name="orders", partitions=3))
    node.restart()
    assert topics(node) == ("orders",)
    publish(node, "a", "b", "c")
    assert [len(read(node, LogId("orders", n))) for n in range(3)] == [1, 1, 1]


def test_members_lose_the_partitions_of_a_deleted_topic_and_get_them_when_it_is_made_again() -> (
    None
):
    node = DrivenNode()
    create(node)
    joined = join(node)
    waiting = begin_poll(node)
    delete(node)

    described = node.ask(DescribeGroup(group="shop"), GroupDescription)
    assert described.generation == joined.generation + 1
    assert described.members[0].assigned == ()
    create(node)
    publish(node, "new")
    assert polled(node, waiting) == ["new"]


def test_members_get_a_topic_made_again_even_if_the_node_dies_before_it_could_tell_them() -> None:
    node = DrivenNode()
    create(node)
    join(node)
    delete(node)
    node.slow_down(LogId("__groups", 0))
    create(node)
    publish(node, "new")
    node.restart()

    assert values(poll(node)) == ["new"]


def test_lag_and_positions_forget_a_deleted_topic() -> None:
    node = DrivenNode()
    create(node)
    create(node, "other")
    join(node, topics=("orders", "other"))
    publish(node, "one")
    assert lag(node).lag == 1
    delete(node)

    with pytest.raises(StopIteration):
        lag(node)
    assert lag(node, log=LogId("other", 0)).lag == 0


def test_a_node_describes_its_topics() -> None:
    node = DrivenNode()
    create(node)
    described = node.ask(DescribeNode(), NodeDescription)

    assert described.node_id == "node-1"
    assert described.not_ready is None
    assert [topic.name for topic in described.topics] == ["orders"]


def test_a_compacted_topic_says_so() -> None:
    node = DrivenNode()
    created = create(node, config=TopicConfig(cleanup_policy=Cleanup.COMPACT))

    assert created.config.cleanup_policy is Cleanup.COMPACT
