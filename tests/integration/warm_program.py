"""`goqueue` commands as processes that start warm: forks of one that has imported the program.

Most of a short command is imports, a quarter of a second each; so is most of the start of a node.
Here one process imports them once; each command is a fork of it with arguments, environment,
directory and standard streams of its own, and ends as a process does. What Python reads before its
first line, variables such as PYTHONIOENCODING, must be as it was for that process: `can_run` says
whether it is. What the system shows of a process, its arguments and its first environment, is that
of the process that was forked.
"""

import atexit
import functools
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.integration import warm_command
from tests.integration.warm_command import ask, read_number

__all__ = ["WarmProcess", "WarmProgram", "warm_program"]

# Before a test or a Spark session of this process has changed anything.
_ENVIRONMENT = dict(os.environ)
_SERVER = Path(__file__).with_name("warm_server.py")
_EARLY = ("PYTHON", "LANG", "LC_", "TZ", "LD_", "GOQUEUE_NO_EXTENSIONS")


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(_EARLY)}


class WarmProgram:
    """Runs commands as forks of one process."""

    def __init__(self) -> None:
        # Each packet is one request, whoever sends it.
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # What commands are given that ask for nothing else.
        self.environment = dict(_ENVIRONMENT)
        self.environment.pop("GOQUEUE_NO_EXTENSIONS", None)
        self._early = _early(self.environment)
        command = [sys.executable, str(_SERVER), str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, env=self.environment, pass_fds=(theirs.fileno(),)
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._ours.close()
        # A command that a shell left behind may have the socket open still.
        self._process.kill()
        self._process.wait()

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Whether Python would begin a process with these variables as it began ours."""
        return _early(environment) == self._early

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], typed: bytes, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """As `subprocess.run`, with what was written to both outputs."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(typed)
            given.seek(0)
            streams = (given.fileno(), out.fileno(), err.fileno())
            process = self.start(arguments, environment, streams)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]
    ) -> "WarmProcess":
        """Start a command with copies of these three descriptors as its standard streams."""
        return WarmProcess(ask(self._ours, arguments, environment, streams))

    def put_into(self, folder: Path) -> dict[str, str]:
        """Make `goqueue` in this folder a command that starts warm; the variables it needs.

        A process that runs it must inherit the descriptor of this program.
        """
        script = folder / "goqueue"
        command = shlex.join([sys.executable, "-IS", warm_command.__file__])
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)
        return {warm_command.VARIABLE: str(self.descriptor)}

    @property
    def descriptor(self) -> int:
        return self._ours.fileno()


class WarmProcess:
    """A command that was started warm; waited for and signalled as one of `subprocess` is."""

    def __init__(self, told: int) -> None:
        """`told` is a pipe that first has the number of the process, and at its end its code."""
        self.returncode: int | None = None
        self._told = told
        self.pid = read_number(told)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once the process has ended."""
        if self.returncode is None:
            # Descriptors may be too many for `select.select`.
            end = select.poll()
            end.register(self._told, select.POLLIN)
            if not end.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = read_number(self._told)
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        try:
            self.wait(0)
        except subprocess.TimeoutExpired:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def warm_program() -> WarmProgram:
    """The one of this process."""
    return WarmProgram()
