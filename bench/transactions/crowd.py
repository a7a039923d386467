"""Many transactions, ended and open, made by the node itself in a process that is killed then."""

import asyncio
import multiprocessing
import os
import signal

import uvloop

from bench.transactions.node import started
from goqueue.model import LOCAL, SECOND, Message
from goqueue.model.requests import (
    BeginTransaction,
    CreateTopic,
    EndTransaction,
    InitProducer,
    Owner,
    ProducerGranted,
    ProducerStamp,
    Publish,
)
from goqueue.records import build
from goqueue.runtime import Pump

__all__ = ["make_crowd"]

_TOPIC = "crowd"
_AT_WORK = 1000
_RECORD = bytes(build([Message(value=b"x" * 100)]))
# The longest that there is: the open ones must not end before they were counted.
_TIMEOUT_NS = 900 * SECOND


def make_crowd(data: str, finished: int, still_open: int) -> None:
    """Leave a data directory as a node that was killed leaves it."""
    child = multiprocessing.get_context("spawn").Process(
        target=_live_and_die, args=(data, finished, still_open)
    )
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL, "the transactions could not be made"


def _live_and_die(data: str, finished: int, still_open: int) -> None:
    uvloop.run(_fill(data, finished, still_open))
    os.kill(os.getpid(), signal.SIGKILL)


async def _fill(data: str, finished: int, still_open: int) -> None:
    pump, _ = await started(data)
    await pump.ask(CreateTopic(name=_TOPIC), LOCAL)
    left = finished

    async def work(name: str) -> None:
        nonlocal left
        owner = await _owner(pump, name)
        while left > 0:
            left -= 1
            await _write(pump, owner)
            # Every hundredth is aborted, as some are in life.
            await pump.ask(EndTransaction(owner=owner, is_commit=left % 100 != 0), LOCAL)

    await asyncio.gather(*(work(f"worker-{number}") for number in range(_AT_WORK)))
    for first in range(0, still_open, _AT_WORK):
        numbers = range(first, min(still_open, first + _AT_WORK))
        await asyncio.gather(*(_leave_open(pump, f"open-{number}") for number in numbers))


async def _leave_open(pump: Pump, name: str) -> None:
    await _write(pump, await _owner(pump, name))


async def _owner(pump: Pump, name: str) -> Owner:
    granted = await pump.ask(InitProducer(transactional_id=name, timeout_ns=_TIMEOUT_NS), LOCAL)
    assert isinstance(granted, ProducerGranted)
    return Owner(producer_id=granted.producer_id, epoch=granted.epoch, transactional_id=name)


async def _write(pump: Pump, owner: Owner) -> None:
    """Begin a transaction, and publish one message in it."""
    await pump.ask(BeginTransaction(owner=owner), LOCAL)
    stamp = ProducerStamp(producer_id=owner.producer_id, epoch=owner.epoch)
    await pump.ask(Publish(topic=_TOPIC, batch=bytearray(_RECORD), producer=stamp), LOCAL)
