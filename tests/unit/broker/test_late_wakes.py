"""A node that was away hears what its callers sent meanwhile before it takes their leases."""

import pytest

from goqueue.model import SECOND, Code, Refused, Woke
from goqueue.model.requests import Beat, Heartbeat
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ack_code, create, join, poll, publish

SESSION = 10 * SECOND


def shop() -> tuple[DrivenNode, Heartbeat]:
    node = DrivenNode()
    create(node)
    publish(node, "a", "b")
    joined = join(node, session_ns=SESSION)
    beat = Heartbeat(group="shop", member_id=joined.member_id, generation=joined.generation)
    return node, beat


def stall(node: DrivenNode, nanoseconds: int) -> None:
    """The process is stopped for so long; then its timer is seen first."""
    node.now_ns += nanoseconds
    node.take(Woke())


def test_a_session_does_not_end_because_the_node_was_stopped() -> None:
    node, beat = shop()
    stall(node, 60 * SECOND)

    assert node.ask(beat, Beat).generation == beat.generation
    node.advance(SESSION - SECOND)
    assert node.ask(beat, Beat).generation == beat.generation


def test_a_lease_that_ran_out_while_the_node_was_stopped_may_be_acked() -> None:
    node, beat = shop()
    first, second = poll(node)
    stall(node, 60 * SECOND)
    assert ack_code(node, first) is None
    node.ask(beat, Beat)
    node.advance(2 * SECOND)

    assert ack_code(node, second) is Code.RECEIPT_STALE
    assert [each.attempt for each in poll(node)] == [2]


def test_who_is_not_heard_then_is_gone() -> None:
    node, beat = shop()
    stall(node, 60 * SECOND)
    node.advance(2 * SECOND)

    with pytest.raises(Refused) as refused:
        node.ask(beat, Beat)
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_a_node_that_is_always_late_ends_leases_and_sessions_all_the_same() -> None:
    node, beat = shop()
    poll(node)
    stall(node, 60 * SECOND)
    stall(node, 60 * SECOND)

    with pytest.raises(Refused):
        node.ask(beat, Beat)
