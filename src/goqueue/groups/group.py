"""One consumer group: its members, its generation, and its partition assignment.

Owns the sessions of members, which are not durable: after a restart every member has a full session
to send its next heartbeat. Everything else comes from the journal.

Clients that receive without joining are no members, see `receivers.py`. Only groups whose
partitions are shared have receivers, or of which no member owns one: groups without members.

In a cooperative group partitions are given up one member at a time, and then assigned: see
`cooperative.py` and `rebalance.py`.

Invariant: the generation rises with every change of members, subscriptions or partitions, and never
falls; no partition is assigned within a generation. A receiver changes none of them.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.groups.assignment import Assignment, assign
from goqueue.groups.changes import (
    GroupStated,
    MemberStated,
    PartitionsRevoked,
    fold_logs,
    unfold_logs,
)
from goqueue.groups.cooperative import (
    advance,
    after_revocations,
    revocations,
    without,
)
from goqueue.groups.rebalance import Rebalance
from goqueue.groups.receivers import Receivers, is_receiver, received_topics, receiver_of
from goqueue.model import HOUR, Code, Instant, LogId, Now, Refused, Timestamp
from goqueue.model.requests import (
    Assignor,
    Beat,
    CooperativeBeat,
    GroupDescription,
    GroupProtocol,
    GroupState,
    MemberDescription,
    Mode,
    RebalanceState,
)

__all__ = ["Group"]

# How exactly the journal knows when a group was last used.
_RECEIVED_NS = HOUR
_RECEIVED_TOPICS_MAX = 1_000


class _Session:
    """State of a member that is not durable."""

    __slots__ = ("deadline", "heard_at", "is_draining")

    def __init__(self, deadline: Instant, heard_at: Timestamp) -> None:
        self.deadline = deadline
        self.heard_at = heard_at
        # It stops: nothing more is delivered to it.
        self.is_draining = False


class Group:
    """A group as it is now."""

    def __init__(self, stated: GroupStated) -> None:
        # Plain attributes: they never change, and are asked for dozens of times per request.
        self.name: Final = stated.group
        self.number: Final = stated.number
        self._stated = stated
        self._members: dict[str, MemberStated] = {}
        self._assignment: Assignment = {}
        self._owners: dict[LogId, str] = {}
        self.rebalance = Rebalance()
        self._replaced: dict[str, str] = {}
        # In shared modes: assignments by subscription and by member.
        self._shares: dict[tuple[str, ...], tuple[LogId, ...]] = {}
        self._shared_by: dict[str, frozenset[LogId]] = {}
        self._topics: tuple[str, ...] = ()
        self._sessions: dict[str, _Session] = {}
        self._receivers = Receivers()
        # Whether the journal is known to hold that the group exists.
        self.is_durable = False
        self.apply(stated)

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
    def protocol(self) -> GroupProtocol:
        return self._stated.protocol

    @property
    def is_cooperative(self) -> bool:
        return self._stated.protocol is GroupProtocol.COOPERATIVE

    @property
    def state(self) -> GroupState:
        if not self._members:
            return GroupState.EMPTY
        is_stable = self.rebalance.state is RebalanceState.NONE
        return GroupState.STABLE if is_stable else GroupState.REBALANCING

    @property
    def is_shared(self) -> bool:
        """Whether no partition is the property of one member."""
        return self.mode is not Mode.PARTITIONED or not self._members

    @property
    def receivers(self) -> list[str]:
        """Who may hold what was received without joining."""
        return self._receivers.holders

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
        received = self._receivers.topics
        return tuple(dict.fromkeys((*self._topics, *received))) if received else self._topics

    @property
    def _subscribed(self) -> tuple[str, ...]:
        return self.topics or self._stated.last_topics

    def apply(self, change: GroupStated | PartitionsRevoked) -> None:
        """Apply a journal entry; the only mutator of durable state."""
        if isinstance(change, PartitionsRevoked):
            self._apply_revoked(change)
            return
        before, was_revoking = self._assignment, self.rebalance.all_revoking()
        is_next = not self._members or change.generation != self._stated.generation
        self._stated = change
        self._members = {member.member_id: member for member in change.members}
        subscriptions = dict.fromkeys(each.topics for each in change.members)
        self._topics = tuple(sorted({topic for topics in subscriptions for topic in topics}))
        self._replaced = {
            each.replaced_id: each.instance_id for each in change.members if each.replaced_id
        }
        self._assign(change)
        for member_id in [each for each in self._sessions if each not in self._members]:
            del self._sessions[member_id]
        if self.is_cooperative:
            self.rebalance.announce(before, self._assignment, was_revoking, is_next=is_next)
        else:
            self.rebalance.silence()

    def _apply_revoked(self, change: PartitionsRevoked) -> None:
        member = self._members.get(change.member_id)
        if member is None:
            return
        member = without(member, change.revoked)
        self._members[member.member_id] = member
        self._stated = msgspec.structs.replace(self._stated, members=tuple(self._members.values()))
        self._assignment[member.member_id] = tuple(log for log, _ in member.owned())
        logs = unfold_logs(change.revoked)
        for log in logs:
            self._owners.pop(log, None)
        self.rebalance.revoke(member.member_id, logs, is_forced=change.is_forced)

    def _assign(self, stated: GroupStated) -> None:
        """Expand the assignment; members that share partitions share one tuple."""
        before, self._shares = self._shares, {}
        self._owners, self._shared_by = {}, {}
        if stated.mode is Mode.PARTITIONED:
            self._assignment = {
                each.member_id: unfold_logs(each.assigned) for each in stated.members
            }
            self._owners = {log: id_ for id_, logs in self._assignment.items() for log in logs}
            if stated.protocol is GroupProtocol.COOPERATIVE:
                self.rebalance.restate(stated.members)
            else:
                self.rebalance.clear()
            return
        self.rebalance.clear()
        self._assignment = {}
        sets: dict[tuple[str, ...], frozenset[LogId]] = {}
        for member in stated.members:
            topics = member.topics
            if topics not in self._shares:
                logs = unfold_logs(member.assigned)
                # An unchanged assignment keeps its tuple, so the comparison is an identity check.
                self._shares[topics] = before[topics] if before.get(topics) == logs else logs
                sets[topics] = frozenset(logs)
            self._assignment[member.member_id] = self._shares[topics]
            self._shared_by[member.member_id] = sets[topics]

    # Queries

    def assigned(self, member_id: str) -> tuple[LogId, ...]:
        """The partitions that a member, or a receiver, may lease from."""
        if not is_receiver(member_id):
            return self._assignment.get(member_id, ())
        return self._receivers.logs(member_id) if self.is_shared else ()

    def owner(self, log: LogId) -> str | None:
        """The owner of a partition; None in shared modes."""
        return self._owners.get(log)

    def is_assigned(self, member_id: str, log: LogId) -> bool:
        """Whether a member, or a receiver, may lease from a partition."""
        if not self.is_shared:
            return self._owners.get(log) == member_id
        shared = self._shared_by.get(member_id)
        if shared is not None:
            return log in shared
        return is_receiver(member_id) and self._receivers.may_lease(member_id, log)

    def leasable(self, member_id: str) -> tuple[LogId, ...]:
        """The partitions that a member, or a receiver, may be handed more of."""
        logs, revoking = self.assigned(member_id), self.rebalance.revoking(member_id)
        return tuple(log for log in logs if log not in revoking) if revoking else logs

    def may_lease(self, member_id: str, log: LogId, generation: int | None) -> bool:
        """Whether a poll may be handed more of a partition, by what its member knows."""
        if not self.is_assigned(member_id, log):
            return False
        if generation is not None and self.rebalance.since(log) > generation:
            return False
        return log not in self.rebalance.revoking(member_id)

    def share_of(self, member_id: str) -> tuple[str, ...]:
        """Identifies an assignment: members with the same share have the same partitions."""
        if is_receiver(member_id):
            return tuple(received_topics(member_id))
        if self.mode is Mode.PARTITIONED:
            return (member_id,)
        return self._members[member_id].topics

    def has_member(self, member_id: str) -> bool:
        return member_id in self._members

    def check_member(self, member_id: str) -> None:
        if member_id in self._members:
            return
        instance_id = self._replaced.get(member_id)
        if instance_id is None:
            raise Refused(Code.MEMBER_NOT_FOUND, member_id=member_id)
        reason = "another process has joined as this instance"
        raise Refused(
            Code.MEMBER_NOT_FOUND, member_id=member_id, instance_id=instance_id, reason=reason
        )

    def instance(self, instance_id: str) -> MemberStated | None:
        """The static member of an instance."""
        members = self._members.values()
        return next((each for each in members if each.instance_id == instance_id), None)

    def check_generation(self, generation: int | None) -> None:
        """Refuse a generation that ended; a cooperative one lives on in partitions that stay."""
        if generation is None or generation == self.generation:
            return
        if not self.is_cooperative or generation > self.generation:
            raise Refused(Code.GENERATION_STALE, generation=self.generation)

    def check_owner(self, member_id: str, log: LogId, generation: int | None) -> None:
        """Refuse a commit for a partition that the member does not have, or has since later."""
        if not self.is_assigned(member_id, log):
            raise Refused(Code.PARTITION_NOT_ASSIGNED, topic=log.topic, partition=log.partition)
        if generation is not None and self.rebalance.since(log) > generation:
            raise Refused(Code.GENERATION_STALE, generation=self.generation)

    def check_protocol(self, protocol: GroupProtocol) -> None:
        """Refuse a request of the other protocol."""
        if self._stated.protocol is not protocol:
            raise Refused(Code.GROUP_MISMATCH, protocol=self._stated.protocol)

    def beat(self, member_id: str, generation: int) -> Beat:
        return Beat(
            is_rebalanced=generation != self.generation,
            state=self.state,
            generation=self.generation,
            assigned=self.assigned(member_id),
        )

    def has_news(self, member_id: str, generation: int) -> bool:
        """Whether a member has to be told something that it was not."""
        return generation != self.generation or self.rebalance.has_news(member_id)

    def tell(self, member_id: str, generation: int, now: Now) -> CooperativeBeat:
        """What a member is told; that makes the generation effective for it."""
        rebalance = self.rebalance
        revoking, deadline = rebalance.revoking(member_id), rebalance.deadline_of(member_id)
        is_required = bool(revoking) or self.has_news(member_id, generation)
        was_under_way = rebalance.state is not RebalanceState.NONE
        rebalance.tell(member_id)
        reached = rebalance.state
        if was_under_way and reached is RebalanceState.NONE:
            # The last member hears that the rebalance ends with it.
            reached = RebalanceState.COMPLETE
        until = None if deadline is None else Timestamp(now.wall + deadline - now.instant)
        return CooperativeBeat(
            is_rebalance_required=is_required,
            to_revoke=tuple(revoking),
            assigned=self.assigned(member_id),
            generation=self.generation,
            state=self.state,
            revocation_deadline=until,
            rebalance_state=reached,
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
                    revoking=tuple(self.rebalance.revoking(member.member_id)),
                    instance_id=member.instance_id,
                )
                for member in self._members.values()
            ),
            last_received_at=Timestamp(self._stated.received_at) or None,
            protocol=self.protocol,
            rebalance_state=self.rebalance.state,
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

    def drain(self, member_id: str, now: Now) -> None:
        """Deliver nothing more to a member, until it joins again."""
        self.hear(member_id, now)
        self._sessions[member_id].is_draining = True

    def resume(self, member_id: str, now: Now) -> None:
        """A member joined, for the first time or again: deliver to it."""
        self.hear(member_id, now)
        self._sessions[member_id].is_draining = False

    def is_draining(self, member_id: str) -> bool:
        session = self._sessions.get(member_id)
        return session is not None and session.is_draining

    def hear_all(self, now: Now) -> None:
        """Restart every session: no member could be heard during a restart of the node."""
        for member_id in self._members:
            self.hear(member_id, now)
        self.rebalance.restart(now.instant)

    def next_deadline(self) -> Instant | None:
        """When a session or a revocation ends, or it is to be seen whether anybody receives."""
        deadlines = [session.deadline for session in self._sessions.values()]
        others = (self.rebalance.next_deadline(), self._receivers.until)
        deadlines += [deadline for deadline in others if deadline is not None]
        return min(deadlines, default=None)

    def silent(self, now: Instant) -> list[str]:
        """Members whose session has expired."""
        return [id_ for id_, session in self._sessions.items() if session.deadline <= now]

    # Receivers

    def receive(self, logs: Mapping[str, tuple[LogId, ...]], now: Now) -> str:
        """Who receives from these topics, of which the partitions are given."""
        self.check_receivable()
        self._receivers.add(logs, now.instant)
        return receiver_of(*logs)

    def check_receivable(self) -> None:
        """Refuse to hand out partitions that are the property of one member."""
        if not self.is_shared:
            reason = (
                "its members own its partitions; only shared and key_ordered groups, and groups"
                " without members, can receive"
            )
            raise Refused(Code.GROUP_MISMATCH, reason=reason)

    def knows_receiver(self, topics: tuple[str, ...], now: Now) -> bool:
        """Whether the journal knows that somebody receives from these topics, in this hour.

        Else its lag would be unknown after a restart, and a group from which is received in vain
        would be forgotten as one that nobody uses.
        """
        stated = self._stated
        is_recent = abs(now.wall - stated.received_at) < _RECEIVED_NS
        return is_recent and all(topic in stated.received for topic in topics)

    def keep_receiving(self, now: Now) -> None:
        """Somebody receives, or holds what was received."""
        self._receivers.keep(now.instant)

    def is_receiving_over(self, now: Instant) -> bool:
        """Whether it is time to see if anybody still receives."""
        until = self._receivers.until
        return until is not None and until <= now

    def stop_receiving(self) -> None:
        """Nobody receives, and nobody holds what was received."""
        self._receivers.clear()

    # Decisions

    def with_receiver(
        self, topics: tuple[str, ...], partitions: Mapping[str, int], now: Now
    ) -> GroupStated:
        """The group after somebody received from these topics."""
        received = self._stated.received
        added = tuple(topic for topic in topics if topic not in received)
        if added:
            received = (*(each for each in received if each in partitions), *added)
            limit = _RECEIVED_TOPICS_MAX
            if len(received) > limit:
                raise Refused(Code.QUOTA_EXCEEDED, quota="subscriptions", limit=limit)
        return msgspec.structs.replace(self._stated, received=received, received_at=now.wall)

    def with_member(self, member: MemberStated, partitions: Mapping[str, int]) -> GroupStated:
        """The group after a member joined or changed its subscription."""
        members = dict(self._members)
        known = members.get(member.member_id)
        if known is not None:
            member = msgspec.structs.replace(
                known,
                client_id=member.client_id,
                topics=member.topics,
                session_ns=member.session_ns,
            )
        members[member.member_id] = member
        return self._rebalanced(members, self.mode, self._stated.assignor, partitions)

    def with_replaced(self, member: MemberStated, renewed: MemberStated) -> GroupStated:
        """The group after a static member took the place of the older one, in its generation."""
        renewed = msgspec.structs.replace(
            renewed,
            topics=member.topics,
            assigned=member.assigned,
            since=member.since,
            target=member.target,
            replaced_id=member.member_id,
        )
        members = (renewed if each is member else each for each in self._members.values())
        return msgspec.structs.replace(self._stated, members=tuple(members))

    def revoked(
        self, given_up: Mapping[str, tuple[LogId, ...]], *, is_forced: bool = False
    ) -> list[PartitionsRevoked] | GroupStated:
        """What becomes of the group when members give up partitions that they own."""
        rebalance = self.rebalance
        moving = sum(
            log in rebalance.revoking(id_) for id_, logs in given_up.items() for log in logs
        )
        if moving < rebalance.revoking_count:
            return revocations(self._stated, given_up, is_forced=is_forced)
        return after_revocations(self._stated, given_up)

    def is_outdated(self, partitions: Mapping[str, int]) -> bool:
        """Whether the members of a cooperative group are to own other partitions by now."""
        known: list[LogId] = []
        for member in self._members.values():
            known += unfold_logs(member.assigned if member.target is None else member.target)
        if self.mode is not Mode.PARTITIONED:
            known = list(dict.fromkeys(known))
        return sorted(known) != list(_all_of(self._topics, partitions))

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
        if mode is Mode.PARTITIONED and self.is_cooperative and members:
            renewed = msgspec.structs.replace(
                self._stated, mode=mode, assignor=assignor, emptied_at=0, last_topics=()
            )
            return advance(renewed, members, partitions)
        if mode is Mode.PARTITIONED:
            shares = assign(assignor, subscriptions, partitions, self._assignment)
            assigned = {id_: fold_logs(shares[id_]) for id_ in members}
        else:
            # Each subscription is assigned once, however many members have it.
            distinct = dict.fromkeys(subscriptions.values())
            folded = {topics: fold_logs(_all_of(topics, partitions)) for topics in distinct}
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


def _all_of(topics: tuple[str, ...], partitions: Mapping[str, int]) -> tuple[LogId, ...]:
    return tuple(
        LogId(topic, n) for topic in sorted(set(topics)) for n in range(partitions.get(topic, 0))
    )
