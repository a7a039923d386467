"""One message per request: the rate of 64 connections, and the latency at a fixed rate.

What a group commit costs shows here: in large batches its share vanishes.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator

from bench.broker.publish import ROUNDS, TOPIC, batch_request
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import Round, prepare, summarise
from bench.wire import Wire

__all__ = ["measure_latency", "measure_single"]

_CONNECTIONS = 64
_RATE = 1000


def measure_single(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_single(broker, scale))


def measure_latency(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_latency(broker, scale))


async def _single(broker: BrokerProcess, scale: float) -> Figure:
    """Each connection sends its next message when the answer to the last one is there."""
    await prepare(broker, TOPIC)
    latencies: list[float] = []
    prepared = batch_request(1)
    rounds = []
    for _ in range(ROUNDS):
        wires = [await Wire.open(broker.port) for _ in range(_CONNECTIONS)]
        left = max(_CONNECTIONS, int(8000 * scale))
        count = left

        async def work(wire: Wire) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                began = time.perf_counter()
                await wire.send(prepared)
                latencies.append(time.perf_counter() - began)

        usage = broker.usage
        began = time.perf_counter()
        await asyncio.gather(*(work(wire) for wire in wires))
        seconds = time.perf_counter() - began
        rounds.append(Round(count=count, seconds=seconds, cpu_s=usage.cpu_s))
        for wire in wires:
            wire.close()
    figure = summarise("publish_one_by_one", "req/s", rounds, broker.usage, Target(at_least=3_000))
    figure.details["p50_ms"] = _percentile(latencies, 50)
    figure.details["p99_ms"] = _percentile(latencies, 99)
    figure.details["p99_ms_asked"] = 25
    return figure


async def _latency(broker: BrokerProcess, scale: float) -> Figure:
    """One message each, at 1,000 a second whatever the answers take (open loop)."""
    await prepare(broker, TOPIC)
    wires = [await Wire.open(broker.port) for _ in range(_CONNECTIONS)]
    idle: asyncio.Queue[Wire] = asyncio.Queue()
    for wire in wires:
        idle.put_nowait(wire)
    latencies: list[float] = []
    prepared = batch_request(1)
    count = max(200, int(10_000 * scale))

    async def send(due: float) -> None:
        wire = await idle.get()
        await wire.send(prepared)
        # From when it should have been sent: waiting for a connection counts.
        latencies.append(time.perf_counter() - due)
        idle.put_nowait(wire)

    usage = broker.usage
    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for index in range(count):
            due = began + index / _RATE
            delay = due - time.perf_counter()
            if delay > 0:
                await asyncio.sleep(delay)
            tasks.create_task(send(max(due, time.perf_counter() - 0.001)))
    cpu_s = usage.cpu_s
    for wire in wires:
        wire.close()
    skipped = latencies[len(latencies) // 10 :]
    return Figure(
        figure="publish_latency_at_1000_per_s",
        value=_percentile(skipped, 50),
        unit="ms p50",
        target=Target(below=2.0),
        details={
            "p90_ms": _percentile(skipped, 90),
            "p99_ms": _percentile(skipped, 99),
            "p99_ms_asked": 10,
            "max_ms": round(max(skipped) * 1000, 2),
            "broker_cpu_s_per_million": round(cpu_s / count * 1e6, 2),
        },
    )


def _percentile(seconds: list[float], share: int) -> float:
    return round(statistics.quantiles(seconds, n=100)[share - 1] * 1000, 2)
