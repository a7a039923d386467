"""Groups in key order: messages of one key one after the other, keys beside each other."""

from goqueue.model import SECOND, LogId
from goqueue.model.requests import (
    Done,
    Leave,
    Mode,
    Reject,
)
from tests.unit.broker.users import (
    ack,
    begin_poll,
    join,
    nack,
    poll,
    polled,
    publish,
    shop,
    values,
)


def test_in_key_order_the_next_of_a_key_waits_for_the_one_before() -> None:
    node = shop(mode=Mode.KEY_ORDERED)
    join(node, client="c2")
    publish(node, "k=1", "k=2", "j=1", "free", "k=3")

    first = poll(node)
    assert values(first) == ["1", "1", "free"]
    assert poll(node, client="c2") == []
    ack(node, first[0])
    (second,) = poll(node, client="c2")
    assert second.value == b"2"
    assert poll(node) == []


def test_a_nack_holds_up_its_key_and_no_other() -> None:
    node = shop(mode=Mode.KEY_ORDERED)
    publish(node, "k=1", "k=2", "j=1", "j=2")
    first, other = poll(node)
    nack(node, first)
    ack(node, other)

    assert values(poll(node)) == ["2"]
    node.advance(SECOND)
    again = poll(node)
    assert [(each.value, each.attempt) for each in again] == [(b"1", 2)]
    ack(node, *again)
    assert values(poll(node)) == ["2"]


def test_a_dead_letter_lets_the_next_of_its_key_through() -> None:
    node = shop(mode=Mode.KEY_ORDERED, max_deliveries=1)
    publish(node, "k=1", "k=2")
    (first,) = poll(node)
    waiting = begin_poll(node)
    nack(node, first)

    assert polled(node, waiting) == ["2"]


def test_key_order_holds_over_a_restart() -> None:
    node = shop(mode=Mode.KEY_ORDERED)
    publish(node, "k=1", "k=2", "k=3")
    ack(node, *poll(node))
    (second,) = poll(node)
    node.advance(SECOND)
    node.restart()

    assert [(each.value, each.attempt) for each in poll(node)] == [(second.value, 2)]


def test_key_order_holds_when_a_member_dies_in_the_middle_of_a_key() -> None:
    node = shop(mode=Mode.KEY_ORDERED)
    join(node, client="c2")
    publish(node, "k=1", "k=2")
    poll(node)
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)

    assert values(poll(node, client="c2")) == ["1"]
    assert poll(node, client="c2") == []


def test_a_group_that_becomes_key_ordered_keeps_the_order_behind_what_is_dying() -> None:
    node = shop(mode=Mode.SHARED)
    publish(node, "k=1", "k=2", "k=3")
    _, second, _ = poll(node)
    node.slow_down(LogId("orders.dlq", 0))
    node.begin(Reject(receipt=second.receipt))
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)
    join(node, mode=Mode.KEY_ORDERED)
    assert values(poll(node)) == ["1"]
    node.speed_up()

    assert poll(node) == []
