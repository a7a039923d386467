"""A real node in a process of its own, for tests of what talks to it over the network.

Started on a port that the system chooses, read from the line that the node prints; ready when
`/readyz` says so. Ended without warning, or told to stop. Whatever it printed is kept, and a
traceback among it fails the test that shares the block.
"""

import contextlib
import http.client
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["ServerProcess", "serving"]

START_S_MAX = 30
STOP_S_MAX = 30
_PROBE_S = 0.02
_LISTENING = re.compile(r"listening on (http://[^\s,]+)")


class ServerProcess:
    """A node on a data directory; may be killed and started again on the same port."""

    def __init__(
        self, directory: Path, *flags: str, program: Sequence[str] = ("-m", "goqueue.cli")
    ) -> None:
        """`program` is what Python runs: another one may be the same node on a worse machine."""
        self.directory = directory
        self._program = program
        self.url = ""
        self._flags = flags
        self._process: subprocess.Popen[str] | None = None
        self._said: list[str] = []
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread()

    @property
    def said(self) -> str:
        """All that the node printed in all its lives."""
        return "".join(self._said)

    @property
    def resident_bytes(self) -> int:
        """The memory that the process holds now."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    @property
    def open_descriptors(self) -> int:
        """How many files and sockets the process has open."""
        assert self._process is not None
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def start(self) -> None:
        """Start the node and wait until it is ready."""
        self.begin()
        self.wait_until_ready()

    def begin(self) -> None:
        """Start the node, and wait for nothing."""
        self._launch()

    def wait_until_ready(self) -> None:
        assert self._process is not None
        self.url = self._wait_for_url(self._process)
        self._wait_until_ready(self._process)

    def _launch(self) -> subprocess.Popen[str]:
        address = self.url.removeprefix("http://") or "127.0.0.1:0"
        command = [sys.executable, *self._program, "serve", *self._flags]
        command += ["--data-dir", str(self.directory), "--http", address]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._heard = queue.SimpleQueue()
        self._reader.start()
        return self._process

    def kill(self) -> None:
        """As a power cut would end it."""
        if self._process is not None:
            self._process.kill()
            self._end(self._process)

    def stop(self) -> int:
        """Tell the node to stop, as an operator would; the exit code."""
        assert self._process is not None
        process = self._process
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S_MAX)
        self._end(process)
        return process.returncode

    def signal(self, number: signal.Signals) -> None:
        """Send a signal and return at once."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for an end that was asked for; the exit code."""
        assert self._process is not None
        process = self._process
        process.wait(STOP_S_MAX)
        self._end(process)
        return process.returncode

    def restart(self) -> None:
        """Kill the node and start it again on the same data and port."""
        self.kill()
        self.start()

    def start_and_kill(self, seconds: float) -> None:
        """Start the node and kill it after so many seconds, ready or not."""
        process = self._launch()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        self.kill()

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.wait()
        self._reader.join(STOP_S_MAX)
        if process.stdout is not None:
            process.stdout.close()
        self._process = None

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Read what the node prints, in a thread, because a pipe knows no time limit."""
        assert process.stdout is not None
        for line in process.stdout:
            self._said.append(line)
            if place := _LISTENING.search(line):
                self._heard.put(place[1])
        self._heard.put("")

    def _wait_for_url(self, process: subprocess.Popen[str]) -> str:
        try:
            url = self._heard.get(timeout=START_S_MAX)
        except queue.Empty:
            url = ""
        if not url:
            process.kill()
            self._end(process)
            raise AssertionError("the node did not start:\n" + self.said)
        return url

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            if self._is_ready():
                return
            # The pause between two looks ends early if the node does.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PROBE_S)
                break
        process.kill()
        self._end(process)
        raise AssertionError("the node did not become ready:\n" + self.said)

    def _is_ready(self) -> bool:
        asking = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=START_S_MAX)
        try:
            asking.request("GET", "/readyz")
            return asking.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asking.close()


@contextlib.contextmanager
def serving(directory: Path, *flags: str) -> Iterator[ServerProcess]:
    """A node that runs as long as the block; a traceback that it printed is an error."""
    server = ServerProcess(directory, *flags)
    server.start()
    try:
        yield server
    finally:
        server.kill()
        # Shown beside the failure of a test, if there is one.
        sys.stderr.write(server.said)
    assert "Traceback (most recent call last)" not in server.said, server.said
