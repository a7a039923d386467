"""The way of messages to one partition: gathered, sent one parcel at a time, settled.

One request under way per lane keeps the order: what is sent again after a failure is still ahead
of what came later. Does the waiting; what leaves and when is the accumulator's to say.
"""

import asyncio
from collections.abc import Callable

import msgspec

from goqueue import records
from goqueue.client.errors import Closed, GoQueueError
from goqueue.client.producing.accumulator import Accumulator
from goqueue.client.producing.buffer import Buffer
from goqueue.client.producing.parcel import Parcel, Receipt
from goqueue.client.producing.settings import Gathering
from goqueue.client.transport import Request, Transport, target
from goqueue.client.values import nanoseconds
from goqueue.model import Message

__all__ = ["Lane"]

RECORDS = "application/vnd.goqueue.records"


class _Placed(msgspec.Struct, frozen=True):
    partition: int
    base_offset: int
    count: int


class _Published(msgspec.Struct, frozen=True):
    results: list[_Placed]
    timestamp: str


_PUBLISHED = msgspec.json.Decoder(_Published)


class Lane:
    """One partition of one topic. `run` is its task."""

    def __init__(
        self,
        topic: str,
        partition: int,
        gathering: Gathering,
        *,
        transport: Transport,
        buffer: Buffer,
        on_failed: Callable[[Parcel], None],
    ) -> None:
        self._target = target("topics", topic, "records", partition=partition)
        self._is_repeatable = gathering.repeats
        self._transport = transport
        self._buffer = buffer
        self._on_failed = on_failed
        self._loop = asyncio.get_running_loop()
        self._waiting = Accumulator(topic, partition, gathering)
        self._under_way: Parcel | None = None
        self._hurried: Parcel | None = None
        self._sleeper: asyncio.Future[None] | None = None
        self._is_lingering = False
        self._is_ended = False

    def add(self, message: Message, size_bytes: int) -> Receipt:
        """Take a message; it leaves by itself."""
        if self._is_ended:
            raise Closed("the producer has ended")
        self._buffer.taken += size_bytes
        receipt = self._waiting.add(message, size_bytes, self._loop.time())
        if self._sleeper is not None and (not self._is_lingering or self._waiting.is_full):
            self._wake()
        return receipt

    def hurry(self) -> Parcel | None:
        """Let what waits leave now; the parcel to wait for, if there is any."""
        last = self._waiting.last()
        if last is None:
            return self._under_way
        self._hurried = last
        self._wake()
        return last

    async def run(self) -> None:
        """Send parcel after parcel until cancelled; then nothing is left unanswered for."""
        try:
            while True:
                await self._send(await self._next())
        finally:
            self._is_ended = True
            while self._waiting:
                self._fail(self._waiting.take(), Closed("the producer ended before it was sent"))

    async def _next(self) -> Parcel:
        """Wait until the first parcel is full, due or hurried."""
        while True:
            due_at = self._waiting.due_at()
            if due_at is not None:
                is_due = self._hurried is not None or due_at <= self._loop.time()
                if is_due or self._waiting.is_full:
                    return self._take()
            await self._sleep(due_at)

    def _take(self) -> Parcel:
        parcel = self._waiting.take()
        if parcel is self._hurried:
            self._hurried = None
        return parcel

    async def _sleep(self, until: float | None) -> None:
        self._sleeper = self._loop.create_future()
        self._is_lingering = until is not None
        timer = None if until is None else self._loop.call_at(until, self._wake)
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def _send(self, parcel: Parcel) -> None:
        self._under_way = parcel
        size_bytes = parcel.size_bytes
        try:
            first, timestamp = await self._post(parcel)
        except GoQueueError as error:
            self._fail(parcel, error)
        except BaseException:
            words = "the producer ended before the answer came: the outcome is unknown"
            self._fail(parcel, Closed(words))
            raise
        else:
            parcel.settle(first, timestamp)
            self._buffer.release(size_bytes)
        finally:
            self._under_way = None

    def _fail(self, parcel: Parcel, error: GoQueueError) -> None:
        parcel.fail(error)
        self._on_failed(parcel)
        self._buffer.release(parcel.size_bytes)

    async def _post(self, parcel: Parcel) -> tuple[int, int]:
        """The offset of the first message, and the time of all."""
        request = Request(
            method="POST",
            target=self._target,
            body=records.build(parcel.messages),
            content_type=RECORDS,
            is_repeatable=self._is_repeatable,
        )
        published = await self._transport.read(request, _PUBLISHED)
        placed = published.results
        if len(placed) != 1 or placed[0].count != len(parcel.messages):
            raise GoQueueError("response_invalid", "the broker took another number of messages")
        return placed[0].base_offset, nanoseconds(published.timestamp)
