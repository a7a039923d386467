"""Delivery counts: when they become durable, and what a crash may take of them."""

from goqueue.model import MILLISECOND
from tests.unit.broker.users import ack, nack, poll, publish, shop


def test_a_crash_right_after_a_first_delivery_may_forget_its_count() -> None:
    node = shop()
    publish(node, "a")
    poll(node)
    node.restart()

    assert [each.attempt for each in poll(node)] == [1]


def test_a_first_delivery_is_counted_soon_though_nobody_waits_for_it() -> None:
    node = shop()
    publish(node, "a")
    poll(node)
    node.advance(50 * MILLISECOND)
    node.restart()

    assert [each.attempt for each in poll(node)] == [2]


def test_a_first_delivery_is_counted_with_the_next_change_of_the_journal() -> None:
    node = shop()
    publish(node, "a", "b")
    first, _ = poll(node)
    ack(node, first)
    node.restart()

    assert [(each.value, each.attempt) for each in poll(node)] == [(b"b", 2)]


def test_a_redelivery_is_counted_before_it_is_handed_out() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    nack(node, first, delay_ns=0)
    assert [each.attempt for each in poll(node)] == [2]
    node.restart()

    assert [each.attempt for each in poll(node)] == [3]


def test_many_first_deliveries_do_not_wait_for_a_change_of_others() -> None:
    node = shop()
    publish(node, *map(str, range(300)))
    for _ in range(300):
        poll(node, count=1)
    node.restart()
    attempts = [each.attempt for each in poll(node, count=300)]

    assert attempts.count(2) >= 256
