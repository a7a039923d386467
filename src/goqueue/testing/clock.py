"""A clock that stands still until a test moves it.

Node and clients of a test read this clock, and set their timers by it. Moving it goes from timer
to timer: the clock is set to the earliest, those that are due then fire, and everything that
follows from them happens before the clock moves on. So an hour passes as it would have passed,
with each heartbeat, renewal and expiry in its place, in a few milliseconds.

Invariants: time never goes back; a timer fires at its own time, not later; of timers that are due
at the same time the one that was set first fires first.

Timers may be set in any thread. The clock has no thread of its own: whoever moves it does the work.
"""

import asyncio
import contextlib
import datetime as dt
import heapq
import itertools
import math
import threading
from collections.abc import AsyncIterator, Callable, Coroutine

from goqueue.model import Instant, Now, Timestamp, parse_duration
from goqueue.testing.idle import IdleWatch, NotIdle, post_to

__all__ = ["Duration", "ManualClock", "Timer"]

# Seconds, a timedelta, or text such as "10m" or "1h30m".
Duration = float | str | dt.timedelta

_SECOND = 1_000_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_IDLE_S_MAX = 10.0


class Timer:
    """A callback for a time; `cancel` may come too late."""

    __slots__ = ("call", "is_cancelled")

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualClock:
    """The time of a test: `await clock.advance("10m")`, or `clock.advance_sync("10m")`.

    Starts at `start`, or at the present second. A `MemoryNode` makes one of its own; give one
    clock to several nodes to have one time for all of them. `idle_s_max` bounds how much real time
    one step may take before it fails with `NotIdle`.
    """

    def __init__(
        self, start: dt.datetime | None = None, *, idle_s_max: float = _IDLE_S_MAX
    ) -> None:
        start = dt.datetime.now(dt.UTC).replace(microsecond=0) if start is None else start
        if start.tzinfo is None:
            raise ValueError("the start of a clock needs a time zone")
        self._start_ns = (start - _EPOCH) // dt.timedelta(microseconds=1) * 1000
        self._idle_s_max = idle_s_max
        self._passed_ns = 0
        self._timers: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()
        self._guard = threading.Lock()
        self._is_moving = False
        self.idle = IdleWatch()

    def __repr__(self) -> str:
        return f"ManualClock({self.now().isoformat()})"

    # For tests

    def now(self) -> dt.datetime:
        """The time in UTC, to the microsecond."""
        return _EPOCH + dt.timedelta(microseconds=(self._start_ns + self._passed_ns) // 1000)

    async def advance(self, by: Duration) -> None:
        """Let time pass: everything that is due meanwhile happens, in order.

        Returns when nothing happens any more. `NotIdle` if the program does not come to rest.
        """
        await self._move(self._passed_ns + _nanoseconds(by))

    async def advance_to(self, moment: dt.datetime) -> None:
        """The same up to a time with a zone; a ValueError if it has passed."""
        await self._move(self._passed_at(moment))

    async def settle(self) -> None:
        """Wait until nothing happens any more without time passing."""
        await self.idle.wait_until_idle(self._idle_s_max)

    def advance_sync(self, by: Duration) -> None:
        """`advance` for a test without an event loop."""
        _run("advance", self.advance(by))

    def advance_to_sync(self, moment: dt.datetime) -> None:
        """`advance_to` for a test without an event loop."""
        _run("advance_to", self.advance_to(moment))

    def settle_sync(self) -> None:
        """`settle` for a test without an event loop."""
        _run("settle", self.settle())

    # For nodes and clients

    def read(self) -> Now:
        """The time as a node reads it."""
        passed_ns = self._passed_ns
        return Now(Instant(passed_ns), Timestamp(self._start_ns + passed_ns))

    def time(self) -> float:
        """Seconds since the start."""
        return self._passed_ns / _SECOND

    def call_at(self, instant: int, call: Callable[[], object]) -> Timer:
        """Call in the thread that moves the clock, when it shows this time."""
        timer = Timer(call)
        with self._guard:
            heapq.heappush(self._timers, (instant, next(self._order), timer))
        return timer

    def post(
        self, loop: asyncio.AbstractEventLoop, call: Callable[..., object], *given: object
    ) -> None:
        """Call on a loop, unless it is closed: then nobody waits there any more."""
        self.idle.note(loop)
        post_to(loop, call, *given)

    async def sleep(self, delay_s: float, /) -> None:
        """Wait by this clock; a handler of a test may do so, too."""
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        self.idle.watch(loop)
        over: asyncio.Future[None] = loop.create_future()
        timer = self._call_later(delay_s, lambda: self.post(loop, _finish, over))
        try:
            await over
        finally:
            timer.cancel()

    @contextlib.asynccontextmanager
    async def timeout(self, delay_s: float, /) -> AsyncIterator[None]:
        """Raise TimeoutError in the block when as long has passed by this clock."""
        loop = asyncio.get_running_loop()
        self.idle.watch(loop)
        is_over = False
        async with asyncio.timeout(None) as timeout:

            def expire() -> None:
                if not is_over:
                    timeout.reschedule(loop.time())

            timer = self._call_later(delay_s, lambda: self.post(loop, expire))
            try:
                yield
            finally:
                is_over = True
                timer.cancel()

    async def pause(self, delay_s: float, /) -> None:
        """Wait for a moment of real time."""
        with self.idle.pause():
            await asyncio.sleep(delay_s)

    async def wait_briefly(self, task: asyncio.Task[None], delay_s: float, /) -> None:
        """Wait for the end of a task, but no longer than until nothing happens any more."""
        resting = asyncio.create_task(self._rest(delay_s))
        try:
            await asyncio.wait({task, resting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            resting.cancel()

    async def _rest(self, limit_s: float) -> None:
        with contextlib.suppress(NotIdle):
            await self.idle.wait_until_idle(limit_s)

    def _call_later(self, delay_s: float, call: Callable[[], object]) -> Timer:
        return self.call_at(self._passed_ns + math.ceil(delay_s * _SECOND), call)

    async def _move(self, target_ns: int) -> None:
        with self._guard:
            if self._is_moving:
                raise RuntimeError("another task moves the clock: wait for its `advance` to return")
            self._is_moving = True
        try:
            await self.settle()
            while self._step(target_ns):
                await self.idle.wait_until_idle(self._idle_s_max, is_new=False)
        finally:
            self._is_moving = False

    def _step(self, target_ns: int) -> bool:
        """Move to the next time at which something is due, or else to the target."""
        due: list[Timer] = []
        with self._guard:
            timers = self._timers
            while timers and timers[0][2].is_cancelled:
                heapq.heappop(timers)
            at_ns = max(timers[0][0], self._passed_ns) if timers else target_ns + 1
            self._passed_ns = min(at_ns, target_ns)
            while timers and timers[0][0] <= self._passed_ns:
                due.append(heapq.heappop(timers)[2])
        for timer in due:
            if not timer.is_cancelled:
                timer.call()
        return bool(due)

    def _passed_at(self, moment: dt.datetime) -> int:
        if moment.tzinfo is None:
            raise ValueError("a time to advance to needs a time zone")
        passed_ns = (moment - _EPOCH) // dt.timedelta(microseconds=1) * 1000 - self._start_ns
        if passed_ns < self._passed_ns:
            raise ValueError(
                f"{moment} has passed: this clock shows {self.now()} and never goes back"
            )
        return passed_ns


def _nanoseconds(given: Duration) -> int:
    if isinstance(given, str):
        return parse_duration(given)
    seconds = given.total_seconds() if isinstance(given, dt.timedelta) else given
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"a clock cannot be moved by {seconds} seconds")
    return round(seconds * _SECOND)


def _finish(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _run(name: str, work: Coroutine[object, object, None]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    work.close()
    raise RuntimeError(f"an event loop runs in this thread: `await clock.{name}(...)` instead")
