"""The node without a gateway: how fast batches are routed, appended, synced and answered."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator

import uvloop

from bench.broker.publish import BATCH, ROUNDS, TOPIC, VALUE
from bench.broker_process import Usage
from bench.figure import Figure, Target
from bench.rounds import Round, summarise
from goqueue.broker import Node
from goqueue.model import LOCAL, Message
from goqueue.model.requests import CreateTopic, Publish
from goqueue.records import build
from goqueue.runtime import Disk, OsFileSystem, Pump

__all__ = ["measure_in_process"]

_IN_FLIGHT = 16


def measure_in_process(folder: str, scale: float) -> Iterator[Figure]:
    yield uvloop.run(_measure(folder, max(32, int(2000 * scale))))


async def _measure(folder: str, count: int) -> Figure:
    root = tempfile.mkdtemp(prefix="data-", dir=folder)
    pump = Pump(Node("bench", os.urandom(32)), _halted)
    disk = Disk(OsFileSystem(root), pump.take_from_disk)
    disk.start()
    pump.start(disk)
    await pump.wait_until_serving()
    await pump.ask(CreateTopic(name=TOPIC), LOCAL)
    batch = bytes(build([Message(value=VALUE.encode())] * BATCH))
    rounds = []
    for _ in range(ROUNDS):
        usage = Usage(os.getpid())
        began = time.perf_counter()
        await _publish(pump, batch, count)
        seconds = time.perf_counter() - began
        rounds.append(Round(count=count * BATCH, seconds=seconds, cpu_s=usage.cpu_s))
    figure = summarise(
        "publish_in_process", "msg/s", rounds, Usage(os.getpid()), Target(at_least=1_000_000)
    )
    await pump.stop()
    disk.close()
    shutil.rmtree(root)
    return figure


async def _publish(pump: Pump, batch: bytes, count: int) -> None:
    left = count

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await pump.ask(Publish(topic=TOPIC, batch=bytearray(batch)), LOCAL)

    await asyncio.gather(*(work() for _ in range(_IN_FLIGHT)))


def _halted(reason: str) -> None:
    raise SystemExit(reason)
