"""Resident memory of pending timers, in a process that holds nothing else."""

import multiprocessing
import os
from collections.abc import Iterator

from bench.delivery.wheel import PENDING, due_times, fill
from bench.figure import Figure, Target
from goqueue.delivery import WHEEL_REACH_NS

__all__ = ["measure_memory"]

# Of 250 bytes that a delayed message may take in all.
_TARGET = Target(below=150)


def measure_memory(scale: float) -> Iterator[Figure]:
    count = max(1000, int(PENDING * scale))
    # A process that has freed memory before would fill the holes, and show less than it takes.
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        size = fresh.apply(_resident_growth, (count,))
    yield Figure(
        figure="wheel_rss_per_timer",
        value=round(size / count, 1),
        unit="bytes",
        target=_TARGET,
        details={"timers": count},
    )


def _resident_growth(count: int) -> int:
    dues = due_times(count, WHEEL_REACH_NS)
    before = _resident()
    wheel = fill(dues)
    after = _resident()
    assert len(wheel) == count
    return after - before


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
