"""The Python SDK against a node, in this process: what a user's program gets and spends."""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import uvloop

import goqueue
from bench.figure import Figure, Target
from bench.goqueue_node import PARTITIONS, GoQueueNode
from bench.peers.contest import Sample, Watch, compare, details, rates
from bench.peers.peer import arena
from goqueue.client.connection import Connection

__all__ = ["consume", "lease", "measure_sdk", "send_and_lease"]

_VALUE = b"x" * 100
_KEYS = [b"key-%d" % number for number in range(1000)]
_SYNCS = 50


def _connect(node: GoQueueNode) -> Connection:
    return goqueue.connect(f"http://127.0.0.1:{node.port}")


async def consume(node: GoQueueNode, topic: str, count: int) -> Sample:
    """Read a topic as a stream from its start, in a group of this call's own."""
    left = count
    async with _connect(node) as q:
        watch = Watch(node.usage)
        group = f"readers-{time.monotonic_ns()}"
        async with q.consume(topic, group=group, auto_commit=True) as consumer:
            async for _ in consumer:
                left -= 1
                if not left:
                    break
        return watch.sample(count)


async def lease(node: GoQueueNode, topic: str, count: int) -> Sample:
    """Lease every message, and acknowledge it without waiting for the answer."""
    async with _connect(node) as q:
        watch = Watch(node.usage)
        await _lease(q, topic, count)
        return watch.sample(count)


async def _lease(q: Connection, topic: str, count: int) -> None:
    """Leaves when all are acknowledged: closing a consumer waits for the answers."""
    left = count
    async with q.consume(topic, group=topic) as consumer:
        async for message in consumer:
            message.ack()
            left -= 1
            if not left:
                break


async def send_and_lease(node: GoQueueNode, topic: str, count: int) -> Sample:
    """One producer and one consumer at the same time."""
    async with _connect(node) as q:
        watch = Watch(node.usage)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_lease(q, topic, count))
            tasks.create_task(_send(q, topic, count))
        return watch.sample(count)


async def _send(q: Connection, topic: str, count: int) -> None:
    """Every message by a `send` of its own, with a key; every receipt awaited."""
    async with q.producer() as producer:
        receipts = [
            await producer.send(topic, _VALUE, key=_KEYS[number % 1000]) for number in range(count)
        ]
        for receipt in receipts:
            await receipt


async def _send_and_flush(q: Connection, topic: str, count: int) -> None:
    """Every message by a `send` of its own; a failure of any is raised at the end."""
    async with q.producer() as producer:
        for number in range(count):
            await producer.send(topic, _VALUE, key=_KEYS[number % 1000])
        await producer.flush()


def measure_sdk(folder: str, scale: float) -> Iterator[Figure]:
    """`send` in bulk, and the loop of the guide: one awaited `ack()` after another."""
    with arena(folder, has_kafka=True) as servers:
        node, kafka = servers.node, servers.kafka
        node.create("orders")
        sent = max(2000, int(200_000 * scale))
        contenders: dict[str, Callable[[], Sample]] = {
            "send": lambda: uvloop.run(_bulk(node, _send, sent)),
            "send_and_flush": lambda: uvloop.run(_bulk(node, _send_and_flush, sent)),
        }
        if kafka is not None:
            kafka.create("orders", PARTITIONS)
            contenders["kafka"] = partial(kafka.send, "orders", _VALUE, _KEYS, sent)
        target = Target(at_least=300_000, ratio_at_least=None if kafka is None else 0.83)
        samples = compare(contenders, scale)
        yield from rates("sdk", samples, "kafka", targets={"send": target})
        node.create("acks", 1)
        acked = max(20, int(3000 * scale))
        samples = compare({"awaited_ack": lambda: uvloop.run(_awaited(node, acked))}, scale)
        yield _awaited_figure(samples["awaited_ack"], _sync_ms(folder))


async def _bulk(
    node: GoQueueNode, send: Callable[[Connection, str, int], Awaitable[None]], count: int
) -> Sample:
    async with _connect(node) as q:
        watch = Watch(node.usage)
        await send(q, "orders", count)
        return watch.sample(count)


async def _awaited(node: GoQueueNode, count: int) -> Sample:
    async with _connect(node) as q:
        await _send(q, "acks", count)
        left = count
        async with q.consume("acks", group="acks") as consumer:
            watch = Watch(node.usage)
            async for message in consumer:
                await message.ack()
                left -= 1
                if not left:
                    break
            return watch.sample(count)


def _awaited_figure(taken: list[Sample], sync_ms: float) -> Figure:
    """The processor time that node and client spend on one message; the rate is in the details."""
    rate = statistics.median(each.rate for each in taken)
    spent = statistics.median((each.cpu_s + each.client_cpu_s) / each.count for each in taken)
    return Figure(
        figure="sdk_awaited_ack_cpu",
        value=round(spent * 1000, 3),
        unit="ms per message",
        target=Target(below=0.3),
        details={
            "msg_per_s": round(rate),
            "ms_per_message": round(1000 / rate, 3),
            "plain_sync_ms": sync_ms,
            **details(taken),
        },
    )


def _sync_ms(folder: str) -> float:
    """What a small write and its sync take on this disk now, at the median."""
    seconds = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            os.write(file.fileno(), bytes(4096))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - began)
    return round(statistics.median(seconds) * 1000, 3)
