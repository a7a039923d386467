"""The steps of a transaction: begun, added to, prepared, and ended alone or with others.

Never remembers anything between two steps: who asks says each time whose transaction it is.
"""

from goqueue.gateways.http.bodies import (
    AddOffsetsBody,
    AddPartitionBody,
    BegunOut,
    CommitGroupBody,
    EndBody,
    OwnerBody,
    PreparedOut,
    StatusOut,
)
from goqueue.gateways.http.routes.positions import wanted_offsets
from goqueue.gateways.http.routes.transactions.refusals import OF_TRANSACTIONS
from goqueue.gateways.http.table import SCHEMA_REF, Call, Route
from goqueue.model import Code, LogId, Refused, check_name
from goqueue.model.requests import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    CommitGroup,
    Done,
    EndTransaction,
    GroupCommitted,
    Owner,
    PrepareTransaction,
    TransactionBegan,
    TransactionEnded,
    TransactionPrepared,
)

__all__ = ["STEP_ROUTES"]

_SECTION = "Producers and transactions"
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
        summary="Open a transaction; a producer has one at a time",
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
        summary="Say that the transaction will write to a partition; publishing does it, too",
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
        summary="Let a group's progress take effect with the commit, or not at all",
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
        summary="Take no more messages, and wait up to an hour for a group commit",
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
        summary="Commit prepared transactions by one decision, or abort them if the key was used",
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
        summary="Commit: from now on every reader sees all of it",
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
        summary="Abort: no reader of committed messages ever sees any of it",
        run=_abort,
        body=EndBody,
        answer=StatusOut,
        errors=(*OF_TRANSACTIONS, Code.TRANSACTION_NOT_FOUND),
        writes=True,
        example=_OWNER,
    ),
)
