"""Three real nodes that keep their metadata in a real etcd."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import httpx
import msgspec
import pytest

from goqueue.model import CallStore, StoreEvent
from goqueue.runtime.etcd_client import EtcdClient
from goqueue.runtime.event_log import silent_log
from goqueue.runtime.settings import EtcdSettings
from tests.certificates import NEEDS_OPENSSL, Authority
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


@NEEDS_OPENSSL
def test_a_node_proves_itself_to_an_etcd_that_asks_for_a_certificate(tmp_path: Path) -> None:
    """One call by the client of a node: etcd serves nobody without a certificate."""
    authority = Authority(tmp_path / "ca")
    proof = authority.issue("all", usage="serverAuth,clientAuth")
    ca_file = str(authority.ca_file)
    flags = ("--cert-file", proof.cert, "--key-file", proof.key)
    verify = ("--trusted-ca-file", ca_file, "--client-cert-auth")
    server = EtcdServer(tmp_path / "etcd", *flags, *verify, scheme="https", verify=ca_file)
    server.start((proof.cert, proof.key))
    try:
        known = told(
            EtcdSettings(
                endpoints=(server.endpoint,),
                prefix="/q",
                ca_file=ca_file,
                cert_file=proof.cert,
                key_file=proof.key,
            )
        )
        stranger = told(EtcdSettings(endpoints=(server.endpoint,), prefix="/q", ca_file=ca_file))
    finally:
        server.stop()
    assert known.body is not None
    assert b"revision" in known.body
    assert stranger.body is None


def told(settings: EtcdSettings) -> StoreEvent:
    """What the client of a node tells of a read."""

    async def call() -> StoreEvent:
        heard: asyncio.Future[StoreEvent] = asyncio.get_running_loop().create_future()

        def fail(bug: BaseException) -> None:
            raise AssertionError(repr(bug))

        client = EtcdClient(settings, heard.set_result, Random(1), silent_log(), fail)
        body = msgspec.json.encode({"key": b"/q/a", "range_end": b"/q/b", "limit": 2})
        client.call(CallStore(number=1, path="/v3/kv/range", body=body))
        try:
            return await asyncio.wait_for(heard, 10)
        finally:
            await client.stop()

    return asyncio.run(call())
