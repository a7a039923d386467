"""The node of a demonstration: a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["NodeProcess", "started"]


class NodeProcess:
    """`goqueue serve` on one data directory; it can be killed and started again."""

    def __init__(self, directory: str, *flags: str) -> None:
        self._directory = directory
        self._flags = flags
        self._address = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        command = [sys.executable, "-m", "goqueue.cli", "serve", "--data-dir", self._directory]
        # The demonstration speaks for itself.
        command += ["--log-level", "error", *self._flags]
        self._process = subprocess.Popen(
            [*command, "--http", self._address], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        found = re.search(r"http://([^\s,]+)", self._process.stdout.readline())
        assert found is not None, "the node did not start"
        self.url, self._address = found[0], found[1]

    def kill(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            return
        self._process.kill()
        self._close()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._close()

    def _close(self) -> int:
        assert self._process is not None
        code = self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


@contextmanager
def started(directory: str) -> Iterator[NodeProcess]:
    node = NodeProcess(directory)
    node.start()
    try:
        yield node
    finally:
        node.kill()
