"""What the answer to a publish waits for: nothing, or the commit."""

import pytest

from goqueue.model import Code, LogId, Message, Refused
from goqueue.model.requests import (
    Acks,
    InitProducer,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ORDERS, create, read_values

PUBLISHED = "goqueue_broker_messages_published_total"
FAILED = "goqueue_broker_messages_failed_total"


def batch(*values: bytes) -> bytearray:
    return build([Message(value=value) for value in values])


def total(node: DrivenNode, name: str) -> float:
    [family] = [each for each in node.node.metrics() if each.name == name]
    return sum(number for _, number in filter(None, family.samples) if isinstance(number, int))


def test_without_acks_the_answer_comes_at_once_and_has_no_offsets() -> None:
    node = DrivenNode()
    create(node)
    node.slow_down(ORDERS)
    published = node.ask(Publish(topic="orders", batch=batch(b"a"), acks=Acks.NONE), Published)

    assert (published.targets, published.placed, published.is_unconfirmed) == ([0], (), True)
    node.speed_up()
    assert read_values(node) == ["a"]


@pytest.mark.parametrize("acks", [Acks.LEADER, Acks.ALL])
def test_on_one_node_leader_and_all_wait_for_the_sync(acks: Acks) -> None:
    node = DrivenNode()
    create(node)
    node.slow_down(ORDERS)
    request = node.begin(Publish(topic="orders", batch=batch(b"a"), acks=acks))

    assert not node.is_answered(request)
    node.speed_up()
    published = node.reply(request, Published)
    assert [(each.partition, each.first) for each in published.placed] == [(0, 0)]
    assert not published.is_unconfirmed


def test_messages_without_acks_are_counted_when_they_are_stored_and_once() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    node.slow_down(ORDERS, LogId("orders", 1))
    command = Publish(
        topic="orders", batch=batch(b"a", b"b", b"c"), targets=[0, 1, 9], acks=Acks.NONE
    )
    node.ask(command, Published)
    assert (total(node, PUBLISHED), total(node, FAILED)) == (0, 0)
    node.speed_up()
    assert (total(node, PUBLISHED), total(node, FAILED)) == (2, 1)


def test_without_acks_a_batch_that_cannot_be_routed_at_all_is_answered_in_full() -> None:
    node = DrivenNode()
    create(node)
    command = Publish(topic="orders", batch=batch(b"a"), targets=[5], acks=Acks.NONE)
    published = node.ask(command, Published)
    assert (published.placed, published.is_unconfirmed) == ((), False)
    assert total(node, FAILED) == 1


def test_a_producer_with_an_id_needs_its_answer() -> None:
    node = DrivenNode()
    create(node)
    granted = node.ask(InitProducer(), ProducerGranted)
    stamp = ProducerStamp(producer_id=granted.producer_id, epoch=granted.epoch, sequence=0)
    command = Publish(
        topic="orders", batch=batch(b"a"), targets=[0], producer=stamp, acks=Acks.NONE
    )
    with pytest.raises(Refused) as refused:
        node.ask(command, Published)
    assert refused.value.code is Code.REQUEST_INVALID
    assert refused.value.facts["field"] == "acks"
    assert read_values(node) == []
