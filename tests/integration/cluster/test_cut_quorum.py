"""Three real processes behind proxies that delay, drop and cut one way."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.integration.cluster.cluster_processes import ClusterProcesses
from tests.integration.cluster.test_real_quorum import epoch_of, others_than
from tests.integration.link_proxy import Direction, LinkProxy

Make = Callable[[int], ClusterProcesses]
Proxied = tuple[ClusterProcesses, dict[str, LinkProxy]]


@pytest.fixture
def proxied(cluster_of: Make) -> Iterator[Proxied]:
    """A cluster whose nodes reach each other only through a proxy in front of each."""
    cluster = cluster_of(3)
    with ExitStack() as stack:
        proxies = {
            name: stack.enter_context(LinkProxy(cluster.peer_ports[name])) for name in cluster.names
        }
        cluster.advertise({name: proxy.port for name, proxy in proxies.items()})
        cluster.start_all()
        yield cluster, proxies
        cluster.kill_all()


def test_an_acknowledged_change_survives_every_cut_and_an_epoch_has_one_controller(
    proxied: Proxied,
) -> None:
    """`ClusterProcesses` judges every look: one controller for an epoch, versions never fall."""
    cluster, proxies = proxied
    cluster.wait_for(
        cluster.names,
        lambda states: all(len(cluster.statuses(each)) == 3 for each in states),
        "three registered nodes",
    )
    state = cluster.wait_for_agreement()
    gone = others_than(cluster, state["controller_id"])[0]
    left = others_than(cluster, gone)
    cluster[gone].kill()
    cluster.wait_for(
        left,
        lambda _: cluster.forget(gone, through=left[0]).status_code == 200,
        "that it is forgotten",
    )

    for directions in ((), (Direction.FORWARD,), (Direction.BACKWARD,)):
        before = cluster.wait_for_agreement(*left)
        for name in left:
            proxies[name].delay_s = dict.fromkeys(Direction, 0.02)
            if directions:
                proxies[name].cut(*directions)
            else:
                proxies[name].drop_all()
        if directions:
            cluster.wait_for(
                left,
                lambda states: not any(each["controller_id"] for each in states),
                "that a controller without a majority steps down",
            )
        for name in left:
            proxies[name].heal()
        after = cluster.wait_for_agreement(*left)
        assert epoch_of(after) >= epoch_of(before)
        assert set(cluster.statuses(after)) == set(left), "what was forgotten came back"
