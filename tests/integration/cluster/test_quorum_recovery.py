"""A majority of the voters is lost for good: a node that is left continues the cluster."""

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import goqueue
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses, voters_of
from tests.integration.cluster_nodes import wait_until

MESSAGES = 20


def recover(cluster: ClusterProcesses, name: str, *more: str) -> subprocess.CompletedProcess[str]:
    directory = str(cluster.folder / name)
    command = [sys.executable, "-m", "goqueue.cli", "cluster", "recover", "--data-dir", directory]
    return subprocess.run(
        [*command, *more], capture_output=True, text=True, check=False, timeout=60
    )


async def live(url: str) -> None:
    async with goqueue.connect(url) as q:
        await q.topics.create("orders", partitions=1, replication_factor=3, min_insync_replicas=2)
        for number in range(MESSAGES):
            await q.publish("orders", f"{number}")
        for message in await q.receive("orders", group="shop", max=5, wait=10):
            await message.ack()


async def live_on(url: str) -> None:
    """All that was acknowledged is there, and more may be."""
    async with goqueue.connect(url) as q:
        await q.publish("orders", "new")
        left: list[str] = []
        while len(left) < MESSAGES - 4:
            for message in await q.receive("orders", group="shop", max=100, wait=5):
                left.append(message.text)
                await message.ack()
        assert left == [*(f"{number}" for number in range(5, MESSAGES)), "new"]


def test_a_node_that_is_left_continues_the_cluster_and_the_others_follow(
    cluster_of: Callable[[int], ClusterProcesses],
) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()
    before = cluster.wait_for_agreement()["cluster_id"]
    asyncio.run(live(cluster["node-1"].url))
    cluster.kill_all()

    unsaid = recover(cluster, "node-1")
    assert unsaid.returncode == 2
    assert "node-1 becomes the only voter, without node-2, node-3" in unsaid.stderr
    assert "2 partitions are in sync here" in unsaid.stderr
    done = recover(cluster, "node-1", "--yes")
    found = re.fullmatch(r"recovered as the cluster (\S+)\n", done.stdout)
    assert found is not None, done.stderr
    assert "it is the only voter" in recover(cluster, "node-1", "--yes").stderr
    followed = recover(cluster, "node-2", "--follow", found[1], "--yes")
    assert followed.returncode == 0, followed.stderr
    for name in cluster.names:
        cluster.forget_versions(name)
    for name in ("node-1", "node-2"):
        cluster[name].start()
    state = cluster.wait_for_agreement("node-1", "node-2")
    assert state["cluster_id"] == found[1] != before

    # A voter that was not lost after all is refused, and elects nobody with the rest.
    cluster["node-3"].begin()
    cluster["node-3"].wait_to_say(f"belongs to the cluster {found[1]}")
    wait_until(
        lambda: cluster.forget("node-3", through="node-1").status_code < 300,
        "that the node is given up",
    )
    asyncio.run(live_on(cluster["node-2"].url))
    cluster["node-3"].kill()

    # Emptied it joins, and gets its copies.
    shutil.rmtree(cluster.folder / "node-3")
    cluster["node-3"].begin()
    cluster["node-3"].wait_until_ready()
    whole = cluster.wait_for(
        cluster.names,
        lambda states: all(len(voters_of(each)) == 3 for each in states),
        "that all three vote",
    )
    assert {each["cluster_id"] for each in whole} == {found[1]}
    audit = cluster.folder / "node-1" / "logs" / "__audit"
    records = b"".join(each.read_bytes() for each in audit.glob("*/*.log"))
    assert b"cluster.recover" in records
    assert "quorum_recovered" in cluster["node-1"].said
    assert HTTP.get(f"{cluster['node-3'].url}/topics/orders").status_code == 200
