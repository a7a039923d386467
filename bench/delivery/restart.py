"""How soon a broker is ready again with a million messages waiting, or 100,000 schedules."""

import asyncio
import random
import signal
import tempfile
import time
from collections.abc import Iterator

from bench.broker.publish import BATCH
from bench.broker_process import RestartedBroker
from bench.delivery.pending import PENDING
from bench.delivery.traffic import delayed_batch, publish
from bench.figure import Detail, Figure, Target
from bench.wire import Wire
from goqueue.model import SECOND

__all__ = ["measure_restart", "measure_schedule_restart"]

_TOPIC = "delays"
_TARGET = Target(below=5)
_SCHEDULES = 100_000
_CONNECTIONS = 64


def measure_restart(folder: str, scale: float) -> Iterator[Figure]:
    count = max(BATCH, int(PENDING * scale))
    data = tempfile.mkdtemp(prefix="data-", dir=folder)
    first = RestartedBroker(data)
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
        life = RestartedBroker(data)
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


def measure_schedule_restart(folder: str, scale: float) -> Iterator[Figure]:
    """With many schedules, half of them by cron, of which none ticks meanwhile."""
    count = max(_CONNECTIONS, int(_SCHEDULES * scale))
    data = tempfile.mkdtemp(prefix="data-", dir=folder)
    first = RestartedBroker(data)
    empty_s = first.ready_s()
    try:
        asyncio.run(_schedule(first.port, count))
    finally:
        first.end(signal.SIGKILL)
    for name, end in (
        ("schedules_ready_after_kill", signal.SIGTERM),
        ("schedules_ready_after_stop", signal.SIGTERM),
    ):
        life = RestartedBroker(data)
        seconds = life.ready_s()
        try:
            asyncio.run(_check_scheduled(life.port, count))
            details: dict[str, Detail] = {
                "schedules": count,
                "cpu_s": round(life.usage.cpu_s, 2),
                "rss_mib": life.usage.rss_mib,
                "empty_s": round(empty_s, 2),
            }
        finally:
            life.end(end)
        yield Figure(
            figure=name, value=round(seconds, 2), unit="s", target=_TARGET, details=details
        )


async def _schedule(port: int, count: int) -> None:
    wire = await Wire.open(port)
    await wire.ask("POST", "/topics", {"name": _TOPIC, "num_partitions": 3})
    wire.close()
    numbers = iter(range(count))

    async def create() -> None:
        wire = await Wire.open(port)
        for number in numbers:
            when = {"every": "30d"} if number % 2 else {"cron": "0 3 1 1 *"}
            body = {"name": f"s{number}", "topic": _TOPIC, "message": {"value": "x"}, **when}
            await wire.ask("POST", "/schedules", body)
        wire.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(create())


async def _check_scheduled(port: int, count: int) -> None:
    wire = await Wire.open(port)
    page = await wire.ask("GET", "/schedules?limit=1")
    wire.close()
    assert page["total"] == count, f"{page['total']} of {count} schedules after a restart"


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
