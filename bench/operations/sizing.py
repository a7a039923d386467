"""What a node takes of a machine: memory and descriptors at rest, per connection, per partition."""

import asyncio
import os
from collections.abc import Iterator

from bench.broker_process import BrokerProcess
from bench.figure import Figure
from bench.wire import Wire

__all__ = ["measure_sizing"]

_CONNECTIONS = 1_000
_PARTITIONS = 10_000
_PER_TOPIC = 100


def measure_sizing(folder: str, scale: float) -> Iterator[Figure]:
    """Differences of one process, so that what Python takes counts once."""
    with BrokerProcess(folder) as broker:
        usage = broker.usage
        yield Figure(figure="idle_memory", value=usage.rss_mib, unit="MiB")
        yield Figure(figure="idle_descriptors", value=_descriptors(usage.pid), unit="files")
        yield from asyncio.run(_connect(broker, max(10, int(_CONNECTIONS * scale))))
    with BrokerProcess(folder) as broker:
        yield from asyncio.run(_create(broker, max(_PER_TOPIC, int(_PARTITIONS * scale))))


async def _connect(broker: BrokerProcess, count: int) -> list[Figure]:
    usage = broker.usage
    wire = await Wire.open(broker.port)
    await wire.ask("GET", "/livez")
    memory, descriptors = usage.rss_mib, _descriptors(usage.pid)
    wires = [await Wire.open(broker.port) for _ in range(count)]
    for each in wires:
        await each.ask("GET", "/livez")
    grown = usage.rss_mib - memory
    opened = _descriptors(usage.pid) - descriptors
    for each in (wire, *wires):
        each.close()
    return [
        Figure(figure="memory_per_connection", value=round(grown * 1024 / count, 1), unit="KiB"),
        Figure(figure="descriptors_per_connection", value=round(opened / count, 2), unit="files"),
    ]


async def _create(broker: BrokerProcess, count: int) -> list[Figure]:
    usage = broker.usage
    wire = await Wire.open(broker.port)
    await wire.ask("GET", "/livez")
    memory, descriptors = usage.rss_mib, _descriptors(usage.pid)
    topics = count // _PER_TOPIC
    for number in range(topics):
        body = {"name": f"t{number}", "num_partitions": _PER_TOPIC}
        await wire.ask("POST", "/topics", body)
    empty = usage.rss_mib - memory
    for number in range(topics):
        messages = [{"value": "x" * 100, "partition": each} for each in range(_PER_TOPIC)]
        await wire.ask("POST", f"/topics/t{number}/messages", {"messages": messages})
    written = usage.rss_mib - memory
    opened = _descriptors(usage.pid) - descriptors
    wire.close()
    partitions = topics * _PER_TOPIC
    return [
        Figure(
            figure="memory_per_partition",
            value=round(written * 1024 / partitions, 1),
            unit="KiB",
            details={"partitions": partitions, "empty_kib": round(empty * 1024 / partitions, 1)},
        ),
        Figure(figure="descriptors_of_partitions", value=opened, unit="files"),
    ]


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
