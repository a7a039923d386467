"""What users of transactions do, in short words."""

from collections.abc import Sequence

from goqueue.model import SECOND, Code, LogId, Offset, Record, Refused, RequestId
from goqueue.model.requests import (
    AddOffsets,
    BeginTransaction,
    Command,
    CommitGroup,
    Done,
    EndTransaction,
    GroupCommitted,
    HeartbeatProducer,
    InitProducer,
    Isolation,
    ListTransactions,
    Owner,
    PrepareTransaction,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    Read,
    Records,
    TransactionBegan,
    TransactionDescription,
    TransactionEnded,
    TransactionList,
    TransactionPrepared,
)
from goqueue.records import build, visible
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ORDERS, Delivery, create, messages

GROUPS = LogId("__groups", 0)

TOPICS = LogId("__topics", 0)

SECOND_ORDERS = LogId("orders", 1)


def init(node: DrivenNode, name: str = "billing", timeout_ns: int | None = None) -> Owner:
    command = InitProducer(transactional_id=name)
    if timeout_ns is not None:
        command = InitProducer(transactional_id=name, timeout_ns=timeout_ns)
    return owned(node.ask(command, ProducerGranted), name)


def owned(granted: ProducerGranted, name: str = "billing") -> Owner:
    return Owner(producer_id=granted.producer_id, epoch=granted.epoch, transactional_id=name)


def begin(node: DrivenNode, owner: Owner) -> str:
    return node.ask(BeginTransaction(owner=owner), TransactionBegan).transaction_id


def writing(
    owner: Owner,
    *values: str,
    targets: list[int] | None = None,
    topic: str = "orders",
    sequence: int | None = None,
) -> Publish:
    stamp = ProducerStamp(producer_id=owner.producer_id, epoch=owner.epoch, sequence=sequence)
    batch = build(messages(*values))
    return Publish(topic=topic, batch=batch, targets=targets, producer=stamp)


def write(
    node: DrivenNode,
    owner: Owner,
    *values: str,
    targets: list[int] | None = None,
    topic: str = "orders",
    sequence: int | None = None,
) -> Published:
    """Publish as part of a transaction; none of it may be refused."""
    command = writing(owner, *values, targets=targets, topic=topic, sequence=sequence)
    published = node.ask(command, Published)
    assert all(placed.refused is None for placed in published.placed), published
    return published


def commit(node: DrivenNode, owner: Owner) -> TransactionEnded:
    return node.ask(EndTransaction(owner=owner, is_commit=True), TransactionEnded)


def abort(node: DrivenNode, owner: Owner) -> TransactionEnded:
    return node.ask(EndTransaction(owner=owner, is_commit=False), TransactionEnded)


def begin_commit(node: DrivenNode, owner: Owner) -> RequestId:
    return node.begin(EndTransaction(owner=owner, is_commit=True))


def begin_abort(node: DrivenNode, owner: Owner) -> RequestId:
    return node.begin(EndTransaction(owner=owner, is_commit=False))


def prepare(node: DrivenNode, owner: Owner) -> str:
    return node.ask(PrepareTransaction(owner=owner), TransactionPrepared).transaction_id


def commit_group(node: DrivenNode, key: str, *identities: str) -> bool:
    """Whether the key was used before."""
    command = CommitGroup(key=key, transaction_ids=identities)
    return node.ask(command, GroupCommitted).is_repeat


def add(
    node: DrivenNode,
    owner: Owner,
    *acked: Delivery,
    group: str = "shop",
    offsets: dict[LogId, int] | None = None,
    member: str | None = None,
    generation: int | None = None,
) -> None:
    """Let acks or offsets take effect with the transaction."""
    command = AddOffsets(
        owner=owner,
        group=group,
        receipts=tuple(each.receipt for each in acked),
        offsets={log: Offset(offset) for log, offset in (offsets or {}).items()},
        member_id=member,
        generation=generation,
    )
    node.ask(command, Done)


def transactions(node: DrivenNode) -> dict[str, TransactionDescription]:
    """Those that have not ended."""
    listed = node.ask(ListTransactions(), TransactionList).transactions
    return {each.transaction_id: each for each in listed}


def shown_records(
    node: DrivenNode, log: LogId = ORDERS, isolation: Isolation = Isolation.READ_COMMITTED
) -> list[Record]:
    """All that a reader gets who follows what each answer says."""
    found: list[Record] = []
    offset = 0
    while True:
        command = Read(
            topic=log.topic, partition=log.partition, offset=Offset(offset), isolation=isolation
        )
        records = node.ask(command, Records)
        found += readable(records)
        if records.upto <= offset:
            return found
        offset = int(records.upto)


def readable(records: Records) -> list[Record]:
    """What a reader keeps of an answer."""
    return [
        record
        for data in records.data
        for record in visible(data, records.offset, 1 << 30)
        if record.offset < records.upto
        and not any(first <= record.offset < end for first, end in records.aborted)
    ]


def texts(records: Sequence[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def shown(node: DrivenNode, *logs: LogId) -> list[str]:
    """The values that readers of committed messages see, partition after partition."""
    return [value for log in logs or (ORDERS,) for value in texts(shown_records(node, log))]


def shown_uncommitted(node: DrivenNode, log: LogId = ORDERS) -> list[str]:
    return texts(shown_records(node, log, Isolation.READ_UNCOMMITTED))


def refusal(node: DrivenNode, command: Command) -> Refused:
    """How a command is refused; it must be."""
    request = node.begin(command)
    try:
        reply = node.reply(request, Done)
    except Refused as refused:
        return refused
    raise AssertionError(f"it was not refused: {reply}")


def refused_code(node: DrivenNode, command: Command) -> Code:
    return refusal(node, command).code


def warm(partitions: int = 2) -> DrivenNode:
    """A topic to which a producer has written before."""
    node = DrivenNode()
    create(node, partitions=partitions)
    owner = init(node, "warm")
    begin(node, owner)
    write(node, owner, *(["warm"] * partitions), targets=list(range(partitions)))
    commit(node, owner)
    return node


def beat(node: DrivenNode, owner: Owner) -> None:
    node.ask(HeartbeatProducer(producer_id=owner.producer_id, epoch=owner.epoch), Done)


def keep_alive(node: DrivenNode, owner: Owner, until_ns: int) -> None:
    """Time passes, and the producer says now and then that it is there."""
    while node.now_ns < until_ns:
        node.advance(min(20 * SECOND, until_ns - node.now_ns))
        beat(node, owner)


def opened(timeout_ns: int | None = None) -> tuple[DrivenNode, Owner]:
    """An open transaction that has written."""
    node = DrivenNode()
    create(node)
    owner = init(node, timeout_ns=timeout_ns)
    begin(node, owner)
    write(node, owner, "x")
    return node, owner
