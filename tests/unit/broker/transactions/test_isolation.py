"""What of transactions is read, delivered and counted: committed messages, and nothing else."""

from collections.abc import Callable

import pytest

from goqueue.model import SECOND, Message, Offset
from goqueue.model.requests import (
    CommitOffsets,
    Isolation,
    Mode,
    Offsets,
    Owner,
    PositionsReset,
    ProducerStamp,
    Publish,
    Published,
    Read,
    Records,
    ResetOffsets,
    Start,
    Strategy,
)
from goqueue.records import build
from tests.unit.broker.delayed.users import total_messages
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.groups.priorities import CRITICAL, LOW, NORMAL, drain, statistics
from tests.unit.broker.transactions.words import (
    abort,
    add,
    begin,
    commit,
    init,
    readable,
    shown,
    shown_uncommitted,
    texts,
    write,
)
from tests.unit.broker.users import (
    ORDERS,
    ack,
    begin_poll,
    create,
    join,
    lag,
    poll,
    polled,
    publish,
    values,
)

LONG = 600 * SECOND

UNCOMMITTED = Isolation.READ_UNCOMMITTED


def opened() -> tuple[DrivenNode, Owner]:
    node = DrivenNode()
    create(node)
    owner = init(node, timeout_ns=LONG)
    begin(node, owner)
    return node, owner


def reading(offset: int, wait_ns: int = 0, isolation: Isolation | None = None) -> Read:
    return Read(
        topic="orders",
        partition=0,
        offset=Offset(offset),
        wait_ns=wait_ns,
        isolation=isolation or Isolation.READ_COMMITTED,
    )


# Reading


def test_committed_reads_end_before_the_first_open_transaction() -> None:
    node, owner = opened()
    publish(node, "a")
    write(node, owner, "x")
    publish(node, "b")
    found = node.ask(reading(0), Records)
    assert (found.stable, found.high_watermark) == (1, 3)

    assert shown(node) == ["a"]
    assert shown_uncommitted(node) == ["a", "x", "b"]
    commit(node, owner)
    assert shown(node) == shown_uncommitted(node) == ["a", "x", "b"]


def test_a_reader_who_follows_the_answers_passes_over_what_was_aborted() -> None:
    node, owner = opened()
    write(node, owner, "x", "y")
    publish(node, "a")
    write(node, owner, "z")
    abort(node, owner)
    publish(node, "b")

    found = node.ask(reading(0), Records)
    assert found.aborted == ((0, 2), (3, 4))
    assert shown(node) == ["a", "b"]
    assert node.ask(reading(0, isolation=UNCOMMITTED), Records).aborted == ()
    assert node.ask(reading(1), Records).aborted == ((1, 2), (3, 4))
    assert node.ask(reading(5), Records).aborted == ()


def test_a_waiting_reader_of_committed_messages_is_woken_by_the_commit() -> None:
    node, owner = opened()
    waiting = node.begin(reading(0, wait_ns=50 * SECOND))
    impatient = node.begin(reading(0, wait_ns=50 * SECOND, isolation=UNCOMMITTED))
    write(node, owner, "x")
    assert texts(readable(node.reply(impatient, Records))) == ["x"]
    publish(node, "a")
    assert not node.is_answered(waiting)

    commit(node, owner)

    assert texts(readable(node.reply(waiting, Records))) == ["x", "a"]


def test_a_waiting_reader_behind_an_open_transaction_gets_what_is_behind_an_abort() -> None:
    node, owner = opened()
    write(node, owner, "x")
    waiting = node.begin(reading(0, wait_ns=50 * SECOND))
    publish(node, "a")
    assert not node.is_answered(waiting)

    abort(node, owner)

    found = node.reply(waiting, Records)
    assert texts(readable(found)) == ["a"]
    assert found.upto >= 2


def test_a_read_that_finds_an_open_transaction_ends_empty_when_its_time_is_over() -> None:
    node, owner = opened()
    write(node, owner, "x")
    waiting = node.begin(reading(0, wait_ns=10 * SECOND))

    node.advance(10 * SECOND)

    found = node.reply(waiting, Records)
    assert readable(found) == []
    assert found.upto == 0


# Delivering and counting


@pytest.mark.parametrize("joins_early", [True, False])
@pytest.mark.parametrize("mode", list(Mode))
def test_groups_are_handed_and_counted_committed_messages_only(
    mode: Mode, joins_early: bool
) -> None:
    node, owner = opened()
    other = init(node, "other", timeout_ns=LONG)
    begin(node, other)
    if joins_early:
        join(node, session_ns=LONG, mode=mode)
        assert poll(node) == []
    publish(node, "k=a")
    write(node, owner, "k=x", "k=y")
    publish(node, "k=b")
    write(node, other, "k=z")
    join(node, session_ns=LONG, mode=mode)
    assert (lag(node).lag, total_messages(node)) == (1, 1)
    abort(node, owner)
    assert (lag(node).lag, total_messages(node)) == (2, 2)
    commit(node, other)
    publish(node, "k=c")
    assert (lag(node).lag, total_messages(node)) == (4, 4)
    twin = node.twin(without_snapshots=True)
    assert (lag(twin).lag, total_messages(twin)) == (4, 4)

    for each in (node, twin):
        join(each, session_ns=LONG, mode=mode)
        assert values(drain(each)) == ["a", "b", "z", "c"]
        assert (lag(each).lag, total_messages(each)) == (0, 4)
        assert lag(each).committed == each.ask(reading(0), Records).high_watermark


def test_what_was_aborted_since_the_last_poll_is_no_lag() -> None:
    node, owner = opened()
    publish(node, "a")
    join(node, session_ns=LONG)
    ack(node, *poll(node))
    assert lag(node).lag == 0

    write(node, owner, "x", "y", "z")
    assert lag(node).lag == 0
    abort(node, owner)

    assert lag(node).lag == 0


def test_a_waiting_poll_is_woken_by_the_commit_and_not_by_the_messages() -> None:
    node, owner = opened()
    join(node, session_ns=LONG)
    waiting = begin_poll(node)
    write(node, owner, "x")
    assert not node.is_answered(waiting)

    commit(node, owner)

    assert polled(node, waiting) == ["x"]


def test_a_waiting_poll_goes_on_waiting_over_an_abort() -> None:
    node, owner = opened()
    join(node, session_ns=LONG)
    waiting = begin_poll(node)
    write(node, owner, "x")
    abort(node, owner)
    assert not node.is_answered(waiting)

    publish(node, "a")

    assert polled(node, waiting) == ["a"]


def test_a_group_that_begins_at_the_end_gets_what_is_committed_after() -> None:
    node, owner = opened()
    publish(node, "old")
    write(node, owner, "x")
    join(node, session_ns=LONG, start=Start.LATEST)

    commit(node, owner)

    assert values(poll(node)) == ["x"]


def test_a_reset_to_the_end_passes_over_no_open_transaction() -> None:
    node, owner = opened()
    publish(node, "old")
    join(node, session_ns=LONG)
    write(node, owner, "x")
    reset = ResetOffsets(group="shop", topic="orders", strategy=Strategy.LATEST)
    (found,) = node.ask(reset, PositionsReset).positions
    assert (found.offset, found.lag) == (1, 0)

    commit(node, owner)

    assert values(poll(node)) == ["x"]


def test_a_position_beyond_an_open_transaction_has_no_lag_below_zero() -> None:
    node, owner = opened()
    write(node, owner, "x", "y")
    node.ask(CommitOffsets(group="shop", offsets={ORDERS: Offset(2)}), Offsets)
    assert lag(node).lag == 0

    commit(node, owner)

    assert lag(node).lag == 0


# Lanes


def write_lanes(node: DrivenNode, owner: Owner, *lanes: int) -> None:
    batch = build([Message(value=b"v", priority=lane) for lane in lanes])
    stamp = ProducerStamp(producer_id=owner.producer_id, epoch=owner.epoch)
    node.ask(Publish(topic="orders", batch=batch, producer=stamp), Published)


@pytest.mark.parametrize("end", [commit, abort])
def test_lanes_hand_out_and_count_committed_messages_only(
    end: Callable[[DrivenNode, Owner], object],
) -> None:
    node, owner = opened()
    write_lanes(node, owner, NORMAL)
    join(node, session_ns=LONG, mode=Mode.SHARED)
    poll(node)
    write_lanes(node, owner, CRITICAL, LOW)
    publish(node, "plain")
    node.advance(1)
    assert pending(node) == 0
    assert poll(node) == []
    end(node, owner)
    node.advance(1)
    publish(node, "more")
    is_commit = end is commit
    first = poll(node, count=1)
    assert pending(node) == (5 if is_commit else 2)

    found = [each.record.priority for each in [*first, *drain(node)]]

    assert sorted(found) == ([CRITICAL, NORMAL, NORMAL, NORMAL, LOW] if is_commit else [2, 2])
    ack(node, *first)
    assert pending(node) == 0


def pending(node: DrivenNode) -> int:
    return sum(statistics(node).pending)


def test_lanes_hold_what_a_transaction_holds() -> None:
    node, owner = opened()
    join(node, session_ns=LONG, mode=Mode.SHARED)
    other = init(node, "other")
    begin(node, other)
    write_lanes(node, other, CRITICAL, NORMAL, LOW)
    commit(node, other)
    leased = poll(node)
    add(node, owner, leased[0], leased[2])
    node.restart()
    join(node, client="c2", session_ns=LONG, mode=Mode.SHARED)
    node.advance(1)

    assert [each.record.priority for each in drain(node, client="c2")] == [NORMAL]
    abort(node, owner)
    assert [each.record.priority for each in drain(node, client="c2")] == [CRITICAL, LOW]
