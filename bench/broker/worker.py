"""A worker against a node: a backlog handled by an async function that does nothing.

Also with a transaction for each message.

The same backlog is first leased and acked by a bare loop over a consumer, in the same round, so
that what the worker adds to a message can be told from what leasing costs. Client and node share
the machine; the time of the client is processor time of this process.
"""

import logging
import statistics
import time
from collections.abc import Iterator

import msgspec
import uvloop

import goqueue
from bench.broker.publish import ROUNDS
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import Round, summarise
from goqueue.client.connection import Connection
from goqueue.client.transaction import Transaction

__all__ = ["measure_worker"]

_PER_PUBLISH = 1000


class Job(msgspec.Struct):
    """A payload as handlers have it: small, of a declared type."""

    id: int
    customer: str


def measure_worker(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        yield from uvloop.run(_measure(broker, max(2000, int(200_000 * scale))))


async def _measure(broker: BrokerProcess, count: int) -> list[Figure]:
    # One line for each start and stop is not what is measured.
    logging.getLogger("goqueue.worker").setLevel(logging.WARNING)
    rounds: list[Round] = []
    loop_us: list[float] = []
    worker_us: list[float] = []
    async with goqueue.connect(f"http://127.0.0.1:{broker.port}") as q:
        for number in range(ROUNDS):
            topic = f"jobs-{number}"
            await q.topics.create(topic, partitions=3)
            async with q.producer() as producer:
                for each in range(count):
                    await producer.send(topic, Job(each, "customer-7"))
            began_cpu = time.process_time()
            await _lease(q, topic, count)
            loop_us.append((time.process_time() - began_cpu) / count * 1e6)
            usage, began_cpu, began = broker.usage, time.process_time(), time.perf_counter()
            await _handle(q, topic, count)
            seconds = time.perf_counter() - began
            worker_us.append((time.process_time() - began_cpu) / count * 1e6)
            rounds.append(Round(count=count, seconds=seconds, cpu_s=usage.cpu_s))
        rate = summarise("worker_empty", "msg/s", rounds, broker.usage, Target(at_least=40_000))
    total_us, bare_us = statistics.median(worker_us), statistics.median(loop_us)
    cost = Figure(
        figure="worker_cpu_per_message",
        value=round(total_us, 2),
        unit="us",
        target=Target(below=15),
        details={
            "bare_consumer": round(bare_us, 2),
            "added": round(total_us - bare_us, 2),
        },
    )
    return [rate, cost, await _measure_transactions(broker, max(count // 100, 100))]


async def _measure_transactions(broker: BrokerProcess, count: int) -> Figure:
    """One transaction for each message: a publish, an ack and a commit."""
    rounds: list[Round] = []
    async with goqueue.connect(f"http://127.0.0.1:{broker.port}") as q:
        await q.topics.create("copies", partitions=3)
        for number in range(ROUNDS):
            topic = f"transactions-{number}"
            await q.topics.create(topic, partitions=3)
            async with q.producer() as producer:
                for each in range(count):
                    await producer.send(topic, Job(each, "customer-7"))
            worker = goqueue.Worker(topic)

            @worker.handler(topic, transaction=True)
            async def copy(job: Job, tx: Transaction) -> None:
                await tx.publish("copies", job)

            usage, began = broker.usage, time.perf_counter()
            await worker.serve(q, until_idle=True)
            seconds = time.perf_counter() - began
            rounds.append(Round(count=count, seconds=seconds, cpu_s=usage.cpu_s))
    return summarise("worker_transactions", "msg/s", rounds, broker.usage)


async def _lease(q: Connection, topic: str, count: int) -> None:
    """Every message leased and acked by a loop, without a worker."""
    left = count
    async with q.consume(topic, group=f"{topic}-loop", mode="shared") as consumer:
        async for message in consumer:
            message.ack()
            left -= 1
            if not left:
                break


async def _handle(q: Connection, topic: str, count: int) -> None:
    """Every message by a call of the handler; joining the group is part of it."""
    worker = goqueue.Worker(f"{topic}-worker")
    left = count

    @worker.handler(topic)
    async def handle(_job: Job) -> None:
        nonlocal left
        left -= 1
        if not left:
            worker.stop()

    await worker.serve(q)
