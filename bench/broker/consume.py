"""Consume over HTTP: queue leases with batch acks while a publisher runs, streams, raw records."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from bench.broker.publish import BATCH, ROUNDS, TOPIC, batch_request
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import Round, prepare, summarise
from bench.wire import Wire, request
from goqueue.records import last_offset, walk

__all__ = ["measure_consume"]


def measure_consume(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        asyncio.run(_fill(broker, max(6, int(400 * scale))))
        yield asyncio.run(_stream(broker))
        yield asyncio.run(_raw(broker))
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_queue(broker, max(3000, int(150_000 * scale))))


async def _fill(broker: BrokerProcess, batches: int) -> None:
    wire = await prepare(broker, TOPIC)
    prepared = batch_request()
    for _ in range(batches):
        await wire.send(prepared)


async def _stream(broker: BrokerProcess) -> Figure:
    async def read(wire: Wire, partition: int) -> int:
        offset = count = 0
        while True:
            place = f"/topics/{TOPIC}/partitions/{partition}/messages"
            answer = await wire.send(request("GET", f"{place}?offset={offset}&limit=1000"))
            # The client's own decoding is not what is measured: only where to go on is read.
            tail = answer[answer.rindex(b'"next_offset":') + 14 : -1]
            following = int(tail)
            if following == offset:
                return count
            count += following - offset
            offset = following

    return await _read_all(broker, read, "stream_json", 150_000)


async def _raw(broker: BrokerProcess) -> Figure:
    async def read(wire: Wire, partition: int) -> int:
        offset = count = 0
        place = f"/topics/{TOPIC}/partitions/{partition}/records"
        while True:
            answer = await wire.send(request("GET", f"{place}?offset={offset}"))
            if not answer:
                return count
            count += len(walk(answer))
            offset = last_offset(answer) + 1

    return await _read_all(broker, read, "read_raw_into_columns", 1_000_000)


Reader = Callable[[Wire, int], Awaitable[int]]


async def _read_all(broker: BrokerProcess, read: Reader, name: str, at_least: int) -> Figure:
    wires = [await Wire.open(broker.port) for _ in range(3)]
    rounds = []
    for _ in range(ROUNDS):
        usage = broker.usage
        began = time.perf_counter()
        counts = await asyncio.gather(*(read(wire, n) for n, wire in enumerate(wires)))
        seconds = time.perf_counter() - began
        rounds.append(Round(count=sum(counts), seconds=seconds, cpu_s=usage.cpu_s))
    return summarise(name, "msg/s", rounds, broker.usage, Target(at_least=at_least))


async def _queue(broker: BrokerProcess, count: int) -> Figure:
    """From published to acknowledged, with the publisher running: leases of 500, batch acks."""
    wire = await prepare(broker, TOPIC)
    joined = await wire.ask("POST", "/groups/g/join", {"client_id": "c", "topics": [TOPIC]})
    member = joined["member_id"]
    rounds = []
    for _ in range(ROUNDS):
        usage = broker.usage
        progress = Progress(count)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_publish(broker, count))
            for _ in range(2):
                tasks.create_task(_consume(broker, member, progress))
        seconds = time.perf_counter() - began
        rounds.append(Round(count=count, seconds=seconds, cpu_s=usage.cpu_s))
    target = Target(at_least=60_000)
    return summarise("queue_lease_and_ack", "msg/s", rounds, broker.usage, target)


class Progress:
    """How many messages are still to be acknowledged, over all consumers of a round."""

    def __init__(self, count: int) -> None:
        self.left = count


async def _publish(broker: BrokerProcess, count: int) -> None:
    wire = await Wire.open(broker.port)
    prepared = batch_request()
    for _ in range(count // BATCH):
        await wire.send(prepared)
    wire.close()


async def _consume(broker: BrokerProcess, member: str, progress: Progress) -> None:
    wire = await Wire.open(broker.port)
    target = f"/groups/g/poll?member_id={member}&max_messages=500&timeout=200ms"
    poll = request("GET", target)
    while progress.left > 0:
        answer = await wire.send(poll)
        # As a client would, but without building what it does not look at.
        receipts = [piece[: piece.index(b'"')] for piece in answer.split(b'"receipt_handle":"')[1:]]
        if receipts:
            body = b'{"receipt_handles":["' + b'","'.join(receipts) + b'"]}'
            await wire.send(request("POST", "/messages/ack/batch", body))
            progress.left -= len(receipts)
    wire.close()
