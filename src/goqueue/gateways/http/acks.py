"""The routes that settle messages (ack, nack, reject, release, extend) and redrive dead letters.

A batch is not all or nothing: every receipt handle has a result of its own, in request order.
"""

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.errors import describe
from goqueue.gateways.http.bodies import (
    INT64_MAX,
    Backoff,
    Count,
    Lease,
    Name,
    OffsetNumber,
    TimeText,
)
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import TOPIC
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.gateways.receipts import NamedReceipts
from goqueue.model import Code, Refused, check_name, format_time
from goqueue.model.requests import (
    Ack,
    Acked,
    DescribeReliability,
    Extend,
    Extended,
    Nack,
    Redrive,
    Redriven,
    RefusedDeadLetter,
    Reject,
    Release,
    Released,
    Reliability,
    Returned,
    Settlement,
    lease_of,
)

__all__ = [
    "DEAD_LETTERS_MAX",
    "SETTLEMENT_ROUTES",
    "AckBatchBody",
    "AckBatchOut",
    "AckBody",
    "AckOut",
    "AckResult",
    "DeadLetterCauses",
    "ExtendBatchBody",
    "ExtendBatchOut",
    "ExtendBody",
    "ExtendOut",
    "ExtendResult",
    "Handle",
    "NackBody",
    "NackOut",
    "Reason",
    "RedriveBody",
    "RedriveFilter",
    "RedriveOut",
    "RejectBody",
    "RejectOut",
    "ReleaseBody",
    "ReliabilityOut",
    "encode_successes",
]

Handle = Annotated[
    str,
    Meta(
        max_length=1024,
        description="as a poll returned it",
        examples=["orders:0:42:1:c2f1"],
    ),
]
Reason = Annotated[str, Meta(max_length=1024)]
DEAD_LETTERS_MAX = 10_000


class AckBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acknowledge one message."""

    receipt_handle: Handle


class AckOut(msgspec.Struct, frozen=True, kw_only=True):
    """The message is not delivered to this group again."""

    acknowledged: bool
    topic: str
    partition: int
    offset: OffsetNumber
    committed_offset: OffsetNumber
    offset_advanced: bool
    in_flight_count: Count


class AckBatchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acknowledge many messages."""

    receipt_handles: Annotated[list[Handle], Meta(min_length=1, max_length=1000)]


class AckResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one handle."""

    receipt_handle: str
    success: bool
    error: str | None = None
    code: str | None = None


class AckBatchOut(msgspec.Struct, frozen=True, kw_only=True):
    """One result per handle, in order."""

    results: list[AckResult]


class ReleaseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Release leases whose messages were not started."""

    receipt_handles: Annotated[list[Handle], Meta(min_length=1, max_length=1000)]


class NackBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Return a message; `delay` replaces the backoff."""

    receipt_handle: Handle
    delay: Backoff | None = None
    reason: Reason | None = None


class NackOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message is delivered again at `next_visible_at`, or was moved to `dlq_topic`."""

    requeued: bool
    topic: str
    partition: int
    offset: OffsetNumber
    delivery_count: int
    next_visible_at: TimeText | None = None
    dlq_topic: str | None = None


class RejectBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Move a message to the dead-letter topic."""

    receipt_handle: Handle
    reason: Reason | None = None


class RejectOut(msgspec.Struct, frozen=True, kw_only=True):
    """The message is in `dlq_topic`."""

    rejected: bool
    topic: str
    partition: int
    offset: OffsetNumber
    dlq_topic: str


class ExtendBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Extend the lease to this long from now."""

    receipt_handle: Handle
    timeout: Lease


class ExtendOut(msgspec.Struct, frozen=True, kw_only=True):
    """The lease was extended."""

    extended: bool
    new_deadline: TimeText


class ExtendBatchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Extend many leases to this long from now."""

    receipt_handles: Annotated[list[Handle], Meta(min_length=1, max_length=1000)]
    timeout: Lease


class ExtendResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new deadline of one lease, or why it was not extended."""

    receipt_handle: str
    success: bool
    new_deadline: TimeText | None = None
    error: str | None = None
    code: str | None = None


class ExtendBatchOut(msgspec.Struct, frozen=True, kw_only=True):
    """One result per handle, in order."""

    results: list[ExtendResult]


PartitionKey = Annotated[str, Meta(extra_json_schema={"pattern": "^(0|[1-9][0-9]{0,3})$"})]
Offsets = Annotated[
    list[Annotated[int, Meta(ge=0, le=INT64_MAX)]], Meta(max_length=DEAD_LETTERS_MAX)
]


class RedriveFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters: those whose cause or reason equals this, and that are named.

    `letters` names offsets of the dead-letter topic by partition, at most 10,000 in all.
    """

    reason: Reason | None = None
    letters: Annotated[dict[PartitionKey, Offsets], Meta(max_length=10_000)] | None = None


class RedriveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Redrive dead letters, oldest first."""

    max: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    to_topic: Name | None = None
    filter: RedriveFilter | None = None


class RefusedLetterOut(msgspec.Struct, frozen=True, kw_only=True):
    """The first dead letter that stays, its place in the dead-letter topic, and why."""

    partition: int
    offset: int
    code: str
    path: str
    reason: str


class RedriveOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many were redriven; repeat until it is 0.

    `refused`, if any, stay where they are: the topic validates, and their values do not conform.
    """

    moved: Count
    refused: Count = 0
    first_refused: RefusedLetterOut | None = None


class DeadLetterCauses(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters by cause."""

    rejected: Count
    max_deliveries: Count


class ReliabilityOut(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the node started, and what is held now."""

    acks_total: Count
    nacks_total: Count
    rejects_total: Count
    releases_total: Count
    dlq_messages: Count
    visibility_extensions: Count
    redeliveries_total: Count
    lease_expirations_total: Count
    in_flight: Count
    dlq_by_cause: DeadLetterCauses
    dlq_by_topic: Annotated[
        dict[str, Count],
        Meta(description="dead letters kept and not redriven, by the topic with them"),
    ]


_ENCODER = msgspec.json.Encoder()
_FIRST = '{"results":[{"receipt_handle":"'
_BETWEEN = '","success":true},{"receipt_handle":"'
_LAST = '","success":true}]}'

_SECTION = "Acknowledgement and dead letters"
_RECEIPT_ERRORS = (Code.RECEIPT_INVALID, Code.RECEIPT_STALE)
_HANDLE = "orders:0:42:1:c2f1"
_PARTITION = re.compile("[0-9]{1,10}", re.ASCII)


async def _ack(call: Call) -> AckOut:
    receipt = call.body(AckBody).receipt_handle
    named = lease_of(receipt)
    acked = await call.ask(Ack(leases=(named,)), Acked)
    settled = acked.settlements[0]
    if settled.code is not None:
        raise Refused(settled.code)
    assert settled.log is not None, "a settlement names its log or why it was refused"
    return AckOut(
        acknowledged=True,
        topic=settled.log.topic,
        partition=settled.log.partition,
        offset=named.offsets[0][0],
        committed_offset=settled.committed,
        offset_advanced=settled.has_advanced,
        in_flight_count=settled.in_flight,
    )


async def _ack_batch(call: Call) -> AckBatchOut | HttpResponse:
    named = NamedReceipts(call.body(AckBatchBody).receipt_handles)
    acked = await call.ask(Ack(leases=named.leases), Acked)
    return _results(named, acked.settlements)


def encode_successes(receipts: Sequence[str]) -> bytes | None:
    """The results of receipts that were all settled; None if one must be escaped.

    Those of the node never are: what was settled is one of them.
    """
    given = "".join(receipts)
    if not receipts or len(_ENCODER.encode(given)) != len(given) + 2:
        return None
    return (_FIRST + _BETWEEN.join(receipts) + _LAST).encode()


async def _release(call: Call) -> AckBatchOut | HttpResponse:
    named = NamedReceipts(call.body(ReleaseBody).receipt_handles)
    released = await call.ask(Release(leases=named.leases), Released)
    return _results(named, released.settlements)


def _results(named: NamedReceipts, settlements: Sequence[Settlement]) -> AckBatchOut | HttpResponse:
    if not any(each.refused for each in settlements):
        written = encode_successes(named.receipts)
        if written is not None:
            return HttpResponse(200, written)
    codes = named.codes(settlements)
    results = [
        AckResult(receipt_handle=receipt, success=True)
        if code is None
        else AckResult(
            receipt_handle=receipt, success=False, error=describe(code, {}), code=code.value
        )
        for receipt, code in zip(named.receipts, codes, strict=True)
    ]
    return AckBatchOut(results=results)


async def _nack(call: Call) -> NackOut:
    body = call.body(NackBody)
    returned = await call.ask(
        Nack(
            receipt=body.receipt_handle,
            delay_ns=None if body.delay is None else body.delay.ns,
            reason=body.reason or "",
        ),
        Returned,
    )
    at = returned.visible_at
    return NackOut(
        requeued=returned.dead_letter_topic is None,
        topic=returned.log.topic,
        partition=returned.log.partition,
        offset=returned.offset,
        delivery_count=returned.attempt,
        next_visible_at=None if at is None else format_time(at),
        dlq_topic=returned.dead_letter_topic,
    )


async def _reject(call: Call) -> RejectOut:
    body = call.body(RejectBody)
    rejected = Reject(receipt=body.receipt_handle, reason=body.reason or "")
    returned = await call.ask(rejected, Returned)
    assert returned.dead_letter_topic is not None, "a rejected message has gone somewhere"
    return RejectOut(
        rejected=True,
        topic=returned.log.topic,
        partition=returned.log.partition,
        offset=returned.offset,
        dlq_topic=returned.dead_letter_topic,
    )


async def _extend(call: Call) -> ExtendOut:
    body = call.body(ExtendBody)
    extend = Extend(leases=(lease_of(body.receipt_handle),), timeout_ns=body.timeout.ns)
    extended = await call.ask(extend, Extended)
    code = extended.settlements[0].code
    if code is not None:
        raise Refused(code)
    return ExtendOut(extended=True, new_deadline=format_time(extended.deadline))


async def _extend_batch(call: Call) -> ExtendBatchOut:
    body = call.body(ExtendBatchBody)
    named = NamedReceipts(body.receipt_handles)
    extend = Extend(leases=named.leases, timeout_ns=body.timeout.ns)
    extended = await call.ask(extend, Extended)
    deadline = format_time(extended.deadline)
    codes = named.codes(extended.settlements)
    results = [
        ExtendResult(receipt_handle=receipt, success=True, new_deadline=deadline)
        if code is None
        else ExtendResult(
            receipt_handle=receipt, success=False, error=describe(code, {}), code=code.value
        )
        for receipt, code in zip(named.receipts, codes, strict=True)
    ]
    return ExtendBatchOut(results=results)


async def _redrive(call: Call) -> RedriveOut:
    body = call.body(RedriveBody)
    if body.to_topic is not None:
        check_name(body.to_topic, "to_topic")
    redriven = await call.ask(
        Redrive(
            topic=call[TOPIC],
            messages_max=1000 if body.max is None else body.max,
            to_topic=body.to_topic,
            reason=None if body.filter is None else body.filter.reason,
            dead_letters=None if body.filter is None else _dead_letters(body.filter.letters),
        ),
        Redriven,
    )
    return RedriveOut(
        moved=redriven.moved,
        refused=redriven.refused,
        first_refused=_refused_letter(redriven.first_refused),
    )


def _refused_letter(found: RefusedDeadLetter | None) -> RefusedLetterOut | None:
    if found is None:
        return None
    return RefusedLetterOut(
        partition=found.log.partition,
        offset=found.offset,
        code=found.code.value,
        path=found.path,
        reason=found.reason,
    )


def _dead_letters(named: dict[str, list[int]] | None) -> dict[int, frozenset[int]] | None:
    """The dead letters that are named, by partition."""
    if named is None:
        return None
    if sum(map(len, named.values())) > DEAD_LETTERS_MAX:
        reason = f"names more than {DEAD_LETTERS_MAX} dead letters"
        raise Refused(Code.REQUEST_INVALID, field="filter.letters", reason=reason)
    found: dict[int, frozenset[int]] = {}
    for partition, offsets in named.items():
        if not _PARTITION.fullmatch(partition):
            reason = f"{partition[:20]!r} is not a partition"
            raise Refused(Code.REQUEST_INVALID, field="filter.letters", reason=reason)
        found[int(partition)] = frozenset(offsets)
    return found


async def _reliability(call: Call) -> ReliabilityOut:
    counts = await call.ask(DescribeReliability(), Reliability)
    return ReliabilityOut(
        acks_total=counts.acks,
        nacks_total=counts.nacks,
        rejects_total=counts.rejects,
        releases_total=counts.releases,
        dlq_messages=counts.dead_letters,
        visibility_extensions=counts.extensions,
        redeliveries_total=counts.redeliveries,
        lease_expirations_total=counts.expirations,
        in_flight=counts.in_flight,
        dlq_by_cause=DeadLetterCauses(
            rejected=counts.rejected_dead_letters, max_deliveries=counts.exhausted_dead_letters
        ),
        dlq_by_topic=counts.dead_letters_by_topic,
    )


SETTLEMENT_ROUTES = (
    Route(
        method="POST",
        path="/messages/ack",
        section=_SECTION,
        summary="Acknowledge a message: it is not delivered to this group again",
        run=_ack,
        body=AckBody,
        answer=AckOut,
        errors=_RECEIPT_ERRORS,
        writes=True,
        example={"receipt_handle": _HANDLE},
    ),
    Route(
        method="POST",
        path="/messages/ack/batch",
        section=_SECTION,
        summary="Acknowledge many messages; each has a result of its own",
        run=_ack_batch,
        body=AckBatchBody,
        answer=AckBatchOut,
        writes=True,
        example={"receipt_handles": [_HANDLE]},
    ),
    Route(
        method="POST",
        path="/messages/release",
        section=_SECTION,
        summary="Release leases whose messages were not started; they do not count as delivered",
        run=_release,
        body=ReleaseBody,
        answer=AckBatchOut,
        writes=True,
        example={"receipt_handles": [_HANDLE]},
    ),
    Route(
        method="POST",
        path="/messages/nack",
        section=_SECTION,
        summary="Return a message, to be delivered again later",
        run=_nack,
        body=NackBody,
        answer=NackOut,
        errors=_RECEIPT_ERRORS,
        writes=True,
        example={"receipt_handle": _HANDLE, "delay": "5s", "reason": "the bank is closed"},
    ),
    Route(
        method="POST",
        path="/messages/reject",
        section=_SECTION,
        summary="Move a message to the dead-letter topic now",
        run=_reject,
        body=RejectBody,
        answer=RejectOut,
        errors=(*_RECEIPT_ERRORS, Code.DEAD_LETTER_LOOP),
        writes=True,
        example={"receipt_handle": _HANDLE, "reason": "unreadable"},
    ),
    Route(
        method="POST",
        path="/messages/visibility",
        section=_SECTION,
        summary="Extend the lease of a message",
        run=_extend,
        body=ExtendBody,
        answer=ExtendOut,
        errors=_RECEIPT_ERRORS,
        writes=True,
        example={"receipt_handle": _HANDLE, "timeout": "2m"},
    ),
    Route(
        method="POST",
        path="/messages/visibility/batch",
        section=_SECTION,
        summary="Extend the leases of many messages; each has a result of its own",
        run=_extend_batch,
        body=ExtendBatchBody,
        answer=ExtendBatchOut,
        writes=True,
        example={"receipt_handles": [_HANDLE], "timeout": "2m"},
    ),
    Route(
        method="POST",
        path="/topics/{topic}/dlq/redrive",
        section=_SECTION,
        summary="Redrive the dead letters of a topic, oldest first",
        run=_redrive,
        parameters=(TOPIC,),
        body=RedriveBody,
        answer=RedriveOut,
        errors=(Code.TOPIC_INTERNAL, Code.DEAD_LETTER_LOOP, Code.LOG_BUSY),
        writes=True,
        example={"max": 100},
    ),
    Route(
        method="GET",
        path="/reliability/stats",
        section=_SECTION,
        summary="Counts of acknowledgements, redeliveries and dead letters",
        run=_reliability,
        answer=ReliabilityOut,
    ),
)
