"""The background tasks of a connection, and an initialiser that runs once.

One group owns all tasks. It cannot be an `asyncio.TaskGroup` around the caller's block: that would
wrap the caller's exceptions in a group.

Invariant: after `close` no task of the connection is running.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol

from goqueue.client.call_timeout import background_context
from goqueue.client.errors import Closed

__all__ = ["AsyncOnce", "Closable", "Tasks"]


class Closable(Protocol):
    """What was made from a connection, and is closed with it."""

    @property
    def is_closed(self) -> bool: ...

    async def close(self) -> None: ...


class Tasks:
    """Starts tasks, and ends those that are left at the close."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._owner: asyncio.Task[None] | None = None
        self._left: set[asyncio.Task[None]] = set()
        self._is_ending = asyncio.Event()

    async def open(self) -> None:
        is_open = asyncio.Event()
        self._owner = asyncio.create_task(self._own(is_open), name="goqueue")
        await is_open.wait()

    def start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run in the background; an exception that escapes is a bug, and is raised by `close`."""
        if self._group is None or self._is_ending.is_set():
            work.close()
            raise Closed("the connection is not open: use `async with goqueue.connect() as q`")
        task = self._group.create_task(work, context=background_context())
        self._left.add(task)
        task.add_done_callback(self._left.discard)
        return task

    async def close(self) -> None:
        self._is_ending.set()
        if self._owner is not None:
            await self._owner

    async def _own(self, is_open: asyncio.Event) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                is_open.set()
                await self._is_ending.wait()
                for task in list(self._left):
                    task.cancel()
        finally:
            self._group = None


class AsyncOnce:
    """If the work fails, the next who needs it tries again."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._lock = asyncio.Lock()
        self.is_done = False

    async def run(self) -> None:
        if not self.is_done:
            async with self._lock:
                await self._run_alone()

    async def _run_alone(self) -> None:
        if not self.is_done:
            await self._work()
            self.is_done = True
