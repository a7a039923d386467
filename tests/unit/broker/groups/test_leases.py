"""Leases that are given back before their messages were begun: ready at once, and not counted."""

import pytest

from goqueue.model import SECOND, Code, LogId, Refused, RequestId
from goqueue.model.requests import (
    DescribeReliability,
    Done,
    Drain,
    Leave,
    Mode,
    Release,
    Released,
    Reliability,
    Settlement,
    TopicConfig,
    lease_of,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ORDERS,
    Delivery,
    ack,
    ack_code,
    begin_poll,
    create,
    join,
    letters,
    nack,
    poll,
    polled,
    publish,
    shop,
    values,
)


def release(node: DrivenNode, *released: Delivery) -> tuple[Settlement, ...]:
    command = Release(leases=tuple(map(lease_of, tuple(delivery.receipt for delivery in released))))
    return node.ask(command, Released).settlements


def release_code(node: DrivenNode, delivery: Delivery) -> Code | None:
    return release(node, delivery)[0].code


def attempts(found: list[Delivery]) -> list[int]:
    return [delivery.attempt for delivery in found]


def test_what_is_released_is_ready_at_once_and_was_not_delivered() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    _, second, third = poll(node)

    settlements = release(node, second, third)

    assert [(each.log, each.count) for each in settlements] == [(ORDERS, 1), (ORDERS, 1)]
    again = poll(node)
    assert values(again) == ["b", "c"]
    assert attempts(again) == [1, 1]


def test_a_message_may_be_released_any_number_of_times_and_never_dies_of_it() -> None:
    node = shop(max_deliveries=2)
    publish(node, "a")
    (first,) = poll(node)
    nack(node, first, delay_ns=0)
    for _ in range(5):
        (held,) = poll(node)
        assert held.attempt == 2
        release(node, held)

    assert letters(node) == []
    (last,) = poll(node)
    nack(node, last)
    assert letters(node) == ["a"]


def test_only_the_delivery_of_the_lease_is_taken_back() -> None:
    node = shop()
    publish(node, "a", "b")
    first, _ = poll(node, visibility_ns=SECOND)
    nack(node, first, delay_ns=0)
    node.advance(SECOND)
    mixed = poll(node)
    assert attempts(mixed) == [2, 2]
    nack(node, mixed[1], delay_ns=0)
    (third,) = poll(node)
    assert third.attempt == 3

    release(node, mixed[0], third)

    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 2), (b"b", 3)]


def test_a_released_receipt_is_stale_for_every_use() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    release(node, first)

    assert release_code(node, first) is Code.RECEIPT_STALE
    assert ack_code(node, first) is Code.RECEIPT_STALE
    poll(node)
    assert release_code(node, first) is Code.RECEIPT_STALE


def test_a_lease_that_is_over_cannot_be_released() -> None:
    node = shop()
    publish(node, "a", "b")
    first, second = poll(node, visibility_ns=SECOND)
    ack(node, second)
    assert release_code(node, second) is Code.RECEIPT_STALE
    node.advance(SECOND)

    assert release_code(node, first) is Code.RECEIPT_STALE
    (again,) = poll(node)
    assert again.attempt == 2


def test_each_receipt_of_a_release_stands_for_itself() -> None:
    node = shop()
    publish(node, "a")
    (held,) = poll(node)
    command = Release(leases=tuple(map(lease_of, ("nonsense", held.receipt, held.receipt))))

    codes = [each.code for each in node.ask(command, Released).settlements]

    assert codes == [Code.RECEIPT_INVALID, None, Code.RECEIPT_STALE]


def test_whoever_waits_gets_what_is_released() -> None:
    node = shop(mode=Mode.SHARED)
    join(node, client="c2", mode=Mode.SHARED)
    publish(node, "a")
    (held,) = poll(node)
    waiting = begin_poll(node, client="c2")
    assert not node.is_answered(waiting)

    release(node, held)

    assert polled(node, RequestId(waiting)) == ["a"]


def test_in_key_order_the_released_message_comes_before_the_next_of_its_key() -> None:
    node = shop(mode=Mode.KEY_ORDERED)
    publish(node, "k=a", "k=b")
    (first,) = poll(node)
    release(node, first)

    (again,) = poll(node)
    assert (again.value, again.attempt) == (b"a", 1)
    ack(node, again)
    assert values(poll(node)) == ["b"]


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_release_that_was_answered_outlives_a_restart(without_snapshots: bool) -> None:
    node = shop()
    publish(node, "a", "b")
    first, second = poll(node)
    nack(node, first, delay_ns=0)
    (again,) = poll(node)
    assert again.attempt == 2
    release(node, second, again)
    node.stop()
    node.restart(without_snapshots=without_snapshots)

    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 2), (b"b", 1)]


def test_a_release_after_a_crash_is_stale_and_takes_nothing_back() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    nack(node, first, delay_ns=0)
    (second,) = poll(node)
    node.restart()

    assert release_code(node, second) is Code.RECEIPT_STALE
    (third,) = poll(node)
    assert third.attempt == 3


def test_releases_are_counted_and_free_the_hands_of_the_member() -> None:
    node = shop()
    publish(node, *map(str, range(10)))
    held = poll(node)
    release(node, *held)

    counts = node.ask(DescribeReliability(), Reliability)
    assert (counts.releases, counts.in_flight, counts.redeliveries) == (10, 0, 0)
    assert attempts(poll(node)) == [1] * 10


def test_a_release_by_a_member_that_left_is_stale() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig())
    member = join(node)
    publish(node, "a")
    (held,) = poll(node)
    node.ask(Leave(group="shop", member_id=member.member_id), Done)

    assert release_code(node, held) is Code.RECEIPT_STALE
    assert held.log == LogId("orders", 0)


def test_a_drained_member_has_no_waiting_poll_and_gets_nothing_more() -> None:
    node = shop(mode=Mode.SHARED)
    publish(node, "a", "b")
    first, second = poll(node)
    waiting = begin_poll(node)

    node.ask(Drain(group="shop", member_id="c1-c100"), Done)

    assert polled(node, waiting) == []
    release(node, second)
    late = begin_poll(node)
    assert polled(node, late) == [], "a poll that was on its way is answered at once"
    assert ack_code(node, first) is None, "its leases stay"
    join(node, client="c2", mode=Mode.SHARED)
    (again,) = poll(node, client="c2")
    assert (again.value, again.attempt) == (b"b", 1)


def test_a_drained_member_that_joins_again_is_delivered_to() -> None:
    node = shop(mode=Mode.SHARED)
    node.ask(Drain(group="shop", member_id="c1-c100"), Done)
    publish(node, "a")
    assert values(poll(node)) == []

    join(node, mode=Mode.SHARED, member_id="c1-c100")

    assert values(poll(node)) == ["a"]


def test_draining_ends_polls_of_nobody_else() -> None:
    node = shop(mode=Mode.SHARED)
    join(node, client="c2", mode=Mode.SHARED)
    waiting = begin_poll(node, client="c2")

    node.ask(Drain(group="shop", member_id="c1-c100"), Done)

    assert not node.is_answered(waiting)
    publish(node, "a")
    assert polled(node, waiting) == ["a"]


def test_who_is_no_member_cannot_be_drained() -> None:
    node = shop()
    with pytest.raises(Refused, match="member_not_found"):
        node.ask(Drain(group="shop", member_id="nobody"), Done)
    with pytest.raises(Refused, match="group_not_found"):
        node.ask(Drain(group="none", member_id="c1-c100"), Done)
