"""Polls that wait: what wakes them, and what ends them."""

import pytest

from goqueue.model import SECOND, Code, Refused
from goqueue.model.requests import (
    DeleteGroup,
    DeleteTopic,
    Done,
    Leased,
    Leave,
    Mode,
)
from tests.unit.broker.users import (
    begin_poll,
    create,
    join,
    nack,
    poll,
    polled,
    polling,
    publish,
    shop,
)


def test_a_waiting_poll_is_answered_by_a_publish_at_once() -> None:
    node = shop()
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    publish(node, "a")

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_ends_empty_when_its_time_is_over() -> None:
    node = shop()
    waiting = begin_poll(node, wait_ns=10 * SECOND)
    node.advance(10 * SECOND - 1)
    assert not node.is_answered(waiting)
    node.advance(1)

    assert polled(node, waiting) == []


def test_a_poll_that_does_not_wait_gets_what_has_yet_to_be_read_from_the_disk() -> None:
    node = shop()
    publish(node, "a")
    node.reads_are_late = True
    request = node.begin(polling())
    assert not node.is_answered(request)
    node.finish_reads()

    assert polled(node, request) == ["a"]


def test_a_waiting_poll_is_woken_by_a_lease_that_ends() -> None:
    node = shop(mode=Mode.SHARED, visibility_ns=5 * SECOND)
    join(node, client="c2")
    publish(node, "a")
    poll(node)
    waiting = begin_poll(node, client="c2")
    node.advance(5 * SECOND)

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_is_woken_by_a_nack_and_by_the_end_of_a_rest() -> None:
    node = shop()
    publish(node, "a", "b")
    first, second = poll(node)
    at_once = begin_poll(node)
    nack(node, first, delay_ns=0)
    assert polled(node, at_once) == ["a"]
    later = begin_poll(node)
    nack(node, second)
    assert not node.is_answered(later)
    node.advance(SECOND)

    assert polled(node, later) == ["b"]


def test_a_waiting_poll_is_woken_by_a_member_that_leaves() -> None:
    node = shop()
    join(node, client="c2")
    publish(node, "a")
    poll(node)
    waiting = begin_poll(node, client="c2")
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_is_woken_by_a_new_assignment() -> None:
    node = shop()
    join(node, client="c0")
    publish(node, "a")
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    node.ask(Leave(group="shop", member_id="c0-c000"), Done)

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_is_woken_by_a_topic_that_its_member_subscribed_to_since() -> None:
    node = shop()
    create(node, "more")
    waiting = begin_poll(node)
    join(node, topics=("orders", "more"), member_id="c1-c100")
    publish(node, "a", topic="more")

    assert polled(node, waiting) == ["a"]


def test_polls_that_wait_are_served_in_the_order_in_which_they_came() -> None:
    node = shop(mode=Mode.SHARED)
    join(node, client="c2")
    second, first = begin_poll(node, client="c2"), begin_poll(node)
    publish(node, "a")

    assert polled(node, second) == ["a"]
    assert not node.is_answered(first)


def test_a_poll_whose_caller_left_takes_nothing() -> None:
    node = shop()
    waiting = begin_poll(node)
    node.leave(waiting)
    publish(node, "a")

    assert not node.is_answered(waiting)
    assert [each.attempt for each in poll(node)] == [1]


def test_a_waiting_poll_of_a_deleted_group_ends_with_that() -> None:
    node = shop()
    waiting = begin_poll(node)
    node.ask(DeleteGroup(group="shop"), Done)

    with pytest.raises(Refused) as refused:
        node.reply(waiting, Leased)
    assert refused.value.code is Code.GROUP_NOT_FOUND


def test_a_waiting_poll_of_a_member_that_left_ends_with_that() -> None:
    node = shop()
    waiting = begin_poll(node)
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)

    with pytest.raises(Refused) as refused:
        node.reply(waiting, Leased)
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_a_waiting_poll_outlives_the_deletion_of_its_topic() -> None:
    node = shop()
    create(node, "more")
    join(node, topics=("orders", "more"), member_id="c1-c100")
    waiting = begin_poll(node)
    node.ask(DeleteTopic(name="orders"), Done)
    assert not node.is_answered(waiting)
    publish(node, "a", topic="more")

    assert polled(node, waiting) == ["a"]


def test_a_node_that_stops_lets_nobody_wait() -> None:
    node = shop()
    waiting = begin_poll(node)
    node.stop()

    assert polled(node, waiting) == []
    with pytest.raises(Refused) as refused:
        poll(node)
    assert refused.value.code is Code.BROKER_UNAVAILABLE
