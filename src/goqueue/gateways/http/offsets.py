"""Offsets of groups over HTTP: commit, show and reset them, and show the lag."""

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import (
    Count,
    DurationText,
    Generation,
    Name,
    OffsetNumber,
    PartitionNumber,
    Time,
    TimeText,
)
from goqueue.gateways.http.groups import MemberId
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import GROUP, boolean, name
from goqueue.gateways.http.routing.router import SCHEMA_REF, Route
from goqueue.model import Code, LogId, Offset, Refused, check_name, format_duration, format_time
from goqueue.model.requests import (
    CommitOffsets,
    DescribeLag,
    DescribeOffsets,
    Lag,
    Offsets,
    PositionsReset,
    ResetOffsets,
    Strategy,
)

__all__ = [
    "POSITION_ROUTES",
    "CommitBody",
    "Committed",
    "GroupLag",
    "GroupOffsets",
    "LagOut",
    "PositionsIn",
    "ResetBody",
    "ResetOut",
    "ResetPosition",
    "wanted_offsets",
]

PartitionKey = Annotated[str, Meta(extra_json_schema={"pattern": "^(0|[1-9][0-9]{0,3})$"})]
Positions = dict[str, dict[str, OffsetNumber]]
PositionsIn = Annotated[
    dict[Name, Annotated[dict[PartitionKey, OffsetNumber], Meta(min_length=1)]],
    Meta(min_length=1, max_length=1000, examples=[{"orders": {"0": 42}}]),
]


class CommitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Offsets to commit: the next offset of each partition, by topic."""

    offsets: PositionsIn
    member_id: MemberId | None = None
    generation: Generation | None = None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets as they are now."""

    committed: bool
    group_id: str
    offsets: Positions


class GroupOffsets(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The next offset of a group in every partition where it has one."""

    group_id: str
    offsets: Positions
    generation: int
    updated_at: TimeText | None = None


class ResetBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to reset to; `timestamp` and `offset` belong to the strategies of those names."""

    topic: Name
    strategy: Strategy
    partition: PartitionNumber | None = None
    timestamp: Time | None = None
    offset: OffsetNumber | None = None
    dry_run: bool | None = None


class ResetPosition(msgspec.Struct, frozen=True, kw_only=True):
    """One offset that was, or would be, reset."""

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


_SECTION = "Offsets and lag"
# One spelling for each number, so that no body names a partition twice.
_PARTITION = re.compile(r"0|-?[1-9][0-9]{0,9}", re.ASCII)
# As many as a topic has partitions at most; each is looked up before the first is moved.
_POSITIONS_MAX = 10_000
_RESET_SCHEMA = {
    "allOf": [{"$ref": SCHEMA_REF.format(name=ResetBody.__name__)}],
    "anyOf": [
        {"properties": {"strategy": {"enum": ["earliest", "latest"]}}},
        {
            "properties": {"strategy": {"const": "timestamp"}, "timestamp": {"type": "string"}},
            "required": ["timestamp"],
        },
        {
            "properties": {"strategy": {"const": "offset"}, "offset": {"type": "integer"}},
            "required": ["offset"],
        },
    ],
}
_TOPIC = name("topic", "only the positions in this topic")
_STABLE = boolean("stable", "wait, up to 30 s, until no open transaction holds the positions")


async def _commit(call: Call) -> Committed:
    body = call.body(CommitBody)
    offsets = await call.ask(
        CommitOffsets(
            group=call[GROUP],
            offsets=wanted_offsets(body.offsets),
            member_id=body.member_id,
            generation=body.generation,
        ),
        Offsets,
    )
    return Committed(committed=True, group_id=call[GROUP], offsets=_by_topic(offsets))


async def _read(call: Call) -> GroupOffsets:
    wanted = DescribeOffsets(group=call[GROUP], topic=call[_TOPIC] or None, is_stable=call[_STABLE])
    offsets = await call.ask(wanted, Offsets)
    at = offsets.updated_at
    return GroupOffsets(
        group_id=offsets.group,
        offsets=_by_topic(offsets),
        generation=offsets.generation,
        updated_at=None if at is None else format_time(at),
    )


async def _reset(call: Call) -> ResetOut:
    body = call.body(ResetBody)
    check_name(body.topic, "topic")
    is_told = {Strategy.TIMESTAMP: body.timestamp is None, Strategy.OFFSET: body.offset is None}
    if is_told.get(body.strategy, False):
        reason = f"is missing: the strategy is {body.strategy}"
        raise Refused(Code.REQUEST_INVALID, field=body.strategy.value, reason=reason)
    reset = await call.ask(
        ResetOffsets(
            group=call[GROUP],
            topic=body.topic,
            strategy=body.strategy,
            partition=body.partition,
            timestamp=None if body.timestamp is None else body.timestamp.at,
            offset=None if body.offset is None else Offset(body.offset),
            is_dry_run=bool(body.dry_run),
        ),
        PositionsReset,
    )
    moved = [
        ResetPosition(
            topic=each.log.topic,
            partition=each.log.partition,
            offset=each.offset,
            lag=each.lag,
        )
        for each in reset.positions
    ]
    return ResetOut(group_id=reset.group, reset_count=len(moved), new_offsets=moved)


async def _lag(call: Call) -> GroupLag:
    lag = await call.ask(DescribeLag(group=call[GROUP]), Lag)
    return GroupLag(
        group_id=lag.group,
        total_lag=sum(each.lag for each in lag.partitions),
        partitions=[
            LagOut(
                topic=each.log.topic,
                partition=each.log.partition,
                committed_offset=each.committed,
                end_offset=each.end,
                lag=each.lag,
                in_flight=each.in_flight,
                time_lag=format_duration(each.time_lag_ns),
            )
            for each in lag.partitions
        ],
    )


def wanted_offsets(given: Mapping[str, Mapping[str, int]]) -> dict[LogId, Offset]:
    """Positions as a body writes them, by topic and partition; refuses what cannot be one."""
    if sum(map(len, given.values())) > _POSITIONS_MAX:
        reason = f"names more than {_POSITIONS_MAX} positions"
        raise Refused(Code.REQUEST_INVALID, field="offsets", reason=reason)
    wanted = {}
    for topic, positions in given.items():
        check_name(topic, "offsets")
        for partition, offset in positions.items():
            wanted[LogId(topic, _number(partition))] = Offset(offset)
    return wanted


def _number(partition: str) -> int:
    if not _PARTITION.fullmatch(partition):
        reason = "partitions are whole numbers in quotes"
        raise Refused(Code.REQUEST_INVALID, field="offsets", reason=reason)
    number = int(partition)
    if number < 0:
        raise Refused(Code.PARTITION_INVALID, field="offsets", found=number)
    return number


def _by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for log, offset in sorted(offsets.offsets.items()):
        topics.setdefault(log.topic, {})[str(log.partition)] = offset
    return topics


POSITION_ROUTES = (
    Route(
        method="POST",
        path="/groups/{group}/offsets",
        section=_SECTION,
        summary="Commit offsets of a group, all of them or none",
        run=_commit,
        parameters=(GROUP,),
        body=CommitBody,
        answer=Committed,
        errors=(
            Code.GROUP_NOT_FOUND,
            Code.MEMBER_NOT_FOUND,
            Code.GENERATION_STALE,
            Code.TOPIC_NOT_FOUND,
            Code.PARTITION_NOT_ASSIGNED,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.OFFSET_OUT_OF_RANGE,
        ),
        writes=True,
        example={"offsets": {"orders": {"0": 42}}},
    ),
    Route(
        method="GET",
        path="/groups/{group}/offsets",
        section=_SECTION,
        summary="Show the committed offsets of a group",
        run=_read,
        parameters=(GROUP, _TOPIC, _STABLE),
        answer=GroupOffsets,
        errors=(Code.GROUP_NOT_FOUND, Code.TOPIC_NOT_FOUND, Code.LOG_BUSY),
        # The broker ends the wait for a transaction that holds positions, in a code of its own.
        waits=True,
    ),
    Route(
        method="POST",
        path="/groups/{group}/offsets/reset",
        section=_SECTION,
        summary="Reset the offsets of a group; open leases become stale",
        run=_reset,
        parameters=(GROUP,),
        body=ResetBody,
        body_schema=_RESET_SCHEMA,
        answer=ResetOut,
        errors=(
            Code.GROUP_NOT_FOUND,
            Code.TOPIC_NOT_FOUND,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.OFFSET_OUT_OF_RANGE,
        ),
        writes=True,
        example={"topic": "orders", "strategy": "earliest"},
    ),
    Route(
        method="GET",
        path="/groups/{group}/lag",
        section=_SECTION,
        summary="Show how far a group is behind",
        run=_lag,
        parameters=(GROUP,),
        answer=GroupLag,
        errors=(Code.GROUP_NOT_FOUND,),
    ),
)
