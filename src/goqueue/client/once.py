"""Work that is done by whoever needs it first, and by nobody again."""

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["AsyncOnce"]


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
