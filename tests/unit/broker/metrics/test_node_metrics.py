"""What a node tells an operator first: ready or not, letters that lie, delays that are due."""

import contextlib

from goqueue.broker.metrics.counters import Counts
from goqueue.model import SECOND, Code, Offset, Refused
from goqueue.model.requests import (
    CheckHealth,
    DeleteTopic,
    DescribeNode,
    Done,
    NodeDescription,
    NodeHealth,
    Read,
    Records,
    TopicFlow,
)
from tests.unit.broker.delayed.users import delay, store
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import ORDERS, poll, publish, reject, shop


def gauges(node: DrivenNode, name: str) -> dict[object, float]:
    """The samples of a family of plain numbers, by their labels."""
    found: dict[object, float] = {}
    for family in node.node.metrics():
        if family.name == name:
            for labels, quantity in filter(None, family.samples):
                assert isinstance(quantity, int | float)
                found[labels] = quantity
    return found


def flows(node: DrivenNode) -> dict[str, TopicFlow]:
    return node.ask(DescribeNode(), NodeDescription).flows


def test_a_node_is_ready_until_it_stops() -> None:
    node = shop()
    assert gauges(node, "goqueue_broker_ready") == {(): 1}
    assert gauges(node, "goqueue_storage_failed_logs") == {(): 0}
    node.stop()
    assert gauges(node, "goqueue_broker_ready") == {(): 0}


def test_dead_letters_are_told_by_the_topic_that_keeps_them() -> None:
    node = shop()
    assert gauges(node, "goqueue_broker_dead_letters") == {}
    publish(node, "a", "b", "c")
    for delivery in poll(node)[:2]:
        reject(node, delivery)
    assert gauges(node, "goqueue_broker_dead_letters") == {("orders.dlq",): 2}


def test_the_first_delayed_message_that_is_due_is_told_until_it_is_delivered() -> None:
    node = store()
    name = "goqueue_broker_delayed_messages_next_due"
    assert gauges(node, name) == {}
    delay(node, ("later", 20 * SECOND), ("soon", 10 * SECOND))
    assert gauges(node, name) == {("orders",): (EPOCH_NS + 10 * SECOND) / SECOND}
    node.advance(15 * SECOND)
    assert gauges(node, name) == {("orders",): (EPOCH_NS + 20 * SECOND) / SECOND}
    node.advance(15 * SECOND)
    assert gauges(node, name) == {}


def test_a_topic_has_a_flow_once_something_is_published() -> None:
    node = shop()
    assert flows(node) == {}
    publish(node, "a", "b", "c")
    assert flows(node) == {"orders": TopicFlow(3, 0)}


def test_flows_are_over_all_groups_and_readers_without_one_until_the_topic_goes() -> None:
    counts = Counts()
    counts.topic("orders").published += 3
    for group, count in (("billing", 3), ("audit", 2), ("", 5)):
        counts.pair("orders", group).consume(count, 100, 1)
    counts.pair("read.only", "audit").consume(1, 10, 1)
    assert counts.flows() == {"orders": TopicFlow(3, 10), "read.only": TopicFlow(0, 1)}
    counts.forget_group("audit")
    assert counts.flows() == {"orders": TopicFlow(3, 8)}
    counts.forget_topic("orders")
    assert counts.flows() == {}


def test_a_reader_that_takes_two_messages_of_many_has_consumed_two() -> None:
    node = shop()
    publish(node, "a", "b", "c", "d")
    node.ask(Read(topic="orders", partition=0, messages_max=2), Records)
    assert flows(node) == {"orders": TopicFlow(4, 2)}
    node.ask(Read(topic="orders", partition=0, messages_max=9), Records)
    assert flows(node) == {"orders": TopicFlow(4, 6)}


def health(node: DrivenNode) -> NodeHealth:
    return node.ask(CheckHealth(), NodeHealth)


def test_a_full_disk_is_told_until_a_message_fits_again() -> None:
    node = shop()
    publish(node, "a")
    node.files.faults.room = 10
    assert publish(node, "b").placed[0].refused is Code.STORAGE_FULL
    assert health(node).full_logs == (ORDERS,)
    assert gauges(node, "goqueue_storage_full_logs") == {(): 1}

    node.files.faults.room = None
    node.advance(2 * SECOND)
    publish(node, "b")
    assert health(node).full_logs == ()
    assert gauges(node, "goqueue_storage_full_logs") == {(): 0}


def test_a_log_that_nobody_writes_to_any_more_is_not_full_for_ever() -> None:
    node = shop()
    publish(node, "a")
    node.files.faults.room = 10
    publish(node, "b")
    node.files.faults.room = None
    node.advance(120 * SECOND)
    assert health(node).full_logs == ()


def test_damage_is_told_by_topic_until_the_topic_is_deleted_and_over_a_restart() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    file = node.files.open("logs/orders/0/00000000000000000000.log")
    file.write_at(file.size() // 2, b"~")
    file.close()
    node.restart()
    for _ in range(2):
        with contextlib.suppress(Refused):
            node.ask(Read(topic="orders", partition=0, offset=Offset(1)), Records)
    (damaged,) = health(node).damaged
    assert (damaged.log, damaged.first, damaged.below) == (ORDERS, 1, 2)
    assert gauges(node, "goqueue_storage_damaged_offsets") == {("orders",): 1}
    node.restart()
    assert health(node).damaged_ranges == 1

    node.ask(DeleteTopic(name="orders"), Done)
    assert health(node).damaged == ()
    assert gauges(node, "goqueue_storage_damaged_offsets") == {}
