"""Commands of cooperative groups: heartbeats with news, revocations, and what became of rebalances.

Joins and departures are those of all groups: see `membership.py`. The rules are in
`goqueue.groups.cooperative`.
"""

from goqueue.broker.groups.membership import Membership
from goqueue.broker.groups.waiting_heartbeats import WaitingHeartbeats
from goqueue.broker.metrics.counters import GroupCounts
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.model import Answer, Code, Now, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    CooperativeHeartbeat,
    DescribeAssignment,
    DescribeRebalances,
    GroupProtocol,
    MemberAssignment,
    Operation,
    Rebalances,
    RebalanceState,
    Reply,
    ResourceType,
    RevocationConfirmed,
    RevokePartitions,
)

__all__ = ["CooperativeGroups"]

_COOPERATIVE = GroupProtocol.COOPERATIVE


class CooperativeGroups:
    """Takes commands of members of cooperative groups."""

    def __init__(
        self, state: NodeState, membership: Membership, heartbeats: WaitingHeartbeats
    ) -> None:
        self._state = state
        self._membership = membership
        self._heartbeats = heartbeats

    def heartbeat(self, request: RequestId, command: CooperativeHeartbeat, now: Now) -> None:
        group = self._state.groups.find(command.group)
        group.check_member(command.member_id)
        group.check_protocol(_COOPERATIVE)
        group.hear(command.member_id, now)
        self._heartbeats.add(request, command, group, now)

    def revoke(self, request: RequestId, command: RevokePartitions, now: Now) -> None:
        self._state.journals.of_group(command.group).check_room()
        group = self._state.groups.find(command.group)
        group.check_member(command.member_id)
        group.check_protocol(_COOPERATIVE)
        if command.generation != group.generation:
            raise Refused(Code.GENERATION_STALE, generation=group.generation)
        for log in command.logs:
            if group.owner(log) != command.member_id:
                raise Refused(Code.PARTITION_NOT_ASSIGNED, topic=log.topic, partition=log.partition)
        group.hear(command.member_id, now)
        if command.logs:
            given_up = {command.member_id: tuple(dict.fromkeys(command.logs))}
            self._membership.revoke(group, given_up, now)
        rebalance = group.rebalance
        reply = RevocationConfirmed(
            pending_count=rebalance.revoking_count, rebalance_state=rebalance.state
        )
        self._answer(request, reply)

    def describe_assignment(self, request: RequestId, command: DescribeAssignment, _: Now) -> None:
        """What a member owns; refused before it was assigned anything in a rebalance."""
        group = self._state.groups.find(command.group)
        group.check_member(command.member_id)
        sees = self._state.access.visible_topics()
        assigned = group.assigned(command.member_id)
        if not assigned and group.rebalance.state is RebalanceState.PENDING_REVOKE:
            raise Refused(Code.REBALANCE_IN_PROGRESS, member_id=command.member_id)
        reply = MemberAssignment(
            member_id=command.member_id,
            generation=group.generation,
            assigned=tuple(log for log in assigned if sees is None or sees(log.topic)),
        )
        self._answer(request, reply)

    def describe_rebalances(
        self, request: RequestId, command: DescribeRebalances, now: Now
    ) -> None:
        access = self._state.access
        if command.group is None:
            self._state.stepwise.begin(request, self._describe_all(request), now)
            return
        access.require(ResourceType.GROUP, command.group, Operation.DESCRIBE)
        group = self._state.groups.find(command.group)
        self._answer(request, _summed([self._state.counts.group(group.name)]))

    def _describe_all(self, request: RequestId) -> Steps:
        sees = self._state.access.visible_groups()
        seen: list[GroupCounts] = []
        for name, counts in self._state.counts.groups():
            if sees is None or sees(name):
                seen.append(counts)
            yield 1
        self._answer(request, _summed(seen))

    def _answer(self, request: RequestId, reply: Reply) -> None:
        """Answer when all that the answer may show is committed."""
        self._state.journals.of_groups.note([], [Answer(request=request, reply=reply)])


def _summed(groups: list[GroupCounts]) -> Rebalances:
    by_reason: dict[str, int] = {}
    for counts in groups:
        for reason, count in counts.rebalances.items():
            by_reason[reason.value] = by_reason.get(reason.value, 0) + count
    last = max(groups, key=lambda counts: counts.last_rebalance_at, default=None)
    return Rebalances(
        count=sum(by_reason.values()),
        succeeded=sum(counts.rebalances_succeeded for counts in groups),
        failed=sum(counts.rebalances_failed for counts in groups),
        partitions_revoked=sum(counts.partitions_revoked for counts in groups),
        partitions_assigned=sum(counts.partitions_assigned for counts in groups),
        revocation_timeouts=sum(counts.revocation_timeouts for counts in groups),
        last_duration_ns=0 if last is None else last.last_rebalance_ns,
        durations_ns=sum(counts.rebalances_ns for counts in groups),
        last_at=Timestamp(last.last_rebalance_at) or None if last is not None else None,
        by_reason=dict(sorted(by_reason.items())),
    )
