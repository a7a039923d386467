"""Reassignments and coordinators over HTTP: bodies, handlers and routes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import INT32_MAX, Count, Name, TimeText
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import GROUP, ParameterLocation, name
from goqueue.gateways.http.routing.router import Route
from goqueue.model import Code, format_time
from goqueue.model.requests import (
    CancelReassignment,
    ClusterDescription,
    DescribeCluster,
    DescribeCoordinators,
    DescribeGroup,
    GroupDescription,
    ListReassignments,
    MetadataDescription,
    ReassignmentDescription,
    ReassignmentList,
    StartReassignment,
    WantedMove,
)
from goqueue.records import murmur3

__all__ = [
    "REASSIGNMENT_ROUTES",
    "GroupCoordinatorOut",
    "MoveIn",
    "MoveOut",
    "ReassignmentBody",
    "ReassignmentOut",
    "ReportedCoordinators",
    "ReportedReassignments",
]

_COORDINATOR_TOPIC = "__consumer_offsets"
_MoveState = Annotated[
    str,
    Meta(description="pending, in_progress, catching_up, completed, failed or cancelled."),
]
_Percent = Annotated[float, Meta(ge=0, le=100)]


class MoveIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A partition, and the nodes that are to keep it."""

    topic: Name
    partition: Annotated[int, Meta(ge=0, le=INT32_MAX)]
    new_replicas: Annotated[
        tuple[Name, ...],
        Meta(min_length=1, max_length=64, description="The first is the preferred leader."),
    ]


class ReassignmentBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Partitions to move; those that are not named stay where they are."""

    partitions: Annotated[tuple[MoveIn, ...], Meta(min_length=1, max_length=1000)]
    throttle_bytes_per_sec: Annotated[
        Annotated[int, Meta(ge=1, le=1 << 40)] | None,
        Meta(description="What each node sends new replicas at most; absent: no limit."),
    ] = None
    timeout_per_partition_sec: Annotated[
        int, Meta(ge=1, le=604_800, description="A partition that takes longer stays where it was.")
    ] = 3600


class MoveOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One partition of a reassignment, and how far it is."""

    topic: str
    partition: Count
    old_replicas: tuple[str, ...]
    new_replicas: tuple[str, ...]
    state: _MoveState
    catchup_percent: _Percent
    bytes_transferred: Count
    error: str | None = None


class ReassignmentOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reassignment."""

    id: Annotated[str, Meta(examples=["r-1"])]
    state: _MoveState
    partitions: tuple[MoveOut, ...]
    started_at: TimeText
    throttle_bytes_per_sec: Count | None = None
    completed_at: TimeText | None = None
    error: str | None = None


class ReportedReassignments(msgspec.Struct, frozen=True, kw_only=True):
    """The reassignments that run, and the last that ended; oldest first."""

    reassignments: tuple[ReassignmentOut, ...]
    count: Count


class CoordinatorOut(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of the log of coordinators; its leader coordinates, null while there is none."""

    partition: Count
    leader: str | None
    replicas: tuple[str, ...]
    isr: tuple[str, ...]


class ReportedCoordinators(msgspec.Struct, frozen=True, kw_only=True):
    """Who coordinates groups; no coordinators before the first group of a cluster is used."""

    internal_topic: str
    partition_count: Count
    coordinators: tuple[CoordinatorOut, ...]


class GroupCoordinatorOut(msgspec.Struct, frozen=True, kw_only=True):
    """Who coordinates a group; the node is null while nobody does."""

    group_id: str
    coordinator_partition: Count
    coordinator_node: str | None


_SECTION = "Cluster"
_ID = name("id", "id of the reassignment", location=ParameterLocation.PATH)


async def _start(call: Call) -> ReassignmentOut:
    body = call.body(ReassignmentBody)
    command = StartReassignment(
        moves=tuple(
            WantedMove(each.topic, each.partition, each.new_replicas) for each in body.partitions
        ),
        bytes_per_second=body.throttle_bytes_per_sec or 0,
        timeout_s=body.timeout_per_partition_sec,
    )
    return _out(await call.ask(command, ReassignmentDescription))


async def _list(call: Call) -> ReportedReassignments:
    found = (await call.ask(ListReassignments(), ReassignmentList)).reassignments
    return ReportedReassignments(reassignments=tuple(map(_out, found)), count=len(found))


async def _get(call: Call) -> ReassignmentOut:
    found = await call.ask(ListReassignments(id=call[_ID]), ReassignmentList)
    return _out(found.reassignments[0])


async def _cancel(call: Call) -> ReassignmentOut:
    return _out(await call.ask(CancelReassignment(id=call[_ID]), ReassignmentDescription))


def _out(found: ReassignmentDescription) -> ReassignmentOut:
    ended = found.completed_at
    return ReassignmentOut(
        id=found.id,
        state=found.state,
        partitions=tuple(
            MoveOut(
                topic=each.topic,
                partition=each.partition,
                old_replicas=each.old_replicas,
                new_replicas=each.new_replicas,
                state=each.state,
                catchup_percent=each.catchup_percent,
                bytes_transferred=each.bytes_transferred,
                error=each.error or None,
            )
            for each in found.partitions
        ),
        throttle_bytes_per_sec=found.bytes_per_second or None,
        started_at=format_time(found.started_at),
        completed_at=None if ended is None else format_time(ended),
        error=found.error or None,
    )


async def _coordinators(call: Call) -> ReportedCoordinators:
    found = await _find(call)
    cluster = await call.ask(DescribeCluster(), ClusterDescription)
    return ReportedCoordinators(
        internal_topic=_COORDINATOR_TOPIC,
        partition_count=cluster.coordinators,
        coordinators=found,
    )


async def _find(call: Call) -> tuple[CoordinatorOut, ...]:
    """The partitions of the log of coordinators; a node without a cluster is the only one."""
    found = await call.ask(DescribeCoordinators(), MetadataDescription)
    return tuple(
        CoordinatorOut(
            partition=each.partition,
            leader=each.leader,
            replicas=each.replicas,
            isr=each.isr,
        )
        for each in found.partitions
    )


async def _coordinator_of(call: Call) -> GroupCoordinatorOut:
    # Who may not see coordinators is not told either which groups there are.
    coordinators = await _find(call)
    group = call[GROUP]
    await call.ask(DescribeGroup(group=group), GroupDescription)
    cluster = await call.ask(DescribeCluster(), ClusterDescription)
    number = murmur3(group.encode()) % cluster.coordinators
    leaders = [each.leader for each in coordinators if each.partition == number]
    return GroupCoordinatorOut(
        group_id=group,
        coordinator_partition=number,
        coordinator_node=leaders[0] if leaders else None,
    )


REASSIGNMENT_ROUTES = (
    Route(
        method="POST",
        path="/admin/reassignment",
        section=_SECTION,
        summary="Move partitions to other nodes, while they are used",
        run=_start,
        body=ReassignmentBody,
        answer=ReassignmentOut,
        status=202,
        errors=(
            Code.TOPIC_NOT_FOUND,
            Code.PARTITION_NOT_FOUND,
            Code.NODE_NOT_FOUND,
            Code.LOG_BUSY,
            Code.NOT_CONTROLLER,
        ),
        writes=True,
    ),
    Route(
        method="GET",
        path="/admin/reassignment",
        section=_SECTION,
        summary="List the reassignments that run, and the last that ended",
        run=_list,
        answer=ReportedReassignments,
    ),
    Route(
        method="GET",
        path="/admin/reassignment/{id}",
        section=_SECTION,
        summary="Describe a reassignment and how far it is",
        run=_get,
        parameters=(_ID,),
        answer=ReassignmentOut,
        errors=(Code.REASSIGNMENT_NOT_FOUND,),
    ),
    Route(
        method="DELETE",
        path="/admin/reassignment/{id}",
        section=_SECTION,
        summary="Cancel a reassignment: what is not moved yet stays where it was",
        run=_cancel,
        parameters=(_ID,),
        answer=ReassignmentOut,
        errors=(Code.REASSIGNMENT_NOT_FOUND, Code.NOT_CONTROLLER),
        writes=True,
    ),
    Route(
        method="GET",
        path="/admin/coordinators",
        section=_SECTION,
        summary="List the nodes that coordinate groups",
        run=_coordinators,
        answer=ReportedCoordinators,
    ),
    Route(
        method="GET",
        path="/admin/coordinators/groups/{group}",
        section=_SECTION,
        summary="Find the node that coordinates a group",
        run=_coordinator_of,
        parameters=(GROUP,),
        answer=GroupCoordinatorOut,
        errors=(Code.GROUP_NOT_FOUND,),
    ),
)
