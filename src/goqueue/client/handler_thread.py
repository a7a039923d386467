"""Threads for handlers that block: each makes one call at a time for a loop.

Daemon threads of their own rather than an executor: a call that never returns must not keep the
program from ending, and a thread that is stuck in one is replaced.

Invariant: a call is answered at most once; what a thread says after its answer was given up is
dropped.
"""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from goqueue.client.retry_policy import reason_of

__all__ = ["HandlerThread"]


class _Call(NamedTuple):
    function: Callable[[], object]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[None]


class HandlerThread:
    """`await thread.call(function)`; `end` lets it go when its call returns."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def call(self, function: Callable[[], object]) -> asyncio.Future[None]:
        """Call a function in the thread, in the context of the caller."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()
        self._calls.put(_Call(function, contextvars.copy_context(), loop, answer))
        return answer

    def end(self) -> None:
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            error: BaseException | None = None
            try:
                call.context.run(call.function)
            except BaseException as raised:  # noqa: BLE001 - whatever it is belongs to the caller
                error = raised
            with contextlib.suppress(RuntimeError):
                # The loop may be closed: then nobody waits any more.
                call.loop.call_soon_threadsafe(_answer, call.answer, error)
            del call, error


def _answer(answer: asyncio.Future[None], error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(None)
    elif isinstance(error, StopIteration) or not isinstance(error, Exception | SystemExit):
        # Thrown into the loop these would mean something else.
        failure = RuntimeError(f"the handler raised {reason_of(error)}")
        failure.__cause__ = error
        answer.set_exception(failure)
    else:
        answer.set_exception(error)
