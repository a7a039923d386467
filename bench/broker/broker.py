"""The broker under measurement: a process of its own, with its processor time and memory."""

import os
import signal
import subprocess
import sys
import tempfile
from types import TracebackType

__all__ = ["BrokerProcess", "Usage", "serve_from"]

_source: list[str] = []


def serve_from(tree: str) -> None:
    """From now on brokers run the code of another source tree: an older version, to compare."""
    _source[:] = [os.path.join(tree, "src")]


_TICKS = os.sysconf("SC_CLK_TCK")


class Usage:
    """Processor seconds of a process since this was made."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self._cpu_s()

    def _cpu_s(self) -> float:
        with open(f"/proc/{self._pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def cpu_s(self) -> float:
        return self._cpu_s() - self._before

    @property
    def rss_mib(self) -> float:
        with open(f"/proc/{self._pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return round(int(line.split()[1]) / 1024, 1)


class BrokerProcess:
    """`goqueue serve` on a free port and an empty directory; gone when the block ends."""

    def __init__(self, folder: str, path: str = "") -> None:
        """`path` is where its Python looks first."""
        self._data = tempfile.mkdtemp(prefix="data-", dir=folder)
        self._path = [path] if path else []
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self) -> "BrokerProcess":
        command = [sys.executable, "-m", "goqueue.cli", "serve", "--data-dir", self._data]
        path = os.pathsep.join([*self._path, *(_source or sys.path[:2])])
        environment = {**os.environ, "PYTHONPATH": path}
        self._process = subprocess.Popen(
            [*command, "--http", "127.0.0.1:0", "--log-level", "warning"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.port = int(line.split(",", 1)[0].rpartition(":")[2])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    @property
    def usage(self) -> Usage:
        assert self._process is not None
        return Usage(self._process.pid)
