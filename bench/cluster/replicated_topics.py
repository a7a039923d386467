"""What replication costs, and how long a lost node is felt by those who publish.

Three nodes on one machine, so all of them share its cores: figures of processor time stand beside
those of time. Stalls are the longest time that one publish took around the event.
"""

import asyncio
import contextlib
import itertools
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import goqueue
from bench.cluster.failover import NAMES, BenchCluster
from bench.figure import Figure, Target
from goqueue.client.admin_replies import Partition
from goqueue.client.retries import Retries

__all__ = ["create_topic", "lost_nodes", "replication_latency", "wait_until_in_sync"]

_TOPIC = "figures"
_RATE = 1000
_EVERY = _RATE // 100
_VALUE = b"x" * 100
_FORM_S_MAX = 60.0


async def create_topic(q: goqueue.Connection, copies: int, name: str = _TOPIC) -> None:
    """Create a topic of one partition, once there are nodes for its copies."""
    deadline = time.monotonic() + _FORM_S_MAX
    while True:
        try:
            await q.topics.create(
                name,
                partitions=1,
                replication_factor=copies,
                min_insync_replicas=min(2, copies),
            )
        except goqueue.GoQueueError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def wait_until_in_sync(q: goqueue.Connection, name: str = _TOPIC) -> Partition:
    """Wait until all replicas of the only partition of a topic are in its ISR."""
    while True:
        with contextlib.suppress(goqueue.GoQueueError):
            (found,) = await q.topics.partitions(name)
            if len(found.isr) == len(found.replicas) and found.leader:
                return found
        await asyncio.sleep(0.1)


async def _longest_publish(q: goqueue.Connection, event: Callable[[], None]) -> float:
    """The longest publish around an event, of one that publishes all the time."""
    longest, events = 0.0, itertools.count()
    end = time.perf_counter() + 4.0
    while time.perf_counter() < end:
        if next(events) == 20:
            event()
        began = time.perf_counter()
        await q.publish(_TOPIC, b"x")
        longest = max(longest, time.perf_counter() - began)
        await asyncio.sleep(0.005)
    return longest


def lost_nodes(folder: str, scale: float) -> Iterator[Figure]:
    """Kill and stop the leader of a partition, and a follower, under a publisher."""
    cluster = BenchCluster(Path(folder) / "lost")
    stalls: dict[str, list[float]] = {"leader killed": [], "leader stopped": [], "follower": []}
    try:
        cluster.start(*NAMES)
        asyncio.run(_lose(cluster, stalls, max(2, int(10 * scale))))
    finally:
        cluster.kill_all()
    yield _stall("stall_leader_killed", stalls["leader killed"], 2.5)
    yield _stall("stall_leader_stopped", stalls["leader stopped"], 0.5)
    yield _stall("stall_follower_killed", stalls["follower"], 1.5)


async def _lose(cluster: BenchCluster, stalls: dict[str, list[float]], rounds: int) -> None:
    retries = Retries(total_s=30.0, first_wait_s=0.01, wait_s_max=0.1)
    async with goqueue.connect(cluster.servers, retries=retries) as q:
        await create_topic(q, len(NAMES))
        for _ in range(rounds):
            for name, times in stalls.items():
                found = await wait_until_in_sync(q)
                victim = found.leader
                if name == "follower":
                    victim = next(each for each in NAMES if each != found.leader)
                how = signal.SIGTERM if name == "leader stopped" else signal.SIGKILL
                times.append(await _longest_publish(q, partial(cluster.end, victim, how)))
                await asyncio.to_thread(cluster.wait, victim)
                await asyncio.to_thread(cluster.start, victim)


def _stall(name: str, took: list[float], below: float) -> Figure:
    return Figure(
        figure=name,
        value=round(max(took), 3),
        unit="s, longest",
        target=Target(below=below),
        details={"p50": round(statistics.median(took), 3), "rounds": len(took)},
    )


def replication_latency(folder: str, scale: float) -> Iterator[Figure]:
    """Publish with acks of all replicas, a thousand times a second."""
    cluster = BenchCluster(Path(folder) / "latency")
    try:
        cluster.start(*NAMES)
        took = asyncio.run(_steady(cluster, max(3.0, 20.0 * scale)))
    finally:
        cluster.kill_all()
    took.sort()
    yield Figure(
        figure="publish_all_1000_per_s",
        value=round(took[len(took) // 2] * 1000, 2),
        unit="ms, p50",
        target=Target(below=2.5),
        details={"p99": round(took[len(took) * 99 // 100] * 1000, 2), "messages": len(took)},
    )


async def _steady(cluster: BenchCluster, seconds: float) -> list[float]:
    took: list[float] = []
    async with goqueue.connect(cluster.servers) as q:
        await create_topic(q, len(NAMES))
        await wait_until_in_sync(q)

        async def publish_one() -> None:
            began = time.perf_counter()
            await q.publish(_TOPIC, _VALUE)
            took.append(time.perf_counter() - began)

        async with asyncio.TaskGroup() as group:
            began = time.perf_counter()
            for tick in range(int(seconds * 100)):
                for _ in range(_EVERY):
                    group.create_task(publish_one())
                await asyncio.sleep(max(0.0, began + (tick + 1) / 100 - time.perf_counter()))
    return took
