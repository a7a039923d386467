"""What the access log costs: processor time of a node per request, without it and with it."""

import asyncio
import statistics
from collections.abc import Iterator

from bench.broker_process import BrokerProcess
from bench.figure import Figure
from bench.runner import TINY
from bench.wire import Wire

__all__ = ["measure_access_log"]

_REQUESTS = 20_000
_ROUNDS = 5


def measure_access_log(folder: str, scale: float) -> Iterator[Figure]:
    """Rounds take turns, so that whatever else the machine does falls on both."""
    count = max(100, int(_REQUESTS * scale))
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(_ROUNDS if scale > TINY else 1):
        for is_on in (False, True):
            flags = ("--log-level", "info", "--log-access") if is_on else ()
            with BrokerProcess(folder, flags=flags) as broker:
                times[is_on].append(asyncio.run(_cpu_us(broker, count)))
    off, on = (round(statistics.median(times[is_on]), 1) for is_on in (False, True))
    yield Figure(figure="request_cpu", value=off, unit="µs")
    yield Figure(
        figure="request_cpu_with_access_log",
        value=on,
        unit="µs",
        raw=off,
        ratio=off / on if on else 1,
    )


async def _cpu_us(broker: BrokerProcess, count: int) -> float:
    wire = await Wire.open(broker.port)
    await wire.ask("GET", "/livez")
    usage = broker.usage
    for _ in range(count):
        await wire.ask("GET", "/livez")
    spent_s = usage.cpu_s
    wire.close()
    return spent_s * 1e6 / count
