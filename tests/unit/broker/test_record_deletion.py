"""Records that are deleted on request: for good once it was answered, never what is needed."""

import pytest

from goqueue.model import SECOND, Cleanup, Code, Drop, LogId, Offset, Refused, Reshape
from goqueue.model.requests import (
    DeleteRecords,
    DeleteTopic,
    DeletionLimit,
    DescribePartitions,
    Done,
    Mode,
    PartitionList,
    RecordsDeleted,
    Redrive,
    Redriven,
)
from tests.unit.broker.delayed.users import delay
from tests.unit.broker.driven_node import Crashed, DrivenNode, Work
from tests.unit.broker.transactions.words import abort, begin, commit, init, write
from tests.unit.broker.users import (
    LETTERS,
    ORDERS,
    ack,
    begin_poll,
    create,
    join,
    lag,
    poll,
    polled,
    publish,
    read,
    reject,
    shop,
    values,
)


def trim(node: DrivenNode, offset: int, log: LogId = ORDERS) -> RecordsDeleted:
    command = DeleteRecords(topic=log.topic, before={log.partition: Offset(offset)})
    return node.ask(command, RecordsDeleted)


def purge(node: DrivenNode, topic: str = "orders") -> RecordsDeleted:
    return node.ask(DeleteRecords(topic=topic), RecordsDeleted)


def starts(node: DrivenNode, topic: str = "orders") -> list[int]:
    listed = node.ask(DescribePartitions(topic=topic), PartitionList)
    return [each.earliest_offset for each in listed.partitions]


def filled(*, count: int = 5, partitions: int = 1) -> DrivenNode:
    node = DrivenNode()
    create(node, partitions=partitions)
    for partition in range(partitions):
        publish(node, *(f"{number}" for number in range(count)), targets=[partition] * count)
    return node


def is_drop(work: Work) -> bool:
    return isinstance(work, Reshape) and isinstance(work.change, Drop)


@pytest.mark.parametrize("offset", [0, 1, 3, 5])
def test_nothing_before_the_offset_is_left_also_after_a_crash(offset: int) -> None:
    node = filled()
    (deleted,) = trim(node, offset).partitions

    assert (deleted.earliest_offset, deleted.deleted_offsets) == (offset, offset)
    assert deleted.kept_by is DeletionLimit.NONE
    for _ in range(2):
        assert [record.offset for record in read(node, offset=offset)] == list(range(offset, 5))
        assert starts(node) == [offset]
        # A reader from the beginning begins where the log does.
        assert [record.offset for record in read(node)] == list(range(offset, 5))
        node.restart()
    publish(node, "next")
    assert read(node, offset=offset)[-1].offset == 5


def test_a_purge_empties_every_partition_and_frees_the_space() -> None:
    node = filled(partitions=3)
    before = sum(
        each.size_bytes
        for each in node.ask(DescribePartitions(topic="orders"), PartitionList).partitions
    )
    deleted = purge(node)

    assert [each.earliest_offset for each in deleted.partitions] == [5, 5, 5]
    after = node.ask(DescribePartitions(topic="orders"), PartitionList).partitions
    assert before > 0
    assert sum(each.size_bytes for each in after) == 0
    assert [each.deleted_offsets for each in purge(node).partitions] == [0, 0, 0]


def test_a_topic_without_records_is_purged_without_the_disk() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    node.crash_before = is_drop

    assert [each.earliest_offset for each in purge(node).partitions] == [0, 0]


def test_the_answer_waits_for_the_disk() -> None:
    node = filled()
    node.slow_down(ORDERS)
    asked = node.begin(DeleteRecords(topic="orders", before={0: Offset(3)}))

    assert not node.is_answered(asked)
    assert starts(node) == [3]
    # A second one waits as well, although the start is there already.
    again = node.begin(DeleteRecords(topic="orders", before={0: Offset(2)}))
    assert not node.is_answered(again)
    node.speed_up()
    assert node.reply(asked, RecordsDeleted).partitions[0].earliest_offset == 3
    assert node.reply(again, RecordsDeleted).partitions[0].deleted_offsets == 0


def test_a_crash_before_the_disk_has_it_leaves_the_records() -> None:
    node = filled()
    node.crash_before = is_drop
    with pytest.raises(Crashed):
        trim(node, 3)
    node.restart()

    assert starts(node) == [0]
    assert len(read(node)) == 5


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ({0: 6}, Code.OFFSET_OUT_OF_RANGE),
        ({0: 3, 1: 6}, Code.OFFSET_OUT_OF_RANGE),
        ({0: 3, 2: 0}, Code.PARTITION_NOT_FOUND),
    ],
)
def test_a_request_with_one_mistake_changes_nothing(before: dict[int, int], code: Code) -> None:
    node = filled(partitions=2)
    offsets = {partition: Offset(offset) for partition, offset in before.items()}
    with pytest.raises(Refused) as refused:
        node.ask(DeleteRecords(topic="orders", before=offsets), RecordsDeleted)
    assert refused.value.code is code
    assert starts(node) == [0, 0]


@pytest.mark.parametrize(
    ("topic", "code"), [("nowhere", Code.TOPIC_NOT_FOUND), ("__groups", Code.TOPIC_INTERNAL)]
)
def test_only_topics_of_users_are_trimmed(topic: str, code: Code) -> None:
    with pytest.raises(Refused) as refused:
        purge(filled(), topic)
    assert refused.value.code is code


@pytest.mark.parametrize("mode", [Mode.SHARED, Mode.KEY_ORDERED])
def test_a_group_never_gets_what_was_deleted(mode: Mode) -> None:
    node = shop(mode=mode)
    publish(node, *"abcdef")
    first, second = poll(node, count=2)
    trim(node, 4)

    assert lag(node).lag == 2
    assert values(poll(node)) == ["e", "f"]
    # What was leased is settled: to ack it changes nothing.
    ack(node, first, second)
    node.advance(60 * SECOND)
    join(node)
    assert {each.record.offset for each in poll(node)} == {4, 5}


def test_a_group_that_waits_gets_the_next_message() -> None:
    node = shop()
    publish(node, "a", "b")
    ack(node, *poll(node))
    waiting = begin_poll(node)
    purge(node)
    publish(node, "c")

    assert polled(node, waiting) == ["c"]


def test_an_open_transaction_keeps_what_it_wrote() -> None:
    node = filled(count=0)
    owner = init(node)
    publish(node, "a")
    begin(node, owner)
    write(node, owner, "b")
    (deleted,) = purge(node).partitions

    assert deleted.earliest_offset == 1
    assert deleted.kept_by is DeletionLimit.OPEN_TRANSACTION
    commit(node, owner)
    assert [record.value for record in read(node, offset=1)] == [b"b"]


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_a_log_never_begins_inside_an_aborted_batch(offset: int) -> None:
    node = filled(count=0)
    owner = init(node)
    publish(node, "a")
    begin(node, owner)
    write(node, owner, "never", "seen", "by anybody")
    abort(node, owner)
    publish(node, "b")
    (deleted,) = trim(node, offset).partitions

    assert deleted.earliest_offset == 4
    for _ in range(2):
        assert [record.value for record in read(node, offset=offset)] == [b"b"]
        node.restart(without_snapshots=True)


def test_dead_letters_are_purged_and_not_redriven_again() -> None:
    node = shop()
    publish(node, "a")
    (delivery,) = poll(node)
    reject(node, delivery)
    assert len(read(node, LETTERS)) == 1
    purge(node, "orders.dlq")

    end = starts(node, "orders.dlq")[0]
    assert read(node, LETTERS, offset=end) == []
    assert node.ask(Redrive(topic="orders"), Redriven).moved == 0
    publish(node, "b")
    (delivery,) = poll(node)
    reject(node, delivery)
    assert [record.value for record in read(node, LETTERS, offset=end)] == [b"b"]
    assert node.ask(Redrive(topic="orders"), Redriven).moved == 1


def test_what_a_delayed_message_is_delivered_from_is_kept() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a", "b")
    delay(node, ("later", 60 * SECOND))
    publish(node, "c")
    (deleted,) = purge(node).partitions

    assert deleted.earliest_offset == 2
    assert deleted.kept_by is DeletionLimit.DELAYED_MESSAGE
    node.advance(61 * SECOND)
    join(node)
    assert "later" in values(poll(node))


def test_a_compacted_topic_is_trimmed_too() -> None:
    node = shop(cleanup_policy=Cleanup.COMPACT)
    publish(node, "k=a", "k=b", "k=c")
    trim(node, 2)

    assert starts(node) == [2]
    node.restart()
    assert starts(node) == [2]


def test_deleting_the_topic_answers_who_waits_for_a_deletion() -> None:
    node = filled()
    node.slow_down(ORDERS)
    asked = node.begin(DeleteRecords(topic="orders"))
    gone = node.begin(DeleteTopic(name="orders"))
    with pytest.raises(Refused) as refused:
        node.reply(asked, RecordsDeleted)
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    node.speed_up()
    node.reply(gone, Done)


def test_a_client_that_leaves_is_forgotten_and_the_deletion_done() -> None:
    node = filled()
    node.slow_down(ORDERS)
    asked = node.begin(DeleteRecords(topic="orders", before={0: Offset(3)}))
    node.leave(asked)
    node.speed_up()
    node.restart()

    assert starts(node) == [3]


def test_a_purge_of_many_partitions_is_spread_over_turns() -> None:
    node = DrivenNode(budget_units=50)
    create(node, partitions=400)
    publish(node, *["x"] * 400, targets=list(range(400)))
    node.turn_units_max = 0
    deleted = purge(node)

    assert all(each.earliest_offset == 1 for each in deleted.partitions)
    assert node.turn_units_max < 200
