"""Complaints about what goes wrong over and over: each cause is told once a minute."""

import logging
import time
from collections.abc import Callable

__all__ = ["Complaints"]

_logger = logging.getLogger(__name__)

_EVERY_NS = 60_000_000_000


class Complaints:
    """Tells of failures in the log. Causes are from a fixed list, so that few are remembered."""

    def __init__(
        self,
        tell: Callable[[str], None] = _logger.warning,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._told: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def add(self, cause: str, words: str) -> None:
        """Tell this, unless the same cause was told of within the last minute."""
        now = self._clock()
        told = self._told.get(cause)
        if told is not None and now - told < _EVERY_NS:
            self._kept[cause] = self._kept.get(cause, 0) + 1
            return
        self._told[cause] = now
        kept = self._kept.pop(cause, 0)
        self._tell(f"{words} (and {kept} times more since it was last told)" if kept else words)
