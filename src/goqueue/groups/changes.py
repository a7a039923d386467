"""What can happen to groups, as the journal keeps it. Past tense; applied in order, no clock.

The shapes are stored: fields are only ever added, at the end, with a default.
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

    `number` is the group's own for ever: a group that is deleted and made again has another.
    """

    group: str
    number: int
    mode: Mode
    assignor: Assignor
    generation: int
    created_at: int
    members: tuple[MemberStated, ...] = ()
    # What the last members subscribed to, while there are none.
    last_topics: tuple[str, ...] = ()
    # When the last member left or fell silent; 0: nobody was ever there, or somebody is.
    emptied_at: int = 0


class GroupDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="group_deleted"):
    """A group is gone."""

    group: str
    number: int


GroupChange = GroupStated | GroupDeleted
