"""What the shell around a node counts: connections, the disk and its thread, the event loop."""

from collections.abc import Iterator
from contextlib import suppress

from goqueue.gateways.http import HttpServer
from goqueue.metrics import Family, Kind
from goqueue.runtime.disk import Disk
from goqueue.runtime.metering.loop_lag import LoopLag
from goqueue.runtime.os_files import OsFileSystem

__all__ = ["shell_families", "volume_families"]


def shell_families(http: HttpServer | None, disk: Disk, lag: LoopLag) -> Iterator[Family]:
    if http is not None:
        yield from _http_families(http)
    yield _family(
        Kind.GAUGE,
        "goqueue_runtime_disk_queue_length",
        "Effects handed to the disk thread and not done yet.",
        disk.queue_length,
    )
    yield Family(
        name="goqueue_runtime_event_loop_lag_seconds",
        kind=Kind.HISTOGRAM,
        meaning="How late timers of the event loop are.",
        samples=[((), lag.histogram)],
    )


def volume_families(files: OsFileSystem) -> Iterator[Family]:
    """The file system that the data lies on; what it does not tell is left out."""
    with suppress(OSError):
        for name, meaning, quantity in (
            ("free", "Bytes that are free where the data lies.", files.free_bytes()),
            ("size", "Bytes of the file system where the data lies.", files.size_bytes()),
        ):
            yield _family(Kind.GAUGE, f"goqueue_storage_volume_{name}_bytes", meaning, quantity)


def _http_families(http: HttpServer) -> Iterator[Family]:
    for kind, name, meaning, quantity in (
        (Kind.GAUGE, "broker_active_connections", "Open connections.", http.connections_active),
        (Kind.COUNTER, "http_requests_total", "Requests over HTTP.", http.requests_total),
        (Kind.COUNTER, "http_received_bytes_total", "Bytes taken from sockets.", http.bytes_in),
        (Kind.COUNTER, "http_sent_bytes_total", "Bytes given to sockets.", http.bytes_out),
    ):
        yield _family(kind, f"goqueue_{name}", meaning, quantity)


def _family(kind: Kind, name: str, meaning: str, quantity: int) -> Family:
    return Family(name=name, kind=kind, meaning=meaning, samples=[((), quantity)])
