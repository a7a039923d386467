"""Groups and turns that are as large as the limits allow."""

import pytest

from goqueue.model import SECOND, Code, Message, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    DeleteTopic,
    DescribeGroup,
    Done,
    GroupDescription,
    Mode,
    Publish,
    Published,
    lease_of,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, join, poll

LONG_NAMES = [f"{number:04}{'x' * 240}" for number in range(400)]


def test_members_with_many_long_topics_do_not_stop_the_node() -> None:
    node = DrivenNode()
    for name in LONG_NAMES:
        create(node, name)
    refused: Refused | None = None
    for number in range(120):
        try:
            join(node, client=f"c{number}", topics=LONG_NAMES, mode=Mode.SHARED)
        except Refused as refusal:
            refused = refusal
            break

    assert refused is None or refused.code is Code.QUOTA_EXCEEDED
    described = node.ask(DescribeGroup(group="shop"), GroupDescription)
    node.restart()
    again = node.ask(DescribeGroup(group="shop"), GroupDescription)
    assert len(again.members) == len(described.members) >= 20


def test_a_topic_that_hundreds_of_groups_read_can_be_deleted() -> None:
    node = DrivenNode()
    create(node)
    for number in range(400):
        join(node, group=f"g{number}", session_ns=600 * SECOND)
    node.ask(DeleteTopic(name="orders"), Done)
    node.restart()

    assert node.ask(DescribeGroup(group="g399"), GroupDescription).members[0].assigned == ()


@pytest.mark.parametrize("step", [1, 2])
def test_a_thousand_receipts_are_acked_at_once(step: int) -> None:
    node = DrivenNode()
    create(node)
    join(node, session_ns=600 * SECOND)
    batch = build([Message(value=b"x")] * 1000)
    node.ask(Publish(topic="orders", batch=batch), Published)
    taken = poll(node, count=1000)
    receipts = tuple(delivery.receipt for delivery in taken[::step])
    settlements = node.ask(Ack(leases=tuple(map(lease_of, receipts))), Acked).settlements
    node.restart()

    assert all(settlement.code is None for settlement in settlements)
    assert len(poll(node, count=1000)) == 1000 - len(receipts)
