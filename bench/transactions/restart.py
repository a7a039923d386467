"""How soon a broker is ready again after a million transactions, with ten thousand open."""

import asyncio
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.broker_process import RestartedBroker
from bench.figure import Detail, Figure, Target
from bench.transactions.crowd import make_crowd
from bench.wire import Wire

__all__ = ["measure_restart"]

_FINISHED = 1_000_000
_OPEN = 10_000
_TARGET = Target(below=5)


def measure_restart(folder: str, scale: float) -> Iterator[Figure]:
    finished, still_open = max(100, int(_FINISHED * scale)), max(10, int(_OPEN * scale))
    data = tempfile.mkdtemp(prefix="data-", dir=folder)
    first = RestartedBroker(data)
    empty_s = first.ready_s()
    first.end(signal.SIGTERM)
    began = time.perf_counter()
    make_crowd(data, finished, still_open)
    made_s = time.perf_counter() - began
    made_mib = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, 1)
    ended_s = 0.0
    for name, end in (
        ("ready_after_kill", signal.SIGTERM),
        ("ready_after_stop", signal.SIGKILL),
        ("ready_after_stop_and_kill", signal.SIGTERM),
        ("ready_without_snapshots", signal.SIGTERM),
    ):
        if name == "ready_without_snapshots":
            _forget_snapshots(data)
        life = RestartedBroker(data)
        seconds = life.ready_s()
        try:
            details: dict[str, Detail] = {
                "finished": finished,
                "open": asyncio.run(_open(life.port, still_open)),
                "cpu_s": round(life.usage.cpu_s, 2),
                "rss_mib": life.usage.rss_mib,
                "empty_s": round(empty_s, 2),
                "end_before_s": round(ended_s, 2),
                "made_per_s": round((finished + still_open) / made_s),
                "made_rss_mib": made_mib,
            }
        finally:
            ended_s = life.end(end)
        # Nobody promises anything about a directory from which files were taken.
        target = None if name == "ready_without_snapshots" else _TARGET
        yield Figure(figure=name, value=round(seconds, 2), unit="s", target=target, details=details)


def _forget_snapshots(data: str) -> None:
    """All of it must follow from the logs alone."""
    for path in Path(data, "snapshots").iterdir():
        path.unlink()


async def _open(port: int, expected: int) -> int:
    wire = await Wire.open(port)
    found = int((await wire.ask("GET", "/transactions/stats"))["active_transactions"])
    wire.close()
    assert found == expected, f"{found} of {expected} transactions are open after a restart"
    return found
