"""Transactions over three copies against a single node, in turns, with the processor time of both.

Each turn lets the same producers write transactions of a few messages in three partitions. All
nodes and the bench share the cores of the machine, so whatever else it does falls on both sides,
and the median of the turns counts.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

import goqueue
from bench.broker_process import BrokerProcess
from bench.cluster.failover import NAMES, BenchCluster
from bench.cluster.replicated_topics import create_topic, wait_until_in_sync
from bench.cluster.replication_cpu import cpu_s
from bench.figure import Figure, Target

__all__ = ["replicated_transactions"]

_TOPICS = ("first", "second", "third")
_PRODUCERS = 16
_MESSAGES = 10
_VALUE = b"x" * 100
_PER_TURN = 160


class _Turn(msgspec.Struct, frozen=True):
    """Transactions a second, how long each commit took, and processor time of each transaction."""

    rate: float
    commits_s: list[float]
    cpu_ms: float


def replicated_transactions(folder: str, scale: float) -> Iterator[Figure]:
    """Transactions a second over three copies, and how long a commit takes."""
    cluster = BenchCluster(Path(folder) / "transactions")
    try:
        cluster.start(*NAMES)
        with BrokerProcess(folder) as alone:
            turns = asyncio.run(_measure(cluster, alone, max(3, int(16 * scale))))
    finally:
        cluster.kill_all()
    rates = [statistics.median(each.rate for each in side) for side in turns]
    commits = [sorted(took for each in side for took in each.commits_s) for side in turns]
    cpu = [statistics.median(each.cpu_ms for each in side) for side in turns]
    yield Figure(
        figure="transactions_three_copies",
        value=round(rates[1]),
        unit="transactions/s",
        raw=round(rates[0]),
        ratio=round(rates[1] / rates[0], 2),
        target=Target(ratio_at_least=0.3),
        details={
            "cpu_ms_single_node": round(cpu[0], 2),
            "cpu_ms_all_nodes": round(cpu[1], 2),
            "producers": _PRODUCERS,
        },
    )
    # One at a time, as many as a lightly loaded cluster has: others' work is not waited for.
    yield Figure(
        figure="commit_three_copies",
        value=round(commits[3][len(commits[3]) * 99 // 100] * 1000, 1),
        unit="ms, p99",
        target=Target(below=40),
        details={
            "p50": round(statistics.median(commits[3]) * 1000, 1),
            "p99_single_node": round(commits[2][len(commits[2]) * 99 // 100] * 1000, 1),
            "p99_16_producers": round(commits[1][len(commits[1]) * 99 // 100] * 1000, 1),
            "commits": len(commits[3]),
        },
    )


async def _measure(
    cluster: BenchCluster, alone: BrokerProcess, turns: int
) -> tuple[list[_Turn], list[_Turn], list[_Turn], list[_Turn]]:
    """Turns of a single node and of the cluster: of many producers, then of one."""
    url = f"http://127.0.0.1:{alone.port}"
    async with goqueue.connect(url) as one, goqueue.connect(cluster.servers) as three:
        for topic in _TOPICS:
            await one.topics.create(topic, partitions=1)
            await create_topic(three, len(NAMES), topic)
            await wait_until_in_sync(three, topic)
        sides: tuple[list[_Turn], list[_Turn], list[_Turn], list[_Turn]] = ([], [], [], [])
        usage = alone.usage

        def all_nodes_s() -> float:
            return sum(cpu_s(cluster).values())

        for _ in range(turns + 1):
            sides[0].append(await _turn(one, _PRODUCERS, lambda: usage.cpu_s))
            sides[1].append(await _turn(three, _PRODUCERS, all_nodes_s))
            sides[2].append(await _turn(one, 1, lambda: usage.cpu_s))
            sides[3].append(await _turn(three, 1, all_nodes_s))
    for side in sides:
        # Connections, ids of producers and caches.
        del side[0]
    return sides


async def _turn(q: goqueue.Connection, producers: int, cpu: Callable[[], float]) -> _Turn:
    commits: list[float] = []
    count = _PER_TURN // (1 if producers > 1 else 4)
    before, began = cpu(), time.perf_counter()
    await asyncio.gather(
        *(
            _transact(q, f"bench-{number}", count // producers, commits)
            for number in range(producers)
        )
    )
    took = time.perf_counter() - began
    return _Turn(count / took, commits, (cpu() - before) * 1000 / count)


async def _transact(q: goqueue.Connection, name: str, count: int, commits: list[float]) -> None:
    for number in range(count):
        async with q.transaction(name) as t:
            receipts = [
                await t.publish(_TOPICS[(number + each) % len(_TOPICS)], _VALUE)
                for each in range(_MESSAGES)
            ]
            for receipt in receipts:
                await receipt
            began = time.perf_counter()
        commits.append(time.perf_counter() - began)
