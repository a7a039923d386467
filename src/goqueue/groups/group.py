"""One consumer group: its members, its generation, and its partition assignment.

Owns the sessions of members, which are not durable: after a restart every member has a full session
to send its next heartbeat. Everything else comes from the journal.

Clients that receive without joining are no members. For leases all of them on one topic are one
holder, the *receiver* of that topic, which may lease from each of its partitions. Only groups whose
partitions are shared have receivers.

Invariant: the generation rises with every change of members, subscriptions or partitions, and never
falls; assignments do not change within a generation. A receiver changes none of them.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from goqueue.groups.assignment import Assignment, assign
from goqueue.groups.changes import GroupStated, MemberStated
from goqueue.model import HOUR, SECOND, Code, Instant, LogId, Now, Refused, Timestamp
from goqueue.model.requests import (
    Assignor,
    Beat,
    GroupDescription,
    GroupState,
    MemberDescription,
    Mode,
)

__all__ = ["Group", "is_receiver", "receiver_of"]

# Client ids are names, which have no colon: no member's id begins like this.
_RECEIVER = "receive:"
# What is known of the queues of a group is kept for so long after the last receive.
_RECEIVE_NS = 60 * SECOND
# How exactly the journal knows when a group was last used.
_RECEIVED_NS = HOUR
_RECEIVED_TOPICS_MAX = 1_000


def receiver_of(topic: str) -> str:
    """Who holds what is received of a topic without joining."""
    return f"{_RECEIVER}{topic}"


def is_receiver(holder: str) -> bool:
    """Whether the holder of a lease is no member."""
    return holder.startswith(_RECEIVER)


class _Session:
    """State of a member that is not durable."""

    __slots__ = ("deadline", "heard_at")

    def __init__(self, deadline: Instant, heard_at: Timestamp) -> None:
        self.deadline = deadline
        self.heard_at = heard_at


class _Receiver(NamedTuple):
    """What may be received without joining; in order, and as a set."""

    logs: tuple[LogId, ...]
    log_set: frozenset[LogId]


_NOTHING = _Receiver((), frozenset())


class Group:
    """A group as it is now."""

    def __init__(self, stated: GroupStated) -> None:
        self._stated = stated
        self._members: dict[str, MemberStated] = {}
        self._assignment: Assignment = {}
        self._owners: dict[LogId, str] = {}
        # In shared modes: assignments by subscription and by member.
        self._shares: dict[tuple[str, ...], tuple[LogId, ...]] = {}
        self._shared_by: dict[str, frozenset[LogId]] = {}
        self._topics: tuple[str, ...] = ()
        self._sessions: dict[str, _Session] = {}
        self._receivers: dict[str, _Receiver] = {}
        self._receiving_until: Instant | None = None
        # Whether the journal is known to hold that the group exists.
        self.is_durable = False
        self.apply(stated)

    @property
    def name(self) -> str:
        return self._stated.group

    @property
    def number(self) -> int:
        return self._stated.number

    @property
    def mode(self) -> Mode:
        return self._stated.mode

    @property
    def generation(self) -> int:
        return self._stated.generation

    @property
    def stated(self) -> GroupStated:
        return self._stated

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self._members else GroupState.EMPTY

    @property
    def members(self) -> tuple[str, ...]:
        """Member ids in the order of joining; the first is the leader."""
        return tuple(self._members)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that members subscribe to, sorted."""
        return self._topics

    @property
    def known_topics(self) -> tuple[str, ...]:
        """Topics of the members, or of the last members, and those that are received from."""
        subscribed = self._subscribed
        received = self._stated.received
        return tuple(sorted({*subscribed, *received})) if received else subscribed

    @property
    def polled_topics(self) -> tuple[str, ...]:
        """Topics of members and of receivers."""
        if not self._receivers:
            return self._topics
        received = (holder.removeprefix(_RECEIVER) for holder in self._receivers)
        return tuple(dict.fromkeys((*self._topics, *received)))

    @property
    def _subscribed(self) -> tuple[str, ...]:
        return self.topics or self._stated.last_topics

    def apply(self, stated: GroupStated) -> None:
        """Apply a journal entry; the only mutator of durable state."""
        self._stated = stated
        self._members = {member.member_id: member for member in stated.members}
        subscriptions = dict.fromkeys(each.topics for each in stated.members)
        self._topics = tuple(sorted({topic for topics in subscriptions for topic in topics}))
        self._assign(stated)
        for member_id in [each for each in self._sessions if each not in self._members]:
            del self._sessions[member_id]

    def _assign(self, stated: GroupStated) -> None:
        """Expand the assignment; members that share partitions share one tuple."""
        before, self._shares = self._shares, {}
        self._owners, self._shared_by = {}, {}
        if stated.mode is Mode.PARTITIONED:
            self._assignment = {each.member_id: _unfolded(each) for each in stated.members}
            self._owners = {log: id_ for id_, logs in self._assignment.items() for log in logs}
            return
        self._assignment = {}
        sets: dict[tuple[str, ...], frozenset[LogId]] = {}
        for member in stated.members:
            topics = member.topics
            if topics not in self._shares:
                logs = _unfolded(member)
                # An unchanged assignment keeps its tuple, so the comparison is an identity check.
                self._shares[topics] = before[topics] if before.get(topics) == logs else logs
                sets[topics] = frozenset(logs)
            self._assignment[member.member_id] = self._shares[topics]
            self._shared_by[member.member_id] = sets[topics]

    # Queries

    def assigned(self, member_id: str) -> tuple[LogId, ...]:
        """The partitions that a member, or a receiver, may lease from."""
        if is_receiver(member_id):
            return self._receiver(member_id).logs
        return self._assignment.get(member_id, ())

    def owner(self, log: LogId) -> str | None:
        """The owner of a partition; None in shared modes."""
        return self._owners.get(log)

    def is_assigned(self, member_id: str, log: LogId) -> bool:
        """Whether a member, or a receiver, may lease from a partition."""
        if self.mode is Mode.PARTITIONED:
            return self._owners.get(log) == member_id
        shared = self._shared_by.get(member_id)
        return log in (self._receiver(member_id).log_set if shared is None else shared)

    def share_of(self, member_id: str) -> tuple[str, ...]:
        """Identifies an assignment: members with the same share have the same partitions."""
        if self.mode is Mode.PARTITIONED:
            return (member_id,)
        if is_receiver(member_id):
            return (member_id.removeprefix(_RECEIVER),)
        return self._members[member_id].topics

    def has_member(self, member_id: str) -> bool:
        return member_id in self._members

    def check_member(self, member_id: str) -> None:
        if member_id not in self._members:
            raise Refused(Code.MEMBER_NOT_FOUND, member_id=member_id)

    def check_generation(self, generation: int | None) -> None:
        if generation is not None and generation != self.generation:
            raise Refused(Code.GENERATION_STALE, generation=self.generation)

    def beat(self, member_id: str, generation: int) -> Beat:
        return Beat(
            is_rebalanced=generation != self.generation,
            state=self.state,
            generation=self.generation,
            assigned=self.assigned(member_id),
        )

    def described(self, topics: tuple[str, ...], in_flight: Mapping[str, int]) -> GroupDescription:
        return GroupDescription(
            group=self.name,
            state=self.state,
            mode=self.mode,
            assignor=self._stated.assignor,
            generation=self.generation,
            topics=topics,
            created_at=Timestamp(self._stated.created_at),
            members=tuple(
                MemberDescription(
                    member_id=member.member_id,
                    client_id=member.client_id,
                    assigned=self.assigned(member.member_id),
                    last_heartbeat=self._heard_at(member),
                    joined_at=Timestamp(member.joined_at),
                    in_flight=in_flight.get(member.member_id, 0),
                )
                for member in self._members.values()
            ),
        )

    def _heard_at(self, member: MemberStated) -> Timestamp:
        session = self._sessions.get(member.member_id)
        return Timestamp(member.joined_at) if session is None else session.heard_at

    # Sessions

    def hear(self, member_id: str, now: Now) -> None:
        """A member sent a sign of life: its session restarts."""
        self.check_member(member_id)
        deadline = Instant(now.instant + self._members[member_id].session_ns)
        session = self._sessions.get(member_id)
        if session is None:
            self._sessions[member_id] = _Session(deadline, now.wall)
        else:
            session.deadline = deadline
            session.heard_at = now.wall

    def hear_all(self, now: Now) -> None:
        """Restart every session: no member could be heard during a restart of the node."""
        for member_id in self._members:
            self.hear(member_id, now)

    def next_deadline(self) -> Instant | None:
        """When the next session expires, or it is to be seen whether anybody still receives."""
        deadlines = [session.deadline for session in self._sessions.values()]
        if self._receiving_until is not None:
            deadlines.append(self._receiving_until)
        return min(deadlines, default=None)

    def silent(self, now: Instant) -> list[str]:
        """Members whose session has expired."""
        return [id_ for id_, session in self._sessions.items() if session.deadline <= now]

    # Receivers

    def receive(self, topic: str, logs: tuple[LogId, ...], now: Now) -> str:
        """Who receives from a topic, of which these are the partitions now."""
        self.check_receivable()
        receiver = receiver_of(topic)
        if self._receiver(receiver).logs != logs:
            self._receivers[receiver] = _Receiver(logs, frozenset(logs))
        self.keep_receiving(now)
        return receiver

    def check_receivable(self) -> None:
        """Refuse to hand out partitions that are, or may become, the property of one member."""
        if self.mode is Mode.PARTITIONED:
            reason = "its mode is partitioned; only shared and key_ordered groups can receive"
            raise Refused(Code.GROUP_MISMATCH, reason=reason)

    def knows_receiver(self, topic: str, now: Now) -> bool:
        """Whether the journal knows that somebody receives from a topic, in this hour.

        Else its lag would be unknown after a restart, and a group from which is received in vain
        would be forgotten as one that nobody uses.
        """
        stated = self._stated
        return topic in stated.received and abs(now.wall - stated.received_at) < _RECEIVED_NS

    def keep_receiving(self, now: Now) -> None:
        """Somebody receives, or holds what was received."""
        self._receiving_until = Instant(now.instant + _RECEIVE_NS)

    def is_receiving_over(self, now: Instant) -> bool:
        """Whether it is time to see if anybody still receives."""
        return self._receiving_until is not None and self._receiving_until <= now

    def stop_receiving(self) -> None:
        """Nobody receives, and nobody holds what was received."""
        self._receiving_until = None
        self._receivers.clear()

    def _receiver(self, receiver: str) -> _Receiver:
        is_owned = self.mode is Mode.PARTITIONED
        return _NOTHING if is_owned else self._receivers.get(receiver, _NOTHING)

    # Decisions

    def with_receiver(self, topic: str, partitions: Mapping[str, int], now: Now) -> GroupStated:
        """The group after somebody received from a topic."""
        received = self._stated.received
        if topic not in received:
            received = (*(each for each in received if each in partitions), topic)
            limit = _RECEIVED_TOPICS_MAX
            if len(received) > limit:
                raise Refused(Code.QUOTA_EXCEEDED, quota="subscriptions", limit=limit)
        return msgspec.structs.replace(self._stated, received=received, received_at=now.wall)

    def with_member(self, member: MemberStated, partitions: Mapping[str, int]) -> GroupStated:
        """The group after a member joined or changed its subscription."""
        members = dict(self._members)
        members[member.member_id] = member
        return self._rebalanced(members, self.mode, self._stated.assignor, partitions)

    def with_session(self, member: MemberStated, session_ns: int) -> GroupStated:
        """The group after a member changed its session timeout, in the same generation."""
        changed = msgspec.structs.replace(member, session_ns=session_ns)
        members = {**self._members, member.member_id: changed}
        return msgspec.structs.replace(self._stated, members=tuple(members.values()))

    def without_members(self, gone: list[str], partitions: Mapping[str, int]) -> GroupStated:
        """The group after members left or timed out."""
        members = {id_: each for id_, each in self._members.items() if id_ not in gone}
        return self._rebalanced(members, self.mode, self._stated.assignor, partitions)

    def rebalanced(
        self, partitions: Mapping[str, int], mode: Mode | None = None, by: Assignor | None = None
    ) -> GroupStated:
        """The group after partitions were added or removed, or with another assignor."""
        return self._rebalanced(
            self._members, mode or self.mode, by or self._stated.assignor, partitions
        )

    def _rebalanced(
        self,
        members: Mapping[str, MemberStated],
        mode: Mode,
        assignor: Assignor,
        partitions: Mapping[str, int],
    ) -> GroupStated:
        subscriptions = {id_: each.topics for id_, each in members.items()}
        if mode is Mode.PARTITIONED:
            shares = assign(assignor, subscriptions, partitions, self._assignment)
            assigned = {id_: _by_topic(shares[id_]) for id_ in members}
        else:
            # Each subscription is assigned once, however many members have it.
            distinct = dict.fromkeys(subscriptions.values())
            folded = {topics: _by_topic(_all_of(topics, partitions)) for topics in distinct}
            assigned = {id_: folded[topics] for id_, topics in subscriptions.items()}
        return msgspec.structs.replace(
            self._stated,
            mode=mode,
            assignor=assignor,
            generation=self.generation + 1,
            emptied_at=0 if members else self._stated.emptied_at,
            last_topics=() if members else self._subscribed,
            members=tuple(
                msgspec.structs.replace(member, assigned=assigned[id_])
                for id_, member in members.items()
            ),
        )


def _unfolded(member: MemberStated) -> tuple[LogId, ...]:
    return tuple(
        LogId(topic, n)
        for topic, ranges in member.assigned.items()
        for first, following in ranges
        for n in range(first, following)
    )


def _all_of(topics: tuple[str, ...], partitions: Mapping[str, int]) -> tuple[LogId, ...]:
    return tuple(
        LogId(topic, n) for topic in sorted(set(topics)) for n in range(partitions.get(topic, 0))
    )


def _by_topic(logs: tuple[LogId, ...]) -> dict[str, list[tuple[int, int]]]:
    """The same partitions as ranges; the input is sorted."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for log in logs:
        of_topic = ranges.setdefault(log.topic, [])
        if of_topic and of_topic[-1][1] == log.partition:
            of_topic[-1] = (of_topic[-1][0], log.partition + 1)
        else:
            of_topic.append((log.partition, log.partition + 1))
    return ranges
