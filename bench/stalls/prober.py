"""Asks a node whether it lives, over and over, from a process of its own.

The load that a bench makes must not delay the clock that judges it, so the prober shares neither a
thread nor a connection with it. Run as a program with a port, it probes until its input ends and
prints what it saw as one JSON line.
"""

import json
import select
import socket
import subprocess
import sys
import time
from typing import Any

import msgspec

__all__ = ["Prober", "Waits"]

_REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
_PAUSE_S = 0.0005


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long answers took, in milliseconds."""

    count: int
    p50: float
    p99: float
    max: float
    # Of the prober itself: how late it came back from its pauses. It is not the node's fault.
    late: float


class Prober:
    """Probes from `begin` to `end`."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def end(self) -> Waits:
        line, _ = self._process.communicate(timeout=300)
        return msgspec.json.decode(line, type=Waits)


def main(port: int) -> None:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    waits: list[float] = []
    late = 0.0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0)[0]:
        began = time.perf_counter()
        connection.sendall(_REQUEST)
        answer = connection.recv(65536)
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(65536)
        done = time.perf_counter()
        waits.append(done - began)
        time.sleep(_PAUSE_S)
        late = max(late, time.perf_counter() - done - _PAUSE_S)
    sys.stdout.write(json.dumps(_summary(waits, late)) + "\n")


def _summary(waits: list[float], late: float) -> dict[str, Any]:
    waits.sort()
    return {
        "count": len(waits),
        "p50": _ms(waits[len(waits) // 2]),
        "p99": _ms(waits[min(len(waits) - 1, len(waits) * 99 // 100)]),
        "max": _ms(waits[-1]),
        "late": _ms(late),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


if __name__ == "__main__":
    main(int(sys.argv[1]))
