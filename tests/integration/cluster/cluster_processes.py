"""A cluster of real processes on this machine, and what its nodes say of each other.

Each node has its data directory, its ports and a settings file of its own, so it comes back as
itself after any end. Every look at a node is remembered: `judge` compares all of them.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx

from tests.free_ports import free_ports
from tests.integration.server_process import ServerProcess

__all__ = ["HTTP", "ClusterProcesses", "State", "free_ports", "running_cluster", "values_of"]

State = dict[str, object]
_WAIT_S_MAX = 60.0
_LOOK_S = 0.05
# A client for all looks: one for each would read the machine's authorities anew. No connection is
# kept, because nodes come and go.
HTTP = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0))


class ClusterProcesses:
    """Nodes `node-1` and so on; none is started at first."""

    def __init__(
        self,
        folder: Path,
        count: int,
        *,
        quorum: int | None = None,
        has_proxies: bool = False,
        proofs: Mapping[str, str] | None = None,
        program: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        """With `has_proxies` nodes know each other by `proxy_ports`, where a test listens.

        `proofs` are the settings by which each node proves itself, instead of a shared secret.
        `program` is what Python runs for a node of this name: see `ServerProcess`.
        """
        self.folder = folder
        self.names = [f"node-{number}" for number in range(1, count + 1)]
        ports = free_ports(3 * count)
        self.peer_ports = dict(zip(self.names, ports[count : 2 * count], strict=True))
        self.proxy_ports = dict(zip(self.names, ports[2 * count :], strict=True))
        secret = folder / "secret"
        secret.write_text("s" * 32)
        secret.chmod(0o600)
        self._proofs = proofs or dict.fromkeys(self.names, f'secret_file = "{secret}"\n')
        self._quorum = quorum or count
        self._advertised = self.proxy_ports if has_proxies else self.peer_ports
        self._nodes: dict[str, ServerProcess] = {}
        # Which controller any node named for each epoch, and the versions that each node has had.
        self._controllers: dict[int, str] = {}
        self._versions: dict[str, int] = {}
        for name, port in zip(self.names, ports[:count], strict=True):
            self._write_settings(name)
            flags = ("--config", str(folder / f"{name}.toml"))
            run = None if program is None else program(name)
            node = ServerProcess(folder / name, *flags, program=run)
            node.url = f"http://127.0.0.1:{port}"
            self._nodes[name] = node

    def advertise(self, ports: dict[str, int], *names: str) -> None:
        """Tell nodes that do not run yet, all if none is named, where each is to be found."""
        self._advertised = ports
        for name in names or self.names:
            self._write_settings(name)

    def _write_settings(self, name: str) -> None:
        others = [f'"127.0.0.1:{self._advertised[each]}"' for each in self.names if each != name]
        (self.folder / f"{name}.toml").write_text(
            f'[broker]\nnodeid = "{name}"\n'
            f'[listeners]\ninternal = "127.0.0.1:{self.peer_ports[name]}"\n'
            f"[cluster]\nenabled = true\npeers = [{', '.join(others)}]\n"
            f'advertise = "127.0.0.1:{self._advertised[name]}"\n'
            f"quorum = {self._quorum}\n{self._proofs[name]}"
        )

    def __getitem__(self, name: str) -> ServerProcess:
        return self._nodes[name]

    def start_all(self) -> None:
        for name in self.names:
            self._nodes[name].begin()
        for name in self.names:
            self._nodes[name].wait_until_ready()

    def kill_all(self) -> None:
        for node in self._nodes.values():
            node.kill()

    @property
    def said(self) -> str:
        return "".join(node.said for node in self._nodes.values())

    # What the nodes say

    def look(self, name: str) -> State | None:
        """The state that a node reports now; None if it does not answer."""
        try:
            answer = HTTP.get(f"{self._nodes[name].url}/cluster/state", timeout=2)
        except httpx.HTTPError:
            return None
        if answer.status_code != 200:
            return None
        state: State = answer.json()
        self._judge(name, state)
        return state

    def _judge(self, name: str, state: State) -> None:
        epoch, controller = state["controller_epoch"], state["controller_id"]
        version = state["version"]
        assert isinstance(epoch, int)
        assert isinstance(controller, str)
        assert isinstance(version, int)
        if controller:
            known = self._controllers.setdefault(epoch, controller)
            assert known == controller, f"epoch {epoch} has two: {known} and {controller}"
        # Only committed changes are shown, and those are not taken back.
        assert version >= self._versions.get(name, 0), f"{name} fell to version {version}"
        self._versions[name] = version

    def forget_versions(self, name: str) -> None:
        """A node begins anew: with an empty disk, or reading its log again."""
        self._versions.pop(name, None)

    def wait_for(
        self, names: Sequence[str], is_seen: Callable[[list[State]], bool], what: str
    ) -> list[State]:
        """Look at these nodes until all of them answer and something is true of their states."""
        deadline = time.monotonic() + _WAIT_S_MAX
        seen: list[State | None] = []
        while time.monotonic() < deadline:
            seen = [self.look(name) for name in names]
            states = [state for state in seen if state is not None]
            if len(states) == len(names) and is_seen(states):
                return states
            time.sleep(_LOOK_S)
        raise AssertionError(f"{what} was not seen: {seen}\n{self.said[-4000:]}")

    def wait_for_agreement(self, *names: str, above: int = -1) -> State:
        """Wait until these nodes know one controller of an epoch above that, and one version.

        Each of them is registered by then.
        """
        asked = names or self.names

        def agree(states: list[State]) -> bool:
            first = states[0]
            return (
                bool(first["controller_id"])
                and isinstance(first["controller_epoch"], int)
                and first["controller_epoch"] > above
                and all(
                    (each["controller_id"], each["controller_epoch"], each["version"])
                    == (first["controller_id"], first["controller_epoch"], first["version"])
                    and each["cluster_id"] == first["cluster_id"]
                    for each in states
                )
                and set(asked) <= set(self.statuses(first))
            )

        return self.wait_for(asked, agree, "one controller")[0]

    def wait_until_whole(self) -> None:
        """Wait until all nodes agree that all of them are alive and vote."""
        count = len(self.names)
        self.wait_for_agreement()
        self.wait_for(
            self.names,
            lambda states: all(
                set(self.statuses(each).values()) == {"alive"}
                and len(self.statuses(each)) == count
                and len(voters_of(each)) == count
                for each in states
            ),
            "that every node is a voter",
        )

    def statuses(self, state: State) -> dict[str, str]:
        nodes = state["nodes"]
        assert isinstance(nodes, list)
        return {node["id"]: node["status"] for node in nodes}

    def leaders(self, state: State) -> dict[str, int]:
        """How many partitions each node leads."""
        nodes = state["nodes"]
        assert isinstance(nodes, list)
        return {node["id"]: node.get("leaders", 0) for node in nodes}

    def forget(self, name: str, through: str) -> httpx.Response:
        return HTTP.delete(f"{self._nodes[through].url}/cluster/nodes/{name}", timeout=30)


@contextlib.contextmanager
def running_cluster(folder: Path, count: int) -> Iterator[ClusterProcesses]:
    """A cluster that has formed, with its first node as it is; all nodes end with the block."""
    cluster = ClusterProcesses(folder, count)
    try:
        cluster.start_all()
        cluster.wait_until_whole()
        yield cluster
    finally:
        cluster.kill_all()


def voters_of(state: State) -> list[str]:
    """The nodes that vote for the controller."""
    nodes = state["nodes"]
    assert isinstance(nodes, list)
    return [node["id"] for node in nodes if node["is_voter"]]


def values_of(url: str, topic: str, partition: int) -> list[str]:
    """The values of a partition, as the node at this address serves them."""
    values: list[str] = []
    offset = 0
    while True:
        path = f"{url}/topics/{topic}/partitions/{partition}/messages"
        answer = HTTP.get(path, params={"offset": offset, "limit": 1000}, timeout=30)
        messages = answer.json()["messages"]
        if not messages:
            return values
        values += [each["value"] for each in messages]
        offset = messages[-1]["offset"] + 1
