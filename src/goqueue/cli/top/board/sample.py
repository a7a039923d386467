"""What is asked in one round, and what came back: values between the asking and the board."""

import datetime as dt

import msgspec

from goqueue.client.admin import (
    DelayStats,
    GroupLag,
    GroupSummary,
    NodeStats,
    PriorityStats,
    Readiness,
    ReliabilityStats,
    TransactionDescription,
    TransactionStats,
    Version,
)

__all__ = ["Sample", "Wants"]


class Wants(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask besides the totals of the node, which are always asked.

    `lags` are groups, `dues` topics with delayed messages: each costs a request.
    """

    lags: tuple[str, ...] = ()
    dues: tuple[str, ...] = ()
    has_lanes: bool = False
    has_transactions: bool = False


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The node as it was found; `at_s` is a clock that never turns back, `time` that of the wall.

    Groups and topics that were gone when they were asked for are not in `lags` and `dues`.
    """

    at_s: float
    time: dt.datetime
    round_trip_s: float
    version: Version
    readiness: Readiness
    stats: NodeStats
    reliability: ReliabilityStats
    delays: DelayStats
    transactions: TransactionStats
    groups: tuple[GroupSummary, ...]
    lags: dict[str, GroupLag] = {}
    dues: dict[str, dt.datetime] = {}
    priorities: PriorityStats | None = None
    open_transactions: tuple[TransactionDescription, ...] | None = None
