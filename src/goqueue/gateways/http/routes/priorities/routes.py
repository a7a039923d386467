"""Priorities: how the lanes of each group fare."""

from goqueue.gateways.http.bodies import LaneOut, PriorityStats
from goqueue.gateways.http.messages import PRIORITY_NAMES
from goqueue.gateways.http.table import Call, Route
from goqueue.model import Timestamp, format_duration, format_time
from goqueue.model.requests import DescribePriorities, LaneDescription, PriorityStatistics

__all__ = ["PRIORITY_ROUTES"]


async def _statistics(call: Call) -> PriorityStats:
    found = await call.ask(DescribePriorities(), PriorityStatistics)
    now = call.context.clock()
    waits = [format_duration(wait_ns) for wait_ns in found.average_wait_ns]
    return PriorityStats(
        messages_by_priority=dict(zip(PRIORITY_NAMES, found.published, strict=True)),
        avg_wait_time_by_priority=dict(zip(PRIORITY_NAMES, waits, strict=True)),
        pending_by_priority=dict(zip(PRIORITY_NAMES, found.pending, strict=True)),
        lanes=[_lane(each, now) for each in found.lanes],
    )


def _lane(described: LaneDescription, now: Timestamp) -> LaneOut:
    ago_ns = described.served_ago_ns
    return LaneOut(
        consumer_group=described.group,
        topic=described.log.topic,
        partition=described.log.partition,
        priority=PRIORITY_NAMES[described.lane],
        ready=described.ready,
        in_flight=described.in_flight,
        enqueued=described.enqueued,
        dequeued=described.dequeued,
        oldest_waiting=format_duration(described.waiting_ns),
        last_served=None if ago_ns is None else format_time(Timestamp(now - ago_ns)),
    )


PRIORITY_ROUTES = (
    Route(
        method="GET",
        path="/priority/stats",
        section="Priorities",
        summary="Counts of messages by priority, and how each lane fares",
        run=_statistics,
        answer=PriorityStats,
    ),
)
