"""The collector: all sources in order, others in between, and the process itself."""

import asyncio
import os
import time
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from goqueue.metrics import Family, Kind, Sample
from goqueue.runtime.metrics import LoopLag, MetricsCollector, process_families


def be_busy() -> None:
    """Longer than the timer of the lag takes."""
    time.sleep(0.3)


def family(name: str, samples: Iterator[Sample]) -> Family:
    return Family(name=name, kind=Kind.GAUGE, meaning="A.", labels=("n",), samples=samples)


def test_a_scrape_lets_others_run_and_keeps_the_order() -> None:
    count = 200_000

    def numbers() -> Iterator[Sample]:
        for number in range(count):
            yield (str(number),), number

    async def scrape() -> tuple[bytes, int]:
        scraping = MetricsCollector(
            [lambda: [family("a", numbers())], lambda: [family("b", numbers())]]
        )
        task = asyncio.ensure_future(scraping.scrape())
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return b"".join(await task), turns

    text, turns = asyncio.run(scrape())
    assert turns > 10
    lines = text.decode().splitlines()
    assert len(lines) == 2 * (count + 2)
    assert lines[2] == 'a{n="0"} 0'
    assert lines[-1] == f'b{{n="{count - 1}"}} {count - 1}'


def test_only_one_scrape_runs_at_a_time() -> None:
    running = most = 0

    def samples() -> Iterator[Sample]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for number in range(50_000):
            yield (str(number),), number
        running -= 1

    async def scrape() -> None:
        scraping = MetricsCollector([lambda: [family("a", samples())]])
        await asyncio.gather(*(scraping.scrape() for _ in range(3)))

    asyncio.run(scrape())
    assert most == 1


def test_the_process_is_told_under_the_usual_names() -> None:
    async def scrape() -> bytes:
        return b"".join(await MetricsCollector([process_families]).scrape())

    text = asyncio.run(scrape()).decode()
    found = {each.name: each for each in text_string_to_metric_families(text)}
    usual = {"process_cpu_seconds", "process_max_fds", "python_gc_collections", "python_info"}
    assert usual <= set(found)
    assert [each.labels["generation"] for each in found["python_gc_collections"].samples] == [
        "0",
        "1",
        "2",
    ]
    if os.path.exists("/proc/self/stat"):
        assert found["process_resident_memory_bytes"].samples[0].value > 1_000_000
        assert found["process_open_fds"].samples[0].value > 2


def test_whatever_holds_the_loop_up_is_observed() -> None:
    async def hold_up() -> LoopLag:
        lag = LoopLag()
        lag.start()
        be_busy()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        lag.stop()
        return lag

    histogram = asyncio.run(hold_up()).histogram
    assert histogram.count == 1
    assert histogram.total >= 40_000_000
