"""The process and its Python, under the names that Prometheus clients give them.

What the operating system does not tell is left out: memory and descriptors are read from /proc.
"""

import gc
import os
import platform
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from goqueue.metrics import Family, Kind, Sample

__all__ = ["process_families"]

_PROC = Path("/proc/self")
_GENERATION = ("generation",)
_COLLECTIONS = (
    ("python_gc_collections_total", "collections", "Runs of the garbage collector."),
    ("python_gc_objects_collected_total", "collected", "Objects that it collected."),
    ("python_gc_objects_uncollectable_total", "uncollectable", "Objects that it could not."),
)
_INFO = ("implementation", "major", "minor", "patchlevel", "version")


def process_families() -> Iterator[Family]:
    yield _single(
        Kind.COUNTER, "process_cpu_seconds_total", "Time on processors.", time.process_time()
    )
    yield from _memory()
    yield from _descriptors()
    collected = gc.get_stats()
    for name, field, meaning in _COLLECTIONS:
        samples: list[Sample] = [
            ((str(generation),), stats[field]) for generation, stats in enumerate(collected)
        ]
        yield Family(
            name=name, kind=Kind.COUNTER, meaning=meaning, labels=_GENERATION, samples=samples
        )
    version = (platform.python_implementation(), *platform.python_version_tuple())
    yield Family(
        name="python_info",
        kind=Kind.GAUGE,
        meaning="The Python that runs this.",
        labels=_INFO,
        samples=[((*version, platform.python_version()), 1)],
    )


def _single(kind: Kind, name: str, meaning: str, quantity: float) -> Family:
    return Family(name=name, kind=kind, meaning=meaning, samples=[((), quantity)])


def _memory() -> Iterator[Family]:
    with suppress(OSError):
        # Behind the name, which may hold anything: the third field is the first.
        fields = (_PROC / "stat").read_text().rpartition(")")[2].split()
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
        ticks = os.sysconf("SC_CLK_TCK")
        pages = int(fields[21]) * resource.getpagesize()
        yield _single(
            Kind.GAUGE, "process_virtual_memory_bytes", "Virtual memory.", int(fields[20])
        )
        yield _single(Kind.GAUGE, "process_resident_memory_bytes", "Resident memory.", pages)
        yield _single(
            Kind.GAUGE,
            "process_start_time_seconds",
            "When the process started, since the epoch.",
            boot + int(fields[19]) / ticks,
        )


def _descriptors() -> Iterator[Family]:
    with suppress(OSError):
        opened = len(os.listdir(_PROC / "fd"))
        yield _single(Kind.GAUGE, "process_open_fds", "Open descriptors.", opened)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield _single(Kind.GAUGE, "process_max_fds", "Descriptors that may be open.", limit)
