"""A partition moves between real nodes under load: throttled, cancelled, and then to its end."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import goqueue
from goqueue.client.cluster import Move, Reassignment
from tests.integration.cluster.cluster_processes import ClusterProcesses, values_of
from tests.integration.cluster.test_lost_copies import partition_of, wait_for_isr, wait_until
from tests.integration.cluster.test_real_groups import urls_of
from tests.integration.cluster.test_real_quorum import Make

_TOPIC = "orders"
# More than a leader has in memory: what is older is read from its disk, at the rate of the move.
_VALUE = "x" * 50_000
_BEFORE = 240
_RATE = 1024 * 1024


def test_a_partition_moves_under_load_and_loses_nothing(cluster_of: Make) -> None:
    cluster = cluster_of(3)
    cluster.start_all()
    cluster.wait_until_whole()

    acked = asyncio.run(_move(cluster))

    (found,) = [name for name in cluster.names if name not in _replicas(cluster)]
    assert not _copies(cluster, found)
    stored = values_of(cluster["node-1"].url, _TOPIC, 0)
    assert sum(each == _VALUE for each in stored) == _BEFORE
    assert [each for each in stored if not each.endswith("x")] == acked


def _copies(cluster: ClusterProcesses, name: str) -> list[Path]:
    return list((cluster.folder / name).rglob(f"logs/{_TOPIC}/0/*.log"))


def _replicas(cluster: ClusterProcesses) -> list[str]:
    replicas: list[str] = partition_of(cluster, "node-1")["replicas"]
    return replicas


async def _move(cluster: ClusterProcesses) -> list[str]:
    """Move the partition away from its leader, twice; what was acknowledged meanwhile."""
    acked: list[str] = []
    is_over = asyncio.Event()

    async def publish(q: goqueue.Connection) -> None:
        for number in itertools.count():
            if is_over.is_set():
                return
            await q.publish(_TOPIC, f"{number}")
            acked.append(f"{number}")

    async with goqueue.connect(urls_of(cluster)) as q:
        await q.topics.create(_TOPIC, partitions=1, replication_factor=2, min_insync_replicas=1)
        await asyncio.gather(*(q.publish(_TOPIC, _VALUE) for _ in range(_BEFORE)))
        before = await asyncio.to_thread(wait_for_isr, cluster, "node-1", 2)
        old = list(before["replicas"])
        (target,) = [name for name in cluster.names if name not in old]
        new = [target, *(name for name in old if name != before["leader"])]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publish(q))
            move = Move(topic=_TOPIC, partition=0, new_replicas=tuple(new))
            begun = await q.cluster.reassign([move], throttle_bytes_per_sec=_RATE)
            under_way = await _wait_for(q, begun, lambda each: each.partitions[0].catchup_percent)
            assert under_way.state == "in_progress"
            assert under_way.partitions[0].catchup_percent < 100
            assert under_way.partitions[0].bytes_transferred > 0
            assert under_way.throttle_bytes_per_sec == _RATE
            await q.cluster.cancel_reassignment(begun.id)
            await _wait_for(q, begun, lambda each: each.completed_at)
            assert (await q.cluster.reassignment(begun.id)).state == "cancelled"
            await asyncio.to_thread(wait_until, lambda: _replicas(cluster) == old)

            again = await q.cluster.reassign([move])
            await _wait_for(q, again, lambda each: each.completed_at)
            moved = await q.cluster.reassignment(again.id)
            assert (moved.state, moved.partitions[0].catchup_percent) == ("completed", 100)
            # What it serves now was copied.
            assert await q.cluster.transfer_leader(_TOPIC, 0, target) == target
            is_over.set()
    found = await asyncio.to_thread(wait_for_isr, cluster, "node-1", 2)
    assert found["replicas"] == new
    assert found["leader"] == target
    # The old copy goes when its node follows the change.
    await asyncio.to_thread(wait_until, lambda: not _copies(cluster, str(before["leader"])))
    return acked


async def _wait_for(
    q: goqueue.Connection, begun: Reassignment, holds: Callable[[Reassignment], object]
) -> Reassignment:
    async with asyncio.timeout(60):
        while True:
            found = await q.cluster.reassignment(begun.id)
            if holds(found):
                return found
            await asyncio.sleep(0.05)
