"""Records that no longer add up: what can still be delivered is, and nobody spins on the rest."""

import pytest

from goqueue.model import SECOND, Code, Message, Offset, Refused
from goqueue.model.requests import (
    Mode,
    Publish,
    Read,
    Records,
    Redrive,
    Redriven,
    Reject,
    TopicConfig,
)
from goqueue.records import build, walk
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ORDERS,
    ack,
    begin_poll,
    create,
    join,
    lag,
    nack,
    poll,
    polled,
    publish,
    reject,
    values,
)

FIRST = "orders/0/00000000000000000000.log"
BIG = "x" * 40_000


def shop() -> DrivenNode:
    """Messages in three segments, and one consumer."""
    node = DrivenNode()
    create(node, config=TopicConfig(segment_bytes=64 * 1024))
    join(node, session_ns=600 * SECOND)
    for number in range(3):
        publish(node, f"{number}{BIG}")
    return node


def firsts(found: list[str]) -> list[str]:
    return [value[0] for value in found]


def test_what_lies_behind_damage_is_delivered() -> None:
    node = shop()
    node.files.faults.bad_sectors[FIRST] = 100

    assert firsts(values([*poll(node), *poll(node)])) == ["1", "2"]


def test_a_message_found_damaged_after_it_was_surveyed_holds_up_nobody() -> None:
    node = shop()
    (first,) = poll(node, count=1)
    ack(node, first)
    (second,) = poll(node, count=1)
    nack(node, second, delay_ns=0)
    node.files.faults.bad_sectors["orders/0/00000000000000000001.log"] = 100
    first_try = node.begin(Read(topic="orders", partition=0))
    assert node.is_answered(first_try)
    with pytest.raises(Refused) as refused:
        poll(node)
    assert refused.value.code is Code.RECORDS_DAMAGED

    node.advance(30 * SECOND)
    again = poll(node)
    assert "2" in firsts(values(again))


def test_a_poll_that_waits_before_damage_with_writes_on_their_way_does_not_spin() -> None:
    node = DrivenNode()
    create(node)
    join(node, session_ns=600 * SECOND)
    publish(node, "a")
    node.slow_down(ORDERS)
    batch = build([Message(value=b"b")])
    publishing = node.begin(Publish(topic="orders", batch=batch))
    node.files.faults.bad_sectors[FIRST] = 10
    waiting = begin_poll(node)
    node.speed_up()

    assert node.is_answered(publishing)
    node.advance(20 * SECOND)
    assert node.is_answered(waiting)


def test_a_message_that_dies_and_cannot_be_read_is_settled() -> None:
    node = shop()
    first, *_ = poll(node)
    node.files.faults.bad_sectors[FIRST] = 100
    request = node.begin(Reject(receipt=first.receipt))
    node.advance(5 * SECOND)

    assert node.is_answered(request)


def test_lag_is_answered_although_the_oldest_message_cannot_be_read() -> None:
    node = shop()
    node.files.faults.bad_sectors[FIRST] = 100

    assert lag(node).lag in (2, 3)


def test_dead_letters_behind_damage_are_redriven() -> None:
    node = shop()
    for delivery in poll(node):
        reject(node, delivery)
    node.restart()
    node.files.faults.bad_sectors["orders.dlq/0/00000000000000000000.log"] = 100

    assert node.ask(Redrive(topic="orders"), Redriven).moved in (0, 2)
    assert node.is_answered(node.begin(Redrive(topic="orders")))


def test_a_waiting_reader_is_told_of_damage() -> None:
    node = shop()
    node.files.faults.bad_sectors[FIRST] = 100
    with pytest.raises(Refused) as refused:
        node.ask(Read(topic="orders", partition=0), Records)
    assert refused.value.code is Code.RECORDS_DAMAGED

    with pytest.raises(Refused) as refused:
        node.ask(Read(topic="orders", partition=0), Records)
    assert refused.value.facts["next_offset"] == 1


def test_key_order_goes_on_behind_damage() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(segment_bytes=64 * 1024))
    join(node, mode=Mode.KEY_ORDERED, session_ns=600 * SECOND)
    for number in range(3):
        publish(node, f"k={number}{BIG}")
    node.files.faults.bad_sectors[FIRST] = 100

    (second,) = poll(node)
    assert firsts(values([second])) == ["1"]
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    ack(node, second)
    assert firsts(polled(node, waiting)) == ["2"]


def harm(node: DrivenNode, partition: int, offset: int) -> None:
    """Change a byte of a record behind the back of the node."""
    path = f"logs/orders/{partition}/00000000000000000000.log"
    file = node.files.open(path)
    data = file.read_at(0, file.size())
    file.write_at(walk(data).positions[offset] + 40, b"\xff")
    file.close()


def test_one_damaged_message_is_passed_over_and_its_neighbours_are_delivered() -> None:
    node = DrivenNode()
    create(node)
    join(node, session_ns=600 * SECOND)
    publish(node, *(f"{number}" * 20 for number in range(6)))
    harm(node, 0, 2)
    node.restart()

    found = [value for _ in range(4) for value in values(poll(node))]
    assert firsts(found) == ["0", "1", "3", "4", "5"]
    for delivery in poll(node):
        ack(node, delivery)
    assert node.ask(Read(topic="orders", partition=0, offset=Offset(3)), Records).data


def test_damage_in_one_partition_does_not_silence_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Else what was read ahead would be delivered from memory.
    monkeypatch.setattr("goqueue.broker.groups.read_ahead._KEPT_BYTES_MAX", 0)
    node = DrivenNode()
    create(node, partitions=3)
    join(node, session_ns=600 * SECOND)
    for partition in range(3):
        publish(node, f"{partition}" * 20, targets=[partition])
    # All are known to the queue before one of them is damaged.
    for delivery in poll(node):
        nack(node, delivery, delay_ns=0)
    node.files.faults.bad_sectors["orders/1/00000000000000000000.log"] = 10

    found = values(poll(node))
    assert firsts(sorted(found)) == ["0", "2"]
