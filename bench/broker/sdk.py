"""The Python SDK against a node: one `send` per message, and one turn of `async for` per message.

The client runs in this process, on the cores that the node uses, too; the processor time that it
spends on a message, in microseconds, is in the details.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Iterator

import uvloop

import goqueue
from bench.broker.publish import ROUNDS, VALUE
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import Round, summarise
from goqueue.client.connection import Connection

__all__ = ["measure_sdk"]

_KEYS = [b"key-%d" % number for number in range(1000)]
_Body = Callable[[Connection, str, int], Awaitable[None]]


def measure_sdk(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        yield from uvloop.run(_measure(broker, max(2000, int(200_000 * scale))))


class _Series:
    """The rounds of one measure, and what the client spent on each."""

    def __init__(self, name: str, body: _Body, share: float, target: Target | None) -> None:
        self._name = name
        self._body = body
        self._share = share
        self._target = target
        self._rounds: list[Round] = []
        self._client_us: list[float] = []

    async def run(self, broker: BrokerProcess, q: Connection, topic: str, count: int) -> None:
        count = max(int(count * self._share), 1)
        usage, began_cpu, began = broker.usage, time.process_time(), time.perf_counter()
        await self._body(q, topic, count)
        seconds = time.perf_counter() - began
        self._client_us.append((time.process_time() - began_cpu) / count * 1e6)
        self._rounds.append(Round(count=count, seconds=seconds, cpu_s=usage.cpu_s))

    def figure(self, broker: BrokerProcess) -> Figure:
        figure = summarise(self._name, "msg/s", self._rounds, broker.usage, self._target)
        figure.details["client_cpu_us_per_message"] = round(statistics.median(self._client_us), 2)
        return figure


async def _measure(broker: BrokerProcess, count: int) -> list[Figure]:
    series = [
        _Series("sdk_send", _send, 1.0, Target(at_least=300_000)),
        _Series("sdk_consume", _consume, 1.0, Target(at_least=150_000)),
        _Series("sdk_lease", _lease, 0.5, Target(at_least=200_000)),
        _Series("sdk_ack_awaited", _ack_awaited, 0.01, None),
    ]
    async with goqueue.connect(f"http://127.0.0.1:{broker.port}") as q:
        for number in range(ROUNDS):
            topic = f"sdk-{number}"
            await q.topics.create(topic, partitions=3)
            for each in series:
                await each.run(broker, q, topic, count)
    return [each.figure(broker) for each in series]


async def _send(q: Connection, topic: str, count: int) -> None:
    """Every message by a `send` of its own, with a key; every receipt awaited."""
    value = VALUE.encode()
    async with q.producer() as producer:
        receipts = [
            await producer.send(topic, value, key=_KEYS[number % 1000]) for number in range(count)
        ]
        for receipt in receipts:
            await receipt


async def _consume(q: Connection, topic: str, count: int) -> None:
    """Every message by a turn of the loop; joining the group is part of it."""
    left = count
    async with q.consume(topic, group=topic, auto_commit=True) as consumer:
        async for _ in consumer:
            left -= 1
            if not left:
                break


async def _lease(q: Connection, topic: str, count: int) -> None:
    """As a queue: every message leased, and acknowledged without waiting for the answer."""
    left = count
    async with q.consume(topic, group=f"{topic}-queue") as consumer:
        async for message in consumer:
            message.ack()
            left -= 1
            if not left:
                break


async def _ack_awaited(q: Connection, topic: str, count: int) -> None:
    """As a queue, by one task that awaits each acknowledgement: one sync a message."""
    left = count
    async with q.consume(topic, group=f"{topic}-awaited") as consumer:
        async for message in consumer:
            await message.ack()
            left -= 1
            if not left:
                break
