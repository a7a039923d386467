"""Ask a process that has imported the program to run a command; as a program, be that command.

A shell that runs `goqueue` many times finds a script of that name which runs this file: it has the
command run, passes signals on, and ends as the command does. It imports little, because what it
saves is imports. The socket is in the variable `WARM_PROGRAM`, and each packet is one request.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

__all__ = ["VARIABLE", "ask", "read_number"]

VARIABLE = "WARM_PROGRAM"


def ask(
    warm: socket.socket,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[int],
) -> int:
    """Start a command with copies of these three descriptors as its standard streams.

    Returns a pipe that first has the number of the process, and at its end its exit code.
    """
    told, tells = os.pipe()
    body = json.dumps([list(arguments), dict(environment), os.getcwd()]).encode()
    socket.send_fds(warm, [body], [*streams, tells])
    os.close(tells)
    return told


def read_number(told: int) -> int:
    """The next line of such a pipe. What follows it stays there, where a wait looks for it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(told, 1)
        assert byte, "the process that is forked has ended"
        line += byte
    return int(line)


def _main() -> None:
    environment = dict(os.environ)
    warm = socket.socket(fileno=int(environment.pop(VARIABLE)))
    told = ask(warm, sys.argv[1:], environment, (0, 1, 2))
    # The command has them: whoever reads what it prints waits for its end, not for ours.
    for number in (0, 1):
        os.close(number)
    pid = read_number(told)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
        signal.signal(number, lambda which, _: os.kill(pid, which))
    code = read_number(told)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    _main()
