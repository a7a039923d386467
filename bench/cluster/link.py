"""Frames and bytes a second, round trips, and the idle cost of a mesh of brokers."""

import asyncio
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from bench.cluster.link_end import CONFIRM_EVERY, LinkEnd
from bench.figure import Figure, Target
from goqueue.model import Heartbeat, PeerEvent, PeerLane, PeerMessageReceived

__all__ = ["link"]

_ROOT = Path(__file__).resolve().parents[2]
# From this size on each frame is confirmed by itself.
_LARGE_BYTES = 64 * 1024
_WINDOW_BYTES = 8 * 1024 * 1024
_SIZES = {"header only": 0, "1 KiB": 1024, "100 KiB": 100 * 1024, "1 MiB": 1024 * 1024}
_FRAMES = {0: 200_000, 1024: 150_000, 100 * 1024: 10_000, 1024 * 1024: 2_000}
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def link(_: str, scale: float) -> Iterator[Figure]:
    """All figures of links."""
    near_port, far_port = _free_ports(2)
    with _end("echo", "far", far_port, []) as far:
        yield from uvloop.run(_measure(near_port, far_port, far, scale))
    for count in (3, 5):
        yield _idle_mesh(count, max(2.0, 10 * scale))


async def _measure(near_port: int, far_port: int, far: int, scale: float) -> list[Figure]:
    end = LinkEnd("near", near_port, [far_port])
    await end.start()
    await _wait_for_links(end)
    figures = [await _throughput(end, far, each, scale) for each in _SIZES.items()]
    figures.append(await _round_trips(end, max(100, int(20_000 * scale))))
    await end.stop()
    return figures


async def _wait_for_links(end: LinkEnd) -> None:
    connected = asyncio.Event()

    def take(_: PeerEvent) -> None:
        if len(end.connected) == len(PeerLane):
            connected.set()

    end.take = take
    await connected.wait()


async def _throughput(end: LinkEnd, far: int, kind: tuple[str, int], scale: float) -> Figure:
    """Send in a window, as replication does, and wait for the last confirmation."""
    words, size = kind
    is_large = size >= _LARGE_BYTES
    step = 1 if is_large else CONFIRM_EVERY
    count = max(2, int(_FRAMES[size] * scale) // step) * step
    window = _WINDOW_BYTES // size if is_large else 8 * CONFIRM_EVERY
    message = Heartbeat(is_leaving=is_large)
    data = (bytes(size),) if size else ()
    confirmed = 0
    news = asyncio.Event()

    def take(event: PeerEvent) -> None:
        nonlocal confirmed
        if isinstance(event, PeerMessageReceived):
            confirmed += step
            news.set()

    end.take = take
    cpu, far_cpu, began = _cpu_s(), _cpu_of(far), time.perf_counter()
    sent = 0
    while confirmed < count:
        while sent < count and sent - confirmed < window:
            end.send("far", message, data)
            sent += 1
        news.clear()
        await news.wait()
    elapsed, spent = time.perf_counter() - began, _cpu_s() - cpu
    return Figure(
        figure=f"link, {words}",
        value=round(count / elapsed),
        unit="frames/s",
        details={
            "MB_per_s": round(count * size / elapsed / 1e6, 1),
            "sender_us_per_frame": round(spent / count * 1e6, 2),
            "receiver_us_per_frame": round((_cpu_of(far) - far_cpu) / count * 1e6, 2),
        },
    )


async def _round_trips(end: LinkEnd, count: int) -> Figure:
    """One message at a time, on an otherwise idle link."""
    answered = asyncio.Event()
    end.take = lambda event: answered.set() if isinstance(event, PeerMessageReceived) else None
    laps: list[float] = []
    for _ in range(count):
        answered.clear()
        began = time.perf_counter()
        end.send("far", Heartbeat(is_leaving=True))
        await answered.wait()
        laps.append(time.perf_counter() - began)
    laps.sort()
    return Figure(
        figure="round trip p99",
        value=round(laps[int(count * 0.99)] * 1e3, 3),
        unit="ms",
        details={"p50_ms": round(laps[count // 2] * 1e3, 3)},
    )


def _idle_mesh(count: int, seconds: float) -> Figure:
    """The CPU time of brokers that only send heartbeats, each to all others."""
    ports = _free_ports(count)
    with ExitStack() as stack:
        pids = [
            stack.enter_context(
                _end("idle", f"b{number}", port, [each for each in ports if each != port])
            )
            for number, port in enumerate(ports)
        ]
        time.sleep(1)
        before = sum(map(_cpu_of, pids))
        time.sleep(seconds)
        spent = sum(map(_cpu_of, pids)) - before
    return Figure(
        figure=f"idle mesh of {count}, CPU of one broker",
        value=round(100 * spent / count / seconds, 3),
        unit="%",
        target=Target(below=3),
        details={"links": 3 * (count - 1)},
    )


@contextmanager
def _end(mode: str, name: str, port: int, peers: list[int]) -> Iterator[int]:
    """A broker in a process of its own; its id."""
    command = [sys.executable, "-m", "bench.cluster.link_end", mode, name, str(port)]
    environment = os.environ | {"PYTHONPATH": f"{_ROOT}:{_ROOT / 'src'}"}
    with subprocess.Popen(
        [*command, *map(str, peers)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("ready")
            yield process.pid
        finally:
            process.kill()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]
