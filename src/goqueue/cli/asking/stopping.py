"""INT and TERM as an event: work that waits for the world is told to end, and ends in order."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator

__all__ = ["stopped_by_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[asyncio.Event]:
    """Set by the first signal; the second one ends the program as if nobody listened."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def note() -> None:
        stop.set()
        release()

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
