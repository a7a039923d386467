"""What `acks` means for each way in which a client publishes to a replicated topic.

Each way is asked of every node: the leader serves it, and the others pass it on.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

import goqueue
from goqueue.client.batch import ProducerConfig
from goqueue.client.retries import Retries
from goqueue.client.sync import SyncConnection
from goqueue.gateways.grpc import protocol
from goqueue.model import Code
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses
from tests.integration.cluster.test_lost_copies import wait_for_isr, wait_until
from tests.integration.grpc_client import CallFailed, GrpcClient, grpc_address, grpc_client
from tests.integration.program import Program

ACKS = ("all", "leader", "none")
MODES = {
    "all": protocol.ACK_MODE_ALL,
    "leader": protocol.ACK_MODE_LEADER,
    "none": protocol.ACK_MODE_NONE,
}
NUMBERS = {
    getattr(protocol, name): name.removeprefix("ERROR_CODE_").lower()
    for name in dir(protocol)
    if name.startswith("ERROR_CODE_")
}

# Publishes a value with these acks; the code of the refusal, or nothing.
Way = Callable[[str, str], str]


def over_json(url: str) -> Way:
    def publish(acks: str, value: str) -> str:
        answer = HTTP.post(
            f"{url}/topics/orders/messages",
            params={"acks": acks},
            json={"messages": [{"value": value}]},
            timeout=30,
        )
        return str(answer.json().get("code", ""))

    return publish


def over_stored_records(q: SyncConnection) -> Way:
    def publish(acks: str, value: str) -> str:
        try:
            with q.producer(ProducerConfig(acks=acks, idempotent=False)) as producer:
                receipt = producer.send("orders", value)
                producer.flush()
                receipt.wait()
        except goqueue.GoQueueError as error:
            return error.code
        return ""

    return publish


def over_grpc(client: GrpcClient) -> Way:
    def publish(acks: str, value: str) -> str:
        try:
            client.publish("orders", value.encode(), ack_mode=MODES[acks])
        except CallFailed as failed:
            return NUMBERS[failed.error.code]
        return ""

    return publish


def over_command_line(program: Program, *, is_bulk: bool) -> Way:
    def publish(acks: str, value: str) -> str:
        flags = ["produce", "orders", "--acks", acks, "--timeout", "1s"]
        done = (
            program.run(*flags, typed=f"{value}\n".encode())
            if is_bulk
            else program.run(*flags, "-m", value)
        )
        if done.code == 0:
            return ""
        return next(each.value for each in Code if each.value in done.err)

    return publish


@contextlib.contextmanager
def ways_to(cluster: ClusterProcesses, name: str, home: Path) -> Iterator[dict[str, Way]]:
    """All ways in which this node takes messages."""
    node = cluster[name]
    program = Program(node.url, home)
    quick = Retries(total_s=0.2)
    with (
        goqueue.connect_sync(node.url, retries=quick, timeout_s=30) as q,
        grpc_client(grpc_address(node)) as client,
    ):
        yield {
            "JSON": over_json(node.url),
            "stored records": over_stored_records(q),
            "gRPC": over_grpc(client),
            "command line": over_command_line(program, is_bulk=False),
            "lines of a file": over_command_line(program, is_bulk=True),
        }


def codes_of_bound_ways(url: str, value: str) -> dict[str, str]:
    """What is answered in each way that waits for all copies, whatever its caller wants."""

    def post(path: str, body: dict[str, object]) -> str:
        return str(HTTP.post(f"{url}/topics/orders/{path}", json=body, timeout=30).json()["code"])

    codes = {
        "delayed": post("messages", {"messages": [{"value": value, "delay": "1h"}]}),
        "request": post("request", {"value": value}),
    }
    # The abort is answered when all copies hold its marker, which is not waited for.
    with (
        goqueue.connect_sync(url, retries=Retries(total_s=0.2), timeout_s=1) as q,
        pytest.raises(goqueue.GoQueueError) as refused,
        q.transaction(value.replace(" ", "-")) as transaction,
    ):
        transaction.publish("orders", value).wait()
    return {**codes, "transaction": refused.value.code}


def stored(cluster: ClusterProcesses, name: str) -> list[str]:
    answer = HTTP.get(
        f"{cluster[name].url}/topics/orders/partitions/0/messages",
        params={"offset": 0, "limit": 1000},
        timeout=30,
    )
    return [each["value"] for each in answer.json().get("messages", ())]


def holds(cluster: ClusterProcesses, name: str, expected: set[str]) -> bool:
    return expected <= set(stored(cluster, name))


def publish_in_every_way(cluster: ClusterProcesses, home: Path) -> set[str]:
    """Publish with all acks in all ways at every node; the values."""
    published = set()
    for name in cluster.names:
        with ways_to(cluster, name, home) as ways:
            for way, publish in ways.items():
                for acks in ACKS:
                    value = f"{way} {acks} {name}"
                    assert publish(acks, value) == "", value
                    published.add(value)
    return published


def code_of_all(url: str) -> str:
    try:
        return over_json(url)("all", "while a node is missed")
    except httpx.HTTPError:
        return "nobody answers"


def test_acks_mean_the_same_in_every_way_of_publishing_and_at_every_node(
    cluster_of: Callable[[int], ClusterProcesses], tmp_path: Path
) -> None:
    cluster = cluster_of(3)
    for name in cluster.names:
        settings = tmp_path / f"{name}.toml"
        wanted = '[listeners]\ngrpc = "127.0.0.1:0"\n'
        settings.write_text(settings.read_text().replace("[listeners]\n", wanted))
    cluster.start_all()
    cluster.wait_until_whole()
    topic = {
        "name": "orders",
        "num_partitions": 1,
        "replication_factor": 3,
        "min_insync_replicas": 3,
    }
    made = HTTP.post(f"{cluster['node-1'].url}/topics", json=topic, timeout=30)
    assert made.status_code == 201, made.text
    found = wait_for_isr(cluster, "node-1", 3)
    wait_until(lambda: code_of_all(cluster["node-1"].url) == "")
    before = len(stored(cluster, "node-1"))

    expected = publish_in_every_way(cluster, tmp_path)
    wait_until(lambda: len(stored(cluster, "node-1")) == before + len(expected))
    assert set(stored(cluster, "node-1")[before:]) == expected
    # The first transaction also makes the log of the coordinator.
    with goqueue.connect_sync(cluster["node-1"].url) as q, q.transaction("first") as transaction:
        transaction.publish("orders", "in a transaction").wait()
    expected.add("in a transaction")

    # One copy too few, and the ISR is never made smaller than the minimum.
    leader = found["leader"]
    missed = next(name for name in cluster.names if name != leader)
    left = [name for name in cluster.names if name != missed]
    cluster[missed].kill()
    wait_until(
        lambda: all(code_of_all(cluster[name].url) == "not_enough_replicas" for name in left)
    )
    for name in left:
        with ways_to(cluster, name, tmp_path) as ways:
            for way, publish in ways.items():
                refused, taken = f"refused: {way} {name}", f"taken: {way} {name}"
                assert publish("all", refused) == "not_enough_replicas", refused
                assert publish("none", taken) == "", taken
                expected.add(taken)
        codes = codes_of_bound_ways(cluster[name].url, f"refused in {name}")
        assert set(codes.values()) == {"not_enough_replicas"}, codes
    # Whoever is missed may lead already, as far as the leader knows: what it confirmed before it
    # was killed counts for a second.
    over_leader = over_json(cluster[leader].url)
    wait_until(lambda: over_leader("leader", "not confirmed") == "replication_failed")

    cluster[missed].start()
    for name in cluster.names:
        wait_until(partial(holds, cluster, name, expected))
        assert not any(value.startswith("refused") for value in stored(cluster, name))
