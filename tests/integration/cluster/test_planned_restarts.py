"""A node is told to stop under load, and comes back: nobody hears of it but the operator."""

import asyncio
import itertools
from collections import Counter
from typing import Any

import httpx

import goqueue
from tests.integration.cluster.cluster_processes import HTTP, ClusterProcesses, values_of
from tests.integration.cluster.test_real_groups import urls_of
from tests.integration.cluster.test_real_quorum import Make

_TOPIC = "orders"
_PARTITIONS = 3


def partitions_of(cluster: ClusterProcesses, name: str) -> list[dict[str, Any]]:
    answer = HTTP.get(f"{cluster[name].url}/topics/{_TOPIC}/partitions", timeout=30)
    found: list[dict[str, Any]] = answer.json().get("partitions", [])
    return found


async def wait_until_in_sync(cluster: ClusterProcesses, name: str) -> list[dict[str, Any]]:
    """Wait until every partition has a leader, and all of its copies in sync."""
    async with asyncio.timeout(60):
        while True:
            found = await asyncio.to_thread(partitions_of, cluster, name)
            if found and all(each["leader"] and len(each["isr"]) == 3 for each in found):
                return found
            await asyncio.sleep(0.05)


class Publishers:
    """Clients that publish until they are told to end."""

    def __init__(self, cluster: ClusterProcesses, staying: list[str]) -> None:
        self._urls = urls_of(cluster)
        self._staying = [cluster[name].url for name in staying]
        self._numbers = itertools.count()
        self._is_over = False
        # What was acknowledged, and what clients were told that ask one node and nobody twice.
        self.acked: list[str] = []
        self.refused: list[str] = []

    def end(self) -> None:
        self._is_over = True

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self._publish_by_client())
        for url in self._staying:
            tasks.create_task(self._publish_at(url))

    async def _publish_by_client(self) -> None:
        """As users do: whatever a node says, the client finds one that takes it."""
        async with goqueue.connect(self._urls) as q:
            while not self._is_over:
                value = f"client-{next(self._numbers)}"
                await q.publish(_TOPIC, value, key=value)
                self.acked.append(value)

    async def _publish_at(self, url: str) -> None:
        """At a node that stays, without ever trying again."""
        async with httpx.AsyncClient(timeout=30) as http:
            while not self._is_over:
                value = f"once-{next(self._numbers)}"
                body = {"messages": [{"key": value, "value": value}]}
                answer = await http.post(f"{url}/topics/{_TOPIC}/messages", json=body)
                if answer.status_code == 200:
                    self.acked.append(value)
                else:
                    self.refused.append(answer.text)


def test_a_node_is_restarted_under_load_and_no_publisher_hears_of_it(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()
    # It decides, and leads a third: both pass to others.
    victim = str(cluster.wait_for_agreement()["controller_id"])
    staying = [name for name in cluster.names if name != victim]
    publishers = Publishers(cluster, staying)

    found = asyncio.run(_restart(cluster, publishers, victim, staying[0]))

    assert publishers.refused == []
    assert victim not in [each["leader"] for each in found]
    stored = Counter(
        value
        for number in range(_PARTITIONS)
        for value in values_of(cluster[staying[1]].url, _TOPIC, number)
    )
    assert set(publishers.acked) <= set(stored)
    assert max(stored.values()) == 1
    assert len(publishers.acked) > 20


async def _restart(
    cluster: ClusterProcesses, publishers: Publishers, victim: str, other: str
) -> list[dict[str, Any]]:
    """Stop the node and start it again; the partitions as they were in between."""
    async with goqueue.connect(urls_of(cluster)) as q:
        await q.topics.create(
            _TOPIC, partitions=_PARTITIONS, replication_factor=3, min_insync_replicas=2
        )
    before = await wait_until_in_sync(cluster, other)
    assert victim in [each["leader"] for each in before]
    async with asyncio.TaskGroup() as tasks:
        publishers.begin(tasks)
        await asyncio.sleep(0.5)
        assert await asyncio.to_thread(cluster[victim].stop) == 0
        found = await asyncio.to_thread(partitions_of, cluster, other)
        await asyncio.to_thread(cluster[victim].start)
        await wait_until_in_sync(cluster, other)
        publishers.end()
    return found
