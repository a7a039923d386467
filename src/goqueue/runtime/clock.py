"""The real clocks, read once per event."""

import time

from goqueue.model import Instant, Now, Timestamp

__all__ = ["read_clock"]


def read_clock() -> Now:
    return Now(Instant(time.monotonic_ns()), Timestamp(time.time_ns()))
