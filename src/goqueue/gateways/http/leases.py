"""Queues in stored bytes: a poll that answers with records, and routes that settle by lease.

Many messages are named by few ranges, and an answer lists only what was refused, so that a request
costs by leases and not by messages. Where messages are scattered, as those of several priorities
are, ranges would be short and many: then an answer has the records alone, in the order of delivery,
and a request names offsets by their steps (docs/reference/lease-records.md).

A request is not all or nothing. What is nacked or rejected is asked for message by message, because
each may become a dead letter and is answered when it is there; a few at a time, so that one request
does not hold up others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from operator import sub
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.errors import describe
from goqueue.gateways.http.acks import Handle, Reason
from goqueue.gateways.http.bodies import (
    INT64_MAX,
    Backoff,
    Count,
    Lease,
    OffsetNumber,
    TimeText,
)
from goqueue.gateways.http.groups import POLL_ERRORS, PollBody, poll_command
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import GROUP
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import (
    HOUR,
    LEASED_RECORDS_MEDIA,
    REBALANCE_HEADER,
    Code,
    Range,
    Refused,
    format_time,
    runs,
)
from goqueue.model.requests import (
    Ack,
    Acked,
    Extend,
    Extended,
    Leased,
    LeaseOffsets,
    Nack,
    PartitionLeases,
    Reject,
    Release,
    Released,
    Returned,
    Settlement,
    receipt_of,
)
from goqueue.records import Buffer, LeaseEntry, ShareHeader, gather_records, write_share

__all__ = [
    "LEASE_ROUTES",
    "ExtendLeasesBody",
    "ExtendLeasesOut",
    "LeaseIn",
    "LeasesBody",
    "NackLeasesBody",
    "NackLeasesOut",
    "RefusedLease",
    "RejectLeasesBody",
    "SettledOut",
    "encode_shares",
]

_LEASES_MAX = 1000
_MESSAGES_MAX = 10_000
# Of those that are asked for one by one.
_SINGLES_MAX = 1000
_TOGETHER = 100
_DELAY_NS_MAX = 12 * HOUR
# Records that are not leased are sent along if they are at most a quarter of the others: then to
# send them costs both sides less than to copy the others.
_BETWEEN_SHARE = 4
# To look for records among more than this would take a few milliseconds.
_GATHERED_BYTES_MAX = 4 * 1024 * 1024
# Why one message may be refused while others are not; everything else ends the request.
_OF_ONE_MESSAGE = (
    Code.RECEIPT_INVALID,
    Code.RECEIPT_STALE,
    Code.DEAD_LETTER_LOOP,
    Code.QUOTA_EXCEEDED,
)

# With more gaps between messages than one for so many, their records are copied to be beside each
# other: to name them costs both sides more.
_MESSAGES_PER_GAP = 8

OffsetRange = tuple[OffsetNumber, OffsetNumber]


class LeaseIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages of one lease: ranges [first, next) in rising order, or the first and each step."""

    handle: Handle
    offsets: Annotated[list[OffsetRange], Meta(min_length=1)] | None = None
    steps: Annotated[list[OffsetNumber], Meta(min_length=1)] | None = None


Leases = Annotated[list[LeaseIn], Meta(min_length=1, max_length=_LEASES_MAX)]


class LeasesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leases and the messages of them that are meant."""

    leases: Leases


class NackLeasesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Return messages; `delay` replaces the backoff."""

    leases: Leases
    delay: Backoff | None = None
    reason: Reason | None = None


class RejectLeasesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Move messages to the dead-letter topic."""

    leases: Leases
    reason: Reason | None = None


class ExtendLeasesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Extend leases to this long from now."""

    leases: Leases
    timeout: Lease


class RefusedLease(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a lease with which nothing was done, and why."""

    handle: str
    offsets: list[OffsetRange]
    code: str
    error: str


class SettledOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages were dealt with, and which were not."""

    count: Count
    refused: list[RefusedLease]


class NackLeasesOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages were returned, how many of them became dead letters, and the rest."""

    count: Count
    dead_lettered: Count
    refused: list[RefusedLease]


class ExtendLeasesOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages are leased until `new_deadline`, and which are not."""

    count: Count
    new_deadline: TimeText
    refused: list[RefusedLease]


# Polling


async def _poll(call: Call) -> HttpResponse:
    return encode_shares(await call.ask(poll_command(call.body(PollBody), call[GROUP]), Leased))


def encode_shares(leased: Leased) -> HttpResponse:
    """What was leased, in stored bytes."""
    body = tuple(buffer for share in leased.partitions for buffer in _share(share))
    is_required = leased.is_rebalance_required
    headers = ((REBALANCE_HEADER.encode(), b"true"),) if is_required else ()
    return HttpResponse(200, body, LEASED_RECORDS_MEDIA.encode(), headers)


def _share(share: PartitionLeases) -> tuple[Buffer, ...]:
    gathered = _gather(share)
    if gathered is None:
        leases = [
            LeaseEntry(each.handle, each.attempt, _ranges(each.offsets)) for each in share.leases
        ]
    else:
        leases = [
            LeaseEntry(each.handle, each.attempt, count=len(each.offsets)) for each in share.leases
        ]
    header = ShareHeader(
        share.log.topic,
        share.log.partition,
        format_time(share.deadline),
        leases,
        "" if share.seed is None else str(share.seed),
    )
    return write_share(header, share.data if gathered is None else (gathered,))


def _gather(share: PartitionLeases) -> Buffer | None:
    """The records of a share alone, in the order of delivery; None if it is sent as it was read."""
    if share.is_gathered:
        return share.data[0]
    size = sum(map(len, share.data))
    has_others = size > share.size + share.size // _BETWEEN_SHARE
    if size > _GATHERED_BYTES_MAX or not (has_others or _is_scattered(share)):
        return None
    return gather_records(share.data, share.offsets, share.size)


def _is_scattered(share: PartitionLeases) -> bool:
    """Whether naming the messages of a share takes many ranges."""
    gaps = 0
    for lease in share.leases:
        offsets = lease.offsets
        if not isinstance(offsets, range):
            gaps += len(offsets) - list(map(sub, offsets[1:], offsets)).count(1)
    return gaps * _MESSAGES_PER_GAP > len(share)


def _ranges(offsets: Sequence[int]) -> list[Range]:
    """Offsets in the order of delivery as ranges in the same order."""
    if isinstance(offsets, range):
        return [(offsets.start, offsets.stop)]
    return runs(offsets)


# Settling


def _named(leases: list[LeaseIn], count_max: int = _MESSAGES_MAX) -> tuple[LeaseOffsets, ...]:
    """The leases of a body, checked."""
    count = 0
    for lease in leases:
        if (lease.offsets is None) == (lease.steps is None):
            reason = "a lease has either `offsets` or `steps`"
            raise Refused(Code.REQUEST_INVALID, field="leases.offsets", reason=reason)
        count += _count_ranges(lease.offsets or ()) + _count_steps(lease.steps or ())
    if count > count_max:
        reason = f"{count} messages are more than {count_max}"
        raise Refused(Code.REQUEST_INVALID, field="leases.offsets", reason=reason)
    return tuple(
        LeaseOffsets(lease.handle, lease.offsets or [], lease.steps or []) for lease in leases
    )


def _count_ranges(ranges: Sequence[OffsetRange]) -> int:
    """How many messages ranges name, which have to rise."""
    count = upto = 0
    for first, following in ranges:
        if not upto <= first < following:
            reason = f"[{first}, {following}] is no range, or not after the one before it"
            raise Refused(Code.REQUEST_INVALID, field="leases.offsets", reason=reason)
        upto = following
        count += following - first
    return count


def _count_steps(steps: Sequence[int]) -> int:
    """How many messages the first offset and the steps behind it name, each of at least one."""
    if steps[1:].count(0) or sum(steps) > INT64_MAX:
        reason = "a step is at least 1, and leads to an offset"
        raise Refused(Code.REQUEST_INVALID, field="leases.steps", reason=reason)
    return len(steps)


def _refused(
    leases: Sequence[LeaseOffsets], settlements: Sequence[Settlement]
) -> list[RefusedLease]:
    return [
        RefusedLease(
            handle=lease.handle,
            offsets=[(each.first, each.following)],
            code=each.code.value,
            error=describe(each.code, {}),
        )
        for lease, settlement in zip(leases, settlements, strict=True)
        for each in settlement.refused
    ]


def _count(settlements: Sequence[Settlement]) -> int:
    return sum(each.count for each in settlements)


async def _ack(call: Call) -> SettledOut:
    leases = _named(call.body(LeasesBody).leases)
    settlements = (await call.ask(Ack(leases=leases, group=call[GROUP]), Acked)).settlements
    return SettledOut(count=_count(settlements), refused=_refused(leases, settlements))


async def _release(call: Call) -> SettledOut:
    leases = _named(call.body(LeasesBody).leases)
    released = await call.ask(Release(leases=leases, group=call[GROUP]), Released)
    settlements = released.settlements
    return SettledOut(count=_count(settlements), refused=_refused(leases, settlements))


async def _extend(call: Call) -> ExtendLeasesOut:
    body = call.body(ExtendLeasesBody)
    leases = _named(body.leases)
    extend = Extend(leases=leases, timeout_ns=body.timeout.ns, group=call[GROUP])
    extended = await call.ask(extend, Extended)
    return ExtendLeasesOut(
        count=_count(extended.settlements),
        new_deadline=format_time(extended.deadline),
        refused=_refused(leases, extended.settlements),
    )


async def _nack(call: Call) -> NackLeasesOut:
    body = call.body(NackLeasesBody)
    leases = _named(body.leases, _SINGLES_MAX)
    delay_ns = None if body.delay is None else body.delay.ns
    if delay_ns is not None and delay_ns > _DELAY_NS_MAX:
        raise Refused(Code.REQUEST_INVALID, field="delay", minimum="0s", maximum="12h")

    def nack(receipt: str) -> Awaitable[Returned]:
        command = Nack(
            receipt=receipt, delay_ns=delay_ns, reason=body.reason or "", group=call[GROUP]
        )
        return call.ask(command, Returned)

    returned, refused = await _one_by_one(leases, nack)
    dead_lettered = sum(each.dead_letter_topic is not None for each in returned)
    return NackLeasesOut(count=len(returned), dead_lettered=dead_lettered, refused=refused)


async def _reject(call: Call) -> SettledOut:
    body = call.body(RejectLeasesBody)

    def reject(receipt: str) -> Awaitable[Returned]:
        command = Reject(receipt=receipt, reason=body.reason or "", group=call[GROUP])
        return call.ask(command, Returned)

    returned, refused = await _one_by_one(_named(body.leases, _SINGLES_MAX), reject)
    return SettledOut(count=len(returned), refused=refused)


async def _one_by_one(
    leases: tuple[LeaseOffsets, ...], ask: Callable[[str], Awaitable[Returned]]
) -> tuple[list[Returned], list[RefusedLease]]:
    """Ask for every message by itself, a few at a time; what was done, and what was refused."""
    returned: list[Returned] = []
    refused: list[RefusedLease] = []

    async def outcome(handle: str, offset: int) -> Returned | RefusedLease:
        try:
            return await ask(_receipt(handle, offset))
        except Refused as refusal:
            code = refusal.code
            if code not in _OF_ONE_MESSAGE:
                raise
            return RefusedLease(
                handle=handle,
                offsets=[(offset, offset + 1)],
                code=code.value,
                error=describe(code, refusal.facts),
            )

    left = _each(leases)
    while portion := list(islice(left, _TOGETHER)):
        for each in await asyncio.gather(*(outcome(*message) for message in portion)):
            if isinstance(each, Returned):
                returned.append(each)
            else:
                refused.append(each)
    return returned, refused


def _each(leases: Sequence[LeaseOffsets]) -> Iterator[tuple[str, int]]:
    for lease in leases:
        for offset in lease.folded.unfold():
            yield lease.handle, offset


def _receipt(handle: str, offset: int) -> str:
    try:
        return receipt_of(handle, offset)
    except ValueError:
        # It has no place for an offset, so nobody gave it out; the node says so to whoever may ask.
        return handle


_SECTION = "Leased records"
_LEASES_EXAMPLE = [{"handle": "orders:0:1:c2f1", "offsets": [[40, 43]]}]

LEASE_ROUTES = (
    Route(
        method="POST",
        path="/groups/{group}/poll/records",
        section=_SECTION,
        summary="Lease messages and get them as stored records; wait if there are none",
        run=_poll,
        parameters=(GROUP,),
        body=PollBody,
        answer_media=LEASED_RECORDS_MEDIA,
        answer_headers=(REBALANCE_HEADER,),
        errors=POLL_ERRORS,
        waits=True,
        example={"member_id": "worker-1-5f2a", "max_messages": 1000, "timeout": "20s"},
    ),
    Route(
        method="POST",
        path="/groups/{group}/leases/ack",
        section=_SECTION,
        summary="Acknowledge messages by lease: they are not delivered to this group again",
        run=_ack,
        parameters=(GROUP,),
        body=LeasesBody,
        answer=SettledOut,
        writes=True,
        example={"leases": _LEASES_EXAMPLE},
    ),
    Route(
        method="POST",
        path="/groups/{group}/leases/nack",
        section=_SECTION,
        summary="Return messages by lease, to be delivered again later; at most 1,000",
        run=_nack,
        parameters=(GROUP,),
        body=NackLeasesBody,
        answer=NackLeasesOut,
        writes=True,
        example={"leases": _LEASES_EXAMPLE, "delay": "5s"},
    ),
    Route(
        method="POST",
        path="/groups/{group}/leases/reject",
        section=_SECTION,
        summary="Move messages to the dead-letter topic by lease; at most 1,000",
        run=_reject,
        parameters=(GROUP,),
        body=RejectLeasesBody,
        answer=SettledOut,
        writes=True,
        example={"leases": _LEASES_EXAMPLE, "reason": "unreadable"},
    ),
    Route(
        method="POST",
        path="/groups/{group}/leases/extend",
        section=_SECTION,
        summary="Extend leases, or parts of them",
        run=_extend,
        parameters=(GROUP,),
        body=ExtendLeasesBody,
        answer=ExtendLeasesOut,
        writes=True,
        example={"leases": _LEASES_EXAMPLE, "timeout": "2m"},
    ),
    Route(
        method="POST",
        path="/groups/{group}/leases/release",
        section=_SECTION,
        summary="Release messages that were not started; they do not count as delivered",
        run=_release,
        parameters=(GROUP,),
        body=LeasesBody,
        answer=SettledOut,
        writes=True,
        example={"leases": _LEASES_EXAMPLE},
    ),
)
