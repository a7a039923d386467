"""What it costs to be known: numbered batches beside plain ones, over HTTP and in process."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator

import uvloop

from bench.broker.publish import BATCH, TOPIC, VALUE
from bench.broker_process import BrokerProcess, Usage
from bench.figure import Figure, Target
from bench.rounds import Round, prepare
from bench.transactions.node import running
from bench.transactions.pairs import Work, compare
from bench.transactions.writer import PARTITIONS, Writer
from goqueue.model import LOCAL, Message
from goqueue.model.requests import (
    CreateTopic,
    InitProducer,
    ProducerGranted,
    ProducerStamp,
    Publish,
)
from goqueue.records import build
from goqueue.runtime import Pump

__all__ = ["measure_idempotence"]

_WRITERS = 6
_TARGET = Target(ratio_at_least=0.9)
_RECORDS = bytes(build([Message(value=VALUE.encode())] * BATCH))


def measure_idempotence(folder: str, scale: float) -> Iterator[Figure]:
    count = max(_WRITERS, int(300 * scale))
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_over_http(broker, count))
    yield uvloop.run(_in_process(folder, count))


async def _over_http(broker: BrokerProcess, count: int) -> Figure:
    (await prepare(broker, TOPIC, PARTITIONS)).close()
    writers = [await Writer.init(broker.port, TOPIC) for _ in range(_WRITERS)]

    async def known(number: int) -> None:
        await writers[number].publish(number % PARTITIONS, _RECORDS, BATCH)

    async def plain(number: int) -> None:
        await writers[number].publish_plain(number % PARTITIONS, _RECORDS)

    usage = broker.usage
    figure = await compare(
        "idempotent_publish_http",
        _round(count, known, lambda: usage.cpu_s),
        _round(count, plain, lambda: usage.cpu_s),
        usage,
        _TARGET,
    )
    for writer in writers:
        writer.close()
    return figure


async def _in_process(folder: str, count: int) -> Figure:
    async with running(folder) as pump:
        await pump.ask(CreateTopic(name=TOPIC), LOCAL)
        numbered = [await _Numbered.init(pump) for _ in range(_WRITERS)]

        async def known(number: int) -> None:
            stamp = numbered[number].next()
            await pump.ask(_publication(number, stamp), LOCAL)

        async def plain(number: int) -> None:
            await pump.ask(_publication(number, None), LOCAL)

        usage = Usage(os.getpid())
        return await compare(
            "idempotent_publish_in_process",
            _round(count, known, lambda: usage.cpu_s),
            _round(count, plain, lambda: usage.cpu_s),
            usage,
            _TARGET,
        )


class _Numbered:
    """A producer that counts what it sends to its one partition."""

    def __init__(self, granted: ProducerGranted) -> None:
        self._granted = granted
        self._sequence = 0

    @classmethod
    async def init(cls, pump: Pump) -> "_Numbered":
        granted = await pump.ask(InitProducer(), LOCAL)
        assert isinstance(granted, ProducerGranted)
        return cls(granted)

    def next(self) -> ProducerStamp:
        sequence, self._sequence = self._sequence, self._sequence + BATCH
        return ProducerStamp(
            producer_id=self._granted.producer_id, epoch=self._granted.epoch, sequence=sequence
        )


def _publication(number: int, stamp: ProducerStamp | None) -> Publish:
    targets = [number % PARTITIONS] * BATCH
    return Publish(
        topic=TOPIC, batch=bytearray(_RECORDS), targets=targets, is_whole=True, producer=stamp
    )


def _round(
    count: int, publish: Callable[[int], Awaitable[None]], cpu_s: Callable[[], float]
) -> Work:
    """So many batches by all writers at once, each with one batch on its way."""

    async def work() -> Round:
        left = count

        async def write(number: int) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await publish(number)

        before, began = cpu_s(), time.perf_counter()
        await asyncio.gather(*(write(number) for number in range(_WRITERS)))
        seconds = time.perf_counter() - began
        return Round(count=count * BATCH, seconds=seconds, cpu_s=cpu_s() - before)

    return work
