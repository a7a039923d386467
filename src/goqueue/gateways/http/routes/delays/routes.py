"""Delayed messages: which wait, what became of one, and how to cancel it."""

import msgspec

from goqueue.gateways.http.bodies import (
    INT64_MAX,
    CancelledOut,
    DelayedMessage,
    DelayedOut,
    DelayStats,
)
from goqueue.gateways.http.messages import PRIORITY_NAMES
from goqueue.gateways.http.table import (
    PARTITION,
    TOPIC,
    Call,
    ParameterLocation,
    Route,
    integer,
    partition,
)
from goqueue.model import Code, Offset, format_duration, format_time
from goqueue.model.requests import (
    CancelDelayed,
    DelayedDescription,
    DelayedList,
    DelayStatistics,
    DescribeDelays,
    Done,
    FindDelayed,
    ListDelayed,
)

__all__ = ["DELAY_ROUTES"]

_SECTION = "Delayed messages"
_LIMIT = integer(
    "limit", "how many messages at most", default=100, minimum=1, maximum=1000, is_cut=True
)
# More than can ever wait, and far from what no machine can count.
_SKIP_MAX = 1 << 53
_SKIP = integer("skip", "how many to pass over", default=0, minimum=0, maximum=_SKIP_MAX)
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
        summary="List the messages that wait, by the time they are due",
        run=_list,
        parameters=(TOPIC, _LIMIT, _SKIP),
        answer=DelayedOut,
    ),
    Route(
        method="GET",
        path="/topics/{topic}/delayed/{offset}",
        section=_SECTION,
        summary="Tell what became of a delayed message",
        run=_find,
        parameters=(TOPIC, _OFFSET, _WHERE),
        answer=DelayedMessage,
        errors=(Code.MESSAGE_NOT_FOUND, Code.PARTITION_NOT_FOUND, Code.PARTITION_INVALID),
    ),
    Route(
        method="DELETE",
        path="/topics/{topic}/delayed/{partition}/{offset}",
        section=_SECTION,
        summary="Cancel a delayed message: it will never be delivered",
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
        summary="Counts of delayed messages",
        run=_statistics,
        answer=DelayStats,
    ),
)
