"""Metrics of the shell around a node, and the collector of all metrics.

Owns the families that the runtime counts itself: listeners and their connections, the disk thread,
the lag of the event loop, the volume, and the process under the names that Prometheus clients use.
What the operating system does not report is left out; memory and descriptors come from /proc.

A scrape runs on the event loop in slices of a few milliseconds; other work runs in between, and
the values of one scrape need not be from the same moment. One scrape runs at a time, so any number
of scrapers takes no more of the loop than one. The lag timer costs four wake-ups a second.
"""

import asyncio
import gc
import os
import platform
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from goqueue.gateways import Capacity, Listener
from goqueue.metrics import Family, Histogram, Kind, Sample, expose
from goqueue.runtime.disk import Disk
from goqueue.runtime.os_files import OsFileSystem

__all__ = [
    "LoopLag",
    "MetricsCollector",
    "handshake_families",
    "listener_families",
    "process_families",
    "shell_families",
    "volume_families",
]

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


_PROC = Path("/proc/self")
_GENERATION = ("generation",)
_COLLECTIONS = (
    ("python_gc_collections_total", "collections", "Runs of the garbage collector."),
    (
        "python_gc_objects_collected_total",
        "collected",
        "Objects collected by the garbage collector.",
    ),
    (
        "python_gc_objects_uncollectable_total",
        "uncollectable",
        "Objects that the garbage collector could not collect.",
    ),
)
_INFO = ("implementation", "major", "minor", "patchlevel", "version")


def process_families() -> Iterator[Family]:
    yield _single(
        Kind.COUNTER,
        "process_cpu_seconds_total",
        "CPU time used, user and system.",
        time.process_time(),
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
        meaning="Version of Python.",
        labels=_INFO,
        samples=[((*version, platform.python_version()), 1)],
    )


def _single(kind: Kind, name: str, meaning: str, quantity: float) -> Family:
    return Family(name=name, kind=kind, meaning=meaning, samples=[((), quantity)])


def _memory() -> Iterator[Family]:
    with suppress(OSError):
        # After the name, which may hold anything, the next field is the third.
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
        yield _single(Kind.GAUGE, "process_open_fds", "Open file descriptors.", opened)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield _single(Kind.GAUGE, "process_max_fds", "Limit on open file descriptors.", limit)


def shell_families(disk: Disk, lag: LoopLag) -> Iterator[Family]:
    yield _family(
        Kind.GAUGE,
        "goqueue_runtime_disk_queue_length",
        "Writes, syncs and other effects that wait for the disk thread.",
        disk.queue_length,
    )
    yield Family(
        name="goqueue_runtime_event_loop_lag_seconds",
        kind=Kind.HISTOGRAM,
        meaning="Lateness of timers on the event loop.",
        samples=[((), lag.histogram)],
    )


def volume_families(files: OsFileSystem) -> Iterator[Family]:
    """The file system of the data directory; facts that it does not report are omitted."""
    with suppress(OSError):
        for name, meaning, quantity in (
            ("free", "Free bytes of the file system of the data directory.", files.free_bytes()),
            ("size", "Size of the file system of the data directory in bytes.", files.size_bytes()),
        ):
            yield _family(Kind.GAUGE, f"goqueue_storage_volume_{name}_bytes", meaning, quantity)


def listener_families(listeners: Iterable[Listener], capacity: Capacity) -> Iterator[Family]:
    """Connections of all listeners together, and the traffic of each."""
    active = capacity.connections_active
    yield _family(Kind.GAUGE, "goqueue_broker_active_connections", "Open connections.", active)
    for listener in listeners:
        name, traffic = listener.name, listener.traffic
        for field, meaning, quantity in (
            ("requests", f"Requests over {name.upper()}.", traffic.requests_total),
            ("received_bytes", "Bytes received.", traffic.bytes_in),
            ("sent_bytes", "Bytes sent.", traffic.bytes_out),
        ):
            yield _family(Kind.COUNTER, f"goqueue_{name}_{field}_total", meaning, quantity)


def handshake_families(capacity: Capacity) -> Iterator[Family]:
    """What a node with TLS counts before a connection is one."""
    yield _family(
        Kind.COUNTER,
        "goqueue_tls_handshake_errors_total",
        "TLS handshakes that failed: no TLS, no accepted certificate, too slow, or given up.",
        capacity.handshakes_failed_total,
    )


def _family(kind: Kind, name: str, meaning: str, quantity: int) -> Family:
    return Family(name=name, kind=kind, meaning=meaning, samples=[((), quantity)])


Source = Callable[[], Iterable[Family]]

# Other work waits at most this long plus one slice.
_SLICE_NS = 4_000_000


class MetricsCollector:
    """Renders the text of all metrics."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)
        self._turn = asyncio.Lock()

    async def scrape(self) -> tuple[bytes, ...]:
        """The text in pieces, in order."""
        async with self._turn:
            pieces: list[bytes] = []
            until = time.monotonic_ns() + _SLICE_NS
            for source in self._sources:
                for piece in expose(source()):
                    if piece:
                        pieces.append(piece)
                    if time.monotonic_ns() >= until:
                        await asyncio.sleep(0)
                        until = time.monotonic_ns() + _SLICE_NS
            return tuple(pieces)
