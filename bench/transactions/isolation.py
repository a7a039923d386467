"""What it costs to read only what was committed, where one message of a hundred was aborted."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from bench.broker.publish import TOPIC, VALUE
from bench.broker_process import BrokerProcess, Usage
from bench.figure import Figure, Target
from bench.rounds import Round, prepare
from bench.transactions.pairs import Work, compare
from bench.transactions.writer import PARTITIONS, Writer
from bench.wire import Wire, request
from goqueue.model import Message
from goqueue.records import build, last_offset, walk

__all__ = ["measure_isolation"]

# Of every thousand messages ten are of a transaction that was aborted, so that nearly every
# answer has ranges to leave out.
_COMMITTED = bytes(build([Message(value=VALUE.encode())] * 990))
_ABORTED = bytes(build([Message(value=b"aborted".ljust(100, b"x"))] * 10))
_TARGET = Target(ratio_at_least=0.9)
_PASSES = 2

Reader = Callable[[Wire, int, str], Awaitable[int]]


def measure_isolation(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        each = max(2, int(200 * scale))
        asyncio.run(_fill(broker, each))
        for name, read in (("read_committed_raw", _raw), ("read_committed_json", _json)):
            yield asyncio.run(_compare(broker, name, read, each * PARTITIONS * 990))


async def _fill(broker: BrokerProcess, each: int) -> None:
    (await prepare(broker, TOPIC, PARTITIONS)).close()
    writer = await Writer.init(broker.port, TOPIC, "filler")
    for number in range(each * PARTITIONS):
        partition = number % PARTITIONS
        for batch, count, end in ((_COMMITTED, 990, "commit"), (_ABORTED, 10, "abort")):
            await writer.step("begin")
            await writer.publish(partition, batch, count)
            await writer.step(end)
    writer.close()


async def _compare(broker: BrokerProcess, name: str, read: Reader, count: int) -> Figure:
    wires = [await Wire.open(broker.port) for _ in range(PARTITIONS)]
    shown = [await read(wire, place, "read_committed") for place, wire in enumerate(wires)]
    assert read is _raw or sum(shown) == count, f"{sum(shown)} of {count} messages were read"
    usage = broker.usage
    figure = await compare(
        name,
        _round(wires, read, "read_committed", usage),
        _round(wires, read, "read_uncommitted", usage),
        usage,
        _TARGET,
    )
    for wire in wires:
        wire.close()
    return figure


def _round(wires: list[Wire], read: Reader, isolation: str, usage: Usage) -> Work:
    async def work() -> Round:
        before, began = usage.cpu_s, time.perf_counter()
        count = 0
        for _ in range(_PASSES):
            reading = (read(wire, place, isolation) for place, wire in enumerate(wires))
            count += sum(await asyncio.gather(*reading))
        seconds = time.perf_counter() - began
        return Round(count=count, seconds=seconds, cpu_s=usage.cpu_s - before)

    return work


async def _raw(wire: Wire, partition: int, isolation: str) -> int:
    """All records; what is to be dropped is the reader's to drop, and counts."""
    offset = count = 0
    place = f"/topics/{TOPIC}/partitions/{partition}/records"
    while True:
        answer = await wire.send(request("GET", f"{place}?offset={offset}&isolation={isolation}"))
        if not answer:
            return count
        count += len(walk(answer))
        offset = last_offset(answer) + 1


async def _json(wire: Wire, partition: int, isolation: str) -> int:
    offset = count = 0
    place = f"/topics/{TOPIC}/partitions/{partition}/messages"
    while True:
        query = f"offset={offset}&limit=1000&isolation={isolation}"
        answer = await wire.send(request("GET", f"{place}?{query}"))
        # The client's own decoding is not what is measured: only where to go on is read.
        following = int(answer[answer.rindex(b'"next_offset":') + 14 : -1])
        if following == offset:
            return count
        count += answer.count(b'"offset":')
        offset = following
