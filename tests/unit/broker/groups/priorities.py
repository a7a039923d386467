"""What users of lanes do, in short words: messages by priority, and what is told of them."""

from collections.abc import Sequence

from goqueue.model import LogId, Message, Offset
from goqueue.model.requests import (
    CommitOffsets,
    DescribePriorities,
    LaneDescription,
    Offsets,
    PriorityStatistics,
    Publish,
    Published,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ORDERS, Delivery, ack, poll

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(5)


def publish(
    node: DrivenNode,
    lanes: Sequence[int],
    partition: int = 0,
    topic: str = "orders",
    keys: Sequence[str] = ("",),
    value: bytes = b"v",
) -> None:
    """One message for each lane that is named, in this order."""
    batch = build(
        [
            Message(key=keys[place % len(keys)].encode(), value=value, priority=lane)
            for place, lane in enumerate(lanes)
        ]
    )
    node.ask(Publish(topic=topic, batch=batch, targets=[partition] * len(lanes)), Published)


def backlog(node: DrivenNode, count: int, lane: int = NORMAL) -> None:
    for _ in range(count // 5000):
        publish(node, [lane] * 5000)


def let_scouting_end(node: DrivenNode) -> None:
    """It continues between everything else, as alarms that are due at once."""
    node.advance(1)


def lanes_of(found: Sequence[Delivery]) -> list[int]:
    return [delivery.record.priority for delivery in found]


def offsets_of(found: Sequence[Delivery]) -> list[int]:
    return [delivery.record.offset for delivery in found]


def drain(node: DrivenNode, group: str = "shop", client: str = "c1") -> list[Delivery]:
    """Everything that is there, each acknowledged."""
    found: list[Delivery] = []
    while batch := poll(node, group, client, count=1000):
        ack(node, *batch)
        found += batch
    return found


def commit(node: DrivenNode, offset: int) -> None:
    command = CommitOffsets(group="shop", offsets={ORDERS: Offset(offset)}, member_id="c1-c100")
    node.ask(command, Offsets)


def statistics(node: DrivenNode) -> PriorityStatistics:
    return node.ask(DescribePriorities(), PriorityStatistics)


def lane_of(
    node: DrivenNode, lane: int, log: LogId = ORDERS, group: str = "shop"
) -> LaneDescription:
    wanted = (group, log, lane)
    found = statistics(node).lanes
    return next(each for each in found if (each.group, each.log, each.lane) == wanted)
