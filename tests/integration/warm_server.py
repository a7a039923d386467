"""The process that is forked for commands that start warm: see `warm_program`.

Its argument is the number of a socket. It ends when the other end of the socket is closed.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys

_REQUEST_BYTES_MAX = 1024 * 1024
_STREAMS = ("stdin", "stdout", "stderr")
_DESCRIPTORS = len(_STREAMS) + 1
_PRELOADED = (
    "goqueue.cli",
    "goqueue.cli.serve",
    "goqueue.client",
    "goqueue.client.sync",
    "rich.console",
    "rich.table",
)


def _serve(requests: socket.socket) -> list[str]:
    """Fork for each request; returns in the process that is to run the command."""
    # Nobody waits for those who watch over a command.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        body, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES_MAX, _DESCRIPTORS)
        if not body:
            sys.exit()
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            *streams, tells = descriptors
            pid = os.fork()
            if pid == 0:
                os.close(tells)
                return _become(body, streams)
            os.write(tells, f"{pid}\n".encode())
            _, status = os.waitpid(pid, 0)
            os.write(tells, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(body: bytes, streams: list[int]) -> list[str]:
    """Take on what a new process would have been given; its arguments."""
    arguments, environment, directory = json.loads(body)
    for number, (name, stream) in enumerate(zip(_STREAMS, streams, strict=True)):
        os.dup2(stream, number)
        os.close(stream)
        # Another one of Python's, too: a stream knows whether its file is a pipe.
        old = getattr(sys, name)
        new = open(number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115 - it is open until the process ends
        new.reconfigure(line_buffering=old.line_buffering, write_through=old.write_through)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    return [str(each) for each in arguments]


if __name__ == "__main__":
    for preloaded in _PRELOADED:
        importlib.import_module(preloaded)
    # What is not collected is not written to, and stays shared with the forks.
    gc.freeze()
    given = _serve(socket.socket(fileno=int(sys.argv[1])))
    from goqueue.cli import main

    sys.argv[1:] = given
    # As `python -m goqueue.cli` has it.
    sys.argv[0] = sys.modules["goqueue.cli"].__file__ or ""
    main()
