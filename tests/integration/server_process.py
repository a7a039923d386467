"""A real node in a process of its own, for tests of what talks to it over the network.

It starts warm, as a fork of a process that has imported the program, where nothing speaks against
it: nothing but the start is quicker.
Started on a port that the system chooses, read from the line that the node prints; ready when
`/readyz` says so. Ended without warning, or told to stop. Whatever it printed is kept, and a
traceback among it fails the test that shares the block.
"""

import contextlib
import http.client
import os
import queue
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.integration.warm_program import WarmProcess, warm_program

__all__ = ["COLD", "ServerProcess", "serving"]

# What Python runs where a test looks at what the system shows of a process.
COLD = ("-m", "goqueue.cli")

START_S_MAX = 60
STOP_S_MAX = 60
_PROBE_S = 0.02
_LISTENING = re.compile(r"listening on (https?://[^\s,]+)")


class ServerProcess:
    """A node on a data directory; may be killed and started again on the same port."""

    def __init__(self, directory: Path, *flags: str, program: Sequence[str] | None = None) -> None:
        """`program` is what Python runs: the same node on a worse machine, or another release.

        Without one the node starts warm. Another one holds from the next start on.
        """
        self.directory = directory
        self.program = program
        self.url = ""
        # Certificate and key that the node asks of its clients.
        self.client_certificate: tuple[str, str] | None = None
        self._flags = flags
        self._process: subprocess.Popen[str] | WarmProcess | None = None
        self._said: list[str] = []
        # How many lines earlier lives printed.
        self._said_before = 0
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread()

    @property
    def said(self) -> str:
        """All that the node printed in all its lives."""
        return "".join(self._said)

    @property
    def said_in_this_life(self) -> str:
        """What the node has printed since it was last started."""
        return "".join(self._said[self._said_before :])

    def wait_to_say(self, text: str) -> None:
        """Wait until the node has printed this: its log comes from a thread of its own."""
        deadline = time.monotonic() + START_S_MAX
        while text not in self.said:
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.said}"
            time.sleep(_PROBE_S)

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

    @property
    def arguments(self) -> bytes:
        """What other users see of the process: its command line."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/cmdline").read_bytes()

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

    def _launch(self) -> "subprocess.Popen[str] | WarmProcess":
        self._said_before = len(self._said)
        address = self.url.partition("://")[2] or "127.0.0.1:0"
        arguments = ["serve", *self._flags, "--data-dir", str(self.directory), "--http", address]
        # A pipe of our own, of which no other process that starts meanwhile has an end.
        heard, says = os.pipe()
        warm = warm_program()
        if self.program is None and warm.can_run(os.environ):
            with open(os.devnull, "rb") as nothing:
                self._process = warm.start(arguments, os.environ, (nothing.fileno(), says, says))
        else:
            command = [sys.executable, *(self.program or COLD), *arguments]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=says, stderr=says, text=True
            )
        os.close(says)
        self._heard = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._listen, args=(heard,), daemon=True)
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
        code = process.wait(STOP_S_MAX)
        self._end(process)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal and return at once."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for an end that was asked for; the exit code."""
        assert self._process is not None
        process = self._process
        code = process.wait(STOP_S_MAX)
        self._end(process)
        return code

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

    def _end(self, process: "subprocess.Popen[str] | WarmProcess") -> None:
        process.wait()
        self._reader.join(STOP_S_MAX)
        self._process = None

    def _listen(self, pipe: int) -> None:
        """Read what the node prints, in a thread, because a pipe knows no time limit."""
        heard = self._heard
        with open(pipe, encoding="utf-8") as lines:
            for line in lines:
                self._said.append(line)
                if place := _LISTENING.search(line):
                    heard.put(place[1])
        heard.put("")

    def _wait_for_url(self, process: "subprocess.Popen[str] | WarmProcess") -> str:
        try:
            url = self._heard.get(timeout=START_S_MAX)
        except queue.Empty:
            url = ""
        if not url:
            process.kill()
            self._end(process)
            raise AssertionError("the node did not start:\n" + self.said)
        return url

    def _wait_until_ready(self, process: "subprocess.Popen[str] | WarmProcess") -> None:
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
        scheme, _, address = self.url.partition("://")
        asking = http.client.HTTPConnection(address, timeout=START_S_MAX)
        if scheme == "https":
            # Whether its certificate is good is for the test to find out.
            anything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            anything.check_hostname = False
            anything.verify_mode = ssl.CERT_NONE
            if self.client_certificate is not None:
                anything.load_cert_chain(*self.client_certificate)
            asking = http.client.HTTPSConnection(address, timeout=START_S_MAX, context=anything)
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
