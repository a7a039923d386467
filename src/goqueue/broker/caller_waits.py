"""Requests of keys: they are checked when they come, and again as long as they wait.

A right may end while a request waits: a key is revoked or expires, a tenant is suspended or
disabled, an ACL is added. What waits then ends in the same turn, so nothing that is committed later
is served to a caller that may not have it. Polls check the topics that they lease from by
themselves, each time.

Invariant: a request is listed from its admission until its answer, or until its caller has gone.
Cost: two dictionary operations for each request of a key, none without authentication. A change
costs one check for each request that waits; the limits on waiting requests bound it.
"""

from collections.abc import Callable, Iterable

from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.model import (
    LOCAL,
    Answer,
    Asked,
    Caller,
    Code,
    Instant,
    NodeEffect,
    Now,
    Refused,
    RequestId,
    Serve,
    Timestamp,
)
from goqueue.model.requests import Command, DescribeCaller
from goqueue.security import RULES, AuditSubject, subject_of

__all__ = ["CallerWaits"]

Handler = Callable[[RequestId, Command, Now], None]


class CallerWaits:
    """The requests of proven keys."""

    def __init__(self, state: NodeState, cancel: Callable[[RequestId], bool]) -> None:
        """`cancel` ends a request that waits for something; False if it does not."""
        self._state = state
        self._cancel = cancel
        self._waiting: dict[RequestId, tuple[Caller, Command]] = {}
        self._version = state.security.version

    def handle(self, event: Asked, handler: Handler, now: Now) -> None:
        """Carry a command out, if its key may send it; the handler checks what only it can find.

        Raises Refused.
        """
        state, access, caller = self._state, self._state.access, event.caller
        state.caller = caller
        is_refused = True
        try:
            access.admit(caller, event.command, now)
            state.security.keys.record_use(caller.key, now.wall)
            state.audit.record_use(caller, now)
            self._waiting[event.request] = (caller, event.command)
            expiry = access.expiry(caller)
            if expiry is not None:
                self._arm(expiry, now)
            handler(event.request, event.command, now)
            is_refused = False
        except Refused as refused:
            if access.has_denied and refused.code is not Code.LEADER_UNAVAILABLE:
                state.audit.deny(caller, _subject_of(event.command), refused.code, now)
            raise
        finally:
            state.caller = LOCAL
            access.leave(is_refused=is_refused)

    def forget(self, request: RequestId) -> None:
        """The caller of a request has gone."""
        self._waiting.pop(request, None)

    def note(self, effects: Iterable[NodeEffect]) -> None:
        """A turn has ended: what it answers waits no longer."""
        if self._waiting:
            for effect in effects:
                if isinstance(effect, Answer | Serve):
                    self._waiting.pop(effect.request, None)

    def follow(self, now: Now) -> None:
        """End what may not wait any longer, if keys, ACLs or tenants have changed."""
        if self._version != self._state.security.version:
            self.end_refused(now)

    def check(self, request: RequestId, now: Now) -> Refused | None:
        """Why a request that goes on is refused by now, if it is."""
        found = self._waiting.get(request)
        if found is None:
            return None
        try:
            self._state.access.check_again(*found, now)
        except Refused as refused:
            return refused
        return None

    def end_refused(self, now: Now) -> None:
        """Look at all requests again, and end those that wait and would be refused now."""
        self._version = self._state.security.version
        self._state.budget.spend(len(self._waiting))
        for request in list(self._waiting):
            refusal = self.check(request, now)
            if refusal is not None and self._cancel(request):
                self._state.outbox.answer(request, refusal)
        for caller, _ in self._waiting.values():
            expiry = self._state.access.expiry(caller)
            if expiry is not None and expiry > now.wall:
                self._arm(expiry, now)

    def _arm(self, expiry: Timestamp, now: Now) -> None:
        """Look again when a key expires; a clock that was put meanwhile makes that once more."""
        at = Instant(now.instant + max(0, expiry - now.wall))
        self._state.alarms.bring_forward(Errand.CALLERS, at)


def _subject_of(command: Command) -> AuditSubject:
    """What a refused command is called in the audit log, also one that is not recorded there."""
    if isinstance(command, DescribeCaller):
        # All that can be wrong with it is the key.
        return AuditSubject("authenticate", "")
    rule = RULES[type(command)]
    name = "" if rule.name is None else rule.name(command)
    return subject_of(command) or AuditSubject(type(command).__name__, name)
