"""The Python SDK against a node: one `send` per message, and one turn of `async for` per message.

The client runs in this process, on the cores that the node uses, too; its processor time is in the
details.
"""

import time
from collections.abc import Iterator

import uvloop

import goqueue
from bench.broker.publish import ROUNDS, VALUE
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import Round, summarise
from goqueue.client.connection import Connection

__all__ = ["measure_sdk"]

_KEYS = [b"key-%d" % number for number in range(1000)]


def measure_sdk(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        yield from uvloop.run(_measure(broker, max(2000, int(200_000 * scale))))


async def _measure(broker: BrokerProcess, count: int) -> list[Figure]:
    sent: list[Round] = []
    consumed: list[Round] = []
    leased: list[Round] = []
    began = time.process_time()
    async with goqueue.connect(f"http://127.0.0.1:{broker.port}") as q:
        for number in range(ROUNDS):
            topic = f"sdk-{number}"
            await q.topics.create(topic, partitions=3)
            sent.append(await _send(broker, q, topic, count))
            consumed.append(await _consume(broker, q, topic, count))
            leased.append(await _lease(broker, q, topic, count // 4))
    handled = ROUNDS * (2 * count + count // 4)
    client_cpu = round((time.process_time() - began) / handled * 1e6, 2)
    figures = [
        summarise("sdk_send", "msg/s", sent, broker.usage, Target(at_least=80_000)),
        summarise("sdk_consume", "msg/s", consumed, broker.usage, Target(at_least=150_000)),
        summarise("sdk_lease", "msg/s", leased, broker.usage, None),
    ]
    for figure in figures:
        figure.details["client_cpu_s_per_million"] = client_cpu
    return figures


async def _send(broker: BrokerProcess, q: Connection, topic: str, count: int) -> Round:
    """Every message by a `send` of its own, with a key; every receipt awaited."""
    value = VALUE.encode()
    async with q.producer() as producer:
        usage, began = broker.usage, time.perf_counter()
        receipts = [
            await producer.send(topic, value, key=_KEYS[number % 1000]) for number in range(count)
        ]
        for receipt in receipts:
            await receipt
        return Round(count=count, seconds=time.perf_counter() - began, cpu_s=usage.cpu_s)


async def _consume(broker: BrokerProcess, q: Connection, topic: str, count: int) -> Round:
    """Every message by a turn of the loop; joining the group is part of it."""
    usage, began = broker.usage, time.perf_counter()
    left = count
    async with q.consume(topic, group=topic, auto_commit=True) as consumer:
        async for _ in consumer:
            left -= 1
            if not left:
                break
    return Round(count=count, seconds=time.perf_counter() - began, cpu_s=usage.cpu_s)


async def _lease(broker: BrokerProcess, q: Connection, topic: str, count: int) -> Round:
    """As a queue: every message leased, and acknowledged without waiting for the answer."""
    usage, began = broker.usage, time.perf_counter()
    left = count
    async with q.consume(topic, group=f"{topic}-queue") as consumer:
        async for message in consumer:
            message.ack()
            left -= 1
            if not left:
                break
    return Round(count=count, seconds=time.perf_counter() - began, cpu_s=usage.cpu_s)
