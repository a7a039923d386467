"""Polls with a limit on what their member holds unsettled, over all of its partitions."""

import msgspec

from goqueue.model import SECOND
from goqueue.model.requests import Leased, Poll
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ack, create, deliveries, join, nack, polling, publish, values


def shop(messages: int = 9) -> DrivenNode:
    node = DrivenNode()
    create(node, "orders", partitions=3)
    for number in range(messages):
        publish(node, str(number), targets=[number % 3])
    join(node)
    return node


def limited(in_flight_max: int, wait_ns: int = 0) -> Poll:
    return msgspec.structs.replace(polling(wait_ns=wait_ns), in_flight_max=in_flight_max)


def test_a_poll_leases_no_more_than_its_member_may_hold_over_all_partitions() -> None:
    node = shop()
    held = deliveries(node.ask(limited(4), Leased))
    assert len(held) == 4
    assert len({each.log for each in held}) > 1
    assert deliveries(node.ask(limited(4), Leased)) == []


def test_what_is_settled_makes_room_for_a_poll_that_waits() -> None:
    node = shop()
    held = deliveries(node.ask(limited(4), Leased))
    waiting = node.begin(limited(4, wait_ns=20 * SECOND))
    assert not node.is_answered(waiting)
    ack(node, held[0])
    assert len(deliveries(node.reply(waiting, Leased))) == 1


def test_a_lease_that_runs_out_makes_room_as_well() -> None:
    node = shop(messages=1)
    [held] = deliveries(node.ask(limited(1), Leased))
    waiting = node.begin(limited(1, wait_ns=50 * SECOND))
    node.advance(31 * SECOND)
    [again] = deliveries(node.reply(waiting, Leased))
    assert (again.attempt, values([again])) == (held.attempt + 1, values([held]))


def test_another_member_has_a_limit_of_its_own_and_no_limit_is_none() -> None:
    node = shop()
    deliveries(node.ask(limited(2), Leased))
    assert len(deliveries(node.ask(polling(), Leased))) == 7
    assert deliveries(node.ask(limited(2), Leased)) == []


def test_a_message_that_is_returned_does_not_count() -> None:
    node = shop(messages=2)
    [held] = deliveries(node.ask(limited(1), Leased))
    nack(node, held)
    assert len(deliveries(node.ask(limited(1), Leased))) == 1
