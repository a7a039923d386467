"""Commands about schemas, one after the other: what is checked beside the node, then decided.

A command that needs a check hands out a `CheckSchema` and goes on with `SchemaChecked`. What it was
checked against may change meanwhile by other ways (a tenant is deleted, another node of the cluster
was the controller for a moment): then it begins again. In a cluster a decision is carried out once
it is committed; until then the next command waits.

Invariant: at most one check is out, and its verdict is for the command that is `_active`. Nothing
is decided but on what the verdict rests on.
Cost: at most `_QUEUE_MAX` commands wait.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from goqueue.broker.state import NodeState
from goqueue.model import CheckSchema, Code, Refused, RequestId, SchemaChecked, SchemaJob
from goqueue.security import Admitted

__all__ = ["SchemaQueue", "SchemaWork"]

_QUEUE_MAX = 1000


class SchemaWork(msgspec.Struct):
    """A command that waits for its turn, for its verdict, or for the commit of its decision.

    `begin` carries it out, or returns what is to be checked first; `finish` goes on after that.
    """

    request: RequestId
    admitted: Admitted | None
    begin: Callable[[], SchemaJob | None]
    finish: Callable[[SchemaChecked], None] | None = None
    # What the registry was when it began.
    revision: int = 0
    is_cancelled: bool = False
    is_decided: bool = False


class SchemaQueue:
    """Carries out one command after the other."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._queue: deque[SchemaWork] = deque()
        self._active: SchemaWork | None = None
        self._token = 0

    @property
    def is_idle(self) -> bool:
        return not self._queue and self._active is None

    def submit(
        self,
        request: RequestId,
        begin: Callable[[], SchemaJob | None],
        finish: Callable[[SchemaChecked], None] | None = None,
    ) -> None:
        """Let the command at hand wait for its turn; raises Refused if too many do."""
        if len(self._queue) >= _QUEUE_MAX:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="too many schemas wait to be checked")
        admitted = self._state.access.note_command()
        self._queue.append(SchemaWork(request, admitted, begin, finish))
        self._go_on()

    def _go_on(self) -> None:
        while self._queue and self._active is None:
            self._begin(self._queue.popleft())

    def _begin(self, work: SchemaWork) -> None:
        self._active = work
        work.revision = self._state.schemas.revision
        self._state.budget.spend()
        job = None
        try:
            job = work.begin()
        except Refused as refused:
            self._refuse(work, refused)
        if job is not None:
            self._token += 1
            self._state.outbox.append(CheckSchema(token=self._token, job=job))
        elif not work.is_decided:
            self._active = None

    def checked(self, event: SchemaChecked) -> None:
        """A check is done: go on with its command, and with the next."""
        work = self._active
        assert work is not None, "a verdict that nobody waits for"
        assert event.token == self._token, "the verdict of another check"
        if work.is_cancelled:
            self._active = None
        elif work.revision != self._state.schemas.revision:
            self._begin(work)
        else:
            assert work.finish is not None
            try:
                work.finish(event)
            except Refused as refused:
                self._refuse(work, refused)
            if not work.is_decided:
                self._active = None
        self._go_on()

    def _refuse(self, work: SchemaWork, refused: Refused) -> None:
        self._state.audit.cancel(work.request)
        self._state.refuse(work.request, refused)

    def cancel(self, request: RequestId) -> bool:
        """Nobody waits any more: whether something was still to be done."""
        if self._active is not None and self._active.request == request:
            if self._active.is_cancelled or self._active.is_decided:
                return False
            self._active.is_cancelled = True
            self._state.audit.cancel(request)
            return True
        for work in self._queue:
            if work.request == request:
                self._queue.remove(work)
                self._state.audit.cancel(request)
                return True
        return False

    # Decisions that are carried out later

    @property
    def at_hand(self) -> SchemaWork:
        """The command that is being decided."""
        assert self._active is not None
        return self._active

    def release(self) -> None:
        """What was decided is carried out, or nothing came of it: go on with the next."""
        assert self._active is not None
        assert self._active.is_decided
        self._active = None
        self._go_on()
