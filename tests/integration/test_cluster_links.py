"""Real nodes that are connected by the protocol of brokers: deaths, pauses, stops, bad networks."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from goqueue.cluster import Refuse
from tests.integration.cluster_nodes import (
    ClusterNode,
    RawLink,
    cluster_of,
    free_ports,
    identity,
    wait_until,
)
from tests.integration.link_proxy import Direction, LinkProxy
from tests.integration.server_process import ServerProcess


def wait_until_connected(nodes: list[ClusterNode], seconds: float = 30) -> float:
    links = 3 * (len(nodes) - 1)
    return wait_until(lambda: all(each.links == links for each in nodes), "all links", seconds)


def test_three_nodes_connect_and_a_stopped_one_leaves_and_returns(tmp_path: Path) -> None:
    with cluster_of(tmp_path, ["a", "b", "c"]) as nodes:
        wait_until_connected(nodes)
        assert nodes[2].stop() == 0
        wait_until(lambda: nodes[0].links == nodes[1].links == 3, "its links have ended")
        nodes[2].start()
        wait_until_connected(nodes)
        # Dials that cross may lead to a second link of a run, never to one of an earlier run.
        runs = nodes[0].incarnations_of("c")
        assert runs == sorted(runs)
        assert set(runs) == {1, 2}


def test_a_killed_node_is_replaced_by_its_next_run_and_the_old_one_is_never_believed(
    tmp_path: Path,
) -> None:
    with cluster_of(tmp_path, ["a", "b"]) as nodes:
        for run in range(2, 6):
            wait_until_connected(nodes)
            nodes[1].restart()
            _wait_for_run(nodes[0], "b", run)
        wait_until_connected(nodes)
        seen = nodes[0].incarnations_of("b")
        assert seen == sorted(seen)
        # A process that poses as an earlier run, with the secret and the right directory.
        directory = (tmp_path / "b" / "directory-id").read_bytes().hex()
        with RawLink(nodes[0].port).upgrade() as link:
            answer = link.hello(identity("b", directory=directory, incarnation=1), number=10**6)
            assert isinstance(answer, Refuse)
            assert answer.reason == "incarnation_stale"


def test_a_paused_node_is_given_up_and_connects_again_when_it_goes_on(tmp_path: Path) -> None:
    with cluster_of(tmp_path, ["a", "b", "c"]) as nodes:
        wait_until_connected(nodes)
        nodes[1].signal(signal.SIGSTOP)
        try:
            wait_until(lambda: nodes[0].links == nodes[2].links == 3, "silence is noticed", 30)
        finally:
            nodes[1].signal(signal.SIGCONT)
        wait_until_connected(nodes)
        # The others were not paused, and never found each other silent.
        silent = 'no longer connected broker={} reason="nothing was heard'
        nodes[0].wait_to_say(silent.format("b"))
        assert silent.format("c") not in nodes[0].said
        assert set(nodes[0].incarnations_of("b")) == {1}


def test_a_wiped_node_connects_as_another_directory(tmp_path: Path) -> None:
    with cluster_of(tmp_path, ["a", "b"]) as nodes:
        wait_until_connected(nodes)
        nodes[1].kill()
        wait_until(lambda: nodes[0].links == 0, "its links have ended")
        (tmp_path / "b").rename(tmp_path / "lost")
        before = len(nodes[0].incarnations_of("b"))
        nodes[1].start()
        wait_until(lambda: len(nodes[0].incarnations_of("b")) > before, "it connects")
        assert set(nodes[0].incarnations_of("b")) == {1}


def _wait_for_run(node: ClusterNode, broker: str, run: int) -> None:
    wait_until(lambda: run in node.incarnations_of(broker), f"run {run} of {broker} connects")


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[list[ClusterNode], LinkProxy, LinkProxy]]:
    """Two nodes that reach each other only through a proxy each."""
    with ExitStack() as stack:
        secret = tmp_path / "secret"
        secret.touch(0o600)
        secret.write_text("a-secret-of-all-nodes")
        first, second = free_ports(2)
        to_first = stack.enter_context(LinkProxy(first))
        to_second = stack.enter_context(LinkProxy(second))
        nodes = [
            ClusterNode(tmp_path, "a", first, [to_second.port], secret, at=to_first.port),
            ClusterNode(tmp_path, "b", second, [to_first.port], secret, at=to_second.port),
        ]
        for node in nodes:
            stack.callback(node.kill)
            node.start()
        wait_until_connected(nodes)
        yield nodes, to_first, to_second


Proxied = tuple[list[ClusterNode], LinkProxy, LinkProxy]


@pytest.mark.parametrize(
    "directions",
    [(Direction.FORWARD,), (Direction.BACKWARD,), (Direction.FORWARD, Direction.BACKWARD)],
    ids=["forward", "backward", "both"],
)
def test_a_cut_is_noticed_in_seconds_and_links_return_when_it_ends(
    proxied: Proxied, directions: tuple[Direction, ...]
) -> None:
    nodes, *proxies = proxied
    for proxy in proxies:
        proxy.cut(*directions)
    wait_until(lambda: any(each.links < 3 for each in nodes), "the cut is noticed", 20)
    for proxy in proxies:
        proxy.heal()
    wait_until_connected(nodes)
    assert {
        run for node, other in ((0, "b"), (1, "a")) for run in nodes[node].incarnations_of(other)
    } == {1}


def test_dropped_connections_are_made_again_at_once(proxied: Proxied) -> None:
    nodes, *proxies = proxied
    for _ in range(5):
        wanted = sum(each.accepted_total for each in proxies) + 3
        for proxy in proxies:
            proxy.drop_all()
        _wait_for_dials(proxies, wanted)
        assert wait_until_connected(nodes) < 10


def _wait_for_dials(proxies: list[LinkProxy], count: int) -> None:
    wait_until(lambda: sum(each.accepted_total for each in proxies) >= count, "dialled again")


def test_a_slow_network_delays_links_and_breaks_none(proxied: Proxied) -> None:
    nodes, *proxies = proxied
    for proxy in proxies:
        proxy.delay_s[Direction.FORWARD] = 0.4
        proxy.delay_s[Direction.BACKWARD] = 0.2
    received = nodes[0].metric("goqueue_peer_messages_received_total")
    runs = nodes[0].incarnations_of("b")
    wait_until(
        lambda: nodes[0].metric("goqueue_peer_messages_received_total") > received + 8,
        "messages arrive",
    )
    assert nodes[0].incarnations_of("b") == runs
    assert nodes[0].links == 3


def test_a_port_that_accepts_and_says_nothing_is_tried_again(proxied: Proxied) -> None:
    nodes, *proxies = proxied
    for proxy in proxies:
        proxy.swallow_connections()
        proxy.drop_all()
    wait_until(lambda: nodes[0].links == 0, "the links have ended")
    time.sleep(1)
    for proxy in proxies:
        proxy.heal()
    wait_until_connected(nodes, 40)


def test_a_kill_behind_a_cut_leaves_a_half_open_link_that_the_next_run_replaces(
    proxied: Proxied,
) -> None:
    nodes, to_first, to_second = proxied
    for proxy in (to_first, to_second):
        proxy.cut()
    nodes[1].kill()
    nodes[1].begin()
    nodes[1].wait_until_ready()
    for proxy in (to_first, to_second):
        proxy.heal()
    # Until the next run is heard, the links of the killed one are counted.
    wait_until(lambda: 2 in nodes[0].incarnations_of("b"), "the next run connects", 30)
    wait_until_connected(nodes)
    assert nodes[0].incarnations_of("b")[-1] == 2
    assert nodes[0].incarnations_of("b") == sorted(nodes[0].incarnations_of("b"))


def test_a_node_alone_listens_on_no_port_for_brokers(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = ServerProcess(tmp_path / "data", "--listeners-internal", f"127.0.0.1:{port}")
    server.start()
    try:
        with pytest.raises(ConnectionRefusedError):
            RawLink(port)
        assert not (tmp_path / "data" / "directory-id").exists()
    finally:
        server.kill()
