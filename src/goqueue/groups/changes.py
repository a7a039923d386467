"""Journal entries about groups. Past tense; applied in order, without a clock.

The structs are stored: fields are only added, at the end, with a default.
"""

import msgspec

from goqueue.model.requests import Assignor, Mode

__all__ = ["GroupChange", "GroupDeleted", "GroupStated", "MemberStated"]


class MemberStated(msgspec.Struct, frozen=True, kw_only=True):
    """One member as the journal knows it. Heartbeats are not durable.

    `assigned` holds ranges [first, next) of partitions by topic.
    """

    member_id: str
    client_id: str
    topics: tuple[str, ...]
    session_ns: int
    joined_at: int
    assigned: dict[str, list[tuple[int, int]]] = {}


class GroupStated(msgspec.Struct, frozen=True, kw_only=True, tag="group"):
    """A group in full, after a change of any kind.

    `number` is never reused: a group that is deleted and created again has another.
    """

    group: str
    number: int
    mode: Mode
    assignor: Assignor
    generation: int
    created_at: int
    members: tuple[MemberStated, ...] = ()
    # Subscriptions of the last members, while there are none.
    last_topics: tuple[str, ...] = ()
    # When the last member left or timed out; 0: never had a member, or has one now.
    emptied_at: int = 0
    # Topics of which messages were received without joining, and when that was, to the hour.
    received: tuple[str, ...] = ()
    received_at: int = 0


class GroupDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="group_deleted"):
    """A group was deleted."""

    group: str
    number: int


GroupChange = GroupStated | GroupDeleted
