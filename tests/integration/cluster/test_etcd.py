"""Three real nodes that keep their metadata in a real etcd."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses
from tests.integration.etcd_server import EtcdServer, running_etcd


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    with running_etcd(tmp_path / "etcd") as server:
        yield server


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdServer) -> Iterator[ClusterProcesses]:
    names = ("node-1", "node-2", "node-3")
    store = (
        f'secret_file = "{tmp_path / "secret"}"\n'
        f'metadata = "etcd"\netcd_endpoints = ["127.0.0.1:9", "{etcd.endpoint}"]\n'
    )
    cluster = ClusterProcesses(tmp_path, 3, proofs=dict.fromkeys(names, store))
    cluster.start_all()
    yield cluster
    cluster.kill_all()
    assert "Traceback (most recent call last)" not in cluster.said, cluster.said[-4000:]


def create(cluster: ClusterProcesses, name: str, topic: str) -> httpx.Response:
    body = {
        "name": topic,
        "num_partitions": 2,
        "replication_factor": 3,
        "min_insync_replicas": 2,
    }
    return HTTP.post(f"{cluster[name].url}/topics", json=body, timeout=30)


def publish(cluster: ClusterProcesses, name: str, value: str) -> httpx.Response:
    return HTTP.post(
        f"{cluster[name].url}/topics/orders/messages",
        params={"acks": "all"},
        json={"messages": [{"value": value}]},
        timeout=30,
    )


def test_nodes_agree_through_etcd_and_replace_a_controller_that_is_killed(
    cluster: ClusterProcesses, etcd: EtcdServer
) -> None:
    state = cluster.wait_for_agreement()
    controller = str(state["controller_id"])
    assert etcd.keys("/goqueue/live/") == ["/goqueue/live/controller", "/goqueue/live/head"]
    assert create(cluster, "node-1", "orders").status_code == 201
    assert publish(cluster, "node-2", "first").is_success

    cluster[controller].kill()
    left = [each for each in cluster.names if each != controller]
    epoch = state["controller_epoch"]
    assert isinstance(epoch, int)
    successor = cluster.wait_for_agreement(*left, above=epoch)
    assert successor["controller_id"] in left
    assert publish(cluster, left[0], "second").is_success

    cluster.forget_versions(controller)
    cluster[controller].start()
    again = cluster.wait_for_agreement(above=epoch)
    assert again["cluster_id"] == state["cluster_id"]


def test_while_etcd_stands_still_traffic_continues_and_changes_are_refused(
    cluster: ClusterProcesses, etcd: EtcdServer
) -> None:
    state = cluster.wait_for_agreement()
    assert create(cluster, "node-1", "orders").status_code == 201
    assert publish(cluster, "node-1", "before").is_success

    etcd.pause()
    refused = create(cluster, "node-1", "payments")
    assert refused.status_code in {503, 504}, refused.text
    assert publish(cluster, "node-2", "meanwhile").is_success
    cluster["node-3"].wait_to_say("etcd does not answer")

    etcd.resume()
    assert cluster.wait_for_agreement()["cluster_id"] == state["cluster_id"]
    assert create(cluster, "node-2", "invoices").status_code == 201
