"""How late the event loop runs: a timer that looks at the clock when it is called.

Whatever holds the loop up holds this up, too. Costs a wake-up four times a second.
"""

import asyncio
import time

from goqueue.metrics import Histogram

__all__ = ["LoopLag"]

_EVERY_S = 0.25
_EVERY_NS = 250_000_000


class LoopLag:
    """Observes by how much each call of a timer is late."""

    def __init__(self) -> None:
        self.histogram = Histogram()
        self._loop = asyncio.get_running_loop()
        self._due_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due_ns = time.monotonic_ns() + _EVERY_NS
        self._timer = self._loop.call_later(_EVERY_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self.histogram.observe(max(0, time.monotonic_ns() - self._due_ns))
        self.start()
