"""How soon a broker is ready again with a million messages waiting, stopped or killed before."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from bench.broker.broker import Usage
from bench.broker.publish import BATCH
from bench.broker.wire import Wire
from bench.delivery.pending import PENDING
from bench.delivery.traffic import delayed_batch, publish
from bench.log.figure import Detail, Figure, Target
from goqueue.model import SECOND

__all__ = ["measure_restart"]

_TOPIC = "delays"
_TARGET = Target(below=5)
_STOP_S = 60
_READY_S = 120.0


class _Life:
    """A broker from its start to its end, over data that outlive it."""

    def __init__(self, data: str) -> None:
        command = [sys.executable, "-m", "goqueue.cli", "serve", "--data-dir", data]
        self._began = time.perf_counter()
        self._process = subprocess.Popen(
            [*command, "--http", "127.0.0.1:0", "--log-level", "warning"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2])},
        )
        self.usage = Usage(self._process.pid)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.port = int(line.split(",", 1)[0].rpartition(":")[2])

    def ready_s(self) -> float:
        """How long it took from the start of the process until commands are taken."""
        asyncio.run(_wait_until_ready(self.port))
        return time.perf_counter() - self._began

    def end(self, how: signal.Signals) -> float:
        """Seconds until it was gone."""
        began = time.perf_counter()
        self._process.send_signal(how)
        self._process.wait(_STOP_S)
        return time.perf_counter() - began


def measure_restart(folder: str, scale: float) -> Iterator[Figure]:
    count = max(BATCH, int(PENDING * scale))
    data = tempfile.mkdtemp(prefix="data-", dir=folder)
    first = _Life(data)
    empty_s = first.ready_s()
    try:
        asyncio.run(_fill(first.port, count))
    finally:
        first.end(signal.SIGKILL)
    ended_s = 0.0
    for name, end in (
        ("ready_after_kill", signal.SIGTERM),
        ("ready_after_stop", signal.SIGKILL),
        ("ready_after_stop_and_kill", signal.SIGTERM),
    ):
        life = _Life(data)
        seconds = life.ready_s()
        try:
            details: dict[str, Detail] = {
                "pending": asyncio.run(_pending(life.port, count)),
                "cpu_s": round(life.usage.cpu_s, 2),
                "rss_mib": life.usage.rss_mib,
                "empty_s": round(empty_s, 2),
                "end_before_s": round(ended_s, 2),
            }
        finally:
            ended_s = life.end(end)
        yield Figure(
            figure=name, value=round(seconds, 2), unit="s", target=_TARGET, details=details
        )


async def _wait_until_ready(port: int) -> None:
    deadline = time.perf_counter() + _READY_S
    wire = await Wire.open(port)
    while True:
        try:
            await wire.ask("GET", "/readyz")
            break
        except RuntimeError:
            # Not yet: 503.
            assert time.perf_counter() < deadline, "the broker was not ready in time"
            await asyncio.sleep(0.02)
    wire.close()


async def _fill(port: int, count: int) -> None:
    wire = await Wire.open(port)
    await wire.ask("POST", "/topics", {"name": _TOPIC, "num_partitions": 3})
    wire.close()
    chance, now = random.Random(3), time.time_ns()
    dues = [now + chance.randrange(3600 * SECOND, 600_000 * SECOND) for _ in range(count)]
    parts = [delayed_batch(dues[first : first + BATCH]) for first in range(0, count, BATCH)]
    await publish(port, _TOPIC, parts)


async def _pending(port: int, count: int) -> int:
    wire = await Wire.open(port)
    stats = await wire.ask("GET", "/delay/stats")
    wire.close()
    pending = int(stats["pending_count"])
    assert pending == count, f"{pending} of {count} messages wait after a restart"
    return pending
