"""Statistics of priorities over HTTP.

Sums are listed by the name of the priority, always all five.
"""

import msgspec

from goqueue.gateways.http.bodies import Count, DurationText, TimeText
from goqueue.gateways.http.messages import PRIORITY_NAMES, PriorityName
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.router import Route
from goqueue.model import Timestamp, format_duration, format_time
from goqueue.model.requests import DescribePriorities, LaneDescription, PriorityStatistics

__all__ = ["PRIORITY_ROUTES", "LaneOut", "PriorityStats"]


class LaneOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One priority of one group on one partition, since the node started.

    `ready` counts messages that were scanned and are ready for delivery, not the whole backlog.
    """

    consumer_group: str
    topic: str
    partition: int
    priority: PriorityName
    ready: Count
    in_flight: Count
    enqueued: Count
    dequeued: Count
    oldest_waiting: DurationText
    last_served: TimeText | None = None


class PriorityStats(msgspec.Struct, frozen=True, kw_only=True):
    """Messages published, waiting and pending by priority, and each lane that has any."""

    messages_by_priority: dict[PriorityName, Count]
    avg_wait_time_by_priority: dict[PriorityName, DurationText]
    pending_by_priority: dict[PriorityName, Count]
    lanes: list[LaneOut]


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
        summary="Count messages by priority, with the waiting times of each",
        run=_statistics,
        answer=PriorityStats,
    ),
)
