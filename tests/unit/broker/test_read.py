"""Stream reads: by offset and by time, at once or waiting."""

import pytest

from goqueue.broker import TURN_UNITS
from goqueue.model import HOUR, SECOND, Code, Flush, Message, Offset, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    AlterTopic,
    DeleteTopic,
    Done,
    Publish,
    Read,
    Records,
    TopicChanges,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build, visible
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import ORDERS, create, publish, read_values


def shop(*wanted: str) -> DrivenNode:
    node = DrivenNode()
    create(node, config=TopicConfig(retention_hours=-1))
    for value in wanted:
        publish(node, value)
        node.advance(SECOND)
    return node


def reading(
    offset: int = 0,
    wait_ns: int = 0,
    timestamp: int | None = None,
    *,
    bytes_max: int = 1 << 20,
    is_exact: bool = False,
) -> Read:
    return Read(
        topic="orders",
        partition=0,
        offset=Offset(offset),
        timestamp=None if timestamp is None else Timestamp(timestamp),
        wait_ns=wait_ns,
        bytes_max=bytes_max,
        is_exact=is_exact,
    )


def read(node: DrivenNode, command: Read) -> list[str]:
    return shown(node, node.begin(command))


def shown(node: DrivenNode, request: RequestId) -> list[str]:
    records = node.reply(request, Records)
    return [
        (record.value or b"").decode()
        for data in records.data
        for record in visible(data, records.offset, 1 << 30)
    ]


def retire(node: DrivenNode) -> None:
    """Let retention remove everything that is there."""
    changes = TopicChanges({"retention_hours": 1})
    node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)
    node.advance(HOUR + 60 * SECOND)


def test_a_read_gives_messages_in_offset_order_from_an_offset_on() -> None:
    node = shop("a", "b", "c")

    assert read(node, reading()) == ["a", "b", "c"]
    assert read(node, reading(2)) == ["c"]


def test_a_read_says_where_the_log_begins_and_ends() -> None:
    node = shop("a", "b")
    records = node.ask(reading(1), Records)

    assert (records.log, records.offset, records.start) == (ORDERS, 1, 0)
    assert (records.high_watermark, records.stable, records.upto) == (2, 2, 2)


def test_a_read_at_or_above_the_end_gives_nothing_yet() -> None:
    node = shop("a")
    for offset in (1, 2, 1000):
        records = node.ask(reading(offset), Records)
        assert records.data == ()
        assert records.upto == offset


def test_a_read_below_the_start_begins_at_the_earliest_kept() -> None:
    node = shop("a", "b")
    retire(node)
    publish(node, "c")
    records = node.ask(reading(-5), Records)

    assert (records.offset, records.start) == (2, 2)
    assert read(node, reading(0)) == ["c"]


def test_an_exact_read_from_minus_one_begins_at_the_earliest_kept() -> None:
    node = shop("a", "b")
    retire(node)
    publish(node, "c")
    records = node.ask(reading(-1, is_exact=True), Records)

    assert (records.offset, records.start) == (2, 2)


@pytest.mark.parametrize("offset", [-2, 0, 5])
def test_an_exact_read_outside_of_the_log_is_refused(offset: int) -> None:
    node = shop("a", "b")
    retire(node)
    publish(node, "c")

    with pytest.raises(Refused) as refused:
        node.ask(reading(offset, is_exact=True), Records)
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE
    assert (refused.value.facts["earliest"], refused.value.facts["end"]) == (2, 3)


def test_a_read_by_time_begins_with_the_first_message_at_or_after_it() -> None:
    node = shop("a", "b", "c")

    assert read(node, reading(timestamp=EPOCH_NS + SECOND)) == ["b", "c"]
    assert read(node, reading(timestamp=EPOCH_NS + SECOND + 1)) == ["c"]
    assert read(node, reading(timestamp=0)) == ["a", "b", "c"]


def test_a_read_by_a_time_to_come_goes_on_at_the_end() -> None:
    node = shop("a")
    records = node.ask(reading(timestamp=EPOCH_NS + HOUR), Records)

    assert records.data == ()
    assert records.upto == 1


def test_a_read_is_bounded_by_its_bytes_but_holds_at_least_one_message() -> None:
    node = shop("a" * 1000, "b" * 1000)

    assert read(node, reading(bytes_max=1)) == ["a" * 1000]


def test_a_read_of_what_is_not_there_is_refused() -> None:
    node = shop()
    for topic, partition, code in (
        ("absent", 0, Code.TOPIC_NOT_FOUND),
        ("orders", 1, Code.PARTITION_NOT_FOUND),
        ("orders", -1, Code.PARTITION_INVALID),
        ("no/name", 0, Code.NAME_INVALID),
    ):
        with pytest.raises(Refused) as refused:
            node.ask(Read(topic=topic, partition=partition), Records)
        assert refused.value.code is code


def test_a_waiting_read_is_answered_by_a_publish_at_once() -> None:
    node = shop("a")
    waiting = node.begin(reading(1, 20 * SECOND))
    assert not node.is_answered(waiting)
    publish(node, "b")

    assert shown(node, waiting) == ["b"]


def test_a_waiting_read_is_not_answered_before_the_message_is_committed() -> None:
    node = shop("a")
    waiting = node.begin(reading(1, 20 * SECOND))
    node.slow_down(ORDERS)
    node.begin(Publish(topic="orders", batch=build([Message(value=b"b")])))
    assert not node.is_answered(waiting)
    node.speed_up()

    assert shown(node, waiting) == ["b"]


def test_a_read_that_waits_above_the_end_is_answered_by_the_message_it_waits_for() -> None:
    node = shop("a")
    waiting = node.begin(reading(3, 20 * SECOND))
    publish(node, "b", "c")
    assert not node.is_answered(waiting)
    publish(node, "d")

    assert shown(node, waiting) == ["d"]


def test_a_waiting_read_ends_empty_when_its_time_is_over() -> None:
    node = shop()
    waiting = node.begin(reading(0, 5 * SECOND))
    node.advance(5 * SECOND - 1)
    assert not node.is_answered(waiting)
    node.advance(1)

    assert shown(node, waiting) == []


def test_a_waiting_read_whose_caller_left_is_forgotten() -> None:
    node = shop()
    waiting = node.begin(reading(0, 5 * SECOND))
    node.leave(waiting)
    publish(node, "a")
    node.advance(10 * SECOND)

    assert not node.is_answered(waiting)


def test_a_waiting_read_of_a_deleted_topic_ends_with_that() -> None:
    node = shop()
    waiting = node.begin(reading(0, 5 * SECOND))
    node.ask(DeleteTopic(name="orders"), Done)

    with pytest.raises(Refused) as refused:
        node.reply(waiting, Records)
    assert refused.value.code is Code.TOPIC_NOT_FOUND


def test_a_read_by_time_may_wait_for_the_next_message() -> None:
    node = shop("a")
    waiting = node.begin(reading(0, 20 * SECOND, EPOCH_NS + SECOND))
    publish(node, "b")

    assert shown(node, waiting) == ["b"]


def test_a_stopping_node_ends_waiting_reads_empty() -> None:
    node = shop()
    waiting = node.begin(reading(0, 20 * SECOND))
    node.stop()

    assert shown(node, waiting) == []


def test_many_readers_wait_for_one_message() -> None:
    node = shop()
    waiting = [node.begin(reading(0, 20 * SECOND)) for _ in range(10)]
    publish(node, "a")

    assert [shown(node, each) for each in waiting] == [["a"]] * 10


def test_a_thousand_readers_are_answered_in_turns_of_bounded_work() -> None:
    node = shop()
    waiting = [node.begin(reading(0, 20 * SECOND)) for _ in range(1000)]
    node.runs_later_turns = False
    publish(node, "a")

    assert 0 < sum(map(node.is_answered, waiting)) < TURN_UNITS
    node.runs_later_turns = True
    node.advance(SECOND)
    assert [shown(node, each) for each in waiting] == [["a"]] * 1000


def test_messages_that_flush_by_interval_are_read_when_they_are_written() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(flush_policy=Flush.INTERVAL))
    publish(node, "a")

    assert read_values(node) == ["a"]
