"""Receives: messages leased for a group by clients that never join it.

All who receive from one topic of a group hold their leases together, see `groups.Group`. They have
no session: what one of them leases comes back when its lease runs out, however its client ended.

The first receive creates the group, and the first on a topic tells the journal about that. A lease
handle names its group by number, and a number that is not durable could become another group's
after a crash; so nothing is leased for a group before its creation, by whomever, is committed. The
first receive of a group in each life of the node waits for the journal to see that.

Invariant: a request that waits for the journal is answered exactly once, and leases nothing once
its caller has gone.
Cost: a receive is a poll; one journal entry an hour and group says that it is still in use.
"""

import msgspec

from goqueue.broker.groups.polls import Polls, check_visibility
from goqueue.broker.outbox import BeginReceive
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.turns import ForGroup
from goqueue.groups import Group
from goqueue.model import Code, Instant, Now, Refused, RequestId
from goqueue.model.requests import Assignor, Leased, Mode, Poll, Receive

__all__ = ["Receives"]

_TOPICS_MAX = 20


class Receives:
    """Takes receives, and turns them into polls."""

    def __init__(self, state: NodeState, polls: Polls, quotas: TenantQuotas) -> None:
        self._state = state
        self._quotas = quotas
        self._polls = polls
        # Requests that wait until their group is known to be durable.
        self._waiting: dict[RequestId, None] = {}

    def receive(self, request: RequestId, command: Receive, now: Now) -> None:
        state = self._state
        check_visibility(command.visibility_ns, "visibility_timeout")
        topics = tuple(sorted(set(command.topics)))
        if not 1 <= len(topics) <= _TOPICS_MAX:
            raise Refused(Code.REQUEST_INVALID, field="topics", minimum=1, maximum=_TOPICS_MAX)
        state.journals.of_group(command.group).check_room()
        logs = {topic: tuple(state.catalog.find(topic).logs) for topic in topics}
        group = state.groups.get(command.group)
        if group is not None:
            group.check_receivable()
        else:
            group = self._form(command.group, now)
        self._record(group, topics, now)
        if not group.is_durable:
            self._waiting[request] = None
            deadline = Instant(now.instant + command.wait_ns)
            begin = BeginReceive(request, command, group.number, deadline)
            state.journals.of_group(group.name).note([], [begin])
            return
        receiver = group.receive(logs, now)
        state.alarms.bring_forward(ForGroup(group.number), group.next_deadline())
        poll = Poll(
            group=command.group,
            member_id=receiver,
            wait_ns=command.wait_ns,
            messages_max=command.messages_max,
            visibility_ns=command.visibility_ns,
            bytes_max=command.bytes_max,
        )
        self._polls.lease_or_wait(request, poll, group, now)

    def begin(self, later: BeginReceive, now: Now) -> None:
        """A group is durable: serve those who wait for that."""
        group = self._state.groups.numbered(later.group)
        if group is not None:
            group.is_durable = True
        if self._waiting.pop(later.request, 0) is not None:
            return
        if self._state.not_ready is not None:
            self._state.outbox.answer(later.request, Leased())
            return
        try:
            left_ns = max(0, later.deadline - now.instant)
            command = msgspec.structs.replace(later.command, wait_ns=left_ns)
            self.receive(later.request, command, now)
        except Refused as refused:
            self._state.outbox.answer(later.request, refused)

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """Whoever received is gone. False if the request is not ours, or has no more to wait."""
        if not is_gone or request not in self._waiting:
            return False
        del self._waiting[request]
        return True

    def _form(self, name: str, now: Now) -> Group:
        self._quotas.check_new_group(name)
        steady = self._state.steady(now)
        stated = self._state.groups.form(name, Mode.SHARED, Assignor.RANGE, steady)
        group = self._state.groups.apply(stated)
        assert group is not None
        self._state.journals.of_group(name).note([stated])
        return group

    def _record(self, group: Group, topics: tuple[str, ...], now: Now) -> None:
        """Let the journal know what is received, and that somebody does."""
        steady = self._state.steady(now)
        if not group.knows_receiver(topics, steady):
            stated = group.with_receiver(topics, self._state.catalog.partitions, steady)
            self._state.groups.apply(stated)
            self._state.journals.of_group(group.name).note([stated])
