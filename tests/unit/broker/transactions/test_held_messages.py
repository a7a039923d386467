"""Messages that a transaction holds: handed to nobody, and settled exactly if it commits."""

import pytest

from goqueue.model import SECOND, Code, LogId, Offset
from goqueue.model.requests import (
    AddOffsets,
    CommitOffsets,
    Done,
    Leave,
    Mode,
    Nack,
    Offsets,
    Release,
    Released,
    lease_of,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.held_messages import (
    LONG,
    MEMBER,
    MINUTE,
    by_value,
    everything,
    everything_of,
    shop,
    stay,
)
from tests.unit.broker.transactions.words import (
    abort,
    add,
    begin,
    commit,
    init,
    refused_code,
)
from tests.unit.broker.users import (
    ORDERS,
    ack,
    ack_code,
    begin_poll,
    committed,
    create,
    join,
    lag,
    poll,
    polled,
    publish,
    values,
)

# Lease


def test_a_receipt_that_was_released_is_not_the_one_that_holds_the_message() -> None:
    node, owner = shop("a")
    before = poll(node)[0]
    node.ask(Release(leases=(lease_of(before.receipt),)), Released)
    after = poll(node)[0]
    assert (before.attempt, after.attempt) == (1, 1)
    add(node, owner, after)
    add(node, owner, after)

    stale = AddOffsets(owner=owner, group="shop", receipts=(before.receipt,), offsets={})
    assert refused_code(node, stale) is Code.RECEIPT_STALE


def test_what_is_held_is_handed_to_nobody_although_its_lease_is_over() -> None:
    node, owner = shop(*"abc")
    held = by_value(poll(node))
    add(node, owner, held["b"])

    stay(node, owner, 2 * MINUTE)

    assert values(poll(node, client="c2")) == ["a", "c"]


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_what_is_held_is_handed_to_nobody_after_a_restart(without_snapshots: bool) -> None:
    node, owner = shop(*"abc")
    add(node, owner, by_value(poll(node))["b"])
    node.stop()
    node.restart(without_snapshots=without_snapshots)
    join(node, client="c2", session_ns=LONG)
    twin = node.twin()

    assert values(poll(node, client="c2")) == ["a", "c"]
    commit(node, owner)
    assert values(poll(node, client="c2")) == []
    assert committed(node) == 0

    abort(twin, owner)
    join(twin, client="c2", session_ns=LONG)
    assert values(poll(twin, client="c2")) == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["ack", "nack"])
def test_what_is_held_is_settled_or_given_back_by_nobody_else(how: str) -> None:
    node, owner = shop("a")
    (leased,) = poll(node)
    add(node, owner, leased)

    if how == "ack":
        assert ack_code(node, leased) is Code.RECEIPT_STALE
    else:
        assert refused_code(node, Nack(receipt=leased.receipt)) is Code.RECEIPT_STALE

    assert values(poll(node, client="c2")) == []
    assert lag(node).lag == 1
    commit(node, owner)
    assert lag(node).lag == 0


def test_what_is_held_stays_held_when_its_member_is_gone() -> None:
    node, owner = shop(*"ab")
    add(node, owner, by_value(poll(node))["a"])

    node.ask(Leave(group="shop", member_id=MEMBER), Done)

    assert values(poll(node, client="c2")) == ["b"]
    abort(node, owner)
    assert "a" in everything(node)


def test_the_same_receipts_added_again_change_nothing() -> None:
    node, owner = shop(*"ab")
    leased = poll(node)
    add(node, owner, *leased)
    add(node, owner, *leased)
    add(node, owner, leased[0], leased[0])

    commit(node, owner)

    assert committed(node) == 2


def test_receipts_that_another_transaction_holds_are_stale() -> None:
    node, owner = shop("a")
    other = init(node, "other", timeout_ns=LONG)
    begin(node, other)
    (leased,) = poll(node)
    add(node, owner, leased)

    command = AddOffsets(owner=other, group="shop", receipts=(leased.receipt,))

    assert refused_code(node, command) is Code.RECEIPT_STALE
    abort(node, other)
    commit(node, owner)
    assert committed(node) == 1


@pytest.mark.parametrize("kind", ["stale", "invalid", "foreign", "offset", "member"])
def test_progress_is_taken_as_a_whole_or_not_at_all(kind: str) -> None:
    node, owner = shop(*"ab")
    join(node, "other", mode=Mode.SHARED, session_ns=LONG)
    leased = by_value(poll(node))
    foreign = poll(node, "other")[0]
    ack(node, leased["b"])
    receipts = [leased["a"].receipt]
    offsets: dict[LogId, int] = {}
    member: str | None = None
    match kind:
        case "stale":
            receipts.append(leased["b"].receipt)
        case "invalid":
            receipts.append("orders:0:0:1:nonsense")
        case "foreign":
            receipts.append(foreign.receipt)
        case "offset":
            offsets, member = {ORDERS: 99}, MEMBER
        case _:
            offsets, member = {ORDERS: 1}, "nobody"
    command = AddOffsets(
        owner=owner,
        group="shop",
        receipts=tuple(receipts),
        offsets={log: Offset(offset) for log, offset in offsets.items()},
        member_id=member,
    )

    assert refused_code(node, command) in {
        Code.RECEIPT_STALE,
        Code.RECEIPT_INVALID,
        Code.OFFSET_OUT_OF_RANGE,
        Code.MEMBER_NOT_FOUND,
    }

    assert ack_code(node, leased["a"]) is None, "the lease is as it was"
    abort(node, owner)
    assert committed(node) == 2


# The end


def test_after_an_abort_the_lease_runs_on_to_its_deadline() -> None:
    node, owner = shop("a")
    (leased,) = poll(node, visibility_ns=50 * SECOND)
    add(node, owner, leased)
    node.advance(10 * SECOND)
    abort(node, owner)
    assert values(poll(node, client="c2")) == []
    node.advance(40 * SECOND - 1)
    assert values(poll(node, client="c2")) == []
    twin_is_acked = ack_code(node.twin(), leased)
    assert twin_is_acked is Code.RECEIPT_STALE, "leases do not survive a restart"

    node.advance(1)

    assert [(each.value, each.attempt) for each in poll(node, client="c2")] == [(b"a", 2)]


def test_after_an_abort_the_lease_can_be_settled_by_its_receipt() -> None:
    node, owner = shop(*"ab")
    leased = by_value(poll(node))
    add(node, owner, leased["a"])
    abort(node, owner)

    assert ack_code(node, leased["a"]) is None

    assert committed(node) == 1
    begin(node, owner)
    add(node, owner, leased["b"])
    commit(node, owner)
    assert committed(node) == 2


def test_after_an_abort_a_lease_that_ran_out_meanwhile_is_over_at_once() -> None:
    node, owner = shop("a")
    (leased,) = poll(node, visibility_ns=5 * SECOND)
    add(node, owner, leased)
    node.advance(20 * SECOND)
    waiting = begin_poll(node, client="c2")
    assert not node.is_answered(waiting)

    abort(node, owner)
    node.advance(1)

    assert polled(node, waiting) == ["a"]
    assert ack_code(node, leased) is Code.RECEIPT_STALE


def test_a_commit_settles_what_was_held_and_the_position_moves_over_it() -> None:
    node, owner = shop(*"abcd")
    leased = by_value(poll(node))
    ack(node, leased["b"])
    add(node, owner, leased["a"], leased["d"])
    assert lag(node).lag == 3
    commit(node, owner)

    assert committed(node) == 2
    assert lag(node).lag == 1
    node.restart(without_snapshots=True)
    assert committed(node) == 2
    assert everything(node) == ["c"]


def test_two_transactions_hold_messages_of_one_partition_each_for_itself() -> None:
    node, owner = shop(*"abcd")
    other = init(node, "other", timeout_ns=LONG)
    begin(node, other)
    leased = by_value(poll(node))
    add(node, owner, leased["a"], leased["c"])
    add(node, other, leased["b"])
    abort(node, other)
    assert ack_code(node, leased["b"]) is None
    commit(node, owner)

    assert committed(node) == 3
    assert everything(node) == ["d"]


def test_a_plain_commit_over_what_is_held_settles_it_whatever_becomes_of_the_transaction() -> None:
    node = DrivenNode()
    create(node)
    publish(node, *"abc")
    join(node, session_ns=LONG)
    owner = init(node)
    begin(node, owner)
    add(node, owner, poll(node)[0])

    command = CommitOffsets(group="shop", offsets={ORDERS: Offset(2)}, member_id=MEMBER)
    node.ask(command, Offsets)
    abort(node, owner)

    assert committed(node) == 2
    assert everything_of(node) == ["c"]
