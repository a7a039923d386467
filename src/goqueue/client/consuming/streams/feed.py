"""Messages handed out one by one from chunks that readers bring.

The hot path: handing out a message is an index and a list. A message counts as finished when the
next one is asked for, so that a consumer that dies at work gets it again.

Invariant: chunks of one partition are handed out in order, and each is given back to its reader
exactly once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from goqueue.client.consuming.streams.chunk import Chunk
from goqueue.client.consuming.streams.reader import Reader, OffsetSource
from goqueue.client.errors import GoQueueError
from goqueue.client.message import Message
from goqueue.model import LogId

__all__ = ["Feed"]


class Feed:
    """What waits, and the chunk that is being handed out."""

    def __init__(
        self, begin: Callable[[], Awaitable[None]], on_finished: Callable[[LogId, int], None]
    ) -> None:
        self._begin = begin
        self._on_finished = on_finished
        self._waiting: deque[tuple[Reader, OffsetSource]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._reader: Reader | None = None
        self._chunk: Chunk | None = None
        self._messages: list[Message] = []
        self._index = 0
        # The first message that was handed out and is not known to be finished.
        self._held = 0
        self._is_ended = False

    async def next(self) -> Message:
        """The next message, if need be when there is one."""
        index = self._index
        if index < len(self._messages):
            self._held = index
            self._index = index + 1
            return self._messages[index]
        await self._advance()
        self._index = 1
        return self._messages[0]

    async def take(self, count_max: int) -> list[Message]:
        """At least one message, at most what is there; all count as one in `next`'s sense."""
        if self._index >= len(self._messages):
            await self._advance()
        self._held = self._index
        taken = self._messages[self._index : self._index + count_max]
        self._index += len(taken)
        return taken

    def position(self, *, is_done: bool, except_last: int = 0) -> tuple[LogId, int] | None:
        """Where the chunk in hand stands.

        With `is_done` everything handed out is finished, except for the last so many; without, what
        was handed out last is not.
        """
        chunk = self._chunk
        if chunk is None or self._index == 0:
            return None
        reached = max(self._index - except_last, 0) if is_done else self._held
        if reached == len(self._messages):
            return chunk.log, chunk.next_offset
        return chunk.log, self._messages[reached].offset

    def put(self, reader: Reader, reading: OffsetSource) -> None:
        """A reader brings a chunk, or the reason why it brings no more."""
        if not reader.is_stopped:
            self._waiting.append((reader, reading))
            self._wake()

    def drop(self, reader: Reader) -> None:
        """Hand out nothing more from this reader."""
        reader.is_stopped = True
        self._waiting = deque(pair for pair in self._waiting if pair[0] is not reader)
        if self._reader is reader:
            self._let_go()

    def end(self) -> None:
        """After the message in hand the iteration ends."""
        self._is_ended = True
        self._messages = []
        self._index = 0
        self._wake()

    async def _advance(self) -> None:
        """Finish the chunk in hand and take up the next one that has messages."""
        if not self._is_ended:
            await self._begin()
        while True:
            self._finish()
            if self._is_ended:
                raise StopAsyncIteration
            if not self._waiting:
                await self._wait()
                continue
            reader, reading = self._waiting.popleft()
            if isinstance(reading, GoQueueError):
                raise reading
            self._reader, self._chunk = reader, reading
            self._messages, self._index, self._held = reading.messages, 0, 0
            if reading.messages:
                return

    def _finish(self) -> None:
        if self._chunk is not None and self._reader is not None:
            self._on_finished(self._chunk.log, self._chunk.next_offset)
            self._reader.take()
        self._let_go()

    def _let_go(self) -> None:
        self._reader = self._chunk = None
        self._messages, self._index, self._held = [], 0, 0

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise GoQueueError("request_invalid", "a stream is read by one task at a time")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
