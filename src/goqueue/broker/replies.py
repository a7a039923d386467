"""Replies: who waits for one, and who sends it. Nothing of it survives the process.

A requester waits under an id that nobody can guess, and puts the id into the message that it
publishes. Whoever handles the message sends the reply to that id, and it goes straight to the
requester: a reply is never stored. One that comes when nobody waits for it any more, because it is
late, or the second one, or from an earlier life of the node, is dropped and counted. So is one of
another tenant than the requester's, whoever told its sender the id; an admin of `default` may ask,
and answer, in all of them.

Invariant: an id has at most one waiting request, which is answered once: by the first reply, by
its time, or by the end of the node.
Cost: two dictionary entries for each request that waits, and one alarm. At most `_WAITING_MAX`, and
of one tenant other than `default` a quarter of that.
"""

from collections import Counter

from goqueue.broker.state import NodeState
from goqueue.broker.turns import ForRequest
from goqueue.model import Code, Instant, Now, Refused, RequestId
from goqueue.model.requests import AwaitReply, ReplyReceived, ReplySent, SendReply
from goqueue.security import DEFAULT_TENANT

__all__ = ["Replies"]

_WAITING_MAX = 10_000
_SHARES = 4


class Replies:
    """Takes requests that wait for a reply, and replies."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._waiting: dict[str, RequestId] = {}
        # What each request waits for, and whose reply that may be; None: of any tenant.
        self._ids: dict[RequestId, tuple[str, str | None]] = {}
        self._by_tenant: Counter[str | None] = Counter()

    def wait(self, request: RequestId, command: AwaitReply, now: Now) -> None:
        tenant = self._state.access.own_tenant
        limit = _WAITING_MAX if tenant in (None, DEFAULT_TENANT) else _WAITING_MAX // _SHARES
        if len(self._waiting) >= _WAITING_MAX or self._by_tenant[tenant] >= limit:
            raise Refused(Code.QUOTA_EXCEEDED, quota="requests", limit=limit)
        if command.reply_to in self._waiting:
            raise Refused(Code.REQUEST_INVALID, field="reply_to", reason="is waited for already")
        self._waiting[command.reply_to] = request
        self._ids[request] = (command.reply_to, tenant)
        self._by_tenant[tenant] += 1
        self._state.alarms.set(ForRequest(request), Instant(now.instant + command.wait_ns))

    def is_awaited(self, reply_to: str) -> bool:
        """Whether a request waits here for the reply with this id."""
        return reply_to in self._waiting

    def count_dropped(self) -> None:
        """Nobody waits for a reply, on this node or another."""
        self._state.tally.replies_dropped += 1

    def send(self, request: RequestId, command: SendReply, _: Now) -> None:
        requester = self._waiting.get(command.reply_to)
        if requester is None or not self._may_answer(requester):
            requester = None
            if request > 0:
                # Of one that another node passes on, that node counts what becomes of it.
                self.count_dropped()
        else:
            self._forget(requester)
            self._state.tally.replies_delivered += 1
            received = ReplyReceived(value=command.value, headers=command.headers)
            self._state.outbox.answer(requester, received)
        self._state.outbox.answer(request, ReplySent(is_delivered=requester is not None))

    def _may_answer(self, requester: RequestId) -> bool:
        own, awaited = self._state.access.own_tenant, self._ids[requester][1]
        return own is None or awaited is None or own == awaited

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """A request ends: its time is over, or its caller is gone. False if it is not ours."""
        if request not in self._ids:
            return False
        self._forget(request)
        if not is_gone:
            self._state.tally.requests_unanswered += 1
            self._state.outbox.answer(request, Refused(Code.NO_REPLY))
        return True

    def end_all(self) -> None:
        """The node stops: what is not answered by now never will be."""
        for request in list(self._ids):
            self.cancel(request)

    def _forget(self, request: RequestId) -> None:
        reply_to, tenant = self._ids.pop(request)
        del self._waiting[reply_to]
        self._by_tenant[tenant] -= 1
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]
        self._state.alarms.set(ForRequest(request), None)
