"""Topics that are deleted and made again: nothing of the old one is left."""

import errno

import pytest

from goqueue.broker import GROUPS_LOG
from goqueue.model import SECOND, Cleanup, Code, LogId, Offset, Refused, Reshape
from goqueue.model.requests import (
    CommitOffsets,
    CreateTopic,
    DeleteTopic,
    DescribeGroup,
    DescribeNode,
    Done,
    GroupDescription,
    ListTopics,
    NodeDescription,
    Offsets,
    Reject,
    TopicConfig,
    TopicList,
)
from tests.unit.broker.driven_node import Crashed, DrivenNode, Work
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
    reject,
    values,
)


def topics(node: DrivenNode) -> tuple[str, ...]:
    return node.ask(ListTopics(), TopicList).topics


def delete(node: DrivenNode, name: str = "orders") -> None:
    node.ask(DeleteTopic(name=name), Done)


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


def test_a_poll_whose_count_was_late_gets_nothing_of_a_topic_that_was_made_again() -> None:
    node = DrivenNode()
    create(node)
    join(node)
    publish(node, "one")
    nack(node, poll(node)[0], delay_ns=0)
    node.slow_down(GROUPS_LOG)
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    node.ask(DeleteTopic(name="orders"), Done)
    node.begin(CreateTopic(name="orders", partitions=1, config=TopicConfig()))
    node.speed_up()

    assert polled(node, waiting) == []
    assert topics(node) == ("orders",)


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


def test_a_topic_and_its_dead_letters_are_deleted_while_a_dead_letter_is_on_its_way() -> None:
    node = DrivenNode()
    create(node)
    join(node)
    publish(node, "first", "second")
    first, second = poll(node)
    reject(node, first)
    letters = LogId("orders.dlq", 0)
    node.slow_down(letters)
    node.begin(Reject(receipt=second.receipt))
    node.ask(DeleteTopic(name="orders"), Done)

    deleting = node.begin(DeleteTopic(name="orders.dlq"))
    node.speed_up()

    assert node.reply(deleting, Done) == Done()
    assert topics(node) == ()
