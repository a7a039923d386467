"""How long publishers feel that a node is restarted in order.

Every node in turn is told to stop and started again, while a client publishes all the time to three
partitions, of which each node leads one at first. A gap is the longest time from one acknowledged
publish to the next, from the signal until the node is in sync again; a publish that is refused is
repeated by the client, and ends the bench if it is refused for good.
"""

import asyncio
import itertools
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import goqueue
from bench.cluster.failover import NAMES, BenchCluster
from bench.cluster.replicated_topics import create_topic, wait_until_in_sync
from bench.figure import Figure, Target
from goqueue.client.retries import Retries

__all__ = ["planned_restarts"]

_TOPICS = ("first", "second", "third")
_PAUSE_S = 0.002


def planned_restarts(folder: str, scale: float) -> Iterator[Figure]:
    """Restart node after node under a publisher for each partition."""
    cluster = BenchCluster(Path(folder) / "restarts")
    try:
        cluster.start(*NAMES)
        gaps, stops = asyncio.run(_restart(cluster, max(3, int(30 * scale))))
    finally:
        cluster.kill_all()
    gaps.sort(reverse=True)
    yield Figure(
        figure="gap_of_a_planned_restart",
        value=round(gaps[len(gaps) // 100], 3),
        unit="s, p99",
        target=Target(below=0.5),
        details={
            "p50": round(statistics.median(gaps), 3),
            "stop_p50": round(statistics.median(stops), 3),
            "stop_longest": round(max(stops), 3),
            "restarts": len(gaps),
        },
    )


class _Publisher:
    """Publishes to one topic, and keeps the longest time without an acknowledgement."""

    def __init__(self, q: goqueue.Connection, topic: str) -> None:
        self._q = q
        self._topic = topic
        self._acked_at = time.perf_counter()
        self.gap = 0.0
        self.is_over = False

    def restart_clock(self) -> None:
        self.gap = 0.0
        self._acked_at = time.perf_counter()

    async def publish(self) -> None:
        while not self.is_over:
            await self._q.publish(self._topic, b"x")
            now = time.perf_counter()
            self.gap = max(self.gap, now - self._acked_at)
            self._acked_at = now
            await asyncio.sleep(_PAUSE_S)


async def _restart(cluster: BenchCluster, rounds: int) -> tuple[list[float], list[float]]:
    """The gaps that publishers felt, and how long the nodes took to stop."""
    gaps: list[float] = []
    stops: list[float] = []
    retries = Retries(total_s=30.0, first_wait_s=0.01, wait_s_max=0.1)
    async with goqueue.connect(cluster.servers, retries=retries) as q:
        for topic in _TOPICS:
            await create_topic(q, len(NAMES), topic)
            await wait_until_in_sync(q, topic)
        publishers = [_Publisher(q, topic) for topic in _TOPICS]
        async with asyncio.TaskGroup() as tasks:
            for each in publishers:
                tasks.create_task(each.publish())
            for victim in itertools.islice(itertools.cycle(NAMES), rounds):
                await asyncio.sleep(0.5)
                for each in publishers:
                    each.restart_clock()
                began = time.perf_counter()
                cluster.end(victim, signal.SIGTERM)
                await asyncio.to_thread(cluster.wait, victim)
                stops.append(time.perf_counter() - began)
                await asyncio.to_thread(cluster.start, victim)
                for topic in _TOPICS:
                    await wait_until_in_sync(q, topic)
                gaps.append(max(each.gap for each in publishers))
            for each in publishers:
                each.is_over = True
    return gaps, stops
