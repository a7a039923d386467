"""How exactly a reassignment keeps its throttle, and how little publishers feel of it.

A partition moves to and fro between nodes, with a throttle far below what the machine could copy,
while a client publishes a few hundred times a second to another topic. Each move is measured beside
the same load without one, just before it. The rate is what leaders say that they sent, between the
first and the last time that they said so.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import goqueue
from bench.cluster.failover import NAMES, BenchCluster
from bench.cluster.replicated_topics import create_topic, wait_until_in_sync
from bench.figure import Figure, Target
from goqueue.client.batch import ProducerConfig
from goqueue.client.cluster import Move

__all__ = ["reassignment"]

_MOVED = "moved"
_PUBLISHED = "published"
_VALUE = b"x" * 10_000
_BYTES = 200_000_000
_RATE = 20 * 1024 * 1024
_PER_SECOND = 300
_ROUNDS = 4


def reassignment(folder: str, scale: float) -> Iterator[Figure]:
    """Move a partition of 200 MB at 20 MiB/s."""
    size = max(30_000_000, int(_BYTES * scale))
    cluster = BenchCluster(Path(folder) / "reassignment")
    try:
        cluster.start(*NAMES)
        found = asyncio.run(_measure(cluster, size, max(1, int(_ROUNDS * scale))))
    finally:
        cluster.kill_all()
    shares = sorted(found.shares)
    yield Figure(
        figure="reassignment_rate",
        value=round(shares[len(shares) // 2], 3),
        unit="of its throttle",
        target=Target(at_least=0.9, below=1.1),
        details={
            "lowest": round(shares[0], 3),
            "highest": round(shares[-1], 3),
            "throttle_mib_per_s": _RATE >> 20,
            "megabytes": size // 1_000_000,
        },
    )
    without, beside = _p99(found.without), _p99(found.beside)
    yield Figure(
        figure="publish_p99_beside_a_reassignment",
        value=round(beside / without, 2),
        unit="of that without",
        target=Target(below=1.5),
        details={
            "p99_ms": round(beside * 1000, 2),
            "p99_ms_without": round(without * 1000, 2),
            "publishes": len(found.beside),
        },
    )


class _Found:
    def __init__(self) -> None:
        self.shares: list[float] = []
        self.without: list[float] = []
        self.beside: list[float] = []


def _p99(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100]


async def _measure(cluster: BenchCluster, size: int, rounds: int) -> _Found:
    found = _Found()
    async with goqueue.connect(cluster.servers) as q:
        await create_topic(q, len(NAMES), _PUBLISHED)
        await create_topic(q, 1, _MOVED)
        await wait_until_in_sync(q, _PUBLISHED)
        await wait_until_in_sync(q, _MOVED)
        async with q.producer(ProducerConfig(messages=100, messages_max=1000)) as producer:
            for _ in range(size // len(_VALUE)):
                await producer.send(_MOVED, _VALUE)
        for _ in range(rounds):
            await _publish_while(q, asyncio.create_task(asyncio.sleep(size / _RATE)), found.without)
            move = asyncio.create_task(_move(q))
            await _publish_while(q, move, found.beside)
            found.shares.append(await move)
    return found


async def _publish_while(
    q: goqueue.Connection, other: "asyncio.Task[object]", took: list[float]
) -> None:
    """Publish at a steady rate until another task is done."""

    async def publish_one() -> None:
        began = time.perf_counter()
        await q.publish(_PUBLISHED, b"x" * 100)
        took.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        began, count = time.perf_counter(), 0
        while not other.done():
            group.create_task(publish_one())
            count += 1
            await asyncio.sleep(max(0.0, began + count / _PER_SECOND - time.perf_counter()))


async def _move(q: goqueue.Connection) -> float:
    """Move the partition to another node; the rate as a share of the throttle."""
    partition = await wait_until_in_sync(q, _MOVED)
    target = next(name for name in NAMES if name not in partition.replicas)
    move = Move(topic=_MOVED, partition=0, new_replicas=(target,))
    begun = await q.cluster.reassign([move], throttle_bytes_per_sec=_RATE)
    said: list[tuple[float, int]] = []
    while True:
        now = await q.cluster.reassignment(begun.id)
        sent = now.partitions[0].bytes_transferred
        if now.completed_at is not None:
            break
        if now.state == "in_progress" and sent and (not said or sent > said[-1][1]):
            said.append((time.perf_counter(), sent))
        await asyncio.sleep(0.02)
    assert now.state == "completed", now
    (first_at, first), (last_at, last) = said[0], said[-1]
    return (last - first) / (last_at - first_at) / _RATE
