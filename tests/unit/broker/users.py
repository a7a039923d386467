"""What users of a node do, in short words: for tests that are about something else."""

from collections.abc import Sequence

import msgspec

from goqueue.gateways import leased_records
from goqueue.model import (
    BATCH_HEADER,
    SECOND,
    Code,
    LogId,
    Message,
    Offset,
    Record,
    Refused,
    RequestId,
)
from goqueue.model.requests import (
    Ack,
    Acked,
    Assignor,
    CreateTopic,
    DescribeLag,
    DescribeOffsets,
    Join,
    Joined,
    Lag,
    Leased,
    Mode,
    Nack,
    Offsets,
    PartitionLag,
    Poll,
    Publish,
    Published,
    Read,
    Records,
    Reject,
    Returned,
    Settlement,
    Start,
    TopicConfig,
    TopicDescription,
    lease_of,
)
from goqueue.records import build, last_offset, visible
from tests.unit.broker.driven_node import DrivenNode

ORDERS = LogId("orders", 0)
LETTERS = LogId("orders.dlq", 0)


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One message as a consumer gets it."""

    log: LogId
    record: Record
    receipt: str
    attempt: int
    deadline: int

    @property
    def value(self) -> bytes | None:
        return self.record.value


def create(
    node: DrivenNode, name: str = "orders", partitions: int = 1, config: TopicConfig | None = None
) -> TopicDescription:
    command = CreateTopic(name=name, partitions=partitions, config=config or TopicConfig())
    return node.ask(command, TopicDescription)


def shop(*, partitions: int = 1, mode: Mode | None = None, **config: object) -> DrivenNode:
    """A node with one topic and one member of one group."""
    node = DrivenNode()
    create(node, partitions=partitions, config=msgspec.structs.replace(TopicConfig(), **config))
    join(node, mode=mode)
    return node


def messages(*values: str) -> list[Message]:
    """Messages with these values; `key=value` gives a message a key."""
    made = []
    for value in values:
        key, _, rest = value.rpartition("=")
        made.append(Message(key=key.encode(), value=rest.encode()))
    return made


def publish(
    node: DrivenNode, *values: str, topic: str = "orders", targets: list[int] | None = None
) -> Published:
    command = Publish(topic=topic, batch=build(messages(*values)), targets=targets)
    return node.ask(command, Published)


def join(
    node: DrivenNode,
    group: str = "shop",
    client: str = "c1",
    topics: Sequence[str] = ("orders",),
    mode: Mode | None = None,
    **more: object,
) -> Joined:
    command = Join(
        group=group, client_id=client, topics=tuple(topics), token=f"{client}00", mode=mode
    )
    known = {"assignor": Assignor, "session_ns": int, "start": Start, "member_id": str}
    assert all(isinstance(value, known[name]) for name, value in more.items())
    return node.ask(msgspec.structs.replace(command, **more), Joined)


def polling(
    group: str = "shop",
    client: str = "c1",
    count: int = 100,
    wait_ns: int = 0,
    visibility_ns: int | None = None,
) -> Poll:
    return Poll(
        group=group,
        member_id=f"{client}-{client}00",
        messages_max=count,
        wait_ns=wait_ns,
        visibility_ns=visibility_ns,
    )


def poll(
    node: DrivenNode,
    group: str = "shop",
    client: str = "c1",
    count: int = 100,
    visibility_ns: int | None = None,
) -> list[Delivery]:
    command = polling(group, client, count, visibility_ns=visibility_ns)
    return deliveries(node.ask(command, Leased))


def begin_poll(
    node: DrivenNode, group: str = "shop", client: str = "c1", wait_ns: int = 20 * SECOND
) -> RequestId:
    return node.begin(polling(group, client, wait_ns=wait_ns))


def polled(node: DrivenNode, request: RequestId) -> list[str]:
    """The values that a poll which had to wait was answered."""
    return values(deliveries(node.reply(request, Leased)))


def deliveries(leased: Leased) -> list[Delivery]:
    found = []
    for share in leased.partitions:
        records = {record.offset: record for record in leased_records(share, 1 << 30)}
        if share.is_gathered:
            assert list(records) == share.offsets, "gathered records are in the order of delivery"
        assert sorted(records) == sorted(share.offsets), "not all that was leased is there"
        found += [
            Delivery(
                log=share.log,
                record=records[offset],
                receipt=receipt,
                attempt=attempt,
                deadline=share.deadline,
            )
            for offset, attempt, receipt in share
        ]
    return found


def values(found: Sequence[Delivery]) -> list[str]:
    return [(delivery.record.value or b"").decode() for delivery in found]


def ack(node: DrivenNode, *acked: Delivery) -> tuple[Settlement, ...]:
    command = Ack(leases=tuple(lease_of(delivery.receipt) for delivery in acked))
    return node.ask(command, Acked).settlements


def ack_code(node: DrivenNode, delivery: Delivery) -> Code | None:
    return ack(node, delivery)[0].code


def nack(
    node: DrivenNode, delivery: Delivery, delay_ns: int | None = None, reason: str = ""
) -> Returned:
    command = Nack(receipt=delivery.receipt, delay_ns=delay_ns, reason=reason)
    return node.ask(command, Returned)


def reject(node: DrivenNode, delivery: Delivery, reason: str = "") -> Returned:
    return node.ask(Reject(receipt=delivery.receipt, reason=reason), Returned)


def _as_published(record: Record) -> Record:
    """Without what the log says of the batch."""
    headers = tuple(each for each in record.headers if each[0] != BATCH_HEADER)
    return msgspec.structs.replace(record, headers=headers)


def read(node: DrivenNode, log: LogId = ORDERS, offset: int = 0) -> list[Record]:
    """All the records of a partition from an offset on."""
    found: list[Record] = []
    while True:
        command = Read(topic=log.topic, partition=log.partition, offset=Offset(offset))
        records = node.ask(command, Records)
        if not records.data:
            return found
        for data in records.data:
            found += [
                _as_published(record)
                for record in visible(data, offset, 1 << 30)
                if not any(first <= record.offset < end for first, end in records.aborted)
            ]
            offset = last_offset(data) + 1


def read_values(node: DrivenNode, log: LogId = ORDERS) -> list[str]:
    return [(record.value or b"").decode() for record in read(node, log)]


def letters(node: DrivenNode, topic: str = "orders.dlq", partitions: int = 1) -> list[str]:
    """The values of all dead letters, by partition; none while there is no such topic."""
    try:
        return [value for n in range(partitions) for value in read_values(node, LogId(topic, n))]
    except Refused as refused:
        assert refused.code is Code.TOPIC_NOT_FOUND
        return []


def committed(node: DrivenNode, group: str = "shop", log: LogId = ORDERS) -> int | None:
    return node.ask(DescribeOffsets(group=group), Offsets).offsets.get(log)


def lag(node: DrivenNode, group: str = "shop", log: LogId = ORDERS) -> PartitionLag:
    lags = node.ask(DescribeLag(group=group), Lag).partitions
    return next(each for each in lags if each.log == log)


def code_of(refused: BaseException) -> Code:
    assert isinstance(refused, Refused)
    return refused.code
