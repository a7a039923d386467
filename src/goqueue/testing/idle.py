"""Finds out when nothing happens any more unless time passes.

A test clock may move on only when the program and the node have done everything that they do at
the present time: a heartbeat that is under way must arrive before the session that it keeps ends.
What is handed to an event loop of those who take part, bytes or a timer that fired, is noted here,
and makes that loop busy. A busy loop is looked at until no callback is ready twice in a row, with a
look at its sockets in between. All is idle when no loop is busy any more.

Invariant: what was handed to a loop before or during a look is never taken for idleness. Work in
other threads, and waits of real time in the program, are not seen: they belong to the program.

Cost: two turns of a busy loop; for one of another thread also two wake-ups, about 0.1 ms.
"""

import asyncio
import contextlib
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

__all__ = ["IdleWatch", "NotIdle", "post_to"]

_LOOKS_MIN = 2
# For event loops that do not say whether callbacks are ready, such as uvloop's.
_LOOKS_BLIND = 16
# A program that always has something ready is idle when it does not talk to a node meanwhile.
_LOOKS_MAX = 2000
_PAUSE_S = 0.001
_LAST_KEPT = 5


class NotIdle(AssertionError):
    """The program did not come to rest; the message says what it was doing."""


class IdleWatch:
    """The event loops that take part, and which of them are busy; for any thread."""

    def __init__(self) -> None:
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, int] = (
            weakref.WeakKeyDictionary()
        )
        self._busy: dict[asyncio.AbstractEventLoop, None] = {}
        self._last: deque[str] = deque(maxlen=_LAST_KEPT)
        self._pauses = 0
        self._guard = threading.Lock()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on the loop, which runs in this thread, takes part."""
        if loop not in self._loops:
            with self._guard:
                self._loops[loop] = threading.get_ident()

    def note(self, loop: asyncio.AbstractEventLoop) -> None:
        """Something is being handed to a loop."""
        with self._guard:
            self._busy[loop] = None

    def report(self, what: str) -> None:
        """Say what is being done, to be told if it never ends."""
        self._last.append(what)

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """A wait of real time that ends soon, on the running loop: not idle meanwhile."""
        with self._guard:
            self._pauses += 1
        try:
            yield
        finally:
            with self._guard:
                self._pauses -= 1
                self._busy[asyncio.get_running_loop()] = None

    async def wait_until_idle(self, limit_s: float, *, is_new: bool = True) -> None:
        """Return when nothing happens any more; `NotIdle` after `limit_s` of real time.

        Unless `is_new` says that the program may have done something since the last time, only
        those loops are looked at that something was handed to.
        """
        self.watch(asyncio.get_running_loop())
        end = time.monotonic() + limit_s
        with self._guard:
            if is_new:
                self._busy.update(dict.fromkeys(self._loops))
        while self._busy or self._pauses:
            if time.monotonic() > end:
                raise self._restless()
            with self._guard:
                busy, self._busy = self._busy, {}
            await self._look_at(busy, end)
            if self._pauses and not self._busy:
                await asyncio.sleep(_PAUSE_S)

    async def _look_at(self, busy: Iterable[asyncio.AbstractEventLoop], end: float) -> None:
        looks = [_Look(loop) for loop in busy if loop.is_running()]
        for look in looks:
            look.start()
        for look in looks:
            try:
                async with asyncio.timeout(max(end - time.monotonic(), 0.05)):
                    await look.done
            except TimeoutError:
                if look.has_run:
                    raise self._restless() from None
                raise NotIdle(_blocked(look.loop, self._loops.get(look.loop))) from None

    def _restless(self) -> NotIdle:
        return NotIdle(
            "the program did not come to rest, so the clock was not moved: does something send "
            f"requests without a pause? Last requests: {', '.join(self._last) or 'none'}"
        )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def post_to(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *given: object) -> bool:
    """Call on a loop, of this thread or of another; False if it is closed."""
    try:
        if _running_loop() is loop:
            # Without a wake-up.
            loop.call_soon(call, *given)
        else:
            loop.call_soon_threadsafe(call, *given)
    except RuntimeError:
        return False
    return True


class _Look:
    """Looks at one loop until it is idle; `done` belongs to the loop that wants to know."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._home = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._home.create_future()
        # Callbacks that are ready: asyncio's own loops keep them under this name in all versions.
        self._ready: object = getattr(loop, "_ready", None)
        self._looks = 0
        self._idle_looks = 0

    @property
    def has_run(self) -> bool:
        """Whether the loop has run since the look was started."""
        return self._looks > 0

    def start(self) -> None:
        if not post_to(self.loop, self._look):
            # Closed a moment ago.
            self.done.set_result(None)

    def _look(self) -> None:
        self._looks += 1
        is_idle = self._looks >= _LOOKS_BLIND if self._ready is None else not self._ready
        self._idle_looks = self._idle_looks + 1 if is_idle else 0
        if self._idle_looks < _LOOKS_MIN and self._looks < _LOOKS_MAX:
            self.loop.call_soon(self._look)
        elif self.loop is self._home:
            self._finish()
        else:
            post_to(self._home, self._finish)

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _blocked(loop: asyncio.AbstractEventLoop, thread: int | None) -> str:
    """Which line keeps a loop from running."""
    name = next((each.name for each in threading.enumerate() if each.ident == thread), "?")
    words = f"an event loop ({type(loop).__name__} in thread {name}) does not run"
    frame = sys._current_frames().get(thread or 0)  # noqa: SLF001 - documented for this use
    if frame is None:
        return words
    at = traceback.extract_stack(frame, limit=1)[0]
    place = f"{Path(at.filename).name}:{at.lineno}"
    return f"{words}: it is blocked in {at.name} ({place}); await instead, or use another thread"
