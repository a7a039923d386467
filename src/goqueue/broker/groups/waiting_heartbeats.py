"""Heartbeats of cooperative groups that wait for news, and the counting of rebalances.

A heartbeat is answered when its member has to act or another generation is in force, else when its
time is over. Its answer waits for the journal, so no member acts on what a crash takes back.

Invariant: a waiting heartbeat has an alarm; it is answered once.
"""

import msgspec

from goqueue.broker.state import NodeState
from goqueue.broker.turns import ForRequest
from goqueue.groups import Group
from goqueue.model import Answer, Code, Instant, Now, Refused, RequestId
from goqueue.model.requests import CooperativeHeartbeat, RebalanceState

__all__ = ["WaitingHeartbeats"]

_WAITING_MAX = 10_000


class _Heartbeat(msgspec.Struct, frozen=True):
    request: RequestId
    command: CooperativeHeartbeat
    group: int
    began: Now


class WaitingHeartbeats:
    """Waiting heartbeats by request, and by group and member."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._by_request: dict[RequestId, _Heartbeat] = {}
        self._by_group: dict[int, dict[str, dict[RequestId, _Heartbeat]]] = {}

    def add(
        self, request: RequestId, command: CooperativeHeartbeat, group: Group, now: Now
    ) -> None:
        """Answer a heartbeat that was checked, now or when there is news."""
        waiting = _Heartbeat(request, command, group.number, now)
        if command.wait_ns <= 0 or group.has_news(command.member_id, command.generation):
            self._answer(waiting, group, now)
            return
        if len(self._by_request) >= _WAITING_MAX:
            raise Refused(Code.LOG_BUSY, reason="too many heartbeats are waiting")
        self._by_request[request] = waiting
        members = self._by_group.setdefault(group.number, {})
        members.setdefault(command.member_id, {})[request] = waiting
        deadline = Instant(now.instant + command.wait_ns)
        self._state.alarms.set(ForRequest(request), deadline)

    def is_waiting(self, group: int, member_id: str) -> bool:
        """Whether a heartbeat of this member waits: then the member is there."""
        return member_id in self._by_group.get(group, ())

    def wake(self, group: Group, now: Now) -> None:
        """A group has changed: answer those that have news, and those whose member is gone."""
        for member_id, requests in list(self._by_group.get(group.number, {}).items()):
            for waiting in list(requests.values()):
                self._state.budget.spend()
                try:
                    group.check_member(member_id)
                except Refused as refused:
                    self._refuse(waiting, refused)
                    continue
                if group.has_news(member_id, waiting.command.generation):
                    self._forget(waiting)
                    self._answer(waiting, group, now)

    def forget_group(self, group: Group) -> None:
        """A group is deleted."""
        for requests in list(self._by_group.get(group.number, {}).values()):
            for waiting in list(requests.values()):
                self._refuse(waiting, Refused(Code.GROUP_NOT_FOUND, group=group.name))

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """A heartbeat ends: its time is over, or its caller is gone. False if it is not ours."""
        waiting = self._by_request.get(request)
        if waiting is None:
            return False
        self._forget(waiting)
        group = self._state.groups.numbered(waiting.group)
        if not is_gone and group is not None:
            self._answer(waiting, group, waiting.began)
        return True

    def end_all(self) -> None:
        """The node stops: nobody waits any longer."""
        for request in list(self._by_request):
            self.cancel(request)

    def _answer(self, waiting: _Heartbeat, group: Group, now: Now) -> None:
        command = waiting.command
        beat = group.tell(command.member_id, command.generation, now)
        reply = Answer(request=waiting.request, reply=beat)
        self._state.journals.of_group(group.name).note([], [reply])
        self.count_completed(group, now)

    def count_completed(self, group: Group, now: Now) -> None:
        """Count a rebalance that is over, because every member was told or is gone."""
        if group.rebalance.state is RebalanceState.NONE:
            counts = self._state.counts.group(group.name)
            counts.complete_rebalance(now)

    def _refuse(self, waiting: _Heartbeat, refused: Refused) -> None:
        self._forget(waiting)
        answer = Answer(request=waiting.request, reply=refused)
        self._state.journals.of_group(waiting.command.group).note([], [answer])

    def _forget(self, waiting: _Heartbeat) -> None:
        del self._by_request[waiting.request]
        members = self._by_group[waiting.group]
        requests = members[waiting.command.member_id]
        del requests[waiting.request]
        if not requests:
            del members[waiting.command.member_id]
        if not members:
            del self._by_group[waiting.group]
        self._state.alarms.set(ForRequest(waiting.request), None)
