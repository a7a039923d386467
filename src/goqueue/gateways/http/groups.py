"""Consumer groups over HTTP: join, heartbeat, leave, poll; list, describe and delete groups.

What only cooperative groups have is in `cooperative.py`.
"""

import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import INT32_MAX, Generation, Lease, Name, Session, TimeText, Wait
from goqueue.gateways.http.message_encoder import encode_poll
from goqueue.gateways.http.messages import Delivery
from goqueue.gateways.http.read import POLL_ISOLATION, shortened
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import GROUP, duration, integer, text
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import HOUR, MILLISECOND, SECOND, Code, LogId, check_name, format_time
from goqueue.model.requests import (
    Assignor,
    Beat,
    DeleteGroup,
    DescribeGroup,
    Done,
    Drain,
    GroupDescription,
    GroupList,
    GroupProtocol,
    GroupState,
    Heartbeat,
    Isolation,
    Join,
    Joined,
    Leased,
    Leave,
    ListGroups,
    MemberDescription,
    Mode,
    Poll,
    RebalanceState,
    Start,
)

__all__ = [
    "GROUP_ROUTES",
    "JOIN_ERRORS",
    "POLL_ERRORS",
    "Assignment",
    "DeletedGroup",
    "DrainBody",
    "DrainOut",
    "Group",
    "GroupSummary",
    "Groups",
    "HeartbeatBody",
    "HeartbeatOut",
    "JoinBody",
    "JoinOut",
    "LeaveBody",
    "LeftOut",
    "MemberId",
    "MemberOut",
    "PollBody",
    "group_out",
    "join_command",
    "leave",
    "poll_command",
]

Assignment = Annotated[
    str, Meta(description="topic-N, split at the last `-`", examples=["orders-0"])
]
ReceivedAt = Annotated[
    TimeText | None,
    Meta(description="when messages were last received without joining, to the hour"),
]
MemberId = Annotated[str, Meta(min_length=1, max_length=512)]
InstanceId = Annotated[
    Name, Meta(description="static member: takes the place of the member of that instance")
]


class JoinBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Join a group, or confirm a membership."""

    client_id: Name
    topics: Annotated[list[Name], Meta(min_length=1, max_length=1000)]
    mode: Mode | None = None
    assignor: Assignor | None = None
    session_timeout: Session | None = None
    start_position: Start | None = None
    member_id: MemberId | None = None
    instance_id: InstanceId | None = None


class PollBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lease messages: the parameters of the GET as fields."""

    member_id: MemberId
    generation: Generation | None = None
    timeout: Wait | None = None
    max_messages: Annotated[
        int, Meta(ge=1, description="over all partitions; more than 1000 is cut to that")
    ] = 100
    visibility_timeout: Lease | None = None
    isolation: Isolation = Isolation.READ_COMMITTED


class JoinOut(msgspec.Struct, frozen=True, kw_only=True):
    """The membership and its assignment."""

    member_id: str
    generation: int
    leader: bool
    leader_id: str
    assigned_partitions: list[Assignment]
    rebalance_required: bool
    members: tuple[str, ...]
    mode: Mode
    protocol: GroupProtocol


class HeartbeatBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stay a member."""

    member_id: MemberId
    generation: Generation


class HeartbeatOut(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the group; the assignment is new if `rebalance_required`."""

    rebalance_required: bool
    state: GroupState
    generation: int
    assigned_partitions: list[Assignment]


class DrainBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Deliver nothing more to a member."""

    member_id: MemberId


class DrainOut(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is leased to the member any more."""

    drained: bool


class LeaveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leave a group."""

    member_id: MemberId


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """The member has left, and its leases have ended."""

    left: bool


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A group in the list of groups."""

    group_id: str
    state: GroupState
    mode: Mode
    protocol: GroupProtocol
    members: int
    generation: int
    topics: tuple[str, ...]
    last_received_at: ReceivedAt = None


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Every group, by name."""

    groups: list[str]
    group_details: list[GroupSummary]


class MemberOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One member of a group."""

    member_id: str
    client_id: str
    assigned_partitions: list[Assignment]
    last_heartbeat: TimeText
    joined_at: TimeText
    in_flight: int
    instance_id: Annotated[str | None, Meta(description="of a static member")] = None
    revoking_partitions: Annotated[
        list[Assignment] | None, Meta(description="of those assigned, what it has to give up")
    ] = None


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One group with its members."""

    group_id: str
    state: GroupState
    mode: Mode
    protocol: GroupProtocol
    generation: int
    topics: tuple[str, ...]
    created_at: TimeText
    members: list[MemberOut]
    last_received_at: ReceivedAt = None
    rebalance_state: Annotated[
        RebalanceState | None, Meta(description="of a cooperative group")
    ] = None


class DeletedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The group was deleted, with its offsets and leases."""

    deleted: bool
    group_id: str


_SECTION = "Consumer groups"
POLL_ERRORS = (Code.GROUP_NOT_FOUND, Code.MEMBER_NOT_FOUND, Code.GENERATION_STALE)
JOIN_ERRORS = (
    Code.TOPIC_NOT_FOUND,
    Code.TOPIC_INTERNAL,
    Code.MEMBER_NOT_FOUND,
    Code.GROUP_MISMATCH,
    Code.QUOTA_EXCEEDED,
)
_TIMEOUT_NS = 30 * SECOND
_TIMEOUT_NS_MAX = 60 * SECOND
_MESSAGES_MAX = 1000

_MEMBER = text("member_id", "the member that asks", maximum=512)
_GENERATION = integer(
    "generation",
    "refused if it is not the current one",
    default=None,
    minimum=0,
    maximum=INT32_MAX,
)
_TIMEOUT = duration(
    "timeout",
    "how long to wait for a message",
    default=_TIMEOUT_NS,
    maximum_ns=_TIMEOUT_NS_MAX,
    is_cut=True,
)
_MAX_MESSAGES = integer(
    "max_messages",
    "how many messages at most, over all partitions",
    default=100,
    minimum=1,
    maximum=_MESSAGES_MAX,
    is_cut=True,
)
_VISIBILITY = duration(
    "visibility_timeout",
    "the lease on the messages of this answer; absent, that of their topic",
    default=None,
    minimum_ns=100 * MILLISECOND,
    maximum_ns=12 * HOUR,
)


async def _list(call: Call) -> Groups:
    listed = await call.ask(ListGroups(), GroupList)
    return Groups(
        groups=[each.group for each in listed.groups],
        group_details=[
            GroupSummary(
                group_id=each.group,
                state=each.state,
                mode=each.mode,
                protocol=each.protocol,
                members=len(each.members),
                generation=each.generation,
                topics=each.topics,
                last_received_at=_received_at(each),
            )
            for each in listed.groups
        ],
    )


async def _describe(call: Call) -> Group:
    return group_out(await call.ask(DescribeGroup(group=call[GROUP]), GroupDescription))


def group_out(described: GroupDescription) -> Group:
    """A group as both protocols show it."""
    is_cooperative = described.protocol is GroupProtocol.COOPERATIVE
    return Group(
        group_id=described.group,
        state=described.state,
        mode=described.mode,
        protocol=described.protocol,
        generation=described.generation,
        topics=described.topics,
        created_at=format_time(described.created_at),
        members=[_member(each) for each in described.members],
        last_received_at=_received_at(described),
        rebalance_state=described.rebalance_state if is_cooperative else None,
    )


def _received_at(group: GroupDescription) -> str | None:
    at = group.last_received_at
    return None if at is None else format_time(at)


async def _delete(call: Call) -> DeletedGroup:
    await call.ask(DeleteGroup(group=call[GROUP]), Done)
    return DeletedGroup(deleted=True, group_id=call[GROUP])


def join_command(body: JoinBody, group: str, protocol: GroupProtocol) -> Join:
    """What a body asks for."""
    check_name(body.client_id, "client_id")
    for topic in body.topics:
        check_name(topic, "topics")
    session = body.session_timeout
    return Join(
        group=group,
        client_id=body.client_id,
        topics=tuple(body.topics),
        token=secrets.token_hex(8),
        mode=body.mode,
        assignor=body.assignor,
        session_ns=30 * SECOND if session is None else session.ns,
        start=body.start_position or Start.EARLIEST,
        member_id=body.member_id,
        protocol=protocol,
        instance_id=body.instance_id,
    )


async def _join(call: Call) -> JoinOut:
    command = join_command(call.body(JoinBody), call[GROUP], GroupProtocol.EAGER)
    joined = await call.ask(command, Joined)
    return JoinOut(
        member_id=joined.member_id,
        generation=joined.generation,
        leader=joined.member_id == joined.leader_id,
        leader_id=joined.leader_id,
        assigned_partitions=_assigned(joined.assigned),
        # What is assigned here is already in force: nothing more has to be agreed on.
        rebalance_required=False,
        members=joined.members,
        mode=joined.mode,
        protocol=joined.protocol,
    )


async def _heartbeat(call: Call) -> HeartbeatOut:
    body = call.body(HeartbeatBody)
    beat = await call.ask(
        Heartbeat(group=call[GROUP], member_id=body.member_id, generation=body.generation), Beat
    )
    return HeartbeatOut(
        rebalance_required=beat.is_rebalanced,
        state=beat.state,
        generation=beat.generation,
        assigned_partitions=_assigned(beat.assigned),
    )


async def _drain(call: Call) -> DrainOut:
    body = call.body(DrainBody)
    await call.ask(Drain(group=call[GROUP], member_id=body.member_id), Done)
    return DrainOut(drained=True)


async def leave(call: Call) -> LeftOut:
    """Leave a group, of either protocol."""
    body = call.body(LeaveBody)
    await call.ask(Leave(group=call[GROUP], member_id=body.member_id), Done)
    return LeftOut(left=True)


def poll_command(body: PollBody, group: str) -> Poll:
    """What a body asks for."""
    wait_ns = _TIMEOUT_NS if body.timeout is None else min(body.timeout.ns, _TIMEOUT_NS_MAX)
    visibility = body.visibility_timeout
    return Poll(
        group=group,
        member_id=body.member_id,
        generation=body.generation,
        wait_ns=shortened(wait_ns),
        messages_max=min(body.max_messages, _MESSAGES_MAX),
        visibility_ns=None if visibility is None else visibility.ns,
    )


async def _poll(call: Call) -> HttpResponse:
    leased = await call.ask(poll_command(call.body(PollBody), call[GROUP]), Leased)
    return await call.run(encode_poll(leased))


async def _get_poll(call: Call) -> HttpResponse:
    poll = Poll(
        group=call[GROUP],
        member_id=call[_MEMBER],
        generation=call[_GENERATION],
        wait_ns=shortened(call[_TIMEOUT]),
        messages_max=call[_MAX_MESSAGES],
        visibility_ns=call[_VISIBILITY],
    )
    return await call.run(encode_poll(await call.ask(poll, Leased)))


def _assigned(logs: tuple[LogId, ...]) -> list[str]:
    return [str(log) for log in logs]


def _member(member: MemberDescription) -> MemberOut:
    return MemberOut(
        member_id=member.member_id,
        client_id=member.client_id,
        assigned_partitions=_assigned(member.assigned),
        last_heartbeat=format_time(member.last_heartbeat),
        joined_at=format_time(member.joined_at),
        in_flight=member.in_flight,
        instance_id=member.instance_id or None,
        revoking_partitions=_assigned(member.revoking) or None,
    )


GROUP_ROUTES = (
    Route(
        method="GET",
        path="/groups",
        section=_SECTION,
        summary="List the groups",
        run=_list,
        answer=Groups,
    ),
    Route(
        method="GET",
        path="/groups/{group}",
        section=_SECTION,
        summary="Describe a group and its members",
        run=_describe,
        parameters=(GROUP,),
        answer=Group,
        errors=(Code.GROUP_NOT_FOUND,),
    ),
    Route(
        method="DELETE",
        path="/groups/{group}",
        section=_SECTION,
        summary="Delete a group with its members, positions and leases",
        run=_delete,
        parameters=(GROUP,),
        answer=DeletedGroup,
        errors=(Code.GROUP_NOT_FOUND,),
        writes=True,
    ),
    Route(
        method="POST",
        path="/groups/{group}/join",
        section=_SECTION,
        summary="Join a group; the first member creates it",
        run=_join,
        parameters=(GROUP,),
        body=JoinBody,
        answer=JoinOut,
        errors=JOIN_ERRORS,
        writes=True,
        example={"client_id": "worker-1", "topics": ["orders"]},
    ),
    Route(
        method="POST",
        path="/groups/{group}/heartbeat",
        section=_SECTION,
        summary="Stay a member, and learn of rebalances",
        run=_heartbeat,
        parameters=(GROUP,),
        body=HeartbeatBody,
        answer=HeartbeatOut,
        errors=(Code.GROUP_NOT_FOUND, Code.MEMBER_NOT_FOUND, Code.GROUP_MISMATCH),
    ),
    Route(
        method="POST",
        path="/groups/{group}/drain",
        section=_SECTION,
        summary="Deliver nothing more to a member that stops; its polls end, its leases stay",
        run=_drain,
        parameters=(GROUP,),
        body=DrainBody,
        answer=DrainOut,
        errors=(Code.GROUP_NOT_FOUND, Code.MEMBER_NOT_FOUND),
    ),
    Route(
        method="POST",
        path="/groups/{group}/leave",
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
        method="POST",
        path="/groups/{group}/poll",
        section=_SECTION,
        summary="Lease messages; wait if there are none",
        run=_poll,
        parameters=(GROUP,),
        body=PollBody,
        answer=Delivery,
        errors=POLL_ERRORS,
        waits=True,
        example={"member_id": "worker-1-5f2a", "max_messages": 10, "timeout": "20s"},
    ),
    Route(
        method="GET",
        path="/groups/{group}/poll",
        section=_SECTION,
        summary="Lease messages, for clients that cannot send a POST; proxies may repeat a GET",
        run=_get_poll,
        parameters=(
            GROUP,
            _MEMBER,
            _GENERATION,
            _TIMEOUT,
            _MAX_MESSAGES,
            _VISIBILITY,
            POLL_ISOLATION,
        ),
        answer=Delivery,
        errors=POLL_ERRORS,
        waits=True,
        has_effect=True,
    ),
)
