"""Bodies of the group routes: membership, and what groups look like."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.scalars import Generation, Lease, Name, Session, TimeText, Wait
from goqueue.model.requests import Assignor, GroupState, Isolation, Mode, Start

__all__ = [
    "Assignment",
    "DeletedGroup",
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
]

Protocol = Literal["eager"]
Assignment = Annotated[
    str, Meta(description="topic-N, split at the last `-`", examples=["orders-0"])
]
MemberId = Annotated[str, Meta(min_length=1, max_length=512)]


class JoinBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Become a member, or say again that one is."""

    client_id: Name
    topics: Annotated[list[Name], Meta(min_length=1, max_length=1000)]
    mode: Mode | None = None
    assignor: Assignor | None = None
    session_timeout: Session | None = None
    start_position: Start | None = None
    member_id: MemberId | None = None


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
    """Membership and what comes with it."""

    member_id: str
    generation: int
    leader: bool
    leader_id: str
    assigned_partitions: list[Assignment]
    rebalance_required: bool
    members: tuple[str, ...]
    mode: Mode
    protocol: Protocol


class HeartbeatBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stay a member."""

    member_id: MemberId
    generation: Generation


class HeartbeatOut(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the group, and what to adopt if `rebalance_required`."""

    rebalance_required: bool
    state: GroupState
    generation: int
    assigned_partitions: list[Assignment]


class LeaveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop being a member."""

    member_id: MemberId


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """The member is gone and its leases are free."""

    left: bool


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A group in the list of groups."""

    group_id: str
    state: GroupState
    mode: Mode
    protocol: Protocol
    members: int
    generation: int
    topics: tuple[str, ...]


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Every group, by name."""

    groups: list[str]
    group_details: list[GroupSummary]


class MemberOut(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a group."""

    member_id: str
    client_id: str
    assigned_partitions: list[Assignment]
    last_heartbeat: TimeText
    joined_at: TimeText
    in_flight: int


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One group with its members."""

    group_id: str
    state: GroupState
    mode: Mode
    protocol: Protocol
    generation: int
    topics: tuple[str, ...]
    created_at: TimeText
    members: list[MemberOut]


class DeletedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group that is gone with its positions and leases."""

    deleted: bool
    group_id: str
