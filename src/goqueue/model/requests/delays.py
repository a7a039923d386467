"""Delayed messages: what may be asked about them, and what is answered."""

import enum

import msgspec

from goqueue.model.ids import LogId, Offset, Timestamp

__all__ = [
    "CancelDelayed",
    "DelayState",
    "DelayStatistics",
    "DelayedDescription",
    "DelayedList",
    "DescribeDelays",
    "FindDelayed",
    "ListDelayed",
]


# Commands


class ListDelayed(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that wait, by due time; answered by `DelayedList`.

    Between nodes `only` names the partitions that are asked for.
    """

    topic: str
    limit: int = 100
    skip: int = 0
    only: tuple[int, ...] | None = None


class FindDelayed(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `DelayedDescription`; without a partition the first that has such a message.

    Between nodes `only` names the partitions that are asked for.
    """

    topic: str
    offset: Offset
    partition: int | None = None
    only: tuple[int, ...] | None = None


class CancelDelayed(msgspec.Struct, frozen=True, kw_only=True):
    """Never deliver a message that waits; answered by `Done`."""

    topic: str
    partition: int
    offset: Offset


class DescribeDelays(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `DelayStatistics`."""


# Replies


class DelayState(enum.StrEnum):
    """What became of a delayed message. Expired: its record was lost before it was due."""

    PENDING = "pending"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class DelayedDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One delayed message; `offset` is that of its first record, which names it."""

    log: LogId
    offset: Offset
    due: Timestamp
    time_remaining_ns: int
    priority: int
    state: DelayState
    delivered_offset: Offset | None = None


class DelayedList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the messages that wait in a topic, by due time."""

    topic: str
    messages: tuple[DelayedDescription, ...]
    total: int


class DelayStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Delayed messages of the node; the average is over those published in this life."""

    pending: int
    delivered: int
    cancelled: int
    average_delay_ns: int
    by_topic: dict[str, int]
    next_due: Timestamp | None = None
    # How many messages the average is over, and which node says so.
    averaged: int = 0
    node: str = ""
