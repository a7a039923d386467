"""The real clocks, read once per event."""

import time
from collections.abc import Callable
from typing import cast

from goqueue.model import Instant, Now, Timestamp

__all__ = ["read_clock"]

# Bound with their types: a call of `Instant` around each reading costs as much as the reading.
_read_instant = cast("Callable[[], Instant]", time.monotonic_ns)
_read_wall = cast("Callable[[], Timestamp]", time.time_ns)


def read_clock() -> Now:
    return Now(_read_instant(), _read_wall())
