"""How long others wait for a leader while a follower catches up on much that it missed.

A follower is killed, the topic grows, and the follower comes back. From then until it is in sync a
process of its own asks the leader's `/livez` all the time. What is sent was just written, so it is
in the page cache: the figure is what the loop itself does for it.
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

__all__ = ["catch_up"]

_TOPIC = "missed"
_BYTES = 500_000_000
_VALUE = b"x" * 10_000
_WAIT_MS_MAX = 50
_FORM_S_MAX = 60.0


def catch_up(folder: str, scale: float) -> Iterator[Figure]:
    """Let a follower catch up on 500 MB."""
    size = max(5_000_000, int(_BYTES * scale))
    cluster = BenchCluster(Path(folder) / "catch-up")
    try:
        cluster.start(*NAMES)
        waits, seconds = asyncio.run(_catch_up(cluster, size))
    finally:
        cluster.kill_all()
    yield Figure(
        figure="livez_during_catch_up",
        value=waits.max,
        unit="ms max",
        target=Target(below=_WAIT_MS_MAX),
        details={
            "megabytes": size // 1_000_000,
            "mb_per_s": round(size / 1e6 / seconds, 1),
            "p50_ms": waits.p50,
            "p99_ms": waits.p99,
            "max_run_ms": waits.max_run,
            "max_loop_ms": waits.max_loop,
            "probes": waits.count,
        },
    )


async def _catch_up(cluster: BenchCluster, size: int) -> tuple[Waits, float]:
    async with goqueue.connect(cluster.servers) as q:
        await _create(q)
        found = await _wait_for_isr(q, len(NAMES))
        follower = next(each for each in NAMES if each != found.leader)
        cluster.end(follower, signal.SIGKILL)
        await asyncio.to_thread(cluster.wait, follower)
        async with q.producer(ProducerConfig(messages=100, messages_max=1000)) as producer:
            for _ in range(size // len(_VALUE)):
                await producer.send(_TOPIC, _VALUE)
        found = await _wait_for_isr(q, len(NAMES) - 1)
        prober = Prober(cluster.port(found.leader), cluster.pid(found.leader))
        began = time.perf_counter()
        await asyncio.to_thread(cluster.start, follower)
        await _wait_for_isr(q, len(NAMES))
        seconds = time.perf_counter() - began
        return await asyncio.to_thread(prober.end), seconds


async def _create(q: goqueue.Connection) -> None:
    deadline = time.monotonic() + _FORM_S_MAX
    while True:
        try:
            await q.topics.create(
                _TOPIC, partitions=1, replication_factor=len(NAMES), min_insync_replicas=2
            )
        except goqueue.GoQueueError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def _wait_for_isr(q: goqueue.Connection, members: int) -> Partition:
    while True:
        with contextlib.suppress(goqueue.GoQueueError):
            (found,) = await q.topics.partitions(_TOPIC)
            if len(found.isr) == members and found.leader:
                return found
        await asyncio.sleep(0.1)
