"""Runs the coroutine that answers one request, without a task.

Most handlers ask the broker once and encode its reply. A task for each would cost as much as that:
to create or wake it, a timeout around it, and a turn of the event loop before it starts. So the
connection starts the coroutine where the request was read, and whatever the coroutine awaits (a
future, or nothing at all to let others run) resumes it when it is done.

A handler may await everything but what looks for the task that runs it: `asyncio.timeout` and task
groups. It awaits a task that does.

Invariant: `done` is called exactly once, unless the handler is interrupted or ends in `start`.
Cost: one callback of the loop for each await that has to wait.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from goqueue.gateways.http.server.application import HttpResponse

__all__ = ["STREAMED", "Outcome", "RequestRunner"]

# What a handler has come to: its response, or what it raised instead.
Outcome = HttpResponse | BaseException
# How a stream ends well.
STREAMED = HttpResponse(200)


class RequestRunner:
    """One request being answered."""

    __slots__ = ("_awaited", "_coroutine", "_done", "_loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, None, HttpResponse],
        done: Callable[[Outcome], None],
    ) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._done = done
        self._awaited: asyncio.Future[Any] | asyncio.Handle | None = None

    def start(self) -> Outcome | None:
        """Run until the handler has to wait; its outcome if it never has to."""
        return self._step(None)

    def interrupt(self, error: BaseException) -> Outcome | None:
        """Raise an error where the handler waits; its outcome, unless it waits again."""
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            awaited.cancel()
        return self._step(error)

    def _wake(self, awaited: "asyncio.Future[Any]") -> None:
        # Otherwise the handler was interrupted when this call was already on its way.
        if awaited is self._awaited:
            self._resume()

    def _resume(self) -> None:
        self._awaited = None
        outcome = self._step(None)
        if outcome is not None:
            self._done(outcome)

    def _step(self, error: BaseException | None) -> Outcome | None:
        coroutine = self._coroutine
        try:
            awaited = coroutine.send(None) if error is None else coroutine.throw(error)
        except StopIteration as returned:
            response: HttpResponse = returned.value
            return response
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - the connection's to judge
            return raised
        if awaited is None:
            self._awaited = self._loop.call_soon(self._resume)
        else:
            # What a task does to say that it waits for the future that it was given.
            awaited._asyncio_future_blocking = False  # noqa: SLF001 - asyncio's protocol of futures
            awaited.add_done_callback(self._wake)
            self._awaited = awaited
        return None
