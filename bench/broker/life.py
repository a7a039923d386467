"""A broker from its start to its end, over data that outlive it."""

import asyncio
import os
import signal
import subprocess
import sys
import time

from bench.broker.broker import Usage
from bench.broker.wire import Wire

__all__ = ["Life"]

_STOP_S = 60
_READY_S = 120.0


class Life:
    """One process of a broker; how soon it was ready, and what it spent on that."""

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
