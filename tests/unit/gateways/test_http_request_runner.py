"""Handlers run without a task: what they may await, and how they are interrupted."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from goqueue.gateways.http.server.application import HttpResponse
from goqueue.gateways.http.server.request_runner import Outcome, RequestRunner
from tests.unit.gateways.loopback import LOOPS, run

pytestmark = pytest.mark.parametrize("loop", LOOPS)

DONE = HttpResponse(200, b"done")
LATE = HttpResponse(504, b"late")


class Started:
    """A handler, and what it has come to."""

    def __init__(self, coroutine: Coroutine[Any, None, HttpResponse]) -> None:
        self.outcomes: list[Outcome] = []
        self.runner = RequestRunner(asyncio.get_running_loop(), coroutine, self.outcomes.append)

    def start(self) -> Outcome | None:
        return self.runner.start()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def at_once() -> HttpResponse:
    return DONE


async def failing() -> HttpResponse:
    raise LookupError("as the test wants it")


@pytest.mark.parametrize(("handle", "kind"), [(at_once, HttpResponse), (failing, LookupError)])
def test_what_never_waits_is_over_when_it_has_started(
    handle: Callable[[], Coroutine[Any, None, HttpResponse]], kind: type, loop: str
) -> None:
    async def main() -> None:
        started = Started(handle())
        assert isinstance(started.start(), kind)
        await settle()
        assert not started.outcomes

    run(main(), loop)


def test_a_handler_may_await_futures_tasks_and_nothing(loop: str) -> None:
    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def in_time() -> None:
            async with asyncio.timeout(10):
                await asyncio.sleep(0)

        async def handle() -> HttpResponse:
            await asyncio.sleep(0)
            await future
            await asyncio.get_running_loop().create_task(in_time())
            return DONE

        started = Started(handle())
        assert started.start() is None
        await settle()
        assert not started.outcomes
        future.set_result(None)
        await settle()
        await settle()
        assert started.outcomes == [DONE]

    run(main(), loop)


@pytest.mark.parametrize("is_ready", [False, True], ids=["waits", "is about to resume"])
@pytest.mark.parametrize("pauses", [False, True], ids=["for a future", "for nothing"])
def test_an_interrupted_handler_is_not_resumed_by_what_it_waited_for(
    is_ready: bool, pauses: bool, loop: str
) -> None:
    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def handle() -> HttpResponse:
            try:
                await (asyncio.sleep(0) if pauses else future)
            except TimeoutError:
                return LATE
            return DONE

        started = Started(handle())
        assert started.start() is None
        if is_ready:
            future.set_result(None)
        assert started.runner.interrupt(TimeoutError()) is LATE
        await settle()
        assert not started.outcomes

    run(main(), loop)


def test_an_interrupted_handler_may_wait_again(loop: str) -> None:
    async def main() -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def handle() -> HttpResponse:
            try:
                await never
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                raise
            return DONE

        started = Started(handle())
        assert started.start() is None
        assert started.runner.interrupt(asyncio.CancelledError()) is None
        await settle()
        [outcome] = started.outcomes
        assert isinstance(outcome, asyncio.CancelledError)
        assert never.cancelled()

    run(main(), loop)


def test_a_task_that_a_handler_waits_for_is_cancelled_with_it(loop: str) -> None:
    async def main() -> None:
        async def forever() -> None:
            await asyncio.Event().wait()

        task = asyncio.get_running_loop().create_task(forever())

        async def handle() -> HttpResponse:
            await task
            return DONE

        started = Started(handle())
        assert started.start() is None
        assert isinstance(
            started.runner.interrupt(asyncio.CancelledError()), asyncio.CancelledError
        )
        await settle()
        assert task.cancelled()

    run(main(), loop)
