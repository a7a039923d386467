"""Asks a node whether it lives, over and over, from a process of its own.

The load that a bench makes must not delay the clock that judges it, so the prober shares neither a
thread nor a connection with it. Run as a program with a port and the process of the node, it probes
until its input ends and prints what it saw as one JSON line.

On a machine with other load a wait is not all the node's. Linux tells for each thread how long it
was ready to run and had no processor: that time of the node's event loop and of the prober is left
out of `max_run`. `max_loop` is the processor time that the event loop itself used during one wait:
no wait for a lock, a disk or another thread is in it.
"""

import json
import os
import select
import socket
import ssl
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
    # Without the time in which node and prober waited for a processor.
    p50_run: float
    p99_run: float
    max_run: float
    # The processor time that the event loop used during one wait: for whoever came before.
    p99_loop: float
    max_loop: float
    # Of the prober itself: how late it came back from its pauses. It is not the node's fault.
    late: float


class Prober:
    """Probes from its creation to `end`; over TLS if it is told whom to trust.

    Its first answer comes before the measurement begins.
    """

    def __init__(
        self, port: int, pid: int, *ca_files: str, prepared: bytes = _REQUEST, pause_s: float = 0
    ) -> None:
        """`prepared` is a request whose answer fits one segment."""
        words = (str(port), str(pid), str(pause_s or _PAUSE_S), prepared.hex(), *ca_files)
        self._process = subprocess.Popen(
            [sys.executable, __file__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def end(self) -> Waits:
        line, _ = self._process.communicate(timeout=300)
        return msgspec.json.decode(line, type=Waits)


def _connect(port: int, ca_files: list[str]) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not ca_files:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for each in ca_files:
        context.load_verify_locations(cafile=each)
    return context.wrap_socket(connection, server_hostname="127.0.0.1")


def _ask(connection: socket.socket, prepared: bytes) -> None:
    connection.sendall(prepared)
    answer = b""
    while b"\r\n\r\n" not in answer:
        received = connection.recv(65536)
        if not received:
            raise ConnectionError("the node closed the connection of the prober")
        answer += received
    if b"HTTP/1.1 2" not in answer:
        raise ConnectionError(f"the prober was refused: {answer[:200]!r}")


def main(port: int, pid: int, pause_s: float, prepared: bytes, ca_files: list[str]) -> None:
    connection = _connect(port, ca_files)
    _ask(connection, prepared)
    waits: list[float] = []
    runs: list[float] = []
    loops: list[float] = []
    late = 0.0
    places = [f"/proc/{each}/schedstat" for each in (pid, os.getpid())]
    # Kernels may be built without.
    stats = [os.open(place, os.O_RDONLY) for place in places if os.path.exists(place)]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0)[0]:
        used, queued = _spent_s(stats)
        began = time.perf_counter()
        _ask(connection, prepared)
        done = time.perf_counter()
        waits.append(done - began)
        used_since, queued_since = _spent_s(stats)
        runs.append(done - began - (queued_since - queued))
        loops.append(used_since - used)
        time.sleep(pause_s)
        late = max(late, time.perf_counter() - done - pause_s)
    sys.stdout.write(json.dumps(_summary(waits, runs, loops, late)) + "\n")


def _spent_s(stats: list[int]) -> tuple[float, float]:
    """How long the node's loop ran, and how long it and the prober had no processor, in all."""
    fields = [os.pread(each, 100, 0).split() for each in stats]
    used = int(fields[0][0]) if fields else 0
    return used / 1e9, sum(int(each[1]) for each in fields) / 1e9


def _summary(
    waits: list[float], runs: list[float], loops: list[float], late: float
) -> dict[str, Any]:
    for each in (waits, runs, loops):
        each.sort()
    return {
        "count": len(waits),
        "p50": _ms(waits[len(waits) // 2]),
        "p99": _ms(waits[min(len(waits) - 1, len(waits) * 99 // 100)]),
        "max": _ms(waits[-1]),
        "p50_run": _ms(runs[len(runs) // 2]),
        "p99_run": _ms(runs[min(len(runs) - 1, len(runs) * 99 // 100)]),
        "max_run": _ms(runs[-1]),
        "p99_loop": _ms(loops[min(len(loops) - 1, len(loops) * 99 // 100)]),
        "max_loop": _ms(loops[-1]),
        "late": _ms(late),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


if __name__ == "__main__":
    port, pid, pause_s, prepared, *ca_files = sys.argv[1:]
    main(int(port), int(pid), float(pause_s), bytes.fromhex(prepared), ca_files)
