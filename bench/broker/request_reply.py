"""Request and reply by the SDK: the latency of one, beside a durable publish, and the rate of many.

The message of a request is durable, so a request costs a publish, a delivery and a reply.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator

import goqueue
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from goqueue.client.connection import Connection

__all__ = ["measure_request_reply"]

_TOGETHER = 64
_TOPIC = "prices"


def measure_request_reply(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_measure(broker, scale))


async def _measure(broker: BrokerProcess, scale: float) -> Figure:
    server = f"http://127.0.0.1:{broker.port}"
    async with goqueue.connect(server) as q, goqueue.connect(server) as other:
        await q.topics.create(_TOPIC, partitions=1)
        await q.topics.create("plain", partitions=1)
        responder = asyncio.create_task(_respond(other))
        for _ in range(50):
            await q.request(_TOPIC, b"warm", timeout=20)
        published, replied = [], []
        # In turn, so that what else the machine does is the same for both.
        for _ in range(max(100, int(1000 * scale))):
            began = time.perf_counter()
            await q.publish("plain", b"x")
            published.append(time.perf_counter() - began)
            began = time.perf_counter()
            await q.request(_TOPIC, b"x", timeout=20)
            replied.append(time.perf_counter() - began)
        rate = await _rate(q, max(500, int(5000 * scale)))
        responder.cancel()
        await asyncio.gather(responder, return_exceptions=True)
    publish_ms, reply_ms = _percentile(published, 50), _percentile(replied, 50)
    return Figure(
        figure="request_reply_latency",
        value=reply_ms,
        unit="ms p50",
        raw=publish_ms,
        ratio=round(publish_ms / reply_ms, 3),
        target=Target(below=5.0),
        details={
            "p99_ms": _percentile(replied, 99),
            "durable_publish_p50_ms": publish_ms,
            f"requests_per_s_of_{_TOGETHER}": rate,
        },
    )


async def _respond(q: Connection) -> None:
    async with q.consume(_TOPIC, group="responders", mode="shared") as consumer:
        async for message in consumer:
            await message.reply(b"y")
            message.ack()


async def _rate(q: Connection, count: int) -> int:
    left = count

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await q.request(_TOPIC, b"x", timeout=60)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(_TOGETHER)))
    return round(count / (time.perf_counter() - began))


def _percentile(seconds: list[float], share: int) -> float:
    return round(statistics.quantiles(seconds, n=100)[share - 1] * 1000, 2)
