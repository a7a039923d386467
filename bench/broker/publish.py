"""Publish over HTTP: JSON batches and raw records."""

import asyncio
import json
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
