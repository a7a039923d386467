"""Transactions over HTTP: begin, add to, prepare and end them; list them for operators.

`producer_id`, `epoch` and `transactional_id` together name the owner; a producer has one
transaction at a time. Nothing is kept between two requests: each names the owner again.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.gateways.http.acks import Handle
from goqueue.gateways.http.bodies import (
    Count,
    DurationText,
    Epoch,
    Generation,
    Name,
    PartitionNumber,
    ProducerId,
    TimeText,
    TransactionId,
)
from goqueue.gateways.http.groups import MemberId
from goqueue.gateways.http.offsets import PositionsIn, wanted_offsets
from goqueue.gateways.http.producers import OF_TRANSACTIONS, PRODUCER_ROUTES
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import ParameterLocation, integer, name
from goqueue.gateways.http.routing.router import SCHEMA_REF, Route
from goqueue.model import (
    MILLISECOND,
    Code,
    LogId,
    Refused,
    check_name,
    format_duration,
    format_time,
)
from goqueue.model.requests import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    CommitGroup,
    DescribeTransaction,
    DescribeTransactions,
    Done,
    EndTransaction,
    GroupCommitted,
    ListTransactions,
    Owner,
    PrepareTransaction,
    TransactionBegan,
    TransactionDescription,
    TransactionEnded,
    TransactionList,
    TransactionPrepared,
    TransactionState,
    TransactionStatistics,
)

__all__ = [
    "LISTING_ROUTES",
    "STEP_ROUTES",
    "TRANSACTION_ROUTES",
    "AddOffsetsBody",
    "AddPartitionBody",
    "BegunOut",
    "CommitGroupBody",
    "EndBody",
    "OwnerBody",
    "PreparedOut",
    "StatusOut",
    "TransactionOut",
    "TransactionPartition",
    "TransactionStats",
    "TransactionsOut",
]

Status = Literal["added", "prepared", "committed", "already_committed", "aborted"]


class OwnerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The producer that owns the transaction."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Name


class EndBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The owner of the transaction to end; with `transaction_id`, only that one is ended."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Name
    transaction_id: TransactionId | None = None


class BegunOut(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction is open."""

    transaction_id: TransactionId


class PreparedOut(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction waits for a decision, also across restarts."""

    status: Status
    transaction_id: TransactionId


class CommitGroupBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prepared transactions that commit together or not at all; each key decides once."""

    key: Annotated[str, Meta(min_length=1, max_length=249, examples=["sink-1/42"])]
    transaction_ids: Annotated[list[TransactionId], Meta(min_length=1, max_length=1000)]


class StatusOut(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    status: Status


class TransactionPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that a transaction has written to."""

    topic: str
    partition: int


class TransactionOut(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction; a prepared one waits for the decision of a group."""

    transaction_id: TransactionId
    # Empty, and the number 0, for what the broker moves by itself.
    transactional_id: str
    producer_id: Annotated[int, Meta(ge=0)]
    epoch: Epoch
    state: TransactionState
    started_at: TimeText
    timeout_ms: Count
    partitions: list[TransactionPartition]
    prepared: bool


class TransactionsOut(msgspec.Struct, frozen=True, kw_only=True):
    """A page of transactions that have not ended, oldest first; `total` is for all."""

    transactions: list[TransactionOut]
    count: Count
    total: Count
    limit: Count
    skip: Count


class TransactionStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the node started, and what is open now."""

    active_transactions: Count
    committed_total: Count
    aborted_total: Count
    avg_duration: DurationText
    active_producers: Count


class AddPartitionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A partition that the transaction will write to."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Name
    topic: Name
    partition: PartitionNumber


class AddOffsetsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Progress of a group that takes effect with the commit: positions, and acknowledgements.

    At least one of them is given; `member_id` and `generation` go with the positions.
    """

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Name
    group: Name
    offsets: PositionsIn | None = None
    receipt_handles: Annotated[list[Handle], Meta(min_length=1, max_length=1000)] | None = None
    member_id: MemberId | None = None
    generation: Generation | None = None


_SECTION = "Producers and transactions"
_LIMIT = integer(
    "limit", "how many transactions at most", default=100, minimum=1, maximum=1000, is_cut=True
)
_SKIP = integer("skip", "how many to skip", default=0, minimum=0, maximum=1 << 53)
_TRANSACTION = name("transaction_id", "id of the transaction", location=ParameterLocation.PATH)


async def _list(call: Call) -> TransactionsOut:
    limit, skip = call[_LIMIT], call[_SKIP]
    found = await call.ask(ListTransactions(limit=limit, skip=skip), TransactionList)
    listed = [_transaction(each) for each in found.transactions]
    return TransactionsOut(
        transactions=listed, count=len(listed), total=found.total, limit=limit, skip=skip
    )


async def _describe(call: Call) -> TransactionOut:
    command = DescribeTransaction(transaction_id=call[_TRANSACTION])
    return _transaction(await call.ask(command, TransactionDescription))


async def _statistics(call: Call) -> TransactionStats:
    counts = await call.ask(DescribeTransactions(), TransactionStatistics)
    return TransactionStats(
        active_transactions=counts.active,
        committed_total=counts.committed,
        aborted_total=counts.aborted,
        avg_duration=format_duration(counts.average_duration_ns),
        active_producers=counts.active_producers,
    )


def _transaction(described: TransactionDescription) -> TransactionOut:
    return TransactionOut(
        transaction_id=described.transaction_id,
        transactional_id=described.transactional_id,
        producer_id=described.producer_id,
        epoch=described.epoch,
        state=described.state,
        started_at=format_time(described.started_at),
        timeout_ms=described.timeout_ns // MILLISECOND,
        partitions=[
            TransactionPartition(topic=log.topic, partition=log.partition)
            for log in described.partitions
        ],
        prepared=described.is_prepared,
    )


LISTING_ROUTES = (
    Route(
        method="GET",
        path="/transactions",
        section=_SECTION,
        summary="List the transactions that have not ended, oldest first",
        run=_list,
        parameters=(_LIMIT, _SKIP),
        answer=TransactionsOut,
    ),
    Route(
        method="GET",
        path="/transactions/stats",
        section=_SECTION,
        summary="Count transactions and producers",
        run=_statistics,
        answer=TransactionStats,
    ),
    Route(
        method="GET",
        path="/transactions/{transaction_id}",
        section=_SECTION,
        summary="Show the state of a transaction that is open or is the last of its producer",
        run=_describe,
        parameters=(_TRANSACTION,),
        answer=TransactionOut,
        errors=(Code.TRANSACTION_NOT_FOUND,),
    ),
)

_OWNER = {"producer_id": 1, "epoch": 0, "transactional_id": "billing-1"}
_PROGRESS_SCHEMA = {
    "allOf": [{"$ref": SCHEMA_REF.format(name=AddOffsetsBody.__name__)}],
    "anyOf": [
        {"properties": {"offsets": {"type": "object"}}, "required": ["offsets"]},
        {"properties": {"receipt_handles": {"type": "array"}}, "required": ["receipt_handles"]},
    ],
}


async def _begin(call: Call) -> BegunOut:
    began = await call.ask(BeginTransaction(owner=_owner_of(call)), TransactionBegan)
    return BegunOut(transaction_id=began.transaction_id)


async def _add_partition(call: Call) -> StatusOut:
    body = call.body(AddPartitionBody)
    check_name(body.topic, "topic")
    if body.partition < 0:
        raise Refused(Code.PARTITION_INVALID, field="partition", found=body.partition)
    log = LogId(body.topic, body.partition)
    await call.ask(AddPartition(owner=_owner(body), log=log), Done)
    return StatusOut(status="added")


async def _add_offsets(call: Call) -> StatusOut:
    body = call.body(AddOffsetsBody)
    check_name(body.group, "group")
    if body.offsets is None and body.receipt_handles is None:
        reason = "is missing, and so is `receipt_handles`: give at least one of them"
        raise Refused(Code.REQUEST_INVALID, field="offsets", reason=reason)
    command = AddOffsets(
        owner=_owner(body),
        group=body.group,
        offsets={} if body.offsets is None else wanted_offsets(body.offsets),
        receipts=tuple(body.receipt_handles or ()),
        member_id=body.member_id,
        generation=body.generation,
    )
    await call.ask(command, Done)
    return StatusOut(status="added")


async def _prepare(call: Call) -> PreparedOut:
    prepared = await call.ask(PrepareTransaction(owner=_owner_of(call)), TransactionPrepared)
    return PreparedOut(status="prepared", transaction_id=prepared.transaction_id)


async def _commit_group(call: Call) -> StatusOut:
    body = call.body(CommitGroupBody)
    command = CommitGroup(key=body.key, transaction_ids=tuple(body.transaction_ids))
    committed = await call.ask(command, GroupCommitted)
    return StatusOut(status="already_committed" if committed.is_repeat else "committed")


async def _commit(call: Call) -> StatusOut:
    return await _end(call, is_commit=True)


async def _abort(call: Call) -> StatusOut:
    return await _end(call, is_commit=False)


async def _end(call: Call, *, is_commit: bool) -> StatusOut:
    body = call.body(EndBody)
    command = EndTransaction(
        owner=_owner(body), is_commit=is_commit, transaction_id=body.transaction_id
    )
    ended = await call.ask(command, TransactionEnded)
    return StatusOut(status="committed" if ended.is_commit else "aborted")


def _owner_of(call: Call) -> Owner:
    return _owner(call.body(OwnerBody))


def _owner(body: OwnerBody | EndBody | AddPartitionBody | AddOffsetsBody) -> Owner:
    return Owner(
        producer_id=body.producer_id,
        epoch=body.epoch,
        transactional_id=check_name(body.transactional_id, "transactional_id"),
    )


STEP_ROUTES = (
    Route(
        method="POST",
        path="/transactions/begin",
        section=_SECTION,
        summary="Begin a transaction; a producer has one at a time",
        run=_begin,
        body=OwnerBody,
        answer=BegunOut,
        errors=(*OF_TRANSACTIONS, Code.QUOTA_EXCEEDED),
        writes=True,
        example=_OWNER,
    ),
    Route(
        method="POST",
        path="/transactions/add-partition",
        section=_SECTION,
        summary="Add a partition to the transaction; publishing does this, too",
        run=_add_partition,
        body=AddPartitionBody,
        answer=StatusOut,
        errors=(
            *OF_TRANSACTIONS,
            Code.TOPIC_NOT_FOUND,
            Code.TOPIC_INTERNAL,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
        ),
        writes=True,
        example={**_OWNER, "topic": "orders", "partition": 0},
    ),
    Route(
        method="POST",
        path="/transactions/offsets",
        section=_SECTION,
        summary="Add offsets of a group, which are committed with the transaction or not at all",
        run=_add_offsets,
        body=AddOffsetsBody,
        body_schema=_PROGRESS_SCHEMA,
        answer=StatusOut,
        errors=(
            *OF_TRANSACTIONS,
            Code.GROUP_NOT_FOUND,
            Code.MEMBER_NOT_FOUND,
            Code.GENERATION_STALE,
            Code.TOPIC_NOT_FOUND,
            Code.PARTITION_NOT_ASSIGNED,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.OFFSET_OUT_OF_RANGE,
            Code.RECEIPT_INVALID,
            Code.RECEIPT_STALE,
            Code.QUOTA_EXCEEDED,
        ),
        writes=True,
        example={**_OWNER, "group": "billing", "offsets": {"orders": {"0": 42}}},
    ),
    Route(
        method="POST",
        path="/transactions/prepare",
        section=_SECTION,
        summary="Prepare a transaction: it accepts no more messages and waits for a group commit",
        run=_prepare,
        body=OwnerBody,
        answer=PreparedOut,
        errors=OF_TRANSACTIONS,
        writes=True,
        example=_OWNER,
    ),
    Route(
        method="POST",
        path="/transactions/commit-group",
        section=_SECTION,
        summary="Commit prepared transactions together, or abort them if the key was used before",
        run=_commit_group,
        body=CommitGroupBody,
        answer=StatusOut,
        errors=(
            Code.TRANSACTION_NOT_FOUND,
            Code.TRANSACTION_STATE_INVALID,
            Code.QUOTA_EXCEEDED,
        ),
        writes=True,
        example={"key": "sink-1/42", "transaction_ids": ["7-3", "8-1"]},
    ),
    Route(
        method="POST",
        path="/transactions/commit",
        section=_SECTION,
        summary="Commit a transaction: from now on every reader sees all of it",
        run=_commit,
        body=EndBody,
        answer=StatusOut,
        errors=(*OF_TRANSACTIONS, Code.TRANSACTION_NOT_FOUND),
        writes=True,
        example=_OWNER,
    ),
    Route(
        method="POST",
        path="/transactions/abort",
        section=_SECTION,
        summary="Abort a transaction: no reader of committed messages ever sees any of it",
        run=_abort,
        body=EndBody,
        answer=StatusOut,
        errors=(*OF_TRANSACTIONS, Code.TRANSACTION_NOT_FOUND),
        writes=True,
        example=_OWNER,
    ),
)

TRANSACTION_ROUTES = (*PRODUCER_ROUTES, *STEP_ROUTES, *LISTING_ROUTES)
