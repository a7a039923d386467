"""Several nodes in one process, each with settings of its own.

Two processes of the same program differ by some percent from where their memory happens to lie.
Nodes that share a process, and one of which works at a time, share that luck.

Run as a program, it serves one node for each argument `setting=value` and prints their ports.
"""

import asyncio
import gc
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import uvloop

__all__ = ["Neighbours"]


class Neighbours:
    """Nodes that run as long as the block."""

    def __init__(self, folder: str, settings: list[str]) -> None:
        data = tempfile.mkdtemp(prefix="data-", dir=folder)
        root = str(Path(__file__).resolve().parents[2])
        self._command = [sys.executable, "-c", _PROGRAM, root, data, *settings]
        self._process: subprocess.Popen[str] | None = None
        self.ports: list[int] = []

    def __enter__(self) -> "Neighbours":
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.ports = [int(port) for port in self._process.stdout.readline().split()]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.communicate(timeout=30)

    @property
    def cpu_s(self) -> float:
        """Seconds that all threads were on a processor, finer than the clock tick."""
        assert self._process is not None
        threads = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


_PROGRAM = """
import sys
root = sys.argv.pop(1)
sys.path[:1] = [root, root + "/src"]
from bench.observability.neighbours import main
main(sys.argv[1], sys.argv[2:])
"""


def main(data: str, settings: list[str]) -> None:
    # As a node that has its process for itself.
    gc.set_threshold(100_000, 50, 50)
    uvloop.run(_serve(data, settings))


async def _serve(data: str, settings: list[str]) -> None:
    from goqueue.runtime import Server, configured_gateways
    from goqueue.runtime.settings import load_settings

    servers: list[Server] = []
    ports: list[int] = []
    for number, each in enumerate(settings):
        name, _, value = each.partition("=")
        flags = {"broker.datadir": f"{data}/{number}", "listeners.http": "127.0.0.1:0"}
        given = load_settings({**flags, name: value}, {})
        server = Server(given, configured_gateways(given))
        ports.append((await server.start())["http"].port)
        await server.wait_until_serving()
        servers.append(server)
    sys.stdout.write(" ".join(map(str, ports)) + "\n")
    sys.stdout.flush()
    # Until whoever started this closes the other end.
    await asyncio.to_thread(sys.stdin.read)
    for server in servers:
        await server.stop()
