"""What keeps the messages of a soak: one node, or a cluster whose roles are killed in turn."""

import contextlib
import http.client
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import httpx

from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses, running_cluster
from tests.integration.http_api import Answer, Api
from tests.integration.server_process import serving

__all__ = ["Servers", "any_api", "serve"]


_WAIT_S_MAX = 60.0
_PAUSE_S = 0.1
_CANNOT_NOW = 500


class Servers(Protocol):
    """One node or several."""

    @property
    def url(self) -> str:
        """Where they are, with commas between them."""

    @property
    def copies(self) -> int:
        """How many copies a topic has."""

    def strike(self) -> str:
        """Kill one without warning and start it again; what it was."""

    def restart(self) -> None:
        """The same with all of them."""

    def stop(self) -> list[int]:
        """Tell all to stop; their exit codes."""


class _OneNode:
    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self._node = stack.enter_context(serving(directory))

    @property
    def url(self) -> str:
        return self._node.url

    @property
    def copies(self) -> int:
        return 1

    def strike(self) -> str:
        self._node.restart()
        return "broker"

    def restart(self) -> None:
        self._node.restart()

    def stop(self) -> list[int]:
        return [self._node.stop()]


class _Cluster:
    """Three nodes: whoever coordinates, leads or decides is killed, one at a time."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack, led: str) -> None:
        directory.mkdir(parents=True)
        self._nodes: ClusterProcesses = stack.enter_context(running_cluster(directory, 3))
        self._roles = itertools.cycle(("coordinator", "leader", "controller"))
        # The topic of which a leader is killed.
        self._led = led

    @property
    def url(self) -> str:
        return ",".join(self._nodes[name].url for name in self._nodes.names)

    @property
    def copies(self) -> int:
        return 3

    def strike(self) -> str:
        role = next(self._roles)
        node = self._nodes[self._holder(role)]
        node.restart()
        return role

    def _holder(self, role: str) -> str:
        """Which node has a role, as the first one says that answers."""
        if role == "controller":
            path, key = "cluster/state", "controller_id"
        else:
            topic = "__consumer_offsets" if role == "coordinator" else self._led
            path, key = f"topics/{topic}/partitions", "leader"
        for name in self._nodes.names:
            try:
                answer = HTTP.get(f"{self._nodes[name].url}/{path}")
            except httpx.TransportError:
                continue
            if answer.status_code == 200:
                body = answer.json()
                found = body.get(key) or body.get("partitions", [{}])[0].get(key)
                if found in self._nodes.names:
                    return str(found)
        return self._nodes.names[0]

    def restart(self) -> None:
        self._nodes.kill_all()
        self._nodes.start_all()

    def stop(self) -> list[int]:
        return [self._nodes[name].stop() for name in self._nodes.names]


def serve(count: int, directory: Path, stack: contextlib.ExitStack, led: str) -> Servers:
    """One node, or a cluster of three, for as long as the stack lasts; `led` is a topic there."""
    if count == 1:
        return _OneNode(directory, stack)
    assert count == 3, "a cluster of the soak has three nodes"
    return _Cluster(directory, stack, led)


class PatientApi(Api):
    """A client that asks the next node when one does not answer, or cannot now."""

    def __init__(self, servers: Servers) -> None:
        self._urls = itertools.cycle(servers.url.split(","))
        super().__init__(next(self._urls))

    def send(
        self,
        method: str,
        target: str,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        deadline = time.monotonic() + _WAIT_S_MAX
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = super().send(method, target, content, headers)
                if answer.status < _CANNOT_NOW or time.monotonic() > deadline:
                    return answer
            assert time.monotonic() < deadline, f"nobody answers {target}"
            time.sleep(_PAUSE_S)
            super().__init__(next(self._urls))


@contextlib.contextmanager
def any_api(servers: Servers) -> Iterator[Api]:
    """A client of whichever node answers."""
    with contextlib.closing(PatientApi(servers)) as api:
        yield api
