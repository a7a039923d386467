"""How long a cluster of three processes takes to form, and to decide again when a node ends.

Formation is from the last start until every node names the same controller. A failover is from the
end of the controller (killed, told to stop, or silent: frozen with its connections open) until both
others name another one, and until a topic that a client wants from then on is created: that change
is committed. States are asked of every node in turn, so each figure includes up to a few
milliseconds of asking.

Each figure is the 99th percentile of its rounds; of fewer than a hundred, the longest.
"""

import http.client
import itertools
import json
import os
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.figure import Figure, Target

__all__ = ["NAMES", "BenchCluster", "failover", "formation"]

NAMES = ("node-1", "node-2", "node-3")
_WAIT_S_MAX = 60.0
_ROUNDS = 100
# A silent controller is noticed by the election timeout alone: a fifth of the rounds is enough.
_SILENT_EVERY = 5
# How the controller ends, what that is called, and the seconds until the next one decides.
_ENDS = {
    signal.SIGKILL: ("kill", 3.0),
    signal.SIGTERM: ("stop", 0.3),
    signal.SIGSTOP: ("silence", 5.0),
}
State = tuple[str, int]


class BenchCluster:
    """Three processes that come back as themselves."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        """`settings` are further lines of each node's file."""
        folder.mkdir(parents=True)
        self._folder = folder
        ports = _free_ports(2 * len(NAMES))
        self._http = dict(zip(NAMES, ports[: len(NAMES)], strict=True))
        self._peers = dict(zip(NAMES, ports[len(NAMES) :], strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        secret = folder / "secret"
        secret.touch(0o600)
        secret.write_text(secrets.token_hex(32))
        for name in NAMES:
            others = [f'"127.0.0.1:{self._peers[each]}"' for each in NAMES if each != name]
            (folder / f"{name}.toml").write_text(
                f'[broker]\nnodeid = "{name}"\ndatadir = "{folder / name}"\n'
                f'[listeners]\nhttp = "127.0.0.1:{self._http[name]}"\n'
                f'internal = "127.0.0.1:{self._peers[name]}"\n'
                f"[cluster]\nenabled = true\nquorum = 3\npeers = [{', '.join(others)}]\n"
                f'secret_file = "{secret}"\n[log]\nlevel = "error"\n{settings}'
            )

    def start(self, *names: str) -> None:
        """Start nodes, and wait until each listens."""
        for name in names:
            command = [sys.executable, "-m", "goqueue.cli", "serve", "--config"]
            self._processes[name] = subprocess.Popen(
                [*command, str(self._folder / f"{name}.toml")],
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2])},
            )
        for name in names:
            listening = self._processes[name].stdout
            assert listening is not None
            listening.readline()

    @property
    def servers(self) -> list[str]:
        """Where clients reach the nodes."""
        return [f"http://127.0.0.1:{port}" for port in self._http.values()]

    def port(self, name: str) -> int:
        """Where clients reach one node."""
        return self._http[name]

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def end(self, name: str, how: signal.Signals) -> None:
        self._processes[name].send_signal(how)

    def wait(self, name: str) -> None:
        self._processes[name].wait(_WAIT_S_MAX)

    def kill_all(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def wait_for_controller(self, names: Sequence[str], above: int = -1) -> State:
        """Wait until these nodes name the same controller of an epoch above that."""
        deadline = time.perf_counter() + _WAIT_S_MAX
        while time.perf_counter() < deadline:
            seen = {self._look(name) for name in names}
            if len(seen) == 1:
                (state,) = seen
                if state is not None and state[0] in names and state[1] > above:
                    return state
        raise AssertionError(f"no controller within {_WAIT_S_MAX} s")

    def create_topic(self, names: Sequence[str], topic: str) -> None:
        """Ask these nodes in turn until one of them has created a topic."""
        body = json.dumps({"name": topic, "num_partitions": 1, "replication_factor": 1})
        deadline = time.perf_counter() + _WAIT_S_MAX
        for name in itertools.cycle(names):
            if self._post(name, "/topics", body) in {201, 409}:
                return
            assert time.perf_counter() < deadline, f"no change within {_WAIT_S_MAX} s"

    def _post(self, name: str, path: str, body: str) -> int | None:
        connection = http.client.HTTPConnection("127.0.0.1", self._http[name], timeout=5)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def _look(self, name: str) -> State | None:
        connection = http.client.HTTPConnection("127.0.0.1", self._http[name], timeout=1)
        try:
            connection.request("GET", "/cluster/state")
            state = json.loads(connection.getresponse().read())
        except OSError:
            return None
        finally:
            connection.close()
        return (state["controller_id"], state["controller_epoch"])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def formation(folder: str, scale: float) -> Iterator[Figure]:
    """From the start of the last of three blank nodes until all name one controller."""
    took = []
    for round_ in range(max(2, int(20 * scale))):
        cluster = BenchCluster(Path(folder) / f"formation-{round_}")
        try:
            cluster.start(*NAMES)
            began = time.perf_counter()
            cluster.wait_for_controller(NAMES)
            took.append(time.perf_counter() - began)
        finally:
            cluster.kill_all()
    yield _figure("formation", took, Target(below=3.0))


def failover(folder: str, scale: float) -> Iterator[Figure]:
    """From the end of the controller until both others name its successor, and it decides."""
    cluster = BenchCluster(Path(folder) / "failover")
    took: dict[signal.Signals, list[float]] = {how: [] for how in _ENDS}
    decided: dict[signal.Signals, list[float]] = {how: [] for how in _ENDS}
    try:
        cluster.start(*NAMES)
        cluster.wait_for_controller(NAMES)
        # Before its first record is committed a cluster of three needs all three.
        cluster.create_topic(NAMES, "first")
        controller, epoch = cluster.wait_for_controller(NAMES)
        for round_ in range(max(2, int(_ROUNDS * scale))):
            for how, times in took.items():
                if how is signal.SIGSTOP and round_ % _SILENT_EVERY:
                    continue
                left = [name for name in NAMES if name != controller]
                cluster.end(controller, how)
                began = time.perf_counter()
                _, epoch = cluster.wait_for_controller(left, epoch)
                times.append(time.perf_counter() - began)
                cluster.create_topic(left, f"topic-{how.name}-{round_}")
                decided[how].append(time.perf_counter() - began)
                if how is signal.SIGSTOP:
                    cluster.end(controller, signal.SIGKILL)
                cluster.wait(controller)
                cluster.start(controller)
                controller, epoch = cluster.wait_for_controller(NAMES, epoch - 1)
    finally:
        cluster.kill_all()
    for how, (name, below) in _ENDS.items():
        yield _figure(f"failover_after_{name}", took[how], Target(below=below))
        yield _figure(f"change_after_{name}", decided[how], Target(below=below))


def _figure(name: str, took: list[float], target: Target) -> Figure:
    slowest = sorted(took, reverse=True)
    return Figure(
        figure=name,
        value=round(slowest[len(took) // 100], 3),
        unit="s, p99",
        target=target,
        details={
            "p50": round(statistics.median(took), 3),
            "longest": round(slowest[0], 3),
            "rounds": len(took),
        },
    )
