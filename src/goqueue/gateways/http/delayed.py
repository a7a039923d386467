"""Delayed messages over HTTP: list them, show the state of one, cancel it."""

import msgspec

from goqueue.gateways.http.bodies import INT64_MAX, Count, DurationText, OffsetNumber, TimeText
from goqueue.gateways.http.messages import PRIORITY_NAMES, PriorityName
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import (
    PARTITION,
    TOPIC,
    ParameterLocation,
    integer,
    partition,
)
from goqueue.gateways.http.routing.router import Route
from goqueue.model import Code, Offset, format_duration, format_time
from goqueue.model.requests import (
    CancelDelayed,
    DelayedDescription,
    DelayedList,
    DelayState,
    DelayStatistics,
    DescribeDelays,
    Done,
    FindDelayed,
    ListDelayed,
)

__all__ = ["DELAY_ROUTES", "CancelledOut", "DelayStats", "DelayedMessage", "DelayedOut"]


class DelayedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A delayed message by the offset of its publish result; once delivered, also its new one."""

    topic: str
    partition: int
    offset: OffsetNumber
    deliver_at: TimeText
    time_remaining: DurationText
    priority: PriorityName
    state: DelayState
    delivered_offset: OffsetNumber | None = None


class DelayedOut(msgspec.Struct, frozen=True, kw_only=True):
    """A page of delayed messages; `count` is for this page, `total` for all."""

    topic: str
    messages: list[DelayedMessage]
    count: Count
    total: Count
    limit: Count
    skip: Count


class CancelledOut(msgspec.Struct, frozen=True, kw_only=True):
    """The message will never be delivered."""

    cancelled: bool
    topic: str
    partition: int
    offset: OffsetNumber


class DelayStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delayed messages of the node; `by_topic` counts those that wait."""

    pending_count: Count
    delivered_count: Count
    cancelled_count: Count
    avg_delay: DurationText
    by_topic: dict[str, int]
    next_due_at: TimeText | None = None


_SECTION = "Delayed messages"
_LIMIT = integer(
    "limit", "how many messages at most", default=100, minimum=1, maximum=1000, is_cut=True
)
# More than can ever wait, and far from what no machine can count.
_SKIP_MAX = 1 << 53
_SKIP = integer("skip", "how many to skip", default=0, minimum=0, maximum=_SKIP_MAX)
_OFFSET = msgspec.structs.replace(
    integer("offset", "offset of the publish result", default=0, minimum=0, maximum=INT64_MAX),
    location=ParameterLocation.PATH,
    is_required=True,
)
_WHERE = partition(
    "partition", "where to look; absent, the first partition that has it", default=None
)


async def _list(call: Call) -> DelayedOut:
    limit, skip = call[_LIMIT], call[_SKIP]
    found = await call.ask(ListDelayed(topic=call[TOPIC], limit=limit, skip=skip), DelayedList)
    messages = [_delayed(each) for each in found.messages]
    return DelayedOut(
        topic=found.topic,
        messages=messages,
        count=len(messages),
        total=found.total,
        limit=limit,
        skip=skip,
    )


async def _find(call: Call) -> DelayedMessage:
    command = FindDelayed(topic=call[TOPIC], offset=Offset(call[_OFFSET]), partition=call[_WHERE])
    return _delayed(await call.ask(command, DelayedDescription))


async def _find_at(call: Call) -> DelayedMessage:
    command = FindDelayed(
        topic=call[TOPIC], offset=Offset(call[_OFFSET]), partition=call[PARTITION]
    )
    return _delayed(await call.ask(command, DelayedDescription))


async def _cancel(call: Call) -> CancelledOut:
    topic, number, offset = call[TOPIC], call[PARTITION], call[_OFFSET]
    await call.ask(CancelDelayed(topic=topic, partition=number, offset=Offset(offset)), Done)
    return CancelledOut(cancelled=True, topic=topic, partition=number, offset=offset)


async def _statistics(call: Call) -> DelayStats:
    counts = await call.ask(DescribeDelays(), DelayStatistics)
    due = counts.next_due
    return DelayStats(
        pending_count=counts.pending,
        delivered_count=counts.delivered,
        cancelled_count=counts.cancelled,
        avg_delay=format_duration(counts.average_delay_ns),
        by_topic=counts.by_topic,
        next_due_at=None if due is None else format_time(due),
    )


def _delayed(described: DelayedDescription) -> DelayedMessage:
    return DelayedMessage(
        topic=described.log.topic,
        partition=described.log.partition,
        offset=described.offset,
        deliver_at=format_time(described.due),
        time_remaining=format_duration(described.time_remaining_ns),
        priority=PRIORITY_NAMES[described.priority],
        state=described.state,
        delivered_offset=described.delivered_offset,
    )


DELAY_ROUTES = (
    Route(
        method="GET",
        path="/topics/{topic}/delayed",
        section=_SECTION,
        summary="List the delayed messages of a topic, by the time they are due",
        run=_list,
        parameters=(TOPIC, _LIMIT, _SKIP),
        answer=DelayedOut,
    ),
    Route(
        method="GET",
        path="/topics/{topic}/delayed/{offset}",
        section=_SECTION,
        summary="Show the state of a delayed message",
        run=_find,
        parameters=(TOPIC, _OFFSET, _WHERE),
        answer=DelayedMessage,
        errors=(Code.MESSAGE_NOT_FOUND, Code.PARTITION_NOT_FOUND, Code.PARTITION_INVALID),
    ),
    Route(
        method="GET",
        path="/topics/{topic}/delayed/{partition}/{offset}",
        section=_SECTION,
        summary="Show the state of a delayed message of one partition",
        run=_find_at,
        parameters=(TOPIC, PARTITION, _OFFSET),
        answer=DelayedMessage,
        errors=(Code.MESSAGE_NOT_FOUND, Code.PARTITION_NOT_FOUND, Code.PARTITION_INVALID),
    ),
    Route(
        method="DELETE",
        path="/topics/{topic}/delayed/{partition}/{offset}",
        section=_SECTION,
        summary="Cancel a delayed message, so that it is never delivered",
        run=_cancel,
        parameters=(TOPIC, PARTITION, _OFFSET),
        answer=CancelledOut,
        errors=(
            Code.TOPIC_INTERNAL,
            Code.MESSAGE_NOT_FOUND,
            Code.ALREADY_DELIVERED,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
        ),
        writes=True,
    ),
    Route(
        method="GET",
        path="/delay/stats",
        section=_SECTION,
        summary="Count delayed messages",
        run=_statistics,
        answer=DelayStats,
    ),
    Route(
        method="GET",
        path="/delayed/stats",
        section=_SECTION,
        summary="Count delayed messages; another name of `/delay/stats`",
        run=_statistics,
        answer=DelayStats,
    ),
)
