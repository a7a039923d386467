"""Delayed messages: nobody sees them before they are due, everybody once afterwards."""

import pytest

from goqueue.model import SECOND, Code, LogId, Message, Offset, Priority, Refused
from goqueue.model.requests import (
    DelayState,
    Leased,
    Mode,
    PositionsReset,
    Publish,
    Published,
    Read,
    Records,
    ResetOffsets,
    Start,
    Strategy,
    TopicConfig,
)
from goqueue.records import Flag, build, walk
from tests.unit.broker.delayed.users import (
    LONG,
    TICK,
    cancel,
    delay,
    delayed_from,
    delaying,
    find,
    shown,
    shown_values,
    state_of,
    statistics,
    store,
    total_messages,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ack,
    begin_poll,
    create,
    deliveries,
    join,
    lag,
    letters,
    poll,
    polled,
    publish,
    read,
    reject,
    values,
)

DAY = 24 * 3600 * SECOND

MODES = [Mode.PARTITIONED, Mode.SHARED, Mode.KEY_ORDERED]


def test_a_delayed_message_is_confirmed_at_once_and_named_by_its_first_offset() -> None:
    node = store()
    publish(node, "plain")
    published = delay(node, ("later", 5 * SECOND))

    assert [(each.first, each.count, each.refused) for each in published.placed] == [(1, 1, None)]
    found = find(node, 1)
    assert (found.state, found.due) == (DelayState.PENDING, node.now.wall + 5 * SECOND)
    assert found.time_remaining_ns == 5 * SECOND


@pytest.mark.parametrize("mode", MODES)
def test_nobody_sees_a_message_before_it_is_due_and_everybody_once_afterwards(mode: Mode) -> None:
    node = store(mode=mode)
    join(node, group="audit", mode=mode, session_ns=LONG)
    delay(node, ("k=later", 5 * SECOND))
    assert shown_values(node) == []
    assert values(poll(node)) == values(poll(node, group="audit")) == []
    assert lag(node).lag == lag(node, group="audit").lag == lag(node, group="shop").in_flight == 0
    assert total_messages(node) == 0

    node.advance(5 * SECOND + TICK)
    assert shown_values(node) == ["later"]
    assert total_messages(node) == lag(node).lag == lag(node, group="audit").lag == 1
    got = [*poll(node), *poll(node, group="audit")]
    assert values(got) == ["later", "later"]
    ack(node, *got)
    node.advance(60 * SECOND)
    assert values(poll(node)) == values(poll(node, group="audit")) == []
    assert lag(node).lag == 0


def test_stored_bytes_say_that_the_first_record_is_delayed_and_the_second_is_not() -> None:
    node = store()
    delay(node, ("k=later", SECOND), priority=Priority.HIGH, headers=(("h", b"1"),))
    node.advance(SECOND + TICK)

    records = node.ask(Read(topic="orders", partition=0), Records)
    columns = walk(records.data[0])
    assert [bool(flags & Flag.DELAYED) for flags in columns.flags] == [True, False]
    (second,) = shown(node)
    assert (second.offset, second.key, second.value) == (1, b"k", b"later")
    assert second.priority == Priority.HIGH
    assert ("h", b"1") in second.headers
    assert delayed_from(second) == 0
    assert second.timestamp == node.now.wall - TICK


def test_one_batch_with_delayed_and_plain_messages_in_several_partitions() -> None:
    node = store(partitions=3)
    published = delay(
        node,
        ("a", 0),
        ("b", 2 * SECOND),
        ("c", SECOND),
        ("d", 0),
        ("e", 3 * SECOND),
        targets=[0, 0, 1, 2, 0],
    )
    assert published.targets == [0, 0, 1, 2, 0]
    logs = [LogId("orders", number) for number in range(3)]
    assert [shown_values(node, log) for log in logs] == [["a"], [], ["d"]]

    node.advance(SECOND + TICK)
    assert [shown_values(node, log) for log in logs] == [["a"], ["c"], ["d"]]
    node.advance(2 * SECOND)
    assert [shown_values(node, log) for log in logs] == [["a", "b", "e"], ["c"], ["d"]]
    assert [delayed_from(record) for record in shown(node)] == [None, 1, 2]


def test_a_keyed_delayed_message_goes_where_plain_ones_of_its_key_go() -> None:
    node = store(partitions=3)
    plain = publish(node, "k=plain").targets
    assert delay(node, ("k=later", SECOND)).targets == plain
    node.advance(2 * SECOND)

    assert shown_values(node, LogId("orders", plain[0])) == ["plain", "later"]


@pytest.mark.parametrize(
    "delay_ns",
    [
        *(1, TICK - 1, TICK, TICK + 1, SECOND, 2_560_000_000),
        *(pytest.param(each, marks=pytest.mark.long) for each in (7 * DAY, 671_088_640_000_000)),
    ],
)
def test_a_message_is_never_early_and_at_most_a_tick_late(delay_ns: int) -> None:
    node = store()
    node.now_ns += 3
    delay(node, ("later", delay_ns))
    begin = node.now_ns
    node.advance(delay_ns - 1)
    assert shown_values(node) == []
    node.advance(1 + TICK)
    assert shown_values(node) == ["later"]
    (record,) = shown(node)
    assert record.timestamp >= node.now.wall - (node.now_ns - begin) + delay_ns


def test_a_message_waits_most_of_a_year_over_restarts() -> None:
    node = store()
    delay(node, ("in a year", 365 * DAY), ("tomorrow", DAY))
    for _ in range(3):
        # The machine is off for months.
        node.now_ns += 121 * DAY
        node.restart()
        node.advance(2 * SECOND)
        assert shown_values(node) == ["tomorrow"]
    # It sleeps until shortly before the message is due.
    node.now_ns += 2 * DAY - 60 * SECOND
    node.advance(54 * SECOND - 1)
    assert shown_values(node) == ["tomorrow"]
    node.advance(1 + TICK)
    assert shown_values(node) == ["tomorrow", "in a year"]


def test_messages_beyond_the_reach_of_timers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.broker.delayed.delays.FAR_MAX", 2)
    node = store()
    delay(node, ("a", 100 * DAY), ("b", 100 * DAY), ("near", DAY))
    with pytest.raises(Refused) as refused:
        delay(node, ("c", 100 * DAY))
    assert refused.value.code is Code.QUOTA_EXCEEDED
    delay(node, ("near", DAY))
    cancel(node, 0)
    node.advance(2 * SECOND)
    delay(node, ("c", 100 * DAY))

    assert statistics(node).pending == 4


def test_in_a_key_ordered_group_a_delayed_message_takes_its_place_when_it_fires() -> None:
    node = store(mode=Mode.KEY_ORDERED)
    delay(node, ("k=later", SECOND))
    publish(node, "k=now", "k=next")
    node.advance(SECOND + TICK)

    found = []
    for _ in range(3):
        (delivery,) = poll(node)
        ack(node, delivery)
        found.append(delivery)
    assert values(found) == ["now", "next", "later"]


def test_a_waiting_poll_is_answered_when_a_message_is_due() -> None:
    node = store()
    delay(node, ("later", 5 * SECOND))
    waiting = begin_poll(node)
    node.advance(5 * SECOND - 1)
    assert not node.is_answered(waiting)
    node.advance(1 + TICK)

    assert polled(node, waiting) == ["later"]


def test_a_waiting_poll_is_not_answered_by_a_message_that_is_not_due() -> None:
    node = store()
    waiting = begin_poll(node)
    delay(node, ("later", 50 * SECOND))

    assert not node.is_answered(waiting)
    node.advance(20 * SECOND)
    assert node.reply(waiting, Leased).partitions == ()


def test_a_reader_that_follows_gets_the_message_wherever_it_stands() -> None:
    node = store()
    delay(node, ("later", 5 * SECOND))
    publish(node, "a", "b")
    command = Read(topic="orders", partition=0, offset=Offset(3), wait_ns=20 * SECOND)
    waiting = node.begin(command)
    node.advance(5 * SECOND + TICK)

    assert node.reply(waiting, Records).upto == 4
    assert [delayed_from(record) for record in read(node, offset=3)] == [0]


def test_a_group_that_begins_at_the_end_gets_what_fires_after_that() -> None:
    node = store()
    delay(node, ("later", 5 * SECOND))
    publish(node, "before")
    join(node, group="late", start=Start.LATEST)
    node.advance(6 * SECOND)

    assert values(poll(node, group="late")) == ["later"]


def test_a_group_that_comes_long_after_gets_each_message_once() -> None:
    node = store()
    delay(node, ("one", SECOND), ("two", 2 * SECOND), ("three", 0))
    node.advance(10 * SECOND)
    join(node, group="late")

    assert values(poll(node, group="late")) == ["three", "one", "two"]
    assert lag(node, group="late").lag == 3


def test_lag_counts_messages_alone_with_a_queue_and_without() -> None:
    node = store()
    delay(node, ("a", 0), ("b", 100 * SECOND), ("c", SECOND), ("d", 0), ("e", 100 * SECOND))
    node.advance(2 * SECOND)
    assert lag(node).lag == 3
    first, second, third = poll(node)
    ack(node, second)
    assert lag(node).lag == 2
    node.restart()
    assert lag(node).lag == 2
    join(node)
    assert lag(node).lag == 2
    again = poll(node)
    assert values(again) == values([first, third])
    ack(node, *again)
    assert lag(node).lag == 0
    node.restart()
    assert lag(node).lag == 0


def test_the_time_of_the_lag_is_that_of_the_oldest_message_and_not_of_a_delayed_record() -> None:
    node = store()
    delay(node, ("later", 500 * SECOND))
    node.advance(100 * SECOND)
    publish(node, "now")

    assert lag(node).lag == 1
    assert lag(node).time_lag_ns == 0


def test_the_lag_that_a_reset_tells_does_not_count_what_is_delayed() -> None:
    node = store()
    delay(node, ("a", 0), ("later", 500 * SECOND))
    command = ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST)
    (reset,) = node.ask(command, PositionsReset).positions

    assert reset.lag == lag(node).lag == 1


def test_a_delivered_message_that_dies_is_a_dead_letter_once_and_can_be_redriven() -> None:
    node = store()
    delay(node, ("later", SECOND))
    node.advance(2 * SECOND)
    (delivery,) = poll(node)
    reject(node, delivery)
    assert letters(node) == ["later"]
    node.restart()
    node.advance(5 * SECOND)

    assert letters(node) == ["later"]
    assert shown_values(node) == ["later"]
    assert state_of(node, 0) is DelayState.DELIVERED


def test_publishing_at_once_through_the_delayed_road_delays_nothing() -> None:
    node = store()
    delay(node, ("a", 0), ("b", 0))

    assert shown_values(node) == ["a", "b"]
    assert statistics(node).pending == 0


def test_a_delayed_record_that_is_not_announced_as_one_is_refused() -> None:
    node = store()
    message = Message(value=b"x", headers=(("gq.deliver-at", b"5"),), is_delayed=True)
    published = node.ask(Publish(topic="orders", batch=build([message])), Published)

    assert published.targets[0] < 0


def test_a_delayed_publish_for_a_partition_that_is_not_there_is_refused_alone() -> None:
    node = store(partitions=2)
    command = delaying(node, ("a", SECOND), ("b", SECOND), targets=[7, 1])
    published = node.ask(command, Published)
    assert published.targets[0] < 0
    node.advance(2 * SECOND)

    assert shown_values(node, LogId("orders", 1)) == ["b"]


def test_a_topic_with_the_longest_name_can_have_delayed_messages_over_restarts() -> None:
    name = "n" * 249
    node = DrivenNode()
    create(node, name, config=TopicConfig(dead_letter_topic="dead"))
    delay(node, ("later", 5 * SECOND), topic=name)
    node.stop()
    node.restart()
    node.advance(10 * SECOND)

    assert shown_values(node, LogId(name, 0)) == ["later"]


def test_two_polls_in_one_group_share_what_fires() -> None:
    node = store(mode=Mode.SHARED)
    join(node, client="c2", mode=Mode.SHARED, session_ns=LONG)
    first, second = begin_poll(node), begin_poll(node, client="c2")
    delay(node, ("later", SECOND))
    node.advance(25 * SECOND)

    got = [*deliveries(node.reply(first, Leased)), *deliveries(node.reply(second, Leased))]
    assert values(got) == ["later"]
