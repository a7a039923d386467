"""Bodies of the offset routes: where a group goes on, and how far it is behind."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.groups import MemberId
from goqueue.gateways.http.bodies.scalars import (
    Count,
    DurationText,
    Generation,
    Name,
    OffsetNumber,
    PartitionNumber,
    Time,
    TimeText,
)
from goqueue.model.requests import Strategy

__all__ = [
    "CommitBody",
    "Committed",
    "GroupLag",
    "GroupOffsets",
    "LagOut",
    "PositionsIn",
    "ResetBody",
    "ResetOut",
    "ResetPosition",
]

PartitionKey = Annotated[str, Meta(extra_json_schema={"pattern": "^(0|[1-9][0-9]{0,3})$"})]
Positions = dict[str, dict[str, OffsetNumber]]
PositionsIn = Annotated[
    dict[Name, Annotated[dict[PartitionKey, OffsetNumber], Meta(min_length=1)]],
    Meta(min_length=1, max_length=1000, examples=[{"orders": {"0": 42}}]),
]


class CommitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Positions to move forward: the next offset of each partition, by topic."""

    offsets: PositionsIn
    member_id: MemberId | None = None
    generation: Generation | None = None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The positions that are now in force."""

    committed: bool
    group_id: str
    offsets: Positions


class GroupOffsets(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The next offset of a group wherever it has a position."""

    group_id: str
    offsets: Positions
    generation: int
    updated_at: TimeText | None = None


class ResetBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to put positions; `timestamp` and `offset` go with the strategy of that name."""

    topic: Name
    strategy: Strategy
    partition: PartitionNumber | None = None
    timestamp: Time | None = None
    offset: OffsetNumber | None = None
    dry_run: bool | None = None


class ResetPosition(msgspec.Struct, frozen=True, kw_only=True):
    """One position that was, or would be, moved."""

    topic: Name
    partition: int
    offset: OffsetNumber
    lag: Count


class ResetOut(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset did, or would do."""

    group_id: str
    reset_count: int
    new_offsets: list[ResetPosition]


class LagOut(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind in one partition."""

    topic: Name
    partition: int
    committed_offset: OffsetNumber
    end_offset: OffsetNumber
    lag: Count
    in_flight: Count
    time_lag: DurationText


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind."""

    group_id: str
    total_lag: Count
    partitions: list[LagOut]
