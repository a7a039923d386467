"""How late the ticks of schedules are, as a reader sees them.

Lateness is the time at which a waiting reader receives a message, minus the time of its tick: three
syncs and a request. `ticks_lateness_p99` has schedules that are due one after the other;
`ticks_together_p99` has all of them due at the same moment, so the last waits for the others.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator

from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import prepare
from bench.wire import Wire, request
from goqueue.model import MILLISECOND, SECOND, format_time, parse_time
from goqueue.records import decode, last_offset, walk

__all__ = ["measure_ticks"]

_TOPIC = "ticks"
_SCHEDULES = 200
_TOGETHER = 1000
_SECONDS = 20
_READ_BYTES = 4 * 1024 * 1024
# Creating the schedules takes a while, and none may tick before all are there.
_CREATED_PER_S_MIN = 100


def measure_ticks(folder: str, scale: float) -> Iterator[Figure]:
    seconds = max(3, int(_SECONDS * scale))
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_measure(broker, "ticks_lateness_p99", _SCHEDULES, seconds, spread=True))
    count = max(20, int(_TOGETHER * scale))
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_measure(broker, "ticks_together_p99", count, seconds, spread=False))


async def _measure(
    broker: BrokerProcess, figure: str, count: int, seconds: int, *, spread: bool
) -> Figure:
    wire = await prepare(broker, _TOPIC, 1)
    begin = time.time_ns() + SECOND + count * SECOND // _CREATED_PER_S_MIN
    for index in range(count):
        start = begin + (index * SECOND // count if spread else 0)
        body = {
            "name": f"s{index}",
            "topic": _TOPIC,
            "every": "1s",
            "start": format_time(start),
            "end": format_time(start + (seconds - 1) * SECOND),
            "message": {"value": "x" * 100},
        }
        await wire.ask("POST", "/schedules", body)
    assert time.time_ns() < begin, "schedules were due before all of them were created"
    late = await _read(wire, count * seconds)
    wire.close()
    shares = [share / MILLISECOND for share in statistics.quantiles(late, n=1000)]
    return Figure(
        figure=figure,
        value=round(shares[989], 2),
        unit="ms",
        target=Target(below=50.01) if spread else None,
        details={
            "p50_ms": round(shares[499], 2),
            "p999_ms": round(shares[998], 2),
            "max_ms": round(max(late) / MILLISECOND, 2),
            "early": sum(each < 0 for each in late),
            "schedules": count,
            "ticks": len(late),
        },
    )


async def _read(wire: Wire, count: int) -> list[int]:
    """Read until so many ticks came: nanoseconds from each to its arrival."""
    late: list[int] = []
    offset = 0
    place = f"/topics/{_TOPIC}/partitions/0/records?max_bytes={_READ_BYTES}&wait=30s"
    while len(late) < count:
        data = await wire.send(request("GET", f"{place}&offset={offset}"))
        arrived = time.time_ns()
        assert data, f"{len(late)} of {count} ticks came"
        for position in walk(data).positions:
            headers = dict(decode(data, position).headers)
            tick = headers.get("gq.tick")
            if tick is not None:
                late.append(arrived - parse_time(tick.decode()))
        offset = last_offset(data) + 1
    return late
