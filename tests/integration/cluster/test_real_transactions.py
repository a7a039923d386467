"""Transactions of a cluster of real processes: nodes and clients are killed between the steps."""

import asyncio
import contextlib
import subprocess
import sys
import time

import httpx
import pytest

import goqueue
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses
from tests.integration.cluster.test_real_groups import coordinator_of, urls_of
from tests.integration.cluster.test_real_quorum import Make

_DOOMED = """
import asyncio, sys
import goqueue

async def main():
    async with goqueue.connect(sys.argv[1].split(",")) as q:
        async with q.transaction("worker-1") as t:
            await (await t.publish("bills", "of the dead", partition=0))
            print("published", flush=True)
            await asyncio.sleep(60)

asyncio.run(main())
"""


def _leader_of(cluster: ClusterProcesses, topic: str) -> str:
    partitions = HTTP.get(f"{cluster[cluster.names[0]].url}/topics/{topic}/partitions").json()
    return str(partitions["partitions"][0]["leader"])


def _values(cluster: ClusterProcesses) -> list[str]:
    """What readers of committed messages see in both partitions, as some node says."""
    found: list[str] = []
    for partition in (0, 1):
        found += _read(cluster, f"topics/bills/partitions/{partition}/messages?offset=0")
    return sorted(found)


def _read(cluster: ClusterProcesses, path: str) -> list[str]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for name in cluster.names:
            with contextlib.suppress(httpx.TransportError):
                answer = HTTP.get(f"{cluster[name].url}/{path}")
                if answer.status_code == 200:
                    return [message["value"] for message in answer.json()["messages"]]
        time.sleep(0.05)
    raise AssertionError(f"nobody answers {path}")


@pytest.fixture
def cluster(cluster_of: Make) -> ClusterProcesses:
    nodes = cluster_of(3)
    nodes.start_all()
    nodes.wait_until_whole()
    return nodes


@pytest.mark.parametrize("role", ["coordinator", "leader"])
@pytest.mark.parametrize("step", ["published", "prepared"])
def test_a_transaction_is_committed_whole_though_a_node_is_killed_between_its_steps(
    cluster: ClusterProcesses, role: str, step: str
) -> None:
    def kill() -> None:
        names = cluster.names
        gone = (
            coordinator_of(cluster, names)
            if role == "coordinator"
            else _leader_of(cluster, "bills")
        )
        names.remove(gone)
        cluster[gone].kill()

    async def main() -> None:
        async with goqueue.connect(urls_of(cluster)) as q:
            await q.topics.create("bills", partitions=2)
            async with asyncio.timeout(60), q.transaction("worker-1") as t:
                await (await t.publish("bills", "a", partition=0))
                await (await t.publish("bills", "b", partition=1))
                if step == "published":
                    kill()
                await (await t.publish("bills", "c", partition=0))
                prepared = await t.prepare()
                if step == "prepared":
                    kill()
                assert await q.commit_group("batch-1", [prepared])

    asyncio.run(main())
    assert _values(cluster) == ["a", "b", "c"]


def test_what_a_killed_client_left_open_is_aborted_by_whoever_takes_its_id_over(
    cluster: ClusterProcesses,
) -> None:
    async def create() -> None:
        async with goqueue.connect(urls_of(cluster)) as q:
            await q.topics.create("bills", partitions=2)

    async def inherit() -> None:
        urls = urls_of(cluster)
        async with goqueue.connect(urls) as q, q.transaction("worker-1") as t:
            await t.publish("bills", "of the heir", partition=1)

    asyncio.run(create())
    command = [sys.executable, "-c", _DOOMED, ",".join(urls_of(cluster))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "published\n"
        doomed.kill()
    assert _values(cluster) == []
    asyncio.run(inherit())
    assert _values(cluster) == ["of the heir"]
