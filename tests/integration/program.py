"""The real `goqueue` program as a process that speaks to a real node."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from tests.integration.warm_program import warm_program

__all__ = ["Conversation", "Finished", "Program"]

SECONDS_MAX = 60
PROGRAM = [sys.executable, "-m", "goqueue.cli"]


class Finished(msgspec.Struct, frozen=True):
    """A command that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def json(self) -> dict[str, object]:
        document: dict[str, object] = msgspec.json.decode(self.out)
        return document


class Conversation:
    """A command that is running: its lines as they come, and signals to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._said: list[str] = []
        self._has_said = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def read_line(self) -> str:
        """The next line of standard output, without its end."""
        return self._stream(self.process.stdout).readline().decode().rstrip("\n")

    def write(self, data: bytes) -> None:
        stream = self._stream(self.process.stdin)
        stream.write(data)
        stream.flush()

    def wait_for_words(self, words: str) -> None:
        """Wait until standard error has said this."""
        with self._has_said:
            has_said = self._has_said.wait_for(lambda: words in self.said, SECONDS_MAX)
        assert has_said, self.said

    @property
    def said(self) -> str:
        """All of standard error so far."""
        return "".join(self._said)

    def stop(self, number: signal.Signals = signal.SIGINT) -> Finished:
        """Send a signal and wait for the end."""
        self.process.send_signal(number)
        return self.finish()

    def finish(self) -> Finished:
        out = self._stream(self.process.stdout).read()
        code = self.process.wait(SECONDS_MAX)
        self._listener.join(SECONDS_MAX)
        return Finished(code, out, self.said)

    def _listen(self) -> None:
        for line in self._stream(self.process.stderr):
            with self._has_said:
                self._said.append(line.decode())
                self._has_said.notify_all()

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream


class Program:
    """`goqueue` with one server, an empty home, and nobody at a terminal."""

    def __init__(self, server: str, home: Path, program: Sequence[str] = PROGRAM) -> None:
        """`program` is what is run: another one may be installed elsewhere."""
        self._program = program
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")}
        self.environment = {**kept, "HOME": str(home), "GOQUEUE_SERVER": server}

    def run(self, *arguments: str | Path, typed: bytes = b"") -> Finished:
        """Run a command to its end; `typed` is its standard input."""
        given = [*map(str, arguments)]
        warm = warm_program()
        if self._program is PROGRAM and warm.can_run(self.environment):
            done = warm.run(given, self.environment, typed, SECONDS_MAX)
            return Finished(done.returncode, done.stdout, done.stderr.decode())
        done = subprocess.run(
            [*self._program, *given],
            input=typed,
            capture_output=True,
            check=False,
            env=self.environment,
            timeout=SECONDS_MAX,
        )
        return Finished(done.returncode, done.stdout, done.stderr.decode())

    def do(self, *arguments: str | Path, typed: bytes = b"") -> Finished:
        """Run a command that has to succeed."""
        done = self.run(*arguments, typed=typed)
        assert done.code == 0, done.err
        return done

    @contextmanager
    def talk(self, *arguments: str | Path) -> Iterator[Conversation]:
        """Start a command and speak with it; ended with the block if it has not ended."""
        with subprocess.Popen(
            [*self._program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        ) as process:
            # A pipe knows no time limit: a wait for a line in vain ends with the process instead.
            patience = threading.Timer(SECONDS_MAX, process.kill)
            patience.start()
            try:
                yield Conversation(process)
            finally:
                patience.cancel()
                process.kill()
