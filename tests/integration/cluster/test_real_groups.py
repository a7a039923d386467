"""Queues and groups of a cluster of real processes, while the coordinator is lost."""

import asyncio
from collections import Counter

import httpx
import pytest

import goqueue
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses
from tests.integration.cluster.test_real_quorum import Make

_MESSAGES = 300


def coordinator_of(cluster: ClusterProcesses, names: list[str]) -> str:
    """Who coordinates groups, as any of these nodes says."""
    while True:
        for name in names:
            try:
                reply = HTTP.get(f"{cluster[name].url}/topics/__consumer_offsets/partitions")
            except httpx.TransportError:
                continue
            (partition,) = reply.json()["partitions"] if reply.status_code == 200 else ({},)
            if partition.get("leader") in names:
                return str(partition["leader"])


def urls_of(cluster: ClusterProcesses) -> list[str]:
    return [cluster[name].url for name in cluster.names]


async def _publish(q: goqueue.Connection, topic: str, count: int) -> None:
    for number in range(count):
        await q.publish(topic, str(number), key=str(number % 7))


@pytest.mark.parametrize("is_clean", [False, True], ids=["killed", "stopped"])
def test_a_queue_is_worked_off_while_its_coordinator_ends(cluster_of: Make, is_clean: bool) -> None:
    _work_off(cluster_of, 3, 3, is_clean=is_clean)


def test_a_queue_with_two_copies_on_five_nodes_is_worked_off_while_its_coordinator_ends(
    cluster_of: Make,
) -> None:
    _work_off(cluster_of, 5, 2, is_clean=False)


def _work_off(cluster_of: Make, nodes: int, copies: int, *, is_clean: bool) -> None:
    cluster = cluster_of(nodes)
    cluster.start_all()
    cluster.wait_until_whole()
    handled: Counter[int] = Counter()
    acked: dict[int, None] = {}
    again: list[int] = []

    async def work(q: goqueue.Connection) -> None:
        async for message in q.consume("jobs", group="workers"):
            number = int(message.value or b"")
            if number in acked:
                again.append(number)
            handled[number] += 1
            try:
                await message.ack()
            except goqueue.ReceiptStale:
                # Its lease ended with the coordinator: it comes again.
                continue
            acked[number] = None
            if len(acked) == _MESSAGES // 3 and len(cluster.names) == nodes:
                gone = coordinator_of(cluster, cluster.names)
                cluster.names.remove(gone)
                if is_clean:
                    cluster[gone].stop()
                else:
                    cluster[gone].kill()
            if len(acked) == _MESSAGES:
                return

    async def main() -> None:
        async with goqueue.connect(urls_of(cluster)) as q:
            await q.topics.create(
                "jobs",
                partitions=nodes,
                max_deliveries=10,
                replication_factor=copies,
                min_insync_replicas=copies - 1,
            )
            async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
                tasks.create_task(_publish(q, "jobs", _MESSAGES))
                tasks.create_task(work(q))

    asyncio.run(main())

    assert set(handled) == set(range(_MESSAGES))
    assert not again
    survivor = cluster[cluster.names[0]].url
    lag = HTTP.get(f"{survivor}/groups/workers/lag").json()
    assert lag["total_lag"] == 0, lag
