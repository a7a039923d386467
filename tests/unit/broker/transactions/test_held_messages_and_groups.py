"""Messages that a transaction holds while their group is reset, deleted, ordered or followed."""

import pytest

from goqueue.model import SECOND, Code, Offset
from goqueue.model.requests import (
    AddOffsets,
    CommitOffsets,
    DeleteGroup,
    Done,
    Leave,
    Mode,
    Nack,
    Offsets,
    PositionsReset,
    ResetOffsets,
    Returned,
    Strategy,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.held_messages import (
    LONG,
    MEMBER,
    MINUTE,
    by_value,
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
    committed,
    create,
    join,
    poll,
    publish,
    values,
)

# Resets and deletions


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_reset_hands_out_all_but_what_is_held(is_commit: bool, restarts: bool) -> None:
    node, owner = shop(*"abcd")
    leased = by_value(poll(node))
    ack(node, leased["a"], leased["b"])
    add(node, owner, leased["c"])
    reset = ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST)
    node.ask(reset, PositionsReset)
    if restarts:
        node.restart(without_snapshots=True)
        join(node, client="c2", session_ns=LONG)

    assert values(poll(node, client="c2")) == ["a", "b", "d"]
    (commit if is_commit else abort)(node, owner)

    rest = values(poll(node, client="c2"))
    assert rest == ([] if is_commit else ["c"])


def test_a_deleted_group_takes_its_progress_along_and_the_transaction_commits() -> None:
    node, owner = shop(*"ab")
    add(node, owner, poll(node)[0])
    for member in (MEMBER, "c2-c200"):
        node.ask(Leave(group="shop", member_id=member), Done)
    node.ask(DeleteGroup(group="shop"), Done)
    join(node, session_ns=LONG)

    commit(node, owner)

    assert values(poll(node)) == ["a", "b"], "the namesake begins at the beginning"
    node.restart()
    assert values(poll(node)) == ["a", "b"]


# Keys


def test_the_next_message_of_a_key_waits_for_the_one_that_is_held() -> None:
    node, owner = shop("k=1", "k=2", "j=1", mode=Mode.KEY_ORDERED)
    leased = poll(node)
    assert values(leased) == ["1", "1"]
    ours = [each for each in leased if each.record.key == b"k"]
    add(node, owner, *ours)
    stay(node, owner, 2 * MINUTE)
    assert "2" not in values(poll(node, client="c2"))
    twin = node.twin()
    join(twin, client="c2", mode=Mode.KEY_ORDERED, session_ns=LONG)
    keys = [each.record.key for each in poll(twin, client="c2")]
    assert keys == [b"j"], "a restart changes nothing"

    commit(node, owner)
    commit(twin, owner)

    assert values(poll(node, client="c2")) == ["2"]
    assert values(poll(twin, client="c2")) == ["2"]


def test_after_an_abort_a_key_goes_on_with_the_one_that_was_held() -> None:
    node, owner = shop("k=1", "k=2", mode=Mode.KEY_ORDERED)
    (leased,) = poll(node, visibility_ns=5 * SECOND)
    add(node, owner, leased)
    node.advance(10 * SECOND)

    abort(node, owner)
    node.advance(1)

    (again,) = poll(node, client="c2")
    assert again.value == b"1"
    ack(node, again)
    assert values(poll(node, client="c2")) == ["2"]


# Offsets


def test_offsets_of_a_stream_hold_everything_below_until_the_end() -> None:
    node = DrivenNode()
    create(node)
    publish(node, *"abcde")
    join(node, session_ns=LONG)
    owner = init(node, timeout_ns=LONG)
    begin(node, owner)
    add(node, owner, offsets={ORDERS: 3}, member=MEMBER)
    assert values(poll(node)) == ["d", "e"]
    twin = node.twin()

    commit(node, owner)
    assert committed(node) == 3
    assert everything_of(node)[:2] == ["d", "e"]

    abort(twin, owner)
    join(twin, client="c9", session_ns=LONG)
    twin.ask(Leave(group="shop", member_id=MEMBER), Done)
    assert values(poll(twin, client="c9")) == list("abcde")


def test_lower_offsets_than_the_position_move_nothing_back() -> None:
    node = DrivenNode()
    create(node)
    publish(node, *"abc")
    node.ask(CommitOffsets(group="shop", offsets={ORDERS: Offset(2)}), Offsets)
    owner = init(node)
    begin(node, owner)
    add(node, owner, offsets={ORDERS: 1})

    commit(node, owner)

    assert committed(node) == 2


def test_offsets_added_twice_take_the_higher() -> None:
    node = DrivenNode()
    create(node)
    publish(node, *"abcd")
    node.ask(CommitOffsets(group="shop", offsets={ORDERS: Offset(0)}), Offsets)
    owner = init(node)
    begin(node, owner)
    for offset in (1, 3, 2):
        add(node, owner, offsets={ORDERS: offset})
    node.restart()

    commit(node, owner)

    assert committed(node) == 3


def test_the_lease_of_a_member_who_left_is_over_when_the_transaction_aborts() -> None:
    node, owner = shop("a")
    (first,) = poll(node)
    add(node, owner, first)
    node.ask(Leave(group="shop", member_id=MEMBER), Done)
    abort(node, owner)

    (again,) = poll(node, client="c2")
    assert again.attempt == 2
    assert ack(node, first)[0].code is Code.RECEIPT_STALE


def test_a_transaction_that_holds_a_message_does_not_take_a_receipt_of_an_earlier_delivery() -> (
    None
):
    node, owner = shop("a")
    (first,) = poll(node)
    node.ask(Nack(receipt=first.receipt, delay_ns=0), Returned)
    (second,) = poll(node)
    add(node, owner, second)

    stale = AddOffsets(owner=owner, group="shop", receipts=(first.receipt,))
    assert refused_code(node, stale) is Code.RECEIPT_STALE
    node.ask(AddOffsets(owner=owner, group="shop", receipts=(second.receipt,)), Done)
