"""The broker under measurement: a process of its own, with its processor time and memory."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from bench.wire import Wire

__all__ = ["BrokerProcess", "RestartedBroker", "Usage", "compare_with", "other_tree", "serve_from"]

_source: list[str] = []
_other: list[str] = []


def serve_from(tree: str) -> None:
    """From now on brokers run the code of another source tree: an older version, to compare."""
    _source[:] = [os.path.join(tree, "src")]


def compare_with(tree: str) -> None:
    """Let measures that compare two versions start brokers of another source tree, too."""
    _other[:] = [tree]


def other_tree() -> str | None:
    """The source tree to compare with, if there is one."""
    return _other[0] if _other else None


def _serve(
    data: str, path: Sequence[str] = (), flags: Sequence[str] = (), tree: str = ""
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "goqueue.cli", "serve", "--data-dir", data]
    sources = [os.path.join(tree, "src")] if tree else _source or sys.path[:2]
    return subprocess.Popen(
        [*command, "--http", "127.0.0.1:0", *(flags or ("--log-level", "warning"))],
        stdout=subprocess.PIPE,
        # What is logged at warning is for people; more than that is part of a measurement.
        stderr=subprocess.DEVNULL if flags else None,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*path, *sources])},
    )


def _port(process: "subprocess.Popen[str]") -> int:
    """Wait for the first line, which says where the broker listens."""
    assert process.stdout is not None
    return int(process.stdout.readline().split(",", 1)[0].rpartition(":")[2])


_STOP_S = 180


class Usage:
    """Processor seconds of a process since this was made."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._before = self._cpu_s()

    def _cpu_s(self) -> float:
        # The clock of all threads of a process, as clock_getcpuclockid(3) makes its number: the
        # ticks of /proc are too coarse for a round of some milliseconds.
        return time.clock_gettime((~self.pid << 3) | 2)

    @property
    def cpu_s(self) -> float:
        return self._cpu_s() - self._before

    @property
    def rss_mib(self) -> float:
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return round(int(line.split()[1]) / 1024, 1)


class BrokerProcess:
    """`goqueue serve` on a free port and an empty directory; gone when the block ends."""

    def __init__(
        self, folder: str, path: str = "", flags: Sequence[str] = (), tree: str = ""
    ) -> None:
        """`path` is where its Python looks first; `flags` go to `serve` instead of a log level.

        `tree` has the sources to run, if they are not these.
        """
        self._tree = tree
        self._data = tempfile.mkdtemp(prefix="data-", dir=folder)
        self._path = [path] if path else []
        self._flags = flags
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._process = _serve(self._data, self._path, self._flags, self._tree)
        self.port = _port(self._process)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        # Thousands of partitions take their time: each log is closed with a sync.
        self._process.wait(_STOP_S)

    def restart(
        self,
        how: signal.Signals = signal.SIGTERM,
        meanwhile: Callable[[str], object] | None = None,
    ) -> None:
        """End it, start it again over the same data, on another port, until it serves.

        `meanwhile` gets the data directory while nobody uses it.
        """
        self._end(how)
        if meanwhile is not None:
            meanwhile(self._data)
        self.__enter__()
        asyncio.run(_wait_until_ready(self.port))

    @property
    def usage(self) -> Usage:
        return Usage(self.pid)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


_READY_S = 120.0


class RestartedBroker:
    """A broker over data that outlive it; how soon it was ready, and what it spent on that."""

    def __init__(self, data: str) -> None:
        self._began = time.perf_counter()
        self._process = _serve(data)
        self.usage = Usage(self._process.pid)
        self.port = _port(self._process)

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
