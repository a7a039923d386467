"""Partitions of a topic read from a place on, without a group: nothing is committed or leased."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from goqueue.client.fetcher import Feed, Reader
from goqueue.client.http import Transport
from goqueue.client.message import Message
from goqueue.client.stream_consumer import Start, find_start, partition_count
from goqueue.client.tasks import AsyncOnce, Tasks
from goqueue.client.values import StartPosition, check_choice, moment_of
from goqueue.model import LogId
from goqueue.model.requests import Isolation

if TYPE_CHECKING:
    from goqueue.client.payloads import PayloadReader

__all__ = ["Replay", "checked_start"]

CHUNK_BYTES = 1024 * 1024
WAIT_S = 30.0


def checked_start(given: Start) -> Start:
    """Where to begin, checked: text is a name or a time."""
    if isinstance(given, str) and not given[:1].isdigit():
        return check_choice("from_", given, StartPosition)
    return given if isinstance(given, int) else moment_of("from_", given)


class Replay:
    """`async for message in replay`; in offset order within each partition, without an end."""

    def __init__(
        self,
        transport: Transport,
        tasks: Tasks,
        topic: str,
        *,
        partition: int | None = None,
        start: Start = "earliest",
        isolation: Isolation = Isolation.READ_COMMITTED,
        payloads: "PayloadReader | None" = None,
    ) -> None:
        self._transport = transport
        self._tasks = tasks
        self._topic = topic
        self._partition = partition
        self._start = start
        self._isolation = isolation
        self._payloads = payloads
        self._beginning = AsyncOnce(self._begin)
        self._feed = Feed(self._beginning.run, lambda _log, _offset: None)
        self._running: list[tuple[Reader, asyncio.Task[None]]] = []
        self._is_closed = False

    async def __aenter__(self) -> "Replay":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> "Replay":
        return self

    def __anext__(self) -> Awaitable[Message]:
        return self._feed.next()

    async def take(self, count_max: int = 1000) -> list[Message]:
        """At least one message, and what else is at hand; empty when closed."""
        try:
            return await self._feed.take(count_max)
        except StopAsyncIteration:
            return []

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    async def close(self) -> None:
        """Stop reading; the iteration ends."""
        self._is_closed = True
        for reader, task in self._running:
            self._feed.drop(reader)
            task.cancel()
        self._running = []
        self._feed.end()

    async def _begin(self) -> None:
        for log in await self._logs():
            offset = await find_start(self._transport, log, self._start)
            reader = Reader(
                self._transport,
                log,
                offset,
                chunk_bytes=CHUNK_BYTES,
                wait_s=WAIT_S,
                on_reading=self._feed.put,
                isolation=self._isolation,
                payloads=self._payloads,
            )
            self._running.append((reader, self._tasks.start(reader.run())))

    async def _logs(self) -> list[LogId]:
        if self._partition is not None:
            return [LogId(self._topic, self._partition)]
        count = await partition_count(self._transport, self._topic)
        return [LogId(self._topic, partition) for partition in range(count)]
