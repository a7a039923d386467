"""Members of consumer groups: join, heartbeat, leave, rebalance, and retention of empty groups.

Every change of membership is journaled before anybody hears of it. Members that fall silent are
removed like those that leave; what they leased is available at once.

A group without members for which nobody commits is deleted after its retention. A few groups are
checked in each turn, by the wall time at the start plus what the monotonic clock says since, so a
clock that was set does not delete a group. Nothing is deleted in the first hour of a life, so that
members that could not be heard while the node was down find their positions.
"""

from collections.abc import Generator

import msgspec

from goqueue.broker.groups.offsets import Positions
from goqueue.broker.groups.polls import Polls
from goqueue.broker.metrics.counters import Departure, Trigger
from goqueue.broker.outbox import Later, Rebalanced
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand, ForGroup, Steps
from goqueue.groups import Group, GroupDeleted, GroupStated
from goqueue.model import HOUR, Answer, GroupRebalanced, MembersLost, Now, Report, RequestId
from goqueue.model.requests import (
    DeleteGroup,
    DescribeGroup,
    Done,
    GroupDescription,
    GroupList,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Reply,
    Start,
)

__all__ = ["GROUP_RETENTION_NS", "GroupRetention", "Membership"]


class Membership:
    """Takes commands about groups and their members."""

    def __init__(self, state: NodeState, polls: Polls, positions: Positions) -> None:
        self._state = state
        self._polls = polls
        self._positions = positions
        # Groups whose topics came or went since they were balanced.
        self._unbalanced: dict[int, None] = {}

    def join(self, request: RequestId, command: Join, now: Now) -> None:
        state = self._state
        state.groups_journal.check_room()
        for topic in command.topics:
            state.catalog.find(topic)
        before = state.groups.get(command.group)
        known = () if before is None else (*before.topics, *before.stated.received)
        member_id, stated = state.groups.join(command, state.catalog.partitions, now)
        if stated is not None:
            group = self._change(stated, Trigger.JOIN, now)
            if command.start is Start.LATEST:
                # Where others of the group have begun already, they decided.
                begun = tuple(topic for topic in command.topics if topic not in known)
                self._positions.begin_at_end(group, begun, now)
        group = state.groups.find(command.group)
        group.hear(member_id, now)
        state.alarms.bring_forward(ForGroup(group.number), group.next_deadline())
        joined = Joined(
            member_id=member_id,
            generation=group.generation,
            leader_id=group.members[0],
            assigned=group.assigned(member_id),
            members=group.members,
            mode=group.mode,
        )
        self._answer(request, joined)

    def heartbeat(self, request: RequestId, command: Heartbeat, now: Now) -> None:
        group = self._state.groups.find(command.group)
        group.hear(command.member_id, now)
        beat = group.beat(command.member_id, command.generation)
        self._answer(request, beat)

    def leave(self, request: RequestId, command: Leave, now: Now) -> None:
        self._state.groups_journal.check_room()
        group = self._state.groups.find(command.group)
        group.check_member(command.member_id)
        self._remove(group, [command.member_id], Departure.LEFT, now)
        self._answer(request, Done())

    def delete(self, request: RequestId, command: DeleteGroup) -> None:
        self._state.groups_journal.check_room()
        group = self._state.groups.find(command.group)
        self.forget(group)
        self._answer(request, Done())

    def forget(self, group: Group) -> None:
        """A group is gone, and its places with it."""
        self._polls.forget_group(group)
        self._state.group_partitions.remove_group(group.number)
        self._state.alarms.set(ForGroup(group.number), None)
        change = GroupDeleted(group=group.name, number=group.number)
        self._state.groups.apply(change)
        self._state.counts.forget_group(group.name)
        self._state.groups_journal.note([change])

    def expire(self, number: int, now: Now) -> None:
        """Take out the members whose session is over."""
        group = self._state.groups.numbered(number)
        if group is None:
            return
        silent = []
        counts = self._state.counts.group(group.name)
        for member_id in group.silent(now.instant):
            counts.heartbeat_timeouts += 1
            if self._polls.is_waiting(number, member_id):
                group.hear(member_id, now)
            else:
                silent.append(member_id)
        if silent:
            counts.session_timeouts += len(silent)
            self._remove(group, silent, Departure.SESSION_TIMEOUT, now)
            lost = MembersLost(
                group=group.name, members=tuple(silent), remaining=len(group.members)
            )
            self._state.groups_journal.note([], [Report(report=lost)])
        if group.is_receiving_over(now.instant):
            self._end_receiving(group, now)
        self._state.alarms.set(ForGroup(number), group.next_deadline())

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
            due = group.rebalanced(partitions)
            if due.members != group.stated.members:
                self._change(due, Trigger.RESTART, now)

    def list_all(self, request: RequestId, now: Now) -> None:
        self._state.stepwise.begin(request, self._list_all(request), now)

    def _list_all(self, request: RequestId) -> Steps:
        descriptions = []
        for group in sorted(self._state.groups, key=lambda group: group.name):
            if self._state.groups.numbered(group.number) is not None:
                description = yield from self._describe(group)
                descriptions.append(description)
        self._answer(request, GroupList(groups=tuple(descriptions)))

    def describe(self, request: RequestId, command: DescribeGroup, now: Now) -> None:
        group = self._state.groups.find(command.group)
        self._state.stepwise.begin(request, self._answer_described(request, group), now)

    def _answer_described(self, request: RequestId, group: Group) -> Steps:
        self._answer(request, (yield from self._describe(group)))

    def _answer(self, request: RequestId, reply: Reply) -> None:
        """Answer when all that the answer may show is committed."""
        self._state.groups_journal.note([], [Answer(request=request, reply=reply)])

    def _describe(self, group: Group) -> Generator[int, None, GroupDescription]:
        loads = dict.fromkeys(group.members, 0)
        for _, queue in self._state.group_partitions.queues_of(group.number):
            for member, load in queue.loads.items():
                loads[member] = loads.get(member, 0) + load
            yield 1
        topics = group.topics or tuple(self._state.topics_of(group))
        yield 1 + len(group.members)
        return group.described(topics, loads)

    def _remove(self, group: Group, members: list[str], why: Departure, now: Now) -> None:
        partitions = self._state.catalog.partitions
        self._state.counts.group(group.name).leave(why, len(members))
        self._polls.free(group, members)
        is_silent = why is Departure.SESSION_TIMEOUT
        trigger = Trigger.SESSION_TIMEOUT if is_silent else Trigger.LEAVE
        stated = group.without_members(members, partitions)
        emptied_at = 0 if stated.members else int(now.wall)
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
        owned = {} if before is None else {id_: before.assigned(id_) for id_ in before.members}
        group = self._state.groups.apply(stated)
        assert group is not None
        if has_new_mode:
            self._polls.forget_queues(group)
        later: list[Later] = []
        if is_rebalanced:
            owns = {id_: group.assigned(id_) for id_ in group.members}
            self._state.counts.group(group.name).rebalance(why, owned, owns)
            later.append(Rebalanced(group.name, now.instant))
            report = GroupRebalanced(
                group=group.name,
                generation=group.generation,
                trigger=why.value,
                members=len(group.members),
            )
            later.append(Report(report=report))
            self._state.traces.rebalanced(group, now)
        self._state.groups_journal.note([stated], later)
        self._polls.wake_group(group, now)
        return group


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
