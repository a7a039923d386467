"""Members of groups: join, heartbeat, drain, leave, rebalance, and retention of empty groups.

Every change of membership is journaled before anybody hears of it. Members that fall silent are
removed like those that leave; what they leased is available at once.

A group without members for which nobody commits is deleted after its retention. A few groups are
checked in each turn, by the wall time at the start plus what the monotonic clock says since, so a
clock that was set does not delete a group. Nothing is deleted in the first hour of a life, so that
members that could not be heard while the node was down find their positions.
"""

from collections.abc import Callable, Generator, Mapping

import msgspec

from goqueue.broker.groups.offsets import Positions
from goqueue.broker.groups.polls import Polls
from goqueue.broker.groups.waiting_heartbeats import WaitingHeartbeats
from goqueue.broker.metrics.counters import Departure, Trigger
from goqueue.broker.outbox import Later, Rebalanced
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.turns import Errand, ForGroup, Steps
from goqueue.groups import Group, GroupDeleted, GroupStated
from goqueue.model import (
    HOUR,
    Answer,
    GroupRebalanced,
    LogId,
    MembersLost,
    Now,
    Report,
    RequestId,
)
from goqueue.model.requests import (
    DeleteGroup,
    DescribeGroup,
    Done,
    Drain,
    GroupDescription,
    GroupList,
    GroupProtocol,
    Heartbeat,
    Join,
    Joined,
    Leave,
    RebalanceState,
    Reply,
    Start,
)
from goqueue.security import NameFilter

__all__ = ["GROUP_RETENTION_NS", "GroupRetention", "Membership"]


class Membership:
    """Takes commands about groups and their members."""

    def __init__(
        self,
        state: NodeState,
        polls: Polls,
        positions: Positions,
        quotas: TenantQuotas,
        heartbeats: WaitingHeartbeats,
    ) -> None:
        self._state = state
        self._heartbeats = heartbeats
        self._quotas = quotas
        self._polls = polls
        self._positions = positions
        # Groups whose topics came or went since they were balanced.
        self._unbalanced: dict[int, None] = {}

    def join(self, request: RequestId, command: Join, now: Now) -> None:
        state = self._state
        state.journals.of_group(command.group).check_room()
        for topic in command.topics:
            state.catalog.find(topic)
        before = state.groups.get(command.group)
        known = () if before is None else (*before.topics, *before.stated.received)
        joining = state.groups.join(command, state.catalog.partitions, now)
        member_id, stated = joining.member_id, joining.stated
        members = () if before is None else before.members
        if before is None:
            self._quotas.check_new_group(command.group)
        if before is not None and joining.replaced_id is not None:
            self._polls.take_over(before, joining.replaced_id, member_id)
        elif member_id not in members:
            self._quotas.check_new_member(command.group, len(members))
        if stated is not None:
            group = self._change(stated, Trigger.JOIN, now)
            if command.start is Start.LATEST:
                # Where others of the group have begun already, they decided.
                begun = tuple(topic for topic in command.topics if topic not in known)
                self._positions.begin_at_end(group, begun, now)
        group = state.groups.find(command.group)
        group.resume(member_id, now)
        state.alarms.bring_forward(ForGroup(group.number), group.next_deadline())
        joined = Joined(
            member_id=member_id,
            generation=group.generation,
            leader_id=group.members[0],
            assigned=group.assigned(member_id),
            members=group.members,
            mode=group.mode,
            protocol=group.protocol,
        )
        self._answer(request, joined)

    def heartbeat(self, request: RequestId, command: Heartbeat, now: Now) -> None:
        group = self._state.groups.find(command.group)
        group.check_member(command.member_id)
        group.check_protocol(GroupProtocol.EAGER)
        group.hear(command.member_id, now)
        beat = group.beat(command.member_id, command.generation)
        self._answer(request, beat)

    def drain(self, request: RequestId, command: Drain, now: Now) -> None:
        """Once this is answered nothing is leased to the member, also by polls on their way."""
        group = self._state.groups.find(command.group)
        group.drain(command.member_id, now)
        self._polls.end_of_member(group, command.member_id)
        self._answer(request, Done())

    def leave(self, request: RequestId, command: Leave, now: Now) -> None:
        self._state.journals.of_group(command.group).check_room()
        group = self._state.groups.find(command.group)
        group.check_member(command.member_id)
        self._remove(group, [command.member_id], Departure.LEFT, now)
        self._answer(request, Done())

    def delete(self, request: RequestId, command: DeleteGroup) -> None:
        self._state.journals.of_group(command.group).check_room()
        group = self._state.groups.find(command.group)
        self.forget(group)
        self._state.audit.record(request, self._state.journals.of_group(command.group))
        self._answer(request, Done())

    def forget(self, group: Group) -> None:
        """A group is gone, and its places with it."""
        self._polls.forget_group(group)
        self._heartbeats.forget_group(group)
        self._state.group_partitions.remove_group(group.number)
        self._state.alarms.set(ForGroup(group.number), None)
        change = GroupDeleted(group=group.name, number=group.number)
        self._state.groups.apply(change)
        self._state.counts.forget_group(group.name)
        self._state.journals.of_group(group.name).note([change])

    def expire(self, number: int, now: Now) -> None:
        """Take out the members whose session is over."""
        group = self._state.groups.numbered(number)
        if group is None:
            return
        silent = []
        counts = self._state.counts.group(group.name)
        for member_id in group.silent(now.instant):
            counts.heartbeat_timeouts += 1
            if self._is_waiting(number, member_id):
                group.hear(member_id, now)
            else:
                silent.append(member_id)
        if silent:
            counts.session_timeouts += len(silent)
            self._remove(group, silent, Departure.SESSION_TIMEOUT, now)
            lost = MembersLost(
                group=group.name, members=tuple(silent), remaining=len(group.members)
            )
            self._state.journals.of_group(group.name).note([], [Report(report=lost)])
        overdue = group.rebalance.overdue(now.instant)
        if overdue:
            self.revoke(group, overdue, now, is_forced=True)
        if group.is_receiving_over(now.instant):
            self._end_receiving(group, now)
        self._state.alarms.set(ForGroup(number), group.next_deadline())

    def _is_waiting(self, number: int, member_id: str) -> bool:
        """Whether something of a member waits: then the member is there."""
        return self._polls.is_waiting(number, member_id) or self._heartbeats.is_waiting(
            number, member_id
        )

    def revoke(
        self,
        group: Group,
        given_up: Mapping[str, tuple[LogId, ...]],
        now: Now,
        *,
        is_forced: bool = False,
    ) -> None:
        """Members of a cooperative group gave up what they owned, or it is taken from them."""
        counts = self._state.counts.group(group.name)
        count = sum(map(len, given_up.values()))
        if is_forced:
            counts.force_revocations(count)
        else:
            counts.partitions_revoked += count
        changed = group.revoked(given_up, is_forced=is_forced)
        if isinstance(changed, GroupStated):
            self._change(changed, Trigger.REVOCATION, now)
            return
        self._state.budget.spend(count)
        for change in changed:
            self._state.groups.apply(change)
        self._state.journals.of_group(group.name).note(list(changed))
        self._wake(group, now)

    def _end_receiving(self, group: Group, now: Now) -> None:
        """Forget the queues of a group from which nobody received of late, once nothing is held."""
        if group.members or self._polls.forget_idle_queues(group):
            group.stop_receiving()
        else:
            group.keep_receiving(now)

    def rebalance(self, topic: str, now: Now) -> None:
        """A topic came or went: its subscribers get another assignment, as soon as it is done."""
        for group in self._state.groups:
            if topic in group.topics:
                self._unbalanced[group.number] = None
        self.rebalance_more(now)

    def rebalance_more(self, now: Now) -> None:
        """Go on with groups that are to get another assignment, in as many turns as it takes."""
        partitions = self._state.catalog.partitions if self._unbalanced else {}
        budget = self._state.budget
        while self._unbalanced and not budget.is_spent:
            number = next(iter(self._unbalanced))
            del self._unbalanced[number]
            group = self._state.groups.numbered(number)
            if group is not None:
                budget.spend(1 + len(group.members))
                self._change(group.rebalanced(partitions), Trigger.TOPIC, now)
        if self._unbalanced:
            self._state.alarms.bring_forward(Errand.REBALANCES, now.instant)

    def catch_up(self, now: Now) -> None:
        """After a start: a topic may have come or gone without its subscribers hearing of it.

        The two journals are not one: the node may have died between them.
        """
        partitions = self._state.catalog.partitions
        for group in self._state.groups:
            if not group.members:
                continue
            if group.is_cooperative:
                if group.is_outdated(partitions):
                    self._change(group.rebalanced(partitions), Trigger.RESTART, now)
                continue
            due = group.rebalanced(partitions)
            if due.members != group.stated.members:
                self._change(due, Trigger.RESTART, now)

    def list_all(self, request: RequestId, now: Now) -> None:
        access = self._state.access
        steps = self._list_all(request, access.visible_groups(), access.visible_topics())
        self._state.stepwise.begin(request, steps, now)

    def _list_all(self, request: RequestId, sees: NameFilter, sees_topic: NameFilter) -> Steps:
        descriptions = []
        names = sorted(group.name for group in self._state.groups)
        if sees is not None:
            names = yield from self._state.access.select(names, sees)
        for name in names:
            group = self._state.groups.get(name)
            if group is not None:
                description = yield from self._describe(group, sees_topic)
                descriptions.append(description)
        self._answer(request, GroupList(groups=tuple(descriptions)))

    def describe(self, request: RequestId, command: DescribeGroup, now: Now) -> None:
        group = self._state.groups.find(command.group)
        steps = self._answer_described(request, group, self._state.access.visible_topics())
        self._state.stepwise.begin(request, steps, now)

    def _answer_described(self, request: RequestId, group: Group, sees_topic: NameFilter) -> Steps:
        self._answer(request, (yield from self._describe(group, sees_topic)))

    def _answer(self, request: RequestId, reply: Reply) -> None:
        """Answer when all that the answer may show is committed."""
        self._state.journals.of_groups.note([], [Answer(request=request, reply=reply)])

    def _describe(
        self, group: Group, sees_topic: NameFilter
    ) -> Generator[int, None, GroupDescription]:
        loads = dict.fromkeys(group.members, 0)
        for _, queue in self._state.group_partitions.queues_of(group.number):
            for member, load in queue.loads.items():
                loads[member] = loads.get(member, 0) + load
            yield 1
        topics = group.topics or tuple(self._state.topics_of(group))
        yield 1 + len(group.members)
        described = group.described(topics, loads)
        return described if sees_topic is None else _seen(described, sees_topic)

    def _remove(self, group: Group, members: list[str], why: Departure, now: Now) -> None:
        partitions = self._state.catalog.partitions
        self._state.counts.group(group.name).leave(why, len(members))
        self._polls.free(group, members)
        is_silent = why is Departure.SESSION_TIMEOUT
        trigger = Trigger.SESSION_TIMEOUT if is_silent else Trigger.LEAVE
        stated = group.without_members(members, partitions)
        emptied_at = 0 if stated.members else int(self._state.steady(now).wall)
        self._change(msgspec.structs.replace(stated, emptied_at=emptied_at), trigger, now)
        if not group.members:
            # Start from the position next time, once nobody holds anything without having joined.
            self._end_receiving(group, now)
            self._state.alarms.bring_forward(ForGroup(group.number), group.next_deadline())

    def _change(self, stated: GroupStated, why: Trigger, now: Now) -> Group:
        """Apply a change and let those who wait see what they may take now."""
        before = self._state.groups.get(stated.group)
        has_new_mode = before is not None and before.mode is not stated.mode
        is_rebalanced = before is None or before.generation != stated.generation
        was_shared = before is not None and before.is_shared
        owned = {} if before is None else {id_: before.assigned(id_) for id_ in before.members}
        group = self._state.groups.apply(stated)
        assert group is not None
        if has_new_mode:
            self._polls.forget_queues(group)
        elif was_shared and not group.is_shared:
            # The first member owns what others received from while there was none.
            self._polls.free(group, group.receivers)
            group.stop_receiving()
        later: list[Later] = []
        owns = {id_: group.assigned(id_) for id_ in group.members}
        counts = self._state.counts.group(group.name)
        if group.is_cooperative:
            if is_rebalanced or group.rebalance.state is not RebalanceState.NONE:
                counts.begin_rebalance(why, now)
            # What was given up last is counted already.
            counts.count_moves(owned, owns, has_lost=why is not Trigger.REVOCATION)
        elif is_rebalanced:
            counts.rebalance(why, owned, owns)
            later.append(Rebalanced(group.name, now.instant))
        if is_rebalanced:
            report = GroupRebalanced(
                group=group.name,
                generation=group.generation,
                trigger=why.value,
                members=len(group.members),
            )
            later.append(Report(report=report))
            self._state.traces.rebalanced(group, now)
        self._state.journals.of_group(group.name).note([stated], later)
        self._polls.wake_group(group, now)
        if group.is_cooperative:
            self._wake(group, now)
        return group

    def _wake(self, group: Group, now: Now) -> None:
        """Tell members of a cooperative group that have to act, as far as they wait."""
        group.rebalance.set_deadlines(now.instant)
        self._state.alarms.bring_forward(ForGroup(group.number), group.next_deadline())
        members = group.rebalance.unhinted
        self._heartbeats.wake(group, now)
        self._polls.hint(group, members)
        self._heartbeats.count_completed(group, now)


GROUP_RETENTION_NS = 168 * HOUR
_GRACE_NS = HOUR
_GROUPS_PER_TURN = 200
# So many places are looked at for one unit of a turn.
_PLACES_PER_UNIT = 20


class GroupRetention:
    """Forgets groups that are empty for long."""

    def __init__(self, state: NodeState, membership: Membership, retention_ns: int | None) -> None:
        """Without a retention groups stay for ever."""
        self._state = state
        self._membership = membership
        self._retention_ns = retention_ns
        self._began: Now | None = None
        self._to_look_at: list[int] = []

    def begin(self, now: Now) -> None:
        """A life of the node begins."""
        self._began = now

    def do_a_share(self, now: Now) -> None:
        """Look at some groups, and forget those whose time is over."""
        if self._retention_ns is None or self._began is None:
            return
        if now.instant - self._began.instant < _GRACE_NS:
            return
        if not self._to_look_at:
            self._to_look_at = [group.number for group in self._state.groups]
        limit = self._began.wall + now.instant - self._began.instant - self._retention_ns
        for _ in range(min(_GROUPS_PER_TURN, len(self._to_look_at))):
            if self._state.budget.is_spent:
                return
            self._state.budget.spend()
            group = self._state.groups.numbered(self._to_look_at.pop())
            if group is not None and not group.members and self._is_over(group, limit):
                self._membership.forget(group)

    def _is_over(self, group: Group, limit: int) -> bool:
        """Whether nothing was done with a group since `limit`, and no transaction holds it."""
        stated = group.stated
        if max(stated.created_at, stated.emptied_at, stated.received_at) > limit:
            return False
        positions = [
            place.position for place in self._state.group_partitions.of_group(group.number)
        ]
        self._state.budget.spend(len(positions) // _PLACES_PER_UNIT)
        return all(each.updated_at <= limit and not each.holds for each in positions)


def _seen(described: GroupDescription, sees: Callable[[str], bool]) -> GroupDescription:
    """A group without the topics that the caller does not see."""
    members = tuple(
        msgspec.structs.replace(
            member,
            assigned=tuple(log for log in member.assigned if sees(log.topic)),
        )
        for member in described.members
    )
    topics = tuple(filter(sees, described.topics))
    return msgspec.structs.replace(described, topics=topics, members=members)
