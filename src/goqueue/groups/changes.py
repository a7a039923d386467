"""Journal entries about groups. Past tense; applied in order, without a clock.

The structs are stored: fields are only added, at the end, with a default. Partitions are stored as
ranges [first, next) by topic.

Invariant: what was folded unfolds to the same partitions, in order.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from goqueue.model import LogId
from goqueue.model.requests import Assignor, GroupProtocol, Mode

__all__ = [
    "GroupChange",
    "GroupDeleted",
    "GroupStated",
    "MemberStated",
    "PartitionsRevoked",
    "Ranges",
    "fold_logs",
    "unfold_logs",
    "with_owned",
]

Ranges = dict[str, list[tuple[int, int]]]


class MemberStated(msgspec.Struct, frozen=True, kw_only=True):
    """One member as the journal knows it. Heartbeats are not durable.

    In a cooperative group `assigned` is what the member owns, also what it has to give up.
    """

    member_id: str
    client_id: str
    topics: tuple[str, ...]
    session_ns: int
    joined_at: int
    assigned: Ranges = {}
    # Cooperative groups: the generation in which the member got each range, in their order.
    since: list[int] = []
    # What the member is to own after the rebalance; None outside of one.
    target: Ranges | None = None
    # A static member, and the member whose place it took last.
    instance_id: str = ""
    replaced_id: str = ""

    def owned(self) -> Iterator[tuple[LogId, int]]:
        """The assigned partitions, in order, each with the generation of its assignment."""
        ranges = (
            (topic, first, following)
            for topic, of_topic in self.assigned.items()
            for first, following in of_topic
        )
        for index, (topic, first, following) in enumerate(ranges):
            generation = self.since[index] if index < len(self.since) else 0
            for partition in range(first, following):
                yield LogId(topic, partition), generation


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
    protocol: GroupProtocol = GroupProtocol.EAGER


class PartitionsRevoked(msgspec.Struct, frozen=True, kw_only=True, tag="partitions_revoked"):
    """A member of a cooperative group owns these partitions no longer, and nobody does."""

    group: str
    number: int
    member_id: str
    revoked: Ranges
    is_forced: bool = False


class GroupDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="group_deleted"):
    """A group was deleted."""

    group: str
    number: int


GroupChange = GroupStated | PartitionsRevoked | GroupDeleted


def fold_logs(logs: Iterable[LogId]) -> Ranges:
    """The same partitions as ranges; the input is sorted."""
    ranges: Ranges = {}
    for log in logs:
        partition = log.partition
        of_topic = ranges.setdefault(log.topic, [])
        if of_topic and of_topic[-1][1] == partition:
            of_topic[-1] = (of_topic[-1][0], partition + 1)
        else:
            of_topic.append((partition, partition + 1))
    return ranges


def unfold_logs(ranges: Ranges) -> tuple[LogId, ...]:
    return tuple(
        LogId(topic, partition)
        for topic, of_topic in ranges.items()
        for first, following in of_topic
        for partition in range(first, following)
    )


def with_owned(member: MemberStated, owned: Mapping[LogId, int]) -> MemberStated:
    """The member with other partitions, each since a generation; ranges end where that changes."""
    ranges: Ranges = {}
    since: list[int] = []
    for log in sorted(owned):
        of_topic, generation = ranges.setdefault(log.topic, []), owned[log]
        if of_topic and of_topic[-1][1] == log.partition and since[-1] == generation:
            of_topic[-1] = (of_topic[-1][0], log.partition + 1)
        else:
            of_topic.append((log.partition, log.partition + 1))
            since.append(generation)
    return msgspec.structs.replace(member, assigned=ranges, since=since)
