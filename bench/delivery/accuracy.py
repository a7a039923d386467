"""How late messages are delivered when ten thousand of them are due each second.

Lateness is the time of the second record of a message, minus the time at which it is due; the value
says what that is.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator

from bench.broker.publish import BATCH
from bench.broker_process import BrokerProcess
from bench.delivery.traffic import delayed_batch, publish
from bench.figure import Figure, Target
from bench.rounds import prepare
from bench.wire import Wire, request
from goqueue.model import MILLISECOND, SECOND
from goqueue.records import Flag, decode, last_offset, walk

__all__ = ["measure_accuracy"]

_TOPIC = "accuracy"
_PARTITIONS = 3
_RATE = 10_000
_SECONDS = 30
# Until the first is due, all must be published; a slow machine is given its time.
_PUBLISHED_PER_S_MIN = 15_000
_READ_BYTES = 4 * 1024 * 1024
_PATIENCE_S = 60.0


def measure_accuracy(folder: str, scale: float) -> Iterator[Figure]:
    count = max(2 * BATCH, int(_RATE * _SECONDS * scale))
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_measure(broker, count))


async def _measure(broker: BrokerProcess, count: int) -> Figure:
    wire = await prepare(broker, _TOPIC, _PARTITIONS)
    begin = time.time_ns() + SECOND + count * SECOND // _PUBLISHED_PER_S_MIN
    dues = [begin + index * SECOND // _RATE for index in range(count)]
    batches = [delayed_batch(dues[first : first + BATCH]) for first in range(0, count, BATCH)]
    await publish(broker.port, _TOPIC, batches)
    spare_ms = (begin - time.time_ns()) / MILLISECOND
    assert spare_ms > 0, "messages were due before all of them were published"
    await asyncio.sleep(max(0, begin - time.time_ns()) / SECOND)
    usage, began = broker.usage, time.perf_counter()
    await _wait_for_deliveries(wire, count)
    seconds, cpu_s = time.perf_counter() - began, usage.cpu_s
    late = await _lateness(wire)
    wire.close()
    assert len(late) == count, f"{len(late)} of {count} messages were delivered"
    return _figure(late, cpu_s, seconds)


async def _wait_for_deliveries(wire: Wire, count: int) -> None:
    deadline = time.perf_counter() + count / _RATE + _PATIENCE_S
    while (await wire.ask("GET", "/delay/stats"))["delivered_count"] < count:
        assert time.perf_counter() < deadline, "messages that are due were not delivered"
        await asyncio.sleep(0.2)


async def _lateness(wire: Wire) -> list[int]:
    """Nanoseconds of each delivered message, from the records of the topic."""
    late: list[int] = []
    for partition in range(_PARTITIONS):
        place = f"/topics/{_TOPIC}/partitions/{partition}/records?max_bytes={_READ_BYTES}"
        offset = 0
        while data := await wire.send(request("GET", f"{place}&offset={offset}")):
            columns = walk(data)
            for position, flags in zip(columns.positions, columns.flags, strict=True):
                if not flags & Flag.DELAYED:
                    record = decode(data, position)
                    assert any(name == "gq.delayed-from" for name, _ in record.headers)
                    late.append(record.timestamp - int((record.value or b"").split(b" ", 1)[0]))
            offset = last_offset(data) + 1
    return late


def _figure(late: list[int], cpu_s: float, seconds: float) -> Figure:
    shares = [share / MILLISECOND for share in statistics.quantiles(late, n=1000)]
    return Figure(
        figure="delivery_lateness_p99",
        value=round(shares[989], 2),
        unit="ms",
        target=Target(below=50.01),
        details={
            "p50_ms": round(shares[499], 2),
            "p50_ms_asked": 10,
            "p999_ms": round(shares[998], 2),
            "max_ms": round(max(late) / MILLISECOND, 2),
            "earliest_ms": round(min(late) / MILLISECOND, 3),
            "early": sum(each < 0 for each in late),
            "messages": len(late),
            "broker_cpu_s_per_million": round(cpu_s / len(late) * 1e6, 2),
            "cpu_share": round(cpu_s / seconds, 3),
        },
    )
