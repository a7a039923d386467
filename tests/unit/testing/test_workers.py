"""Workers on a node in memory: how long a handler may take, and deliveries over restarts."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from goqueue import Connection, Message, Worker
from goqueue.testing import MemoryNode

SECONDS_MAX = 60

log = logging.getLogger("goqueue.worker")


@contextlib.asynccontextmanager
async def jobs(count: int = 1) -> AsyncIterator[tuple[MemoryNode, Connection]]:
    async with asyncio.timeout(SECONDS_MAX), MemoryNode() as node, node.connect() as q:
        await q.topics.create("jobs")
        for number in range(count):
            await q.publish("jobs", str(number))
        yield node, q


@pytest.mark.parametrize("awaits", [False, True])
def test_a_handler_that_acks_by_itself_runs_once_over_a_restart_of_the_node(awaits: bool) -> None:
    async def play() -> None:
        deliveries: list[int] = []
        async with jobs() as (node, q):
            worker = Worker("g")

            @worker.handler("jobs")
            async def work(message: Message) -> None:
                deliveries.append(message.delivery_count)
                await node.restart()
                ack = message.ack()
                if awaits:
                    await ack

            await worker.serve(q, until_idle=True)
        assert deliveries == [1]

    asyncio.run(play())


def test_a_handler_has_its_time_by_the_clock_of_the_test() -> None:
    async def play() -> None:
        ends: list[str] = []
        async with jobs() as (node, q):
            worker, began = Worker("g"), asyncio.Event()

            @worker.handler("jobs", timeout_s=60)
            async def work(_message: Message) -> None:
                began.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    ends.append(f"cancelled after {node.clock.time() - began_at:g} s")
                    worker.stop()
                    raise

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(worker.serve(q))
                await began.wait()
                began_at = node.clock.time()
                await node.clock.advance(59)
                assert ends == []
                await node.clock.advance(2)
        assert ends == ["cancelled after 60 s"]

    asyncio.run(play())


def test_a_handler_that_swallows_its_cancellation_is_named_as_what_keeps_a_slot_and_the_stop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with jobs() as (node, q):
            worker, began, may_end = Worker("g", shutdown_s=0), asyncio.Event(), asyncio.Event()
            is_named = asyncio.Event()

            def watch(line: logging.LogRecord) -> bool:
                if "the stop waits" in line.msg:
                    is_named.set()
                return True

            monkeypatch.setattr(log, "filters", [watch])

            @worker.handler("jobs", timeout_s=60)
            async def stubborn(_message: Message) -> None:
                began.set()
                while not may_end.is_set():
                    with contextlib.suppress(asyncio.CancelledError):
                        await may_end.wait()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(worker.serve(q))
                await began.wait()
                await node.clock.advance("2m")
                (line,) = errors(caplog)
                assert "jobs 0:0" in line
                assert "stubborn goes on although it was cancelled after 60 s" in line
                assert "one of 10 slots" in line
                worker.stop()
                await is_named.wait()
                may_end.set()
        assert "the stop waits for" in errors(caplog)[1]
        assert "stubborn with jobs 0:0" in errors(caplog)[1]

    asyncio.run(play())


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
