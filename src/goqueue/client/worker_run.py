"""One run of a worker, from its start-up hooks to its shutdown hooks.

Owns the order of things: hooks, then the topics and groups of every handler, then messages; at the
end the same backwards. When told to stop, nothing more is leased and what was not begun is given
back at once. Handlers in hand have `shutdown_s`; those that are not done then are cancelled, and
their messages released without a delivery being counted. Acks under way are waited for, and
everything has an end even if the node is away.

Invariant: when `serve` returns, no handler runs but in threads that cannot be ended, and no lease
is held.
"""

import asyncio
import contextlib
import inspect
import logging
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence

from goqueue.client.connection import Connection
from goqueue.client.errors import GoQueueError
from goqueue.client.handler_call import Given, HandlerCall, Middleware
from goqueue.client.handler_pool import HandlerPool, PoolContext
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.worker import Worker
from goqueue.client.worker_telemetry import Outcome, WorkerTelemetry

__all__ = ["WorkerRun", "run_until_signalled"]

_log = logging.getLogger("goqueue.worker")

_CLIENT_ID = "goqueue-worker"
_IDLE_S = 0.05
_SIGNALS_HEEDED = 2
# To leave the groups takes a moment, however little time is left.
_FAREWELL_S = 2.0


async def run_until_signalled(
    worker: Worker, q: Connection | None = None, *, until_idle: bool = False
) -> None:
    """Serve until INT or TERM; the second one does not wait for handlers."""
    with _stopped_by_signals(worker):
        await worker.serve(q, until_idle=until_idle)


@contextlib.contextmanager
def _stopped_by_signals(worker: Worker) -> Iterator[None]:
    """In the main thread; another one cannot be told of signals.

    The third one ends the program by its default action: a handler may not let itself be ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    left = _SIGNALS_HEEDED

    def stop() -> None:
        nonlocal left
        worker.stop()
        left -= 1
        if not left:
            release()

    def release() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        release()


class WorkerRun:
    """Serves once."""

    def __init__(
        self,
        worker: Worker,
        middleware: Sequence[Middleware],
        startup: Sequence[HandlerCall],
        shutdown: Sequence[HandlerCall],
    ) -> None:
        self._worker = worker
        self._middleware = tuple(middleware)
        self._startup = tuple(startup)
        self._shutdown = tuple(shutdown)
        self._telemetry = WorkerTelemetry()
        self._pools: list[HandlerPool] = []
        self._threads: LoopThread | None = None
        self._failure: BaseException | None = None
        self._is_stopping = asyncio.Event()
        self._is_hurried = asyncio.Event()
        self._ends_at = 0.0
        self._is_closed = False

    def stop(self) -> None:
        """Finish what is in hand; called again, do not."""
        if self._is_stopping.is_set():
            self._is_hurried.set()
        self._is_stopping.set()
        # At once, not when the loop comes to it: no further message is begun.
        for pool in self._pools:
            pool.stop()

    async def serve(self, given: Connection | None, *, until_idle: bool) -> None:
        worker = self._worker
        async with contextlib.AsyncExitStack() as stack:
            q = given
            if q is None:
                q = await stack.enter_async_context(worker.open_connection(_CLIENT_ID))
            for hook in self._shutdown:
                stack.push_async_callback(_call_hook, hook, q)
            for hook in self._startup:
                await _call_hook(hook, q)
            stack.push_async_callback(self._close)
            self._pools = self._create_pools(q)
            await self._work(q, until_idle=until_idle)
        if self._failure is not None:
            raise self._failure

    def _create_pools(self, q: Connection) -> list[HandlerPool]:
        worker = self._worker
        threads = self._threads = LoopThread(q.close, asyncio.get_running_loop())
        life = worker.name or secrets.token_hex(4)
        return [
            HandlerPool(
                spec,
                PoolContext(
                    q=q,
                    threads=threads,
                    middleware=self._middleware,
                    telemetry=self._telemetry,
                    producer_prefix=f"{spec.group}.{life}.{number}",
                    is_named=worker.name is not None,
                    on_failure=self._fail,
                ),
            )
            for number, spec in enumerate(worker.handlers)
        ]

    def _fail(self, error: BaseException) -> None:
        """Stop because of an error; the first one is raised in the end."""
        self._failure = self._failure or error
        self._is_stopping.set()

    async def _work(self, q: Connection, *, until_idle: bool) -> None:
        async with asyncio.TaskGroup() as tasks:
            stopping = tasks.create_task(_wait(self._is_stopping))
            opening = tasks.create_task(self._open())
            await asyncio.wait((opening, stopping), return_when=asyncio.FIRST_COMPLETED)
            opening.cancel()
            if not self._is_stopping.is_set():
                others = [tasks.create_task(pool.watch()) for pool in self._pools]
                if until_idle:
                    others.append(tasks.create_task(self._stop_when_idle(q)))
                await self._work_until_stopped(tasks)
                for other in others:
                    other.cancel()
            stopping.cancel()

    async def _open(self) -> None:
        try:
            for pool in self._pools:
                await pool.open()
        except GoQueueError as error:
            self._fail(error)

    async def _work_until_stopped(self, tasks: asyncio.TaskGroup) -> None:
        group = self._worker.group
        for pool in self._pools:
            _log.info("group %s: handling %s", group, pool.describe())
        slots = [slot for pool in self._pools for slot in pool.start(tasks)]
        try:
            await self._is_stopping.wait()
        except asyncio.CancelledError:
            await self._end_slots(slots)
            raise
        for pool in self._pools:
            pool.stop()
        in_hand = sum(pool.in_hand for pool in self._pools)
        _log.info("group %s: stopping, with %d messages in hand", group, in_hand)
        self._ends_at = time.monotonic() + self._worker.shutdown_s
        hurried = tasks.create_task(_wait(self._is_hurried))
        finished = tasks.create_task(_wait_for_all(slots))
        await asyncio.wait(
            (hurried, finished),
            timeout=self._worker.shutdown_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        hurried.cancel()
        await self._end_slots(slots)
        # Nothing can end a task that goes on: another signal ends the process.
        await self._close()

    async def _end_slots(self, slots: Sequence[asyncio.Task[None]]) -> None:
        """Cancel what is not done, and say what does not heed that."""
        for slot in slots:
            slot.cancel()
        await _wait_for_all(slots, _FAREWELL_S)
        if any(not slot.done() for slot in slots):
            holders = [each for pool in self._pools for each in pool.holders()]
            words = "group %s: the stop waits for what goes on although it was cancelled: %s"
            _log.error(words, self._worker.group, "; ".join(holders) or "a handler")

    async def _close(self) -> None:
        """Give back what is left, and leave; not for longer than there is time."""
        if self._is_closed:
            return
        self._is_closed = True
        left_s = max(self._ends_at - time.monotonic(), _FAREWELL_S)
        for pool in self._pools:
            pool.stop()
        try:
            async with asyncio.timeout(left_s):
                await asyncio.gather(*(pool.close() for pool in self._pools))
        except TimeoutError:
            _log.warning("group %s: the node did not answer in time", self._worker.group)
            for pool in self._pools:
                pool.give_up()
        if self._threads is not None:
            # A thread that is stuck may come back later, and finds nobody.
            self._threads.stop()
        tally = self._telemetry.tally
        counts = ", ".join(f"{tally[each]} {each.value.replace('_', '-')}" for each in Outcome)
        _log.info("group %s: stopped; %s", self._worker.group, counts)

    async def _stop_when_idle(self, q: Connection) -> None:
        while True:
            await asyncio.sleep(_IDLE_S)
            try:
                if not any(pool.in_hand for pool in self._pools) and await self._has_no_lag(q):
                    self.stop()
                    return
            except GoQueueError as error:
                _log.info("group %s: its lag is unknown: %s", self._worker.group, error)

    async def _has_no_lag(self, q: Connection) -> bool:
        """Whether everything is settled, retries that wait included."""
        topics = {(spec.group, topic) for spec in self._worker.handlers for topic in spec.topics}
        for group in sorted({group for group, _ in topics}):
            for each in (await q.groups.lag(group)).partitions:
                if (group, each.topic) in topics and each.lag:
                    return False
        return True


async def _call_hook(hook: HandlerCall, q: Connection) -> None:
    result = hook.start_hook(Given(q))
    if inspect.isawaitable(result):
        await result


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _wait_for_all(
    tasks: Sequence[asyncio.Task[None]], timeout_s: float | None = None
) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)
