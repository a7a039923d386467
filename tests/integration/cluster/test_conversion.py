"""A single node becomes the first of three, with all that it has; the guide shows the rest."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import goqueue
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses
from tests.integration.cluster_nodes import wait_until
from tests.integration.server_process import ServerProcess

MESSAGES = 30


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "goqueue.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def convert(directory: Path) -> subprocess.CompletedProcess[str]:
    names = ("node-1", "node-2", "node-3")
    return run("cluster", "convert", *names, "--data-dir", str(directory), "--yes")


def bootstrap_key(directory: Path) -> subprocess.CompletedProcess[str]:
    return run("key", "bootstrap", "--data-dir", str(directory))


async def live_alone(url: str) -> str:
    """What the single node has; the id of a transaction that is prepared, and not decided."""
    async with goqueue.connect(url) as q:
        await q.topics.create("orders", partitions=2)
        await q.topics.create("bills", partitions=1)
        for number in range(MESSAGES):
            await q.publish("orders", f"{number}", key="k")
        await q.keys.create("app", roles=["producer"])
        async with q.transaction("biller") as t:
            await t.publish("bills", "paid")
        for message in await q.receive("orders", group="shop", max=10):
            await message.ack()
        async with q.transaction("batch") as t:
            await t.publish("bills", "prepared")
            return await t.prepare()


async def decide(url: str, prepared: str) -> None:
    async with goqueue.connect(url) as q:
        assert await q.commit_group("batch-1", [prepared])


async def check(url: str, prepared: str) -> None:
    """All of it is in the cluster, and goes on."""
    async with goqueue.connect(url) as q:
        assert [key.name for key in await q.keys.list()] == ["app"]
        assert not await q.commit_group("batch-1", [prepared]), "the key of the batch is known"
        async with q.transaction("biller") as t:
            await t.publish("bills", "paid again")
        (bills,) = await q.pages("bills")
        found = [each.message.text for each in await bills.read(limit=10)]
        assert found == ["paid", "prepared", "paid again"]
        left: list[str] = []
        while len(left) < MESSAGES - 10:
            for message in await q.receive("orders", group="shop", max=100, wait=5):
                left.append(message.text)
                await message.ack()
        assert left == [f"{number}" for number in range(10, MESSAGES)]


def test_all_that_a_single_node_has_is_in_the_cluster(
    tmp_path: Path, cluster_of: Callable[[int], ClusterProcesses]
) -> None:
    alone = ServerProcess(tmp_path / "node-1")
    alone.start()
    prepared = asyncio.run(live_alone(alone.url))
    alone.kill()
    refused = convert(alone.directory)
    assert refused.returncode == 1
    assert "1 transactions are open" in refused.stderr
    assert "nothing was changed" in refused.stderr
    alone.start()
    asyncio.run(decide(alone.url, prepared))
    alone.kill()

    done = convert(alone.directory)

    assert done.stdout.startswith("converted 2 topics and 1 groups\n"), done.stderr
    again = convert(alone.directory)
    assert again.returncode == 1
    assert "the node belongs to the cluster" in again.stderr
    alone.begin()
    assert alone.wait() == 1
    assert "start it with cluster.enabled" in alone.said_in_this_life
    assert "start it with cluster.enabled" in bootstrap_key(alone.directory).stderr
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()
    wait_for_copies(cluster)
    cluster["node-1"].kill()
    cluster.wait_for_agreement("node-2", "node-3")
    asyncio.run(check(cluster["node-2"].url, prepared))


def has_copies(url: str) -> bool:
    found = HTTP.get(url, timeout=5).json()["partitions"]
    return all(len(each["isr"]) == 3 for each in found)


def wait_for_copies(cluster: ClusterProcesses) -> None:
    for topic in ("orders", "bills", "__consumer_offsets"):
        url = f"{cluster['node-2'].url}/topics/{topic}/partitions"
        wait_until(partial(has_copies, url), f"that all copies of {topic} are in sync")


def test_a_node_with_data_of_its_own_does_not_join_a_cluster(
    tmp_path: Path, cluster_of: Callable[[int], ClusterProcesses]
) -> None:
    alone = ServerProcess(tmp_path / "node-1")
    alone.start()
    HTTP.post(f"{alone.url}/topics", json={"name": "orders"}).raise_for_status()
    alone.stop()
    node = cluster_of(3)["node-1"]

    node.begin()

    assert node.wait() == 2
    assert "it holds 1 topics (such as orders)" in node.said
    assert "goqueue cluster convert" in node.said
    alone.start()
    assert HTTP.get(f"{alone.url}/topics/orders").status_code == 200
    alone.kill()
