"""Delayed messages and the places of groups: passed over, reset, gone back to, in lanes."""

import msgspec
import pytest

from goqueue.model import SECOND, Offset, Priority
from goqueue.model.requests import (
    Acks,
    CommitOffsets,
    Mode,
    Offsets,
    PositionsReset,
    Published,
    ResetOffsets,
    Strategy,
)
from tests.unit.broker.delayed.users import LONG, TICK, cancel, delay, delaying, shown_values, store
from tests.unit.broker.users import (
    ORDERS,
    ack,
    begin_poll,
    committed,
    join,
    lag,
    nack,
    poll,
    polled,
    publish,
    values,
)

MODES = [Mode.PARTITIONED, Mode.SHARED, Mode.KEY_ORDERED]


def test_a_group_that_committed_past_the_first_record_gets_the_message_when_it_fires() -> None:
    node = store()
    delay(node, ("later", 5 * SECOND), ("plain", 0))
    command = CommitOffsets(group="shop", offsets={ORDERS: Offset(2)}, member_id="c1-c100")
    assert node.ask(command, Offsets).offsets[ORDERS] == 2
    assert lag(node).lag == 0
    node.advance(6 * SECOND)

    assert lag(node).lag == 1
    assert values(poll(node)) == ["later"]


@pytest.mark.parametrize("mode", MODES)
def test_a_group_that_goes_back_gets_each_message_once_more(mode: Mode) -> None:
    node = store(mode=mode)
    delay(node, ("a", SECOND), ("b", 0), ("c", 500 * SECOND), ("d", SECOND))
    cancel(node, 3)
    node.advance(2 * SECOND)
    got = poll(node)
    ack(node, *got)
    command = ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST)
    (reset,) = node.ask(command, PositionsReset).positions

    assert (reset.offset, reset.lag) == (0, 2)
    assert lag(node).lag == 2
    assert values(poll(node)) == values(got) == ["b", "a"]


def test_a_reset_to_the_offset_of_a_first_record_begins_behind_it() -> None:
    node = store()
    delay(node, ("a", 0), ("b", 500 * SECOND), ("c", 0))
    ack(node, *poll(node))
    command = ResetOffsets(group="shop", topic="orders", strategy=Strategy.OFFSET, offset=Offset(1))
    (reset,) = node.ask(command, PositionsReset).positions

    assert reset.lag == lag(node).lag == 1
    assert values(poll(node)) == ["c"]


@pytest.mark.parametrize("mode", MODES)
def test_positions_pass_delayed_records_and_cancellations(mode: Mode) -> None:
    node = store(mode=mode)
    delay(node, ("a", 0), ("b", 500 * SECOND), ("c", 600 * SECOND), ("d", 0))
    cancel(node, 1)
    publish(node, "e")
    ack(node, *poll(node))
    assert lag(node).lag == 0
    assert (committed(node) or 0) >= 6 - 1
    node.restart()
    join(node, mode=mode, session_ns=LONG)

    assert lag(node).lag == 0
    assert poll(node) == []


def test_a_delivered_message_that_is_returned_comes_again_and_is_the_same() -> None:
    node = store()
    delay(node, ("later", SECOND))
    node.advance(2 * SECOND)
    (first,) = poll(node)
    nack(node, first, delay_ns=0)
    (second,) = poll(node)

    assert (second.record.offset, second.attempt) == (first.record.offset, 2)


def test_a_delivered_message_goes_to_the_lane_of_its_priority() -> None:
    node = store()
    delay(node, ("urgent", SECOND), priority=Priority.CRITICAL)
    publish(node, *"abcdefgh")
    node.advance(2 * SECOND)

    assert values(poll(node, count=1)) == ["urgent"]


def test_a_message_that_fires_after_a_crash_goes_to_the_lane_of_its_priority() -> None:
    node = store()
    delay(node, ("urgent", SECOND), priority=Priority.CRITICAL)
    publish(node, *"abcdefgh")
    node.restart(without_snapshots=True)
    join(node, session_ns=LONG)
    node.advance(2 * SECOND)

    assert values(poll(node, count=1)) == ["urgent"]


def test_a_stuck_key_does_not_hold_up_what_fires_for_another() -> None:
    node = store(mode=Mode.KEY_ORDERED)
    publish(node, "k=stuck")
    delay(node, ("k=behind", SECOND), ("other=free", SECOND))
    (stuck,) = poll(node)
    node.advance(2 * SECOND)
    assert values(poll(node)) == ["free"]
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    ack(node, stuck)

    assert polled(node, waiting) == ["behind"]


def test_a_producer_that_does_not_wait_can_delay_messages() -> None:
    node = store()
    for value in ("first", "second"):
        command = msgspec.structs.replace(delaying(node, (value, SECOND)), acks=Acks.NONE)
        assert node.ask(command, Published).targets == [0]
    node.advance(SECOND + TICK)

    assert shown_values(node) == ["first", "second"]
