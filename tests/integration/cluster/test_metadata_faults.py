"""Three real processes that are killed, frozen, stopped, wiped and cut off while topics change.

The same promises as in the simulator, on real sockets and disks: one controller for an epoch, and
no change that was confirmed is ever lost.
"""

import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses
from tests.integration.cluster.metadata_load import MetadataLoad, Topics, violations_of
from tests.integration.link_proxy import Direction, LinkProxy

_SEED = 20261118


class Faults:
    """What is done to the nodes, one thing after the other; each undoes itself."""

    def __init__(
        self, cluster: ClusterProcesses, proxies: dict[str, LinkProxy], load: MetadataLoad
    ) -> None:
        self._cluster = cluster
        self._proxies = proxies
        self._load = load
        self._chance = random.Random(_SEED)

    # Ends

    def kill_controller(self) -> None:
        self._restart(self._controller())

    def kill_some(self) -> None:
        self._restart(self._some())

    def kill_all(self) -> None:
        with self._load.looking:
            self._cluster.kill_all()
            for name in self._cluster.names:
                self._cluster.forget_versions(name)
        for name in self._cluster.names:
            self._cluster[name].begin()
        for name in self._cluster.names:
            self._cluster[name].wait_until_ready()

    def stop_controller(self) -> None:
        name = self._controller()
        with self._load.looking:
            assert self._cluster[name].stop() == 0
            self._cluster.forget_versions(name)
        self._cluster[name].start()

    def wipe_some(self) -> None:
        """Lose a disk, as an operator who forgets the old node and lets a blank one join."""
        cluster, name = self._cluster, self._some()
        others = [each for each in cluster.names if each != name]
        with self._load.looking:
            cluster[name].kill()
            cluster.forget_versions(name)
        shutil.rmtree(cluster[name].directory)
        cluster.wait_for(
            others,
            lambda _: cluster.forget(name, through=others[0]).status_code in {200, 404},
            "that the old node is forgotten",
        )
        cluster[name].start()
        self.wait_until_whole()

    # Silence

    def freeze_controller(self) -> None:
        self._freeze(self._controller(), 4)

    def freeze_some(self) -> None:
        self._freeze(self._some(), self._chance.uniform(1, 6))

    def freeze_long(self) -> None:
        self._freeze(self._controller(), 20)

    # The network

    def cut_towards_controller(self) -> None:
        """Nobody reaches the controller over connections that were made to it."""
        self._cut((self._controller(),), (Direction.FORWARD,))

    def cut_from_controller(self) -> None:
        self._cut((self._controller(),), (Direction.BACKWARD,))

    def cut_off_controller(self) -> None:
        """All connections are made through some proxy: cut all that the controller may use."""
        self._cut(self._cluster.names, tuple(Direction))

    def cut_one_way_everywhere(self) -> None:
        self._cut(self._cluster.names, (self._chance.choice(list(Direction)),))

    def drop_connections(self) -> None:
        for _ in range(5):
            self._proxies[self._some()].drop_all()
            time.sleep(self._chance.uniform(0, 0.3))

    def delay_all(self) -> None:
        for proxy in self._proxies.values():
            proxy.delay_s = dict.fromkeys(Direction, 0.15)
        time.sleep(3)
        self._heal()

    def kill_behind_a_cut(self) -> None:
        """Its connections stay half open at the others, and a new run of it comes."""
        name = self._some()
        self._proxies[name].cut()
        self._restart(name)
        self._proxies[name].heal()

    def swallow_connections(self) -> None:
        """New connections to a node are accepted, and nobody is there."""
        name = self._controller()
        self._proxies[name].drop_all()
        self._proxies[name].swallow_connections()
        time.sleep(self._chance.uniform(1, 4))
        self._heal()

    # Parts

    def _some(self) -> str:
        return self._chance.choice(self._cluster.names)

    def _controller(self) -> str:
        """The node that decides now, as any of them says."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for name in self._cluster.names:
                state = self._cluster.look(name) or {}
                if state.get("controller_id"):
                    return str(state["controller_id"])
            time.sleep(0.05)
        raise AssertionError("no controller in a minute")

    def _restart(self, name: str) -> None:
        with self._load.looking:
            self._cluster[name].kill()
            self._cluster.forget_versions(name)
        time.sleep(self._chance.uniform(0, 2))
        self._cluster[name].start()

    def _freeze(self, name: str, seconds: float) -> None:
        self._cluster[name].signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._cluster[name].signal(signal.SIGCONT)

    def _cut(self, names: Sequence[str], directions: tuple[Direction, ...]) -> None:
        for name in names:
            self._proxies[name].cut(*directions)
        time.sleep(self._chance.uniform(2, 6))
        self._heal()

    def _heal(self) -> None:
        for proxy in self._proxies.values():
            proxy.heal()

    def wait_until_whole(self) -> None:
        with self._load.looking:
            self._cluster.wait_until_whole()


Fault = Callable[[Faults], None]

_FEW: tuple[Fault, ...] = (
    Faults.kill_controller,
    Faults.cut_from_controller,
    Faults.stop_controller,
    Faults.freeze_controller,
)
_ALL: tuple[Fault, ...] = (
    *_FEW,
    Faults.kill_some,
    Faults.kill_all,
    Faults.wipe_some,
    Faults.freeze_some,
    Faults.freeze_long,
    Faults.cut_towards_controller,
    Faults.cut_off_controller,
    Faults.cut_one_way_everywhere,
    Faults.drop_connections,
    Faults.delay_all,
    Faults.kill_behind_a_cut,
    Faults.swallow_connections,
)


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[ClusterProcesses, dict[str, LinkProxy]]]:
    """A cluster whose nodes reach each other only through a proxy in front of each."""
    cluster = ClusterProcesses(tmp_path, 3, has_proxies=True)
    with ExitStack() as stack:
        proxies = {
            name: stack.enter_context(
                LinkProxy(cluster.peer_ports[name], cluster.proxy_ports[name])
            )
            for name in cluster.names
        }
        stack.callback(cluster.kill_all)
        cluster.start_all()
        cluster.wait_until_whole()
        yield cluster, proxies
    assert "Traceback (most recent call last)" not in cluster.said, cluster.said[-4000:]


@pytest.mark.parametrize(
    "faults", [_FEW, pytest.param(_ALL, marks=pytest.mark.long)], ids=["few", "all"]
)
def test_no_confirmed_change_is_lost_whatever_happens_to_nodes_and_their_network(
    proxied: tuple[ClusterProcesses, dict[str, LinkProxy]], faults: tuple[Fault, ...]
) -> None:
    cluster, proxies = proxied

    with MetadataLoad(cluster, _SEED) as load:
        done = Faults(cluster, proxies, load)
        for fault in faults:
            fault(done)
            before = len(load.created)
            deadline = time.monotonic() + 60
            while len(load.created) < before + 3:
                assert time.monotonic() < deadline, f"nothing is created after {fault.__name__}"
                time.sleep(0.05)

    cluster.wait_until_whole()
    listed = [
        frozenset(HTTP.get(f"{cluster[name].url}/topics", timeout=10).json()["topics"])
        for name in cluster.names
    ]
    assert violations_of(load.told(), listed) == []
    assert len(load.deleted) > len(faults)


_A, _B, _NONE = frozenset({"a"}), frozenset({"b"}), frozenset[str]()


@pytest.mark.parametrize(
    ("told", "listed", "violation"),
    [
        (Topics(_A, _A, _NONE, _NONE), [_A, _A], None),
        (Topics(_A, _NONE, _NONE, _NONE), [_NONE], None),
        (Topics(_A, _A, _A, _NONE), [_NONE], None),
        (Topics(_A, _A, _NONE, _NONE), [_A, _NONE], "nodes differ by ['a']"),
        (Topics(_A, _A, _NONE, _NONE), [_NONE], "a was confirmed, and is gone"),
        (Topics(_A, _A, _A, _A), [_A], "a was deleted, and is there"),
        (Topics(_A, _A, _NONE, _NONE), [_A | _B], "nobody asked for b"),
    ],
)
def test_a_lost_or_invented_change_is_found(
    told: Topics, listed: list[frozenset[str]], violation: str | None
) -> None:
    assert violations_of(told, listed) == ([] if violation is None else [violation])
