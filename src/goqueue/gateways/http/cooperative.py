"""Cooperative groups over HTTP: join, heartbeats with news, revocations; what became of rebalances.

Polls, offsets and acknowledgements are those of all groups.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import Generation, Name, PartitionNumber, TimeText, Wait
from goqueue.gateways.http.groups import (
    JOIN_ERRORS,
    JoinBody,
    LeaveBody,
    LeftOut,
    MemberId,
    MemberOut,
    group_out,
    join_command,
    leave,
)
from goqueue.gateways.http.read import shortened
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import GROUP, text
from goqueue.gateways.http.routing.router import Route
from goqueue.model import MILLISECOND, SECOND, Code, LogId, Timestamp, check_name, format_time
from goqueue.model.requests import (
    Assignor,
    CooperativeBeat,
    CooperativeHeartbeat,
    DescribeAssignment,
    DescribeGroup,
    DescribeRebalances,
    GroupDescription,
    GroupProtocol,
    GroupState,
    Joined,
    MemberAssignment,
    Mode,
    Rebalances,
    RebalanceState,
    RevocationConfirmed,
    RevokePartitions,
)

__all__ = [
    "COOPERATIVE_ROUTES",
    "AssignmentOut",
    "CooperativeGroup",
    "CooperativeHeartbeatBody",
    "CooperativeHeartbeatOut",
    "CooperativeJoinOut",
    "RebalanceStatistics",
    "RevokeBody",
    "RevokeOut",
    "TopicPartition",
]

_SECTION = "Cooperative groups"
_WAIT_NS_MAX = 60 * SECOND
_REVOKED_MAX = 10_000
_COOPERATIVE = GroupProtocol.COOPERATIVE
_MEMBER = text("member_id", "the member", maximum=512)


class TopicPartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One partition."""

    topic: Name
    partition: PartitionNumber


class CooperativeJoinOut(msgspec.Struct, frozen=True, kw_only=True):
    """The membership; a heartbeat returns its partitions."""

    member_id: str
    generation: int
    leader_id: str
    rebalance_required: Literal[True]
    mode: Mode
    protocol: GroupProtocol
    members: tuple[str, ...]


class CooperativeHeartbeatBody(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Stay a member; with `wait`, wait for news."""

    member_id: MemberId
    generation: Generation
    wait: Annotated[
        Wait | None, Meta(description="how long to wait for news; more than 60s is cut to that")
    ] = None


class CooperativeHeartbeatOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the member owns in this generation, and what of that it has to give up."""

    rebalance_required: bool
    partitions_to_revoke: list[TopicPartition]
    partitions_assigned: list[TopicPartition]
    generation: int
    protocol: GroupProtocol
    state: GroupState
    rebalance_state: RebalanceState
    revocation_deadline: Annotated[
        TimeText | None, Meta(description="when what is not given up is taken away")
    ] = None


class RevokeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Partitions that the member has stopped to work on."""

    member_id: MemberId
    generation: Generation
    revoked_partitions: Annotated[list[TopicPartition], Meta(max_length=_REVOKED_MAX)]


class RevokeOut(msgspec.Struct, frozen=True, kw_only=True):
    """The member has given them up; `pending_count` counts those that others still hold."""

    status: Literal["acknowledged"]
    pending_count: int
    rebalance_state: RebalanceState


class AssignmentOut(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a member."""

    member_id: str
    generation: int
    partitions: list[TopicPartition]


class CooperativeGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One group with its members, and how far its rebalance is."""

    group_id: str
    state: GroupState
    mode: Mode
    protocol: GroupProtocol
    generation: int
    topics: tuple[str, ...]
    created_at: TimeText
    members: list[MemberOut]
    last_received_at: TimeText | None = None
    assignment_strategy: Assignor
    rebalance_state: RebalanceState
    member_assignments: dict[str, list[TopicPartition]]


class RebalanceStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rebalances since the start of the node; a failed one forced a revocation."""

    total_rebalances: int
    successful_rebalances: int
    failed_rebalances: int
    total_partitions_revoked: int
    total_partitions_assigned: int
    total_revocation_timeouts: int
    last_rebalance_duration_ms: float
    average_rebalance_duration_ms: float
    last_rebalance_at: TimeText | None = None
    rebalances_by_reason: dict[str, int]


async def _join(call: Call) -> CooperativeJoinOut:
    command = join_command(call.body(JoinBody), call[GROUP], _COOPERATIVE)
    joined = await call.ask(command, Joined)
    return CooperativeJoinOut(
        member_id=joined.member_id,
        generation=joined.generation,
        leader_id=joined.leader_id,
        rebalance_required=True,
        mode=joined.mode,
        protocol=joined.protocol,
        members=joined.members,
    )


async def _heartbeat(call: Call) -> CooperativeHeartbeatOut:
    body = call.body(CooperativeHeartbeatBody)
    wait_ns = 0 if body.wait is None else shortened(min(body.wait.ns, _WAIT_NS_MAX))
    command = CooperativeHeartbeat(
        group=call[GROUP], member_id=body.member_id, generation=body.generation, wait_ns=wait_ns
    )
    beat = await call.ask(command, CooperativeBeat)
    return CooperativeHeartbeatOut(
        rebalance_required=beat.is_rebalance_required,
        partitions_to_revoke=_partitions(beat.to_revoke),
        partitions_assigned=_partitions(beat.assigned),
        generation=beat.generation,
        protocol=_COOPERATIVE,
        state=beat.state,
        rebalance_state=beat.rebalance_state,
        revocation_deadline=_time(beat.revocation_deadline),
    )


async def _revoke(call: Call) -> RevokeOut:
    body = call.body(RevokeBody)
    for each in body.revoked_partitions:
        check_name(each.topic, "topic")
    logs = tuple(LogId(each.topic, each.partition) for each in body.revoked_partitions)
    command = RevokePartitions(
        group=call[GROUP], member_id=body.member_id, generation=body.generation, logs=logs
    )
    confirmed = await call.ask(command, RevocationConfirmed)
    return RevokeOut(
        status="acknowledged",
        pending_count=confirmed.pending_count,
        rebalance_state=confirmed.rebalance_state,
    )


async def _describe_assignment(call: Call) -> AssignmentOut:
    command = DescribeAssignment(group=call[GROUP], member_id=call[_MEMBER])
    assignment = await call.ask(command, MemberAssignment)
    return AssignmentOut(
        member_id=assignment.member_id,
        generation=assignment.generation,
        partitions=_partitions(assignment.assigned),
    )


async def _describe(call: Call) -> CooperativeGroup:
    described = await call.ask(DescribeGroup(group=call[GROUP]), GroupDescription)
    return CooperativeGroup(
        **{
            **msgspec.structs.asdict(group_out(described)),
            "rebalance_state": described.rebalance_state,
        },
        assignment_strategy=described.assignor,
        member_assignments={
            member.member_id: _partitions(member.assigned) for member in described.members
        },
    )


async def _describe_rebalances(call: Call) -> RebalanceStatistics:
    return _statistics(await call.ask(DescribeRebalances(group=call[GROUP]), Rebalances))


async def _describe_all_rebalances(call: Call) -> RebalanceStatistics:
    return _statistics(await call.ask(DescribeRebalances(), Rebalances))


def _statistics(rebalances: Rebalances) -> RebalanceStatistics:
    ended = rebalances.succeeded + rebalances.failed
    return RebalanceStatistics(
        total_rebalances=rebalances.count,
        successful_rebalances=rebalances.succeeded,
        failed_rebalances=rebalances.failed,
        total_partitions_revoked=rebalances.partitions_revoked,
        total_partitions_assigned=rebalances.partitions_assigned,
        total_revocation_timeouts=rebalances.revocation_timeouts,
        last_rebalance_duration_ms=rebalances.last_duration_ns / MILLISECOND,
        average_rebalance_duration_ms=rebalances.durations_ns / MILLISECOND / max(ended, 1),
        last_rebalance_at=_time(rebalances.last_at),
        rebalances_by_reason=rebalances.by_reason,
    )


def _partitions(logs: tuple[LogId, ...]) -> list[TopicPartition]:
    return [TopicPartition(topic=log.topic, partition=log.partition) for log in logs]


def _time(at: Timestamp | None) -> str | None:
    return None if at is None else format_time(at)


COOPERATIVE_ROUTES = (
    Route(
        method="POST",
        path="/groups/{group}/join/cooperative",
        section=_SECTION,
        summary="Join a group in which only partitions that move are interrupted",
        run=_join,
        parameters=(GROUP,),
        body=JoinBody,
        answer=CooperativeJoinOut,
        errors=JOIN_ERRORS,
        writes=True,
        example={"client_id": "worker-1", "topics": ["orders"]},
    ),
    Route(
        method="POST",
        path="/groups/{group}/heartbeat/cooperative",
        section=_SECTION,
        summary="Stay a member, and learn what to give up and what was assigned",
        run=_heartbeat,
        parameters=(GROUP,),
        body=CooperativeHeartbeatBody,
        answer=CooperativeHeartbeatOut,
        errors=(Code.GROUP_NOT_FOUND, Code.MEMBER_NOT_FOUND, Code.GROUP_MISMATCH),
        waits=True,
        example={"member_id": "worker-1-5f2a", "generation": 3, "wait": "3s"},
    ),
    Route(
        method="POST",
        path="/groups/{group}/revoke",
        section=_SECTION,
        summary="Confirm that the member has given up partitions",
        run=_revoke,
        parameters=(GROUP,),
        body=RevokeBody,
        answer=RevokeOut,
        errors=(
            Code.GROUP_NOT_FOUND,
            Code.MEMBER_NOT_FOUND,
            Code.GROUP_MISMATCH,
            Code.GENERATION_STALE,
            Code.PARTITION_NOT_ASSIGNED,
        ),
        writes=True,
        example={
            "member_id": "worker-1-5f2a",
            "generation": 3,
            "revoked_partitions": [{"topic": "orders", "partition": 2}],
        },
    ),
    Route(
        method="POST",
        path="/groups/{group}/leave/cooperative",
        section=_SECTION,
        summary="Leave a group; the leases of the member end at once",
        run=leave,
        parameters=(GROUP,),
        body=LeaveBody,
        answer=LeftOut,
        errors=(Code.GROUP_NOT_FOUND, Code.MEMBER_NOT_FOUND),
        writes=True,
    ),
    Route(
        method="GET",
        path="/groups/{group}/assignment",
        section=_SECTION,
        summary="The partitions of a member, in either protocol",
        run=_describe_assignment,
        parameters=(GROUP, _MEMBER),
        answer=AssignmentOut,
        errors=(Code.GROUP_NOT_FOUND, Code.MEMBER_NOT_FOUND, Code.REBALANCE_IN_PROGRESS),
    ),
    Route(
        method="GET",
        path="/groups/{group}/cooperative",
        section=_SECTION,
        summary="Describe a group, its members and how far its rebalance is",
        run=_describe,
        parameters=(GROUP,),
        answer=CooperativeGroup,
        errors=(Code.GROUP_NOT_FOUND,),
    ),
    Route(
        method="GET",
        path="/groups/{group}/rebalance/stats",
        section=_SECTION,
        summary="Rebalances of a group since the start of the node",
        run=_describe_rebalances,
        parameters=(GROUP,),
        answer=RebalanceStatistics,
        errors=(Code.GROUP_NOT_FOUND,),
    ),
    Route(
        method="GET",
        path="/rebalance/stats",
        section=_SECTION,
        summary="Rebalances of all groups since the start of the node",
        run=_describe_all_rebalances,
        answer=RebalanceStatistics,
    ),
)
