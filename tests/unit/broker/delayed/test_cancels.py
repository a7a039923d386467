"""Cancellations of delayed messages: in time, too late, and in between."""

import errno

import pytest

from goqueue.model import SECOND, Code, LogId, Refused
from goqueue.model.requests import (
    DelayState,
    DeleteTopic,
    Done,
    Mode,
    Published,
)
from tests.unit.broker.delayed.users import (
    LONG,
    TICK,
    cancel,
    cancelling,
    delay,
    delaying,
    find,
    outcome,
    pending,
    shown_values,
    state_of,
    statistics,
    store,
    total_messages,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ORDERS, ack, create, join, lag, poll, publish, values

FIRST = "orders/0/00000000000000000000.log"


@pytest.mark.parametrize("mode", [Mode.PARTITIONED, Mode.SHARED, Mode.KEY_ORDERED])
def test_a_message_cancelled_in_time_is_never_delivered(mode: Mode) -> None:
    node = store(mode=mode)
    delay(node, ("k=later", SECOND), ("k=other", 2 * SECOND))
    assert cancel(node, 0) is None
    assert state_of(node, 0) is DelayState.CANCELLED
    assert pending(node) == [1]
    node.advance(10 * SECOND)

    assert shown_values(node) == ["other"]
    assert values(poll(node)) == ["other"]
    assert total_messages(node) == lag(node).lag == 1
    assert (statistics(node).cancelled, statistics(node).delivered) == (1, 1)


def test_a_cancellation_is_seen_by_nobody() -> None:
    node = store()
    delay(node, ("later", SECOND))
    publish(node, "a")
    cancel(node, 0)
    publish(node, "b")

    assert shown_values(node) == ["a", "b"]
    assert lag(node).lag == total_messages(node) == 2
    got = poll(node)
    assert values(got) == ["a", "b"]
    ack(node, *got)
    assert lag(node).lag == 0
    node.restart()
    assert lag(node).lag == 0
    assert total_messages(node) == 2


def test_cancelling_twice_gives_the_same_answer_and_writes_once() -> None:
    node = store()
    delay(node, ("later", SECOND))
    assert [cancel(node, 0), cancel(node, 0)] == [None, None]
    node.restart()
    assert cancel(node, 0) is None
    delay(node, ("next", SECOND))

    assert state_of(node, 2) is DelayState.PENDING


def test_a_cancellation_after_the_delivery_is_refused_and_says_where_it_is() -> None:
    node = store()
    delay(node, ("later", SECOND))
    node.advance(2 * SECOND)
    with pytest.raises(Refused) as refused:
        node.ask(cancelling(0), Done)
    assert refused.value.code is Code.ALREADY_DELIVERED
    assert refused.value.facts["delivered_offset"] == 1
    node.restart(without_snapshots=True)
    assert cancel(node, 0) is Code.ALREADY_DELIVERED


def test_what_is_no_delayed_message_cannot_be_cancelled() -> None:
    node = store(partitions=2)
    assert cancel(node, 0) is Code.MESSAGE_NOT_FOUND
    delay(node, ("a", 0), ("b", 5 * SECOND), targets=[0, 0])
    assert cancel(node, 0) is Code.MESSAGE_NOT_FOUND
    assert cancel(node, 2) is Code.MESSAGE_NOT_FOUND
    assert cancel(node, -1) is Code.MESSAGE_NOT_FOUND
    assert cancel(node, 1, partition=1) is Code.MESSAGE_NOT_FOUND
    assert cancel(node, 1, partition=2) is Code.PARTITION_NOT_FOUND
    assert cancel(node, 1, topic="none") is Code.TOPIC_NOT_FOUND
    assert cancel(node, 1) is None
    # The cancellation itself has an offset, too.
    assert cancel(node, 2) is Code.MESSAGE_NOT_FOUND


def test_the_second_record_of_a_message_cannot_be_cancelled() -> None:
    node = store()
    delay(node, ("a", SECOND))
    node.advance(2 * SECOND)

    assert cancel(node, 1) is Code.MESSAGE_NOT_FOUND


def test_a_cancellation_while_the_delivery_is_on_its_way_is_too_late() -> None:
    node = store()
    delay(node, ("later", SECOND))
    node.slow_down(ORDERS)
    node.advance(SECOND + TICK)
    first, second = node.begin(cancelling(0)), node.begin(cancelling(0))
    assert not node.is_answered(first)
    node.speed_up()

    assert outcome(node, first) is outcome(node, second) is Code.ALREADY_DELIVERED
    assert shown_values(node) == ["later"]


def test_a_cancellation_while_the_record_is_being_read_is_decided_once() -> None:
    node = store()
    delay(node, ("later", SECOND))
    node.reads_are_late = True
    node.advance(SECOND + TICK)
    request = node.begin(cancelling(0))
    node.finish_reads()
    node.advance(5 * SECOND)

    decided = outcome(node, request)
    assert decided in (None, Code.ALREADY_DELIVERED)
    assert shown_values(node) == ([] if decided is None else ["later"])


def test_two_cancellations_on_their_way_are_both_answered() -> None:
    node = store()
    delay(node, ("later", SECOND))
    node.slow_down(ORDERS)
    first, second = node.begin(cancelling(0)), node.begin(cancelling(0))
    # Its time comes while the cancellation is on its way.
    node.advance(5 * SECOND)
    assert not node.is_answered(first)
    assert not node.is_answered(second)
    node.speed_up()

    assert outcome(node, first) is outcome(node, second) is None
    node.advance(5 * SECOND)
    assert shown_values(node) == []


def test_a_message_that_is_not_committed_yet_cannot_be_cancelled() -> None:
    node = store()
    delay(node, ("first", SECOND))
    node.slow_down(ORDERS)
    publishing = node.begin(delaying(node, ("later", 5 * SECOND)))
    assert cancel(node, 1) is Code.MESSAGE_NOT_FOUND
    node.speed_up()

    assert node.reply(publishing, Published).placed[0].first == 1
    assert cancel(node, 1) is None


def test_a_full_disk_refuses_a_cancellation_and_the_message_is_delivered_later() -> None:
    node = store()
    delay(node, ("later", 2 * SECOND))
    node.files.faults.room = 0
    assert cancel(node, 0) is Code.STORAGE_FULL
    assert state_of(node, 0) is DelayState.PENDING
    assert cancel(node, 0) is Code.STORAGE_FULL
    node.files.faults.room = None
    node.advance(5 * SECOND)

    assert shown_values(node) == ["later"]


def test_a_full_disk_refuses_every_cancellation_that_is_on_its_way() -> None:
    node = store()
    delay(node, ("later", 2 * SECOND))
    node.slow_down(ORDERS)
    first, second = node.begin(cancelling(0)), node.begin(cancelling(0))
    # Its time passes meanwhile.
    node.advance(3 * SECOND)
    node.files.faults.room = 0
    node.speed_up()
    assert outcome(node, first) is outcome(node, second) is Code.STORAGE_FULL
    node.files.faults.room = None
    node.advance(5 * SECOND)

    assert shown_values(node) == ["later"]


def test_a_message_not_cancelled_for_lack_of_space_can_be_cancelled_afterwards() -> None:
    node = store()
    delay(node, ("later", 20 * SECOND))
    node.files.faults.room = 0
    assert cancel(node, 0) is Code.STORAGE_FULL
    node.files.faults.room = None
    node.advance(2 * SECOND)
    assert cancel(node, 0) is None
    node.advance(30 * SECOND)

    assert shown_values(node) == []


def test_who_waits_for_a_delivery_that_a_full_disk_takes_back_is_told_so() -> None:
    node = store()
    delay(node, ("later", 2 * SECOND))
    node.slow_down(ORDERS)
    node.advance(2 * SECOND + TICK)
    request = node.begin(cancelling(0))
    node.files.faults.room = 0
    node.speed_up()
    assert outcome(node, request) is Code.STORAGE_FULL
    node.files.faults.room = None
    node.advance(3 * SECOND)

    assert shown_values(node) == ["later"]


def test_who_waits_while_a_record_is_read_is_told_when_it_cannot_be_delivered_for_now() -> None:
    node = store()
    delay(node, ("later", 2 * SECOND))
    node.reads_are_late = True
    node.advance(2 * SECOND + TICK)
    request = node.begin(cancelling(0))
    node.files.faults.room = 0
    publish(node, "fills it up")
    node.finish_reads()

    assert outcome(node, request) in (None, Code.STORAGE_FULL)


def test_a_log_that_failed_refuses_cancellations_as_failed() -> None:
    node = store()
    delay(node, ("later", 20 * SECOND))
    node.slow_down(ORDERS)
    request = node.begin(cancelling(0))
    node.files.faults.broken["sync", FIRST] = errno.EIO
    node.speed_up()

    assert outcome(node, request) is Code.STORAGE_FAILED
    assert cancel(node, 0) is Code.STORAGE_FAILED


def test_who_waits_for_a_delivery_into_a_log_that_fails_is_told_so() -> None:
    node = store()
    delay(node, ("later", 2 * SECOND))
    node.slow_down(ORDERS)
    node.advance(2 * SECOND + TICK)
    request = node.begin(cancelling(0))
    node.files.faults.broken["sync", FIRST] = errno.EIO
    node.speed_up()

    assert outcome(node, request) is Code.STORAGE_FAILED


def test_a_cancellation_of_a_message_that_turns_out_to_be_damaged_is_answered() -> None:
    node = store()
    delay(node, ("later", 2 * SECOND))
    node.reads_are_late = True
    node.advance(2 * SECOND + TICK)
    request = node.begin(cancelling(0))
    node.files.faults.bad_sectors[FIRST] = 10
    node.finish_reads()
    node.advance(10 * SECOND)

    assert node.is_answered(request)
    assert state_of(node, 0) is DelayState.EXPIRED
    assert cancel(node, 0) is Code.MESSAGE_NOT_FOUND


def test_deleting_the_topic_answers_those_who_wait_for_a_cancellation() -> None:
    node = store(partitions=2)
    delay(node, ("a", SECOND), ("b", 50 * SECOND), targets=[0, 1])
    node.slow_down(LogId("orders", 0), LogId("orders", 1))
    node.advance(SECOND + TICK)
    late, early = node.begin(cancelling(0)), node.begin(cancelling(0, partition=1))
    deleting = node.begin(DeleteTopic(name="orders"))
    assert outcome(node, late) is outcome(node, early) is Code.TOPIC_NOT_FOUND
    node.speed_up()

    assert node.is_answered(deleting)


def test_a_caller_who_leaves_while_a_cancellation_is_on_its_way_changes_nothing() -> None:
    node = store()
    delay(node, ("later", SECOND))
    node.slow_down(ORDERS)
    request = node.begin(cancelling(0))
    node.leave(request)
    node.speed_up()

    assert state_of(node, 0) is DelayState.CANCELLED


def test_a_cancellation_on_its_way_when_the_process_ends_is_one_thing_or_the_other() -> None:
    node = store()
    delay(node, ("later", 5 * SECOND))
    node.slow_down(ORDERS)
    node.begin(cancelling(0))
    node.restart()
    assert state_of(node, 0) is DelayState.PENDING
    node.advance(10 * SECOND)

    assert shown_values(node) == ["later"]


def test_a_thousand_messages_are_cancelled_one_by_one_and_the_others_fire() -> None:
    node = DrivenNode()
    create(node)
    join(node, session_ns=LONG)
    delay(node, *((str(number), SECOND + number) for number in range(2000)))
    assert all(cancel(node, number) is None for number in range(0, 2000, 2))
    node.restart()
    node.advance(2 * SECOND)

    assert shown_values(node) == [str(number) for number in range(1, 2000, 2)]
    assert total_messages(node) == 1000
    assert find(node, 0).state is DelayState.CANCELLED
