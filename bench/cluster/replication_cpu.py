"""Processor time of the nodes for each message of a replicated partition, against one copy.

Both partitions have the same leader, and are written to in turns of a second or less: so whatever
else the machine does falls on both. Of all turns the median counts. Once with one producer, whose
batches come one at a time, and once with several, whose batches share turns, writes and syncs as
they do under load. What the nodes use without any load is measured first, and taken off.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import goqueue
from bench.cluster.failover import NAMES, BenchCluster
from bench.cluster.replicated_topics import create_topic, wait_until_in_sync
from bench.figure import Figure, Target
from goqueue.client.batch import ProducerConfig

__all__ = ["cpu_s", "replication_cpu"]

_BATCH, _VALUE = 1000, b"x" * 100
_PRODUCERS = 8
# Batches of one turn.
_TURN = 160
_IDLE_S = 3.0

# Seconds of processor time, by node.
Spent = dict[str, float]


def replication_cpu(folder: str, scale: float) -> Iterator[Figure]:
    """Processor time of the leader, and of all nodes, for each message; against one copy."""
    cluster = BenchCluster(Path(folder) / "cpu")
    try:
        cluster.start(*NAMES)
        for producers in (1, _PRODUCERS):
            yield from asyncio.run(_measure(cluster, producers, max(1, int(16 * scale))))
    finally:
        cluster.kill_all()


async def _measure(cluster: BenchCluster, producers: int, turns: int) -> list[Figure]:
    async with goqueue.connect(cluster.servers) as q:
        one, three = await _topics(q, f"p{producers}")
        idle = await _idle_share(cluster)
        spent: dict[int, list[Spent]] = {1: [], len(NAMES): []}
        for _ in range(turns + 1):
            for copies, topic in ((1, one), (len(NAMES), three)):
                spent[copies].append(await _spend(cluster, q, topic, producers, idle))
        leader = (await q.topics.partitions(three))[0].leader
    # The first turn of each is not counted: connections, ids of producers, caches.
    base = _median(spent[1][1:], [leader])
    led = _median(spent[len(NAMES)][1:], [leader])
    followers = _median(spent[len(NAMES)][1:], [name for name in NAMES if name != leader])
    messages = _TURN * _BATCH
    return [
        Figure(
            figure=f"cpu_per_message_{role}_{producers}_producers",
            value=round(value / base, 2),
            unit="x of one copy",
            target=Target(below=limit),
            details={
                "us_one_copy": round(base * 1e6 / messages, 2),
                "us_leader": round(led * 1e6 / messages, 2),
                "us_each_follower": round(followers * 1e6 / messages / (len(NAMES) - 1), 2),
            },
        )
        for role, value, limit in (
            ("leader", led, 1.35),
            ("all_nodes", led + followers, 2.2),
        )
    ]


def _median(spent: list[Spent], names: list[str]) -> float:
    """What these nodes together used in a turn."""
    return statistics.median(sum(each[name] for name in names) for each in spent)


async def _topics(q: goqueue.Connection, prefix: str) -> tuple[str, str]:
    """Two topics of one partition with the same leader: one has one copy, the other three."""
    three = f"{prefix}-three"
    await create_topic(q, len(NAMES), three)
    leader = (await wait_until_in_sync(q, three)).leader
    one, number = "", 0
    while not one or (await wait_until_in_sync(q, one)).leader != leader:
        number += 1
        one = f"{prefix}-one-{number}"
        await create_topic(q, 1, one)
    return one, three


async def _idle_share(cluster: BenchCluster) -> Spent:
    """The share of a core that each node uses for nothing but being there."""
    before = cpu_s(cluster)
    await asyncio.sleep(_IDLE_S)
    return {name: (used - before[name]) / _IDLE_S for name, used in cpu_s(cluster).items()}


async def _spend(
    cluster: BenchCluster,
    q: goqueue.Connection,
    topic: str,
    producers: int,
    idle: Mapping[str, float],
) -> Spent:
    """Publish the batches of one turn; what that took."""
    config = ProducerConfig(messages=_BATCH, messages_max=_BATCH, size_bytes=1 << 20)
    before, began = cpu_s(cluster), time.perf_counter()

    async def publish() -> None:
        async with q.producer(config) as producer:
            for _ in range(_TURN * _BATCH // producers):
                await producer.send(topic, _VALUE)
            await producer.flush()

    await asyncio.gather(*(publish() for _ in range(producers)))
    took = time.perf_counter() - began
    return {name: used - before[name] - idle[name] * took for name, used in cpu_s(cluster).items()}


def cpu_s(cluster: BenchCluster) -> Spent:
    """Seconds of processor time that each node has used."""
    used: Spent = {}
    for name in NAMES:
        tasks = Path(f"/proc/{cluster.pid(name)}/task").glob("*/schedstat")
        used[name] = sum(int(each.read_text().split()[0]) for each in tasks) / 1e9
    return used
