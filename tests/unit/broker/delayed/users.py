"""What users of delayed messages do, in short words."""

import msgspec

from goqueue.model import (
    MILLISECOND,
    SECOND,
    Code,
    LogId,
    Message,
    Offset,
    Priority,
    Record,
    Refused,
    RequestId,
)
from goqueue.model.requests import (
    CancelDelayed,
    DelayedDescription,
    DelayedList,
    DelayState,
    DelayStatistics,
    DescribeDelays,
    DescribeTopic,
    Done,
    FindDelayed,
    ListDelayed,
    Mode,
    Publish,
    Published,
    Read,
    Records,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build, last_offset, visible
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ORDERS, create, join, messages

TICK = 10 * MILLISECOND

LONG = 600 * SECOND


def store(*, partitions: int = 1, mode: Mode | None = None, **config: object) -> DrivenNode:
    """A node with one topic and one member of one group, who stays."""
    node = DrivenNode()
    create(node, partitions=partitions, config=msgspec.structs.replace(TopicConfig(), **config))
    join(node, mode=mode, session_ns=LONG)
    return node


def delaying(
    node: DrivenNode,
    *wanted: tuple[str, int],
    topic: str = "orders",
    targets: list[int] | None = None,
    priority: int = Priority.NORMAL,
    headers: tuple[tuple[str, bytes], ...] = (),
) -> Publish:
    """Values, each with its delay in nanoseconds; 0 for at once."""
    made: list[Message] = []
    dues: list[int] = []
    for value, delay_ns in wanted:
        (plain,) = messages(value)
        due = node.now.wall + delay_ns if delay_ns else 0
        own = ((("gq.deliver-at", b"%d" % due),) if due else ()) + headers
        message = msgspec.structs.replace(
            plain, headers=own, is_delayed=bool(due), priority=priority
        )
        made.append(message)
        dues.append(due)
    return Publish(topic=topic, batch=build(made), targets=targets, dues=dues)


def delay(
    node: DrivenNode,
    *wanted: tuple[str, int],
    topic: str = "orders",
    targets: list[int] | None = None,
    priority: int = Priority.NORMAL,
    headers: tuple[tuple[str, bytes], ...] = (),
) -> Published:
    command = delaying(
        node, *wanted, topic=topic, targets=targets, priority=priority, headers=headers
    )
    return node.ask(command, Published)


def cancelling(offset: int, topic: str = "orders", partition: int = 0) -> CancelDelayed:
    return CancelDelayed(topic=topic, partition=partition, offset=Offset(offset))


def cancel(node: DrivenNode, offset: int, topic: str = "orders", partition: int = 0) -> Code | None:
    """Why it was refused; None: it was not."""
    return outcome(node, node.begin(cancelling(offset, topic, partition)))


def outcome(node: DrivenNode, request: RequestId) -> Code | None:
    """How a cancellation that had to wait ended."""
    try:
        node.reply(request, Done)
    except Refused as refused:
        return refused.code
    return None


def find(node: DrivenNode, offset: int, topic: str = "orders") -> DelayedDescription:
    return node.ask(FindDelayed(topic=topic, offset=Offset(offset)), DelayedDescription)


def state_of(node: DrivenNode, offset: int, topic: str = "orders") -> DelayState | None:
    """None: there is no such delayed message."""
    try:
        return find(node, offset, topic).state
    except Refused as refused:
        assert refused.code is Code.MESSAGE_NOT_FOUND
        return None


def pending(node: DrivenNode, topic: str = "orders", limit: int = 1000) -> list[int]:
    found = node.ask(ListDelayed(topic=topic, limit=limit), DelayedList)
    return [each.offset for each in found.messages]


def statistics(node: DrivenNode) -> DelayStatistics:
    return node.ask(DescribeDelays(), DelayStatistics)


def shown(node: DrivenNode, log: LogId = ORDERS, offset: int = 0) -> list[Record]:
    """All that a reader sees of a partition if it continues behind what is never shown."""
    found: list[Record] = []
    while True:
        command = Read(topic=log.topic, partition=log.partition, offset=Offset(offset))
        records = node.ask(command, Records)
        if not records.data:
            return found
        for data in records.data:
            found += visible(data, offset, 1 << 30)
            offset = last_offset(data) + 1


def shown_values(node: DrivenNode, log: LogId = ORDERS) -> list[str]:
    return [(record.value or b"").decode() for record in shown(node, log)]


def total_messages(node: DrivenNode, topic: str = "orders") -> int:
    return node.ask(DescribeTopic(name=topic), TopicDescription).total_messages


def delayed_from(record: Record) -> int | None:
    value = next((value for name, value in record.headers if name == "gq.delayed-from"), None)
    return None if value is None else int(value)
