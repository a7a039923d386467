"""Statistics of the lanes. Sums are by the name of the priority, all five of them always."""

import msgspec

from goqueue.gateways.http.bodies.messages import PriorityName
from goqueue.gateways.http.bodies.scalars import Count, DurationText, TimeText

__all__ = ["LaneOut", "PriorityStats"]


class LaneOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One priority of one group on one partition, since the node started.

    `ready` is what is looked ahead in memory, not the whole backlog.
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
