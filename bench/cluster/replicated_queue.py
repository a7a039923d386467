"""A queue whose topic and coordinator have three copies against one of a single node, in turns.

Each turn publishes a backlog, and then counts only what works it off: two connections that lease
500 messages at a time and acknowledge them in one request. In the cluster they are connected to the
coordinator, as the nodes that pass requests on would only add to what is measured. All nodes and
the bench share the cores of the machine.

A failover is from the end of the coordinator's process until another node has leased a message to a
consumer and acknowledged it, and until a transaction that was begun afterwards is committed.
"""

import asyncio
import contextlib
import itertools
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import goqueue
from bench.broker_process import BrokerProcess
from bench.cluster.failover import NAMES, BenchCluster
from bench.cluster.replicated_topics import create_topic, wait_until_in_sync
from bench.cluster.replication_cpu import cpu_s
from bench.figure import Figure, Target
from bench.wire import Wire, request
from goqueue.client.poll_consumer import PollConsumer
from goqueue.client.retries import Retries

__all__ = ["coordinator_failover", "replicated_queue"]

_TOPIC, _GROUP = "figures", "g"
_COORDINATOR_LOG = "__consumer_offsets"
_LEASED = 500
_CONNECTIONS = 2
_PER_TURN = 10_000
_PUBLISHED = 1_000
_VALUE = b"x" * 100
_BATCH = [{"value": "x" * 100}] * _PUBLISHED
_ROUNDS = 100


class _Turn(msgspec.Struct, frozen=True):
    """Messages a second, how long each ack took, and processor time of each message."""

    rate: float
    acks_s: list[float]
    cpu_us: float


def replicated_queue(folder: str, scale: float) -> Iterator[Figure]:
    """Messages leased and acknowledged a second over three copies, and how long an ack takes."""
    cluster = BenchCluster(Path(folder) / "queue")
    try:
        cluster.start(*NAMES)
        with BrokerProcess(folder) as alone:
            single, copied = asyncio.run(_compare(cluster, alone, max(1, int(16 * scale))))
    finally:
        cluster.kill_all()
    rates = [statistics.median(each.rate for each in side) for side in (single, copied)]
    cpu = [statistics.median(each.cpu_us for each in side) for side in (single, copied)]
    acks = [sorted(took for each in side for took in each.acks_s) for side in (single, copied)]
    yield Figure(
        figure="queue_three_copies",
        value=round(rates[1]),
        unit="msg/s",
        raw=round(rates[0]),
        ratio=round(rates[1] / rates[0], 2),
        target=Target(ratio_at_least=0.3),
        details={"cpu_us_single_node": round(cpu[0], 2), "cpu_us_all_nodes": round(cpu[1], 2)},
    )
    yield Figure(
        figure="ack_three_copies",
        value=_percentile_ms(acks[1]),
        unit="ms, p99",
        target=Target(below=20),
        details={
            "p50": round(statistics.median(acks[1]) * 1000, 1),
            "p99_single_node": _percentile_ms(acks[0]),
            "acks": len(acks[1]),
        },
    )


def _percentile_ms(ordered: list[float]) -> float:
    return round(ordered[len(ordered) * 99 // 100] * 1000, 1)


async def _compare(
    cluster: BenchCluster, alone: BrokerProcess, turns: int
) -> tuple[list[_Turn], list[_Turn]]:
    """Turns of a single node, and of the cluster."""
    url = f"http://127.0.0.1:{alone.port}"
    sides: tuple[list[_Turn], list[_Turn]] = ([], [])
    async with goqueue.connect(url) as one, goqueue.connect(cluster.servers) as three:
        await one.topics.create(_TOPIC, partitions=1)
        await create_topic(three, len(NAMES))
        await wait_until_in_sync(three)
        # Whoever asks for a group first makes the cluster create the coordinator's log.
        async with three.poll_consumer(_TOPIC, group="first") as first:
            await first.poll(limit=1, wait_s=0.1)
        coordinator = (await wait_until_in_sync(three, _COORDINATOR_LOG)).leader
        usage = alone.usage
        for _ in range(turns + 1):
            spent = usage.cpu_s
            turn = await _turn(alone.port)
            sides[0].append(_with_cpu(turn, usage.cpu_s - spent))
            spent = sum(cpu_s(cluster).values())
            turn = await _turn(cluster.port(coordinator))
            sides[1].append(_with_cpu(turn, sum(cpu_s(cluster).values()) - spent))
    for side in sides:
        # Connections and caches.
        del side[0]
    return sides


def _with_cpu(turn: _Turn, spent_s: float) -> _Turn:
    return msgspec.structs.replace(turn, cpu_us=spent_s * 1e6 / _PER_TURN)


async def _turn(port: int) -> _Turn:
    """Publish a backlog, and count the time in which it is worked off."""
    wires = [await Wire.open(port) for _ in range(_CONNECTIONS)]
    for _ in range(_PER_TURN // _PUBLISHED):
        await wires[0].ask("POST", f"/topics/{_TOPIC}/messages", {"messages": _BATCH})
    joined = await wires[0].ask(
        "POST", f"/groups/{_GROUP}/join", {"client_id": "bench", "topics": [_TOPIC]}
    )
    member = joined["member_id"]
    acks: list[float] = []
    left = [_PER_TURN]
    began = time.perf_counter()
    await asyncio.gather(*(_settle(wire, member, left, acks) for wire in wires))
    took = time.perf_counter() - began
    await wires[0].ask("POST", f"/groups/{_GROUP}/leave", {"member_id": member})
    for wire in wires:
        wire.close()
    return _Turn(_PER_TURN / took, acks, 0.0)


async def _settle(wire: Wire, member: str, left: list[int], acks: list[float]) -> None:
    target = f"/groups/{_GROUP}/poll?member_id={member}&max_messages={_LEASED}&timeout=200ms"
    poll = request("GET", target)
    while left[0] > 0:
        answer = await wire.send(poll)
        # As a client would, but without building what it does not look at.
        receipts = [piece[: piece.index(b'"')] for piece in answer.split(b'"receipt_handle":"')[1:]]
        if receipts:
            body = b'{"receipt_handles":["' + b'","'.join(receipts) + b'"]}'
            began = time.perf_counter()
            await wire.send(request("POST", "/messages/ack/batch", body))
            acks.append(time.perf_counter() - began)
            left[0] -= len(receipts)


def coordinator_failover(folder: str, scale: float) -> Iterator[Figure]:
    """From the end of the coordinator until a message is settled, and a transaction committed."""
    cluster = BenchCluster(Path(folder) / "coordinator")
    settled: list[float] = []
    committed: list[float] = []
    try:
        cluster.start(*NAMES)
        asyncio.run(_lose(cluster, max(2, int(_ROUNDS * scale)), settled, committed))
    finally:
        cluster.kill_all()
    for name, took in (("group", settled), ("transaction", committed)):
        took.sort()
        yield Figure(
            figure=f"{name}_coordinator_failover",
            value=round(took[len(took) * 99 // 100], 3),
            unit="s, p99",
            target=Target(below=5.0),
            details={"p50": round(statistics.median(took), 3), "rounds": len(took)},
        )


async def _lose(
    cluster: BenchCluster, rounds: int, settled: list[float], committed: list[float]
) -> None:
    retries = Retries(total_s=30.0, first_wait_s=0.01, wait_s_max=0.1)
    async with goqueue.connect(cluster.servers, retries=retries) as q:
        await create_topic(q, len(NAMES))
        async with q.poll_consumer(_TOPIC, group=_GROUP) as consumer:
            await consumer.poll(limit=1, wait_s=0.1)
            for number in itertools.count():
                found = await wait_until_in_sync(q, _COORDINATOR_LOG)
                await wait_until_in_sync(q)
                await q.publish(_TOPIC, _VALUE)
                cluster.end(found.leader, signal.SIGKILL)
                began = time.perf_counter()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_settle_one(consumer, began, settled))
                    tasks.create_task(_commit_one(q, f"bench-{number}", began, committed))
                await asyncio.to_thread(cluster.wait, found.leader)
                await asyncio.to_thread(cluster.start, found.leader)
                if number + 1 == rounds:
                    return


async def _settle_one(consumer: PollConsumer, began: float, took: list[float]) -> None:
    while True:
        messages = await consumer.poll(limit=1, wait_s=1.0)
        if messages and all(each.success for each in await consumer.ack(messages)):
            took.append(time.perf_counter() - began)
            return


async def _commit_one(q: goqueue.Connection, name: str, began: float, took: list[float]) -> None:
    """A program begins again where a transaction was lost with its coordinator."""
    while True:
        with contextlib.suppress(goqueue.GoQueueError):
            async with q.transaction(name) as transaction:
                await transaction.publish(_TOPIC, _VALUE)
            took.append(time.perf_counter() - began)
            return
