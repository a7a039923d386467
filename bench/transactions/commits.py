"""Transactions a second: many producers, three partitions, every commit flushed before it is said.

Once as a client does it that numbers its batches, one for each partition, sent side by side; once
with a single batch that the broker spreads.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator

from bench.broker.publish import ROUNDS, TOPIC, VALUE
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import Round, prepare, summarise
from bench.transactions.writer import PARTITIONS, Writer
from goqueue.model import Message
from goqueue.records import build

__all__ = ["measure_commits"]

_PRODUCERS = 16
_MESSAGES = 100
_TARGET = Target(at_least=400)
_MESSAGES_ASKED = 40_000
_P99_TARGET = Target(below=50)
_SYNCS = 50
_SHARES = [_MESSAGES // PARTITIONS + (number < _MESSAGES % PARTITIONS) for number in range(3)]
_PARTS = [bytes(build([Message(value=VALUE.encode())] * share)) for share in _SHARES]
_WHOLE = bytes(build([Message(value=VALUE.encode())] * _MESSAGES))

Fill = Callable[[Writer], Awaitable[None]]


def measure_commits(folder: str, scale: float) -> Iterator[Figure]:
    count = max(_PRODUCERS, int(4000 * scale))
    for name, fill in (("transactions_numbered", _numbered), ("transactions_spread", _spread)):
        sync_ms = _sync_ms(folder)
        with BrokerProcess(folder) as broker:
            figures = asyncio.run(_measure(broker, name, fill, count))
        # A commit is two rounds of syncs: what one of them takes at this time belongs to it.
        figures[-1].details["plain_sync_ms"] = sync_ms
        yield from figures


def _sync_ms(folder: str) -> float:
    """What a small write and its sync take on this disk now, at the median."""
    seconds = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            os.write(file.fileno(), bytes(4096))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - began)
    return round(statistics.median(seconds) * 1000, 2)


async def _numbered(writer: Writer) -> None:
    await asyncio.gather(
        *(
            writer.publish(partition, _PARTS[partition], _SHARES[partition])
            for partition in range(PARTITIONS)
        )
    )


async def _spread(writer: Writer) -> None:
    await writer.publish_spread(_WHOLE)


async def _measure(broker: BrokerProcess, name: str, fill: Fill, count: int) -> list[Figure]:
    (await prepare(broker, TOPIC, PARTITIONS)).close()
    writers = [
        await Writer.init(broker.port, TOPIC, f"bench-{number}") for number in range(_PRODUCERS)
    ]
    await _transact(writers, fill, max(_PRODUCERS, count // 10), [])
    rounds: list[Round] = []
    latencies: list[float] = []
    for _ in range(ROUNDS):
        usage, began = broker.usage, time.perf_counter()
        await _transact(writers, fill, count, latencies)
        seconds = time.perf_counter() - began
        rounds.append(Round(count=count, seconds=seconds, cpu_s=usage.cpu_s))
    figure = summarise(name, "transactions/s", rounds, broker.usage, _TARGET)
    quantiles = statistics.quantiles(latencies, n=100)
    figure.details.update(msg_s=round(figure.value * _MESSAGES), msg_s_asked=_MESSAGES_ASKED)
    for writer in writers:
        writer.close()
    p50, p90, p99 = (round(quantiles[share - 1] * 1000, 2) for share in (50, 90, 99))
    slowest = round(max(latencies) * 1000, 2)
    commit = Figure(
        figure=f"{name}_commit_p99",
        value=p99,
        unit="ms",
        target=_P99_TARGET,
        details={"p50_ms": p50, "p90_ms": p90, "max_ms": slowest},
    )
    return [figure, commit]


async def _transact(writers: list[Writer], fill: Fill, count: int, latencies: list[float]) -> None:
    left = count

    async def work(writer: Writer) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await writer.step("begin")
            await fill(writer)
            began = time.perf_counter()
            await writer.step("commit")
            latencies.append(time.perf_counter() - began)

    await asyncio.gather(*(work(writer) for writer in writers))
