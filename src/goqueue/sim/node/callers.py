"""Requests that wait for an answer: each is answered once, or its sender knows why not.

Does not look into answers. A crash ends every request without an answer.
"""

from collections.abc import Callable

import msgspec

from goqueue.model import Instant, Now, Refused, RequestId
from goqueue.model.requests import Command, Reply
from goqueue.sim.oracle import Violation

__all__ = ["Call", "Callers"]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request without an answer yet; `done` gets None if there will be none."""

    request: RequestId
    command: Command
    asked_at: Instant
    answer_by: Instant | None
    done: Callable[[Reply | Refused | None], None]


class Callers:
    """The requests that are not answered yet."""

    def __init__(self) -> None:
        self._calls: dict[RequestId, Call] = {}
        self._gone: dict[RequestId, None] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def waiting(self) -> list[Call]:
        """The requests with a waiting time."""
        return [call for call in self._calls.values() if call.answer_by is not None]

    @property
    def all(self) -> list[Call]:
        return list(self._calls.values())

    def add(
        self,
        command: Command,
        now: Now,
        wait_ns: int,
        done: Callable[[Reply | Refused | None], None],
    ) -> Call:
        request = RequestId(self._next)
        self._next += 1
        answer_by = Instant(now.instant + wait_ns) if wait_ns else None
        call = Call(
            request=request,
            command=command,
            asked_at=now.instant,
            answer_by=answer_by,
            done=done,
        )
        self._calls[request] = call
        return call

    def answer(self, request: RequestId, reply: Reply | Refused) -> Call | None:
        """Pass an answer to its caller; None if the caller has left."""
        if self._gone.pop(request, 0) is None:
            return None
        call = self._calls.pop(request, None)
        if call is None:
            raise Violation("answered-twice", f"request {request}: {type(reply).__name__}")
        call.done(reply)
        return call

    def leave(self, request: RequestId) -> None:
        """Cancel a request; a later answer is dropped."""
        call = self._calls.pop(request)
        self._gone[request] = None
        call.done(None)

    def lose_all(self) -> None:
        """The process crashed: no request will be answered."""
        calls, self._calls = self._calls, {}
        self._gone.clear()
        for call in calls.values():
            call.done(None)

    def check_patience(self, now: Now) -> None:
        """Check that no request waits longer than it asked for."""
        for call in self.waiting:
            assert call.answer_by is not None
            if call.answer_by <= now.instant:
                raise Violation("answer-overdue", f"{call.command}")
