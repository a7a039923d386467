"""Threads of handlers: one answer to each call, and none that keeps the program."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from goqueue.client.handler_thread import HandlerThread

WORD = contextvars.ContextVar("WORD", default="")


def test_a_call_runs_in_the_thread_with_the_context_of_its_caller() -> None:
    async def scene() -> None:
        seen: list[object] = []
        thread = HandlerThread("t")
        WORD.set("said")
        await thread.call(lambda: seen.extend((threading.current_thread().name, WORD.get())))
        assert seen == ["t", "said"]
        thread.end()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("v"), ValueError),
        (StopIteration(), RuntimeError),
        (KeyboardInterrupt(), RuntimeError),
        (GeneratorExit(), RuntimeError),
        (SystemExit(3), SystemExit),
    ],
)
def test_what_a_call_raises_is_raised_to_its_caller(
    error: BaseException, kind: type[BaseException]
) -> None:
    def fail() -> None:
        raise error

    async def scene() -> None:
        thread = HandlerThread("t")
        with pytest.raises(kind):
            await thread.call(fail)
        await thread.call(lambda: None)
        thread.end()

    asyncio.run(scene())


def test_what_a_thread_says_too_late_is_dropped() -> None:
    async def scene() -> None:
        may_end = threading.Event()
        thread = HandlerThread("t")
        answer = thread.call(may_end.wait)
        answer.set_exception(TimeoutError("given up"))
        with pytest.raises(TimeoutError):
            await answer
        may_end.set()
        await thread.call(lambda: None)
        thread.end()

    asyncio.run(scene())


def test_a_call_that_never_returns_does_not_keep_the_program() -> None:
    code = (
        "import asyncio, threading\n"
        "from goqueue.client.handler_thread import HandlerThread\n"
        "async def main():\n"
        "    HandlerThread('t').call(threading.Event().wait)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
