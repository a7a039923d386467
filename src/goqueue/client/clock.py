"""The clock of a connection: what leases, heartbeats and intervals are measured by.

A connection to a server is on real time. A node in this process (`goqueue.testing`) brings a clock
that its tests move, and a connection to it follows that clock, so that heartbeats and renewals
come when they would have come, however fast hours pass.

Only time that has a meaning to the broker is read here. How long a request may take, how long a
batch is collected and how long to wait before an attempt is repeated is always real time: it
protects the program, and must end also while a test clock stands still.

Cost: on real time, `time` is `time.monotonic` itself.
"""

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from typing import Protocol

__all__ = ["SYSTEM_CLOCK", "Clock", "SystemClock"]


class Clock(Protocol):
    """Measures time for one connection; used by any number of event loops and threads."""

    def time(self) -> float:
        """Seconds from an arbitrary beginning; never goes back."""
        ...

    async def sleep(self, delay_s: float, /) -> None:
        """Wait for as long by this clock."""
        ...

    def timeout(self, delay_s: float, /) -> "AbstractAsyncContextManager[object]":
        """Raise TimeoutError in the block when as long has passed by this clock."""
        ...

    async def pause(self, delay_s: float, /) -> None:
        """Wait for a moment of real time, before something that failed is tried again."""
        ...

    async def wait_briefly(self, task: asyncio.Task[None], delay_s: float, /) -> None:
        """Wait for the end of a task whose answer may be under way, `delay_s` at most."""
        ...


class SystemClock:
    """Real time."""

    time = staticmethod(time.monotonic)
    timeout = staticmethod(asyncio.timeout)

    async def sleep(self, delay_s: float, /) -> None:
        await asyncio.sleep(delay_s)

    async def pause(self, delay_s: float, /) -> None:
        await asyncio.sleep(delay_s)

    async def wait_briefly(self, task: asyncio.Task[None], delay_s: float, /) -> None:
        await asyncio.wait({task}, timeout=delay_s)


SYSTEM_CLOCK = SystemClock()
