"""Who acks a message that became a dead letter is told that it was too late."""

import pytest

from goqueue.model import SECOND, Code, Offset, Refused
from goqueue.model.requests import (
    AddOffsets,
    CommitOffsets,
    Done,
    Offsets,
    PositionsReset,
    Redrive,
    Redriven,
    Reject,
    ResetOffsets,
    Returned,
    Strategy,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import begin, init
from tests.unit.broker.users import (
    LETTERS,
    ORDERS,
    Delivery,
    ack,
    create,
    poll,
    publish,
    read_values,
    reject,
    shop,
    values,
)


def code_of(node: DrivenNode, *acked: Delivery) -> list[Code | None]:
    return [settled.code for settled in ack(node, *acked)]


def exhausted() -> tuple[DrivenNode, list[Delivery]]:
    """Two messages, the first acked in time, the second not."""
    node = shop(max_deliveries=1, visibility_ns=10 * SECOND)
    publish(node, "a", "b")
    found = poll(node)
    assert code_of(node, found[0]) == [None]
    node.advance(11 * SECOND)
    assert read_values(node, LETTERS) == ["b"]
    return node, found


def test_an_ack_of_a_message_that_became_a_dead_letter_is_stale() -> None:
    node, found = exhausted()

    assert code_of(node, *found) == [None, Code.RECEIPT_STALE]


@pytest.mark.parametrize("without_snapshots", [True, False])
def test_it_is_stale_after_a_restart_too(without_snapshots: bool) -> None:
    node, found = exhausted()
    if not without_snapshots:
        node.stop()
    node.restart(without_snapshots=without_snapshots)

    assert code_of(node, *found) == [None, Code.RECEIPT_STALE]


def test_an_ack_of_a_rejected_message_is_stale() -> None:
    node = shop()
    publish(node, "a")
    found = poll(node)
    reject(node, found[0])

    assert code_of(node, *found) == [Code.RECEIPT_STALE]


def test_an_ack_is_stale_while_the_dead_letter_is_on_its_way() -> None:
    node = shop(max_deliveries=1, visibility_ns=10 * SECOND)
    create(node, "orders.dlq")
    publish(node, "a")
    found = poll(node)
    node.slow_down(LETTERS)
    node.advance(11 * SECOND)

    assert code_of(node, *found) == [Code.RECEIPT_STALE]
    node.speed_up()
    assert read_values(node, LETTERS) == ["a"]


def test_an_ack_of_a_dead_letter_is_stale_also_if_the_group_committed_past_it() -> None:
    node = shop()
    create(node, "orders.dlq")
    publish(node, "a", "b")
    found = poll(node)
    node.slow_down(LETTERS)
    rejected = node.begin(Reject(receipt=found[0].receipt))
    node.ask(CommitOffsets(group="shop", offsets={ORDERS: Offset(2)}, member_id="c1-c100"), Offsets)
    assert code_of(node, *found) == [Code.RECEIPT_STALE, None]
    node.speed_up()
    node.reply(rejected, Returned)
    assert read_values(node, LETTERS) == ["a"]

    assert code_of(node, *found) == [Code.RECEIPT_STALE, None]
    node.restart()
    assert code_of(node, *found) == [Code.RECEIPT_STALE, None]


def test_a_transaction_takes_no_ack_of_a_dead_letter() -> None:
    node, found = exhausted()
    owner = init(node)
    begin(node, owner)
    command = AddOffsets(owner=owner, group="shop", receipts=(found[1].receipt,), offsets={})

    with pytest.raises(Refused) as refused:
        node.ask(command, Done)
    assert refused.value.code is Code.RECEIPT_STALE


def test_a_message_that_is_delivered_again_after_a_reset_can_be_acked() -> None:
    node, _ = exhausted()
    command = ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST)
    node.ask(command, PositionsReset)
    again = poll(node)
    assert values(again) == ["a", "b"]

    assert code_of(node, *again) == [None, None]
    assert code_of(node, *again) == [None, None]


def test_a_redriven_message_can_be_acked() -> None:
    node, found = exhausted()
    assert node.ask(Redrive(topic="orders", messages_max=10), Redriven).moved == 1
    again = poll(node)

    assert code_of(node, *again) == [None]
    assert code_of(node, *again, found[1]) == [None, Code.RECEIPT_STALE]
