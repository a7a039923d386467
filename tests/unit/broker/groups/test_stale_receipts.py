"""Receipts whose lease is over, and handles that are none of ours."""

import pytest

from goqueue.model import SECOND, Code, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    DeleteGroup,
    Done,
    Extend,
    Leave,
    Mode,
    Nack,
    PositionsReset,
    Reject,
    ResetOffsets,
    Strategy,
    TopicConfig,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    Delivery,
    ack,
    ack_code,
    create,
    join,
    lag,
    nack,
    poll,
    publish,
)


def shop(config: TopicConfig | None = None, mode: Mode | None = None) -> DrivenNode:
    node = DrivenNode()
    create(node, config=config)
    join(node, mode=mode, session_ns=600 * SECOND)
    return node


def assert_stale(node: DrivenNode, delivery: Delivery) -> None:
    """No use of a receipt has an effect any more."""
    assert ack_code(node, delivery) is Code.RECEIPT_STALE
    for command in (
        Nack(receipt=delivery.receipt),
        Reject(receipt=delivery.receipt),
        Extend(receipt=delivery.receipt, timeout_ns=SECOND),
    ):
        with pytest.raises(Refused) as refused:
            node.ask(command, Done)
        assert refused.value.code is Code.RECEIPT_STALE


def test_a_receipt_is_stale_when_its_lease_ran_out() -> None:
    node = shop(TopicConfig(visibility_ns=SECOND))
    publish(node, "a")
    (first,) = poll(node)
    node.advance(SECOND)
    assert_stale(node, first)
    (again,) = poll(node)

    assert_stale(node, first)
    assert ack_code(node, again) is None


def test_a_receipt_is_stale_when_its_lease_ran_out_and_the_node_has_not_come_to_it() -> None:
    node = shop(TopicConfig(visibility_ns=SECOND))
    publish(node, "a")
    (first,) = poll(node)
    node.runs_later_turns = False
    node.now_ns += SECOND
    assert_stale(node, first)


def test_a_receipt_is_stale_after_a_nack() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    nack(node, first)

    assert_stale(node, first)


def test_a_receipt_is_stale_after_a_reset() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST), PositionsReset)

    assert_stale(node, first)
    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 1)]


def test_a_receipt_is_stale_when_its_holder_left() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)

    assert_stale(node, first)


def test_a_receipt_is_stale_after_a_restart() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.restart()
    assert_stale(node, first)
    (again,) = poll(node)

    assert_stale(node, first)
    assert again.attempt == 2


def test_a_receipt_is_stale_when_its_group_was_deleted_and_made_again() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(DeleteGroup(group="shop"), Done)
    assert_stale(node, first)
    join(node)
    ack(node, *poll(node))

    assert_stale(node, first)


def test_a_receipt_of_a_deleted_group_is_stale_in_the_next_life_too() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(DeleteGroup(group="shop"), Done)
    node.stop()
    node.restart()
    join(node, group="other")
    ack(node, *poll(node, group="other"))

    assert_stale(node, first)


def test_a_receipt_of_one_group_says_nothing_about_another() -> None:
    node = shop()
    join(node, group="audit", client="a1")
    publish(node, "a")
    (mine,) = poll(node)
    (theirs,) = poll(node, group="audit", client="a1")
    ack(node, mine)

    assert lag(node, "audit").lag == 1
    assert ack_code(node, theirs) is None


@pytest.mark.parametrize(
    "handle",
    ["", ":", "orders:0:0:1", "orders:0:0:1:1.1.1.0000000000000000", "x" * 10_000, "é", "\ud800"],
)
def test_a_handle_that_is_none_of_ours_is_invalid(handle: str) -> None:
    node = shop()
    publish(node, "a")
    poll(node)

    assert node.ask(Ack(receipts=(handle,)), Acked).settlements[0].refused is Code.RECEIPT_INVALID
    for command in (Nack(receipt=handle), Reject(receipt=handle)):
        with pytest.raises(Refused) as refused:
            node.ask(command, Done)
        assert refused.value.code is Code.RECEIPT_INVALID


def test_a_receipt_for_another_offset_cannot_be_made_from_one() -> None:
    node = shop()
    publish(node, "a", "b")
    (first,) = poll(node, count=1)
    forged = first.receipt.replace("orders:0:0:", "orders:0:1:")

    assert node.ask(Ack(receipts=(forged,)), Acked).settlements[0].refused is Code.RECEIPT_INVALID
