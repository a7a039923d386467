"""Metrics of a crowded node: how long a scrape takes, whom it holds up, and what it is made of.

The stall is seen from outside: somebody else asks the node something small, over and over, and the
longest that an answer took while the node was scraped is what the scrape cost others.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from bench.broker.publish import BATCH, TOPIC, batch_request, load
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.observability.crowd import crowd
from bench.rounds import prepare
from bench.wire import Wire, request

__all__ = ["measure_metrics"]

_TOPICS = 1000
_GROUPS = 10
_SCRAPES = 15
_SCRAPE = request("GET", "/metrics")
_PROBE = request("GET", "/livez")


def measure_metrics(folder: str, scale: float) -> Iterator[Figure]:
    topics = max(4, int(_TOPICS * min(1.0, scale)))
    with BrokerProcess(folder) as broker:
        before = broker.usage.rss_mib
        taken = asyncio.run(crowd(broker.port, topics, _GROUPS))
        crowded = broker.usage.rss_mib
        alone, cpu_s, text = asyncio.run(_scrape_alone(broker))
        stalls, quiet = asyncio.run(_scrape_among_others(broker.port))
        yield Figure(
            figure="metrics_scrape",
            value=_ms(statistics.median(alone)),
            unit="ms",
            target=Target(below=150),
            details={
                "pairs": topics * _GROUPS,
                "messages_taken": taken,
                "samples": sum(not line.startswith(b"#") for line in text.splitlines()),
                "mib": round(len(text) / 2**20, 1),
                "shortest_ms": _ms(min(alone)),
                "longest_ms": _ms(max(alone)),
                "broker_cpu_ms": _ms(cpu_s),
                "prometheus_client_ms": _ms(_time_of(_by_prometheus_client(text))),
                "rss_mib": (before, crowded, broker.usage.rss_mib),
            },
        )
        yield Figure(
            figure="metrics_stall",
            value=_ms(statistics.median(stalls)),
            unit="ms",
            target=Target(below=20),
            details={
                "longest_of_each": tuple(map(_ms, stalls)),
                "longest_without_a_scrape_ms": _ms(quiet),
            },
        )
        yield asyncio.run(_publish(broker, scale))


async def _scrape_alone(broker: BrokerProcess) -> tuple[list[float], float, bytes]:
    """How long each scrape took, what processor time the broker spent for one, and the text."""
    wire = await Wire.open(broker.port)
    text = await wire.send(_SCRAPE)
    usage = broker.usage
    seconds = []
    for _ in range(_SCRAPES):
        began = time.perf_counter()
        await wire.send(_SCRAPE)
        seconds.append(time.perf_counter() - began)
    wire.close()
    return seconds, usage.cpu_s / _SCRAPES, text


async def _scrape_among_others(port: int) -> tuple[list[float], float]:
    """The longest that somebody else waited during each scrape, and without one."""
    scraping, probing = await Wire.open(port), await Wire.open(port)
    quiet = await _probe(probing, asyncio.create_task(asyncio.sleep(0.5)))
    stalls = [
        await _probe(probing, asyncio.create_task(scraping.send(_SCRAPE))) for _ in range(_SCRAPES)
    ]
    scraping.close()
    probing.close()
    return stalls, quiet


async def _probe(wire: Wire, until: "asyncio.Task[bytes] | asyncio.Task[None]") -> float:
    """The longest that an answer took until something was done."""
    longest = 0.0
    while not until.done():
        began = time.perf_counter()
        await wire.send(_PROBE)
        longest = max(longest, time.perf_counter() - began)
    return longest


async def _publish(broker: BrokerProcess, scale: float) -> Figure:
    """The publish rate of the crowded node while it is scraped every second, and while not."""
    (await prepare(broker, TOPIC)).close()
    count = max(8, int(600 * scale))
    await load(broker, batch_request(), 4, count)
    rates: dict[bool, list[float]] = {False: [], True: []}
    for is_scraped in (False, True) * 3:
        scraper = asyncio.create_task(_scrape_often(broker.port)) if is_scraped else None
        rates[is_scraped].append(count * BATCH / await load(broker, batch_request(), 4, count))
        if scraper is not None:
            scraper.cancel()
            await asyncio.gather(scraper, return_exceptions=True)
    alone, scraped = (statistics.median(rates[each]) for each in (False, True))
    return Figure(
        figure="publish_while_scraped",
        value=round(scraped),
        unit="msg/s",
        raw=round(alone),
        ratio=round(scraped / alone, 3),
        details={"every_s": 1},
    )


async def _scrape_often(port: int) -> None:
    wire = await Wire.open(port)
    try:
        while True:
            await wire.send(_SCRAPE)
            await asyncio.sleep(1)
    finally:
        wire.close()


def _by_prometheus_client(text: bytes) -> Callable[[], bytes]:
    """The same samples, shown by the official client."""
    families = list(text_string_to_metric_families(text.decode()))

    class Same(Collector):
        def collect(self) -> Iterator[Metric]:
            yield from families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Same())
    return lambda: generate_latest(registry)


def _time_of(work: Callable[[], bytes]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
