"""Bodies of the routes about delayed messages."""

import msgspec

from goqueue.gateways.http.bodies.messages import PriorityName
from goqueue.gateways.http.bodies.scalars import Count, DurationText, OffsetNumber, TimeText
from goqueue.model.requests import DelayState

__all__ = ["CancelledOut", "DelayStats", "DelayedMessage", "DelayedOut"]


class DelayedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A delayed message by the place of its publish result; once delivered, where it is read."""

    topic: str
    partition: int
    offset: OffsetNumber
    deliver_at: TimeText
    time_remaining: DurationText
    priority: PriorityName
    state: DelayState
    delivered_offset: OffsetNumber | None = None


class DelayedOut(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the messages that wait; `count` is of this page, `total` of all."""

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
