"""Publish over HTTP: JSON batches, single messages, latency at a fixed rate, raw records."""

import asyncio
import json
import statistics
import time
from collections.abc import Iterator

from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import Round, prepare, summarise
from bench.wire import Wire, request
from goqueue.model import Message
from goqueue.records import build

__all__ = ["BATCH", "ROUNDS", "TOPIC", "VALUE", "batch_request", "load", "measure_publish"]

TOPIC = "bench"
VALUE = "x" * 100
BATCH = 1000
ROUNDS = 3


def measure_publish(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_batches(broker, scale))
        yield asyncio.run(_raw(broker, scale))
        yield asyncio.run(_singles(broker, scale))
        yield asyncio.run(_latency(broker, scale))


def batch_request(count: int = BATCH) -> bytes:
    body = json.dumps({"messages": [{"value": VALUE}] * count}).encode()
    return request("POST", f"/topics/{TOPIC}/messages", body)


async def load(broker: BrokerProcess, prepared: bytes, connections: int, count: int) -> float:
    """Send a request so many times over so many connections; the seconds that it took."""
    wires = [await Wire.open(broker.port) for _ in range(connections)]
    left = count

    async def work(wire: Wire) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await wire.send(prepared)

    began = time.perf_counter()
    await asyncio.gather(*(work(wire) for wire in wires))
    seconds = time.perf_counter() - began
    for wire in wires:
        wire.close()
    return seconds


async def _rounds(
    broker: BrokerProcess, prepared: bytes, connections: int, count: int, each: int
) -> list[Round]:
    await load(broker, prepared, connections, max(connections, count // 10))
    rounds = []
    for _ in range(ROUNDS):
        usage = broker.usage
        seconds = await load(broker, prepared, connections, count)
        rounds.append(Round(count=count * each, seconds=seconds, cpu_s=usage.cpu_s))
    return rounds


async def _batches(broker: BrokerProcess, scale: float) -> Figure:
    await prepare(broker, TOPIC)
    rounds = await _rounds(broker, batch_request(), 4, max(8, int(600 * scale)), BATCH)
    target = Target(at_least=200_000)
    return summarise("publish_json_batches", "msg/s", rounds, broker.usage, target)


async def _raw(broker: BrokerProcess, scale: float) -> Figure:
    body = bytes(build([Message(value=VALUE.encode())] * BATCH))
    prepared = request("POST", f"/topics/{TOPIC}/records", body)
    rounds = await _rounds(broker, prepared, 4, max(8, int(1500 * scale)), BATCH)
    target = Target(at_least=500_000)
    return summarise("publish_raw_batches", "msg/s", rounds, broker.usage, target)


async def _singles(broker: BrokerProcess, scale: float) -> Figure:
    latencies: list[float] = []
    prepared = batch_request(1)
    rounds = []
    for _ in range(ROUNDS):
        wires = [await Wire.open(broker.port) for _ in range(64)]
        left = max(64, int(8000 * scale))
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
    figure.details["p99_ms"] = _percentile(latencies, 99)
    figure.details["p99_ms_asked"] = 25
    return figure


async def _latency(broker: BrokerProcess, scale: float) -> Figure:
    """One message each, at 1,000 a second whatever the answers take (open loop)."""
    wires = [await Wire.open(broker.port) for _ in range(64)]
    idle: asyncio.Queue[Wire] = asyncio.Queue()
    for wire in wires:
        idle.put_nowait(wire)
    latencies: list[float] = []
    prepared = batch_request(1)
    rate, count = 1000, max(200, int(10_000 * scale))

    async def send(due: float) -> None:
        wire = await idle.get()
        await wire.send(prepared)
        # From when it should have been sent: waiting for a connection counts.
        latencies.append(time.perf_counter() - due)
        idle.put_nowait(wire)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for index in range(count):
            due = began + index / rate
            delay = due - time.perf_counter()
            if delay > 0:
                await asyncio.sleep(delay)
            tasks.create_task(send(max(due, time.perf_counter() - 0.001)))
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
        },
    )


def _percentile(seconds: list[float], share: int) -> float:
    return round(statistics.quantiles(seconds, n=100)[share - 1] * 1000, 2)
