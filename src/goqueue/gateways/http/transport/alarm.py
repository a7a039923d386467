"""One timer for several deadlines that move often and are met rarely.

Moving a deadline later costs nothing: the timer in the loop stays where it is, finds when it goes
off that it is early, and is set again. Only an earlier deadline replaces it.
"""

import asyncio
from collections.abc import Callable

__all__ = ["NEVER", "Alarm"]

NEVER = float("inf")


class Alarm:
    """Calls `ring` no earlier than the deadline last set, and at most once for it."""

    __slots__ = ("_deadline", "_loop", "_ring", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[float], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._deadline = NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER

    def set(self, deadline: float) -> None:
        self._deadline = deadline
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._go_off)
            self._timer_at = deadline

    def stop(self) -> None:
        self._deadline = self._timer_at = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self._timer_at = NEVER
        now = self._loop.time()
        deadline = self._deadline
        if now < deadline:
            self.set(deadline)
            return
        self._deadline = NEVER
        self._ring(now)
