"""An event loop in a thread of its own, that other threads hand work to.

A daemon thread, ended before the interpreter tears itself down, so that a program that forgot to
close still drains what it sent.

Invariant: after `stop` the thread has ended and no call is left waiting.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import TypeVar

import uvloop

from goqueue.client.errors import Closed

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads; `farewell` is the last one, run by `stop`.

    `running` is a loop that the calling thread runs already, and ends itself: then this has no
    thread of its own, and `stop` only takes no more work.
    """

    def __init__(
        self,
        farewell: Callable[[], Coroutine[object, object, None]],
        running: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._farewell = farewell
        self._is_borrowed = running is not None
        self._loop = running or uvloop.new_event_loop()
        self._stopping = threading.Lock()
        # Held while work is handed over: once stopped, none arrives that nobody would do. A signal
        # handler may come in between, and hand over work of its own.
        self._entrance = threading.RLock()
        self._is_stopped = False
        if self._is_borrowed:
            self._thread = threading.current_thread()
            return
        self._thread = threading.Thread(target=self._run, name="goqueue", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def call(self, work: Coroutine[object, object, T]) -> T:
        """Run on the loop, and wait for it. An interrupt of the waiting thread cancels the work."""
        with self._entrance:
            if self._is_stopped:
                work.close()
                raise Closed("the connection is closed")
            if threading.current_thread() is self._thread:
                work.close()
                raise Closed("the connection cannot be used from a callback of its own thread")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise Closed("the connection was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def apply(self, function: Callable[[], T]) -> T:
        """Call a plain function on the loop, which what it touches belongs to, and wait for it."""

        async def applied() -> T:
            return function()

        return self.call(applied())

    def post(self, action: Callable[[], object]) -> None:
        """Have something done on the loop, without waiting for it."""
        with self._entrance:
            if self._is_stopped:
                raise Closed("the connection is closed")
            self._loop.call_soon_threadsafe(action)

    def stop(self) -> None:
        """Say farewell, end the thread; again is fine."""
        with self._stopping:
            if self._is_stopped:
                return
            if self._is_borrowed:
                self._is_stopped = True
                return
            try:
                self.call(self._farewell())
            finally:
                with self._entrance:
                    self._is_stopped = True
                    self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                atexit.unregister(self.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end_calls())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _end_calls(self) -> None:
        """Whoever still waits for something is let go."""
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
