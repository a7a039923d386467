"""Turns SIGINT and SIGTERM into a graceful stop of work that waits for the broker or for input."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

__all__ = ["Stop", "stopped_by_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether to stop; can be read, awaited, or subscribed to."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_asked(self) -> bool:
        return self._event.is_set()

    def ask(self) -> None:
        self._event.set()
        for listener in self._listeners:
            listener()

    def tell(self, listener: Callable[[], None]) -> None:
        """Call this when asked to stop."""
        self._listeners.append(listener)

    async def wait(self) -> None:
        await self._event.wait()


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Requested by the first signal; the second one ends the program by its default action."""
    loop = asyncio.get_running_loop()
    stop = Stop()

    def note() -> None:
        release()
        stop.ask()

    def release() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        # Removing a handler leaves the default of the system, which knows no clean-up.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in _SIGNALS:
        loop.add_signal_handler(number, note)
    try:
        yield stop
    finally:
        release()
