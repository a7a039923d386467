"""The node is killed under the clients in Go and TypeScript: their own code reconnects.

Nothing that the producer reported as stored is lost or stored twice, and the subscription goes on
until everything that is stored was handled.
"""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.free_ports import free_port
from tests.integration.foreign_clients import go_program, typescript_program
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess

TOPIC = "orders"
KILLS = 5 if "GOQUEUE_EXHAUSTIVE" in os.environ else 2
WAIT_S_MAX = 90


class Endurance:
    """A program that publishes and handles numbers, and what it said so far."""

    def __init__(self, command: Sequence[str], address: str) -> None:
        self._process = subprocess.Popen(
            [*command, address, TOPIC, "workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stored: list[int] = []
        self.handled: set[int] = set()
        self.has_published = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, number = line.partition(" ")
            if word == "stored":
                self.stored.append(int(number))
            elif word == "handled":
                self.handled.add(int(number))
            elif word.strip() == "published":
                self.has_published.set()

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not is_so():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                _, errors = self._process.communicate()
                raise AssertionError(f"{what}: {len(self.stored)} stored\n{errors}")
            time.sleep(0.01)

    def wait_for_more(self, more: int) -> None:
        stored, handled = len(self.stored) + more, len(self.handled) + more
        self.wait_until(
            lambda: len(self.stored) >= stored and len(self.handled) >= handled, "no progress"
        )

    def finish(self) -> None:
        """Stop publishing, and wait for the last answer."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.wait_until(self.has_published.is_set, "not published")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(WAIT_S_MAX)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


def outlasts_kills(command: Sequence[str], directory: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    node = ServerProcess(directory / "data", "--grpc", address)
    node.start()
    with contextlib.closing(Api(node.url)) as api:
        api.create(TOPIC, partitions=2, visibility_timeout="3s")
    program = Endurance(command, address)
    try:
        for _ in range(KILLS):
            program.wait_for_more(300)
            node.kill()
            node.start()
        program.wait_for_more(300)
        program.finish()
        program.wait_until(lambda: program.handled >= set(program.stored), "not all were handled")
        with contextlib.closing(Api(node.url)) as api:
            kept = [int(each["value"]) for part in (0, 1) for each in api.read(TOPIC, part)]
    finally:
        program.end()
        node.kill()
    assert len(kept) == len(set(kept)), "a message is stored twice"
    assert set(program.stored) <= set(kept)
    assert sorted(program.stored) == list(range(len(program.stored)))


def test_the_go_client_outlasts_kills_of_the_node(tmp_path: Path) -> None:
    outlasts_kills((go_program("./internal/endurance", tmp_path),), tmp_path)


def test_the_typescript_client_outlasts_kills_of_the_node(tmp_path: Path) -> None:
    outlasts_kills(typescript_program("test/endurance.js"), tmp_path)
