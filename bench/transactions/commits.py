"""Transactions a second: many producers, three partitions, every commit flushed before it is said.

Once as a client does it that numbers its batches, one for each partition, sent side by side; once
with a single batch that the broker spreads.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator

from bench.broker.broker import BrokerProcess
from bench.broker.measuring import Round, prepare, summarise
from bench.broker.publish import ROUNDS, TOPIC, VALUE
from bench.log.figure import Figure, Target
from bench.transactions.writer import PARTITIONS, Writer
from goqueue.model import Message
from goqueue.records import build

__all__ = ["measure_commits"]

_PRODUCERS = 16
_MESSAGES = 100
_TARGET = Target(at_least=400)
_MESSAGES_ASKED = 40_000
_P99_MS_ASKED = 50
_SHARES = [_MESSAGES // PARTITIONS + (number < _MESSAGES % PARTITIONS) for number in range(3)]
_PARTS = [bytes(build([Message(value=VALUE.encode())] * share)) for share in _SHARES]
_WHOLE = bytes(build([Message(value=VALUE.encode())] * _MESSAGES))

Fill = Callable[[Writer], Awaitable[None]]


def measure_commits(folder: str, scale: float) -> Iterator[Figure]:
    count = max(_PRODUCERS, int(4000 * scale))
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_measure(broker, "transactions_numbered", _numbered, count))
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_measure(broker, "transactions_spread", _spread, count))


async def _numbered(writer: Writer) -> None:
    await asyncio.gather(
        *(
            writer.publish(partition, _PARTS[partition], _SHARES[partition])
            for partition in range(PARTITIONS)
        )
    )


async def _spread(writer: Writer) -> None:
    await writer.publish_spread(_WHOLE)


async def _measure(broker: BrokerProcess, name: str, fill: Fill, count: int) -> Figure:
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
    figure.details.update(
        msg_s=round(figure.value * _MESSAGES),
        msg_s_asked=_MESSAGES_ASKED,
        commit_p50_ms=round(quantiles[49] * 1000, 2),
        commit_p99_ms=round(quantiles[98] * 1000, 2),
        commit_p99_ms_asked=_P99_MS_ASKED,
    )
    for writer in writers:
        writer.close()
    return figure


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
