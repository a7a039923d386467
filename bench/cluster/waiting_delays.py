"""A million delayed messages in one partition: what a new leader takes, and whom that delays.

The leader is killed: from then until a client is told how many messages wait, by a leader that
knows all of them. It comes back and restores what it knew, while others ask it whether it lives.
Then all nodes are killed, so nobody has anything in memory: the figure is from the moment at which
all of them listen until they answer again, and has in it the election, the decision who leads, and
what that leader must read from its snapshot and its log. A cluster with few delays is measured in
the same way, to compare.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import goqueue
from bench.cluster.failover import NAMES, BenchCluster
from bench.figure import Figure, Target
from bench.stalls.prober import Prober, Waits
from goqueue.client.admin_replies import Partition
from goqueue.client.batch import ProducerConfig
from goqueue.client.retries import Retries

__all__ = ["waiting_delays"]

_TOPIC = "reminders"
_MESSAGES = 1_000_000
_FEW = 1_000
_VALUE = b"x" * 50
_LOOP_MS_MAX = 50
_FAILOVER_S_MAX = 2.5
_AFTERWARDS_S = 3.0
_RESTORED_S = 10.0


def waiting_delays(folder: str, scale: float) -> Iterator[Figure]:
    """Kill the leader of a million delayed messages, and then all nodes."""
    count = max(2 * _FEW, int(_MESSAGES * scale))
    cluster = BenchCluster(Path(folder) / "delays")
    try:
        cluster.start(*NAMES)
        yield from asyncio.run(_measure(cluster, count))
    finally:
        cluster.kill_all()


async def _measure(cluster: BenchCluster, count: int) -> list[Figure]:
    retries = Retries(total_s=60.0, first_wait_s=0.01, wait_s_max=0.05)
    async with goqueue.connect(cluster.servers, retries=retries) as q:
        await _create(q)
        await _wait_for_isr(q)
        await _publish(q, _FEW)
        few_s = await _restart_all(cluster, q, _FEW)
        leader = (await _wait_for_isr(q)).leader
        published_s = await _publish(q, count - _FEW)
        probers = {
            name: Prober(cluster.port(name), cluster.pid(name)) for name in NAMES if name != leader
        }
        cluster.end(leader, signal.SIGKILL)
        warm_s = await _seconds_until_all_known(q, count)
        await asyncio.sleep(_AFTERWARDS_S)
        waits = [await asyncio.to_thread(each.end) for each in probers.values()]
        await asyncio.to_thread(cluster.wait, leader)
        await asyncio.to_thread(cluster.start, leader)
        prober = Prober(cluster.port(leader), cluster.pid(leader))
        await _wait_for_isr(q)
        await asyncio.sleep(_RESTORED_S)
        waits_restored = await asyncio.to_thread(prober.end)
        cold_s = await _restart_all(cluster, q, count)
    return [
        Figure(
            figure="delays_failover",
            value=round(warm_s, 2),
            unit="s until all are known",
            target=Target(below=_FAILOVER_S_MAX),
            details={"messages": count, "published_per_s": round(count / published_s)},
        ),
        _stall("delays_failover_loop", waits),
        _stall("delays_restore_loop", [waits_restored]),
        Figure(
            figure="delays_cold_start",
            value=round(cold_s, 2),
            unit="s until all are known",
            details={"messages": count, f"with_{_FEW}_s": round(few_s, 2)},
        ),
    ]


def _stall(name: str, waits: list[Waits]) -> Figure:
    worst = max(waits, key=lambda each: each.max_loop)
    return Figure(
        figure=name,
        value=worst.max_loop,
        unit="ms of the loop, longest",
        target=Target(below=_LOOP_MS_MAX),
        details={"max_ms": worst.max, "max_run_ms": worst.max_run, "p99_ms": worst.p99},
    )


async def _publish(q: goqueue.Connection, count: int) -> float:
    """Publish messages that are due in an hour; the seconds that it took."""
    began = time.perf_counter()
    async with q.producer(ProducerConfig(messages=500, messages_max=1000)) as producer:
        for number in range(count):
            await producer.send(_TOPIC, _VALUE, delay=3600 + number % 1000)
    return time.perf_counter() - began


async def _restart_all(cluster: BenchCluster, q: goqueue.Connection, count: int) -> float:
    for name in NAMES:
        cluster.end(name, signal.SIGKILL)
    for name in NAMES:
        await asyncio.to_thread(cluster.wait, name)
    await asyncio.to_thread(cluster.start, *NAMES)
    return await _seconds_until_all_known(q, count)


async def _seconds_until_all_known(q: goqueue.Connection, count: int) -> float:
    began = time.perf_counter()
    while True:
        with contextlib.suppress(goqueue.GoQueueError):
            page = await q.delayed.page(_TOPIC, limit=1)
            assert page.total == count, f"{page.total} of {count} wait"
            return time.perf_counter() - began
        await asyncio.sleep(0.02)


async def _create(q: goqueue.Connection) -> None:
    while True:
        with contextlib.suppress(goqueue.GoQueueError):
            await q.topics.create(
                _TOPIC, partitions=1, replication_factor=len(NAMES), min_insync_replicas=2
            )
            return
        await asyncio.sleep(0.2)


async def _wait_for_isr(q: goqueue.Connection) -> Partition:
    while True:
        with contextlib.suppress(goqueue.GoQueueError):
            (found,) = await q.topics.partitions(_TOPIC)
            if len(found.isr) == len(NAMES) and found.leader:
                return found
        await asyncio.sleep(0.1)
