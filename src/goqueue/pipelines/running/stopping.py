"""The wish to stop a pipeline: first in order, then at once."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["Stop", "stopped_by_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Asked once: finish the batch. Asked again: now."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._is_urgent = False

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    @property
    def is_urgent(self) -> bool:
        return self._is_urgent

    def ask(self) -> None:
        self._is_urgent = self._asked.is_set()
        self._asked.set()

    def wait(self, seconds: float) -> None:
        """Until somebody asks for the first time, or so long."""
        self._asked.wait(seconds)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """INT and TERM ask to stop. To be entered when a session exists: Spark sets its own handler."""
    stop = Stop()

    def note(_: int, __: FrameType | None) -> None:
        stop.ask()

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
