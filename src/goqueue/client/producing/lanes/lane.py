"""The way of messages to one partition: gathered, sent one parcel at a time, settled.

One request under way per lane keeps the order: what is sent again after a failure is still ahead
of what came later. Does the waiting; what leaves and when is the accumulator's to say.
"""

import asyncio
from collections.abc import Callable

import msgspec

from goqueue.client.errors import Closed, GoQueueError
from goqueue.client.producing.lanes.accumulator import Accumulator
from goqueue.client.producing.lanes.buffer import Buffer
from goqueue.client.producing.lanes.identity import Registry
from goqueue.client.producing.lanes.parcel import ProducerBatch, Receipt
from goqueue.client.producing.lanes.posting import BatchSender
from goqueue.client.producing.settings import ProducerConfig
from goqueue.client.transport import Transport
from goqueue.model import Message

__all__ = ["PartitionSender", "SenderContext"]


class SenderContext(msgspec.Struct, frozen=True, eq=False):
    """What the lanes of one producer share. Without a registry batches have no numbers."""

    transport: Transport
    gathering: ProducerConfig
    buffer: Buffer
    registry: Registry | None
    on_failed: Callable[[ProducerBatch], None]


class PartitionSender:
    """One partition of one topic. `run` is its task."""

    def __init__(self, topic: str, partition: int, road: SenderContext) -> None:
        self._buffer = road.buffer
        self._on_failed = road.on_failed
        self._loop = asyncio.get_running_loop()
        self._waiting = Accumulator(topic, partition, road.gathering)
        self._posting = BatchSender(
            road.transport,
            topic,
            partition,
            registry=road.registry,
            is_repeatable=road.gathering.repeats,
        )
        self._hurried: ProducerBatch | None = None
        self._sleeper: asyncio.Future[None] | None = None
        self._is_lingering = False
        self._is_ended = False
        # The parcel whose answer has not come.
        self.under_way: ProducerBatch | None = None

    @property
    def is_filling(self) -> bool:
        """Whether a batch has begun that has room for more before it leaves."""
        return self._waiting.is_filling

    @property
    def following(self) -> int:
        """The number of the next message, where messages are numbered."""
        return self._posting.following

    @property
    def is_lost(self) -> bool:
        """Whether the next number is unknown, because the outcome of a batch is."""
        return self._posting.is_lost

    def add(self, message: Message, size_bytes: int) -> Receipt:
        """Take a message; it leaves by itself."""
        if self._is_ended:
            raise Closed("the producer has ended")
        self._buffer.taken += size_bytes
        receipt = self._waiting.add(message, size_bytes, self._loop.time())
        if self._sleeper is not None and (not self._is_lingering or self._waiting.is_full):
            self._wake()
        return receipt

    def hurry(self) -> ProducerBatch | None:
        """Let what waits leave now; the parcel to wait for, if there is any."""
        last = self._waiting.last()
        if last is None:
            return self.under_way
        self._hurried = last
        self._wake()
        return last

    def discard(self, error: GoQueueError) -> None:
        """Give up what waits and was not sent."""
        self._hurried = None
        while self._waiting:
            self._fail(self._waiting.take(), error)

    async def run(self) -> None:
        """Send parcel after parcel until cancelled; then nothing is left unanswered for."""
        try:
            while True:
                await self._send(await self._next())
        finally:
            self._is_ended = True
            self.discard(Closed("the producer ended before it was sent"))

    async def _next(self) -> ProducerBatch:
        """Wait until the first parcel is full, due or hurried."""
        while True:
            due_at = self._waiting.due_at()
            if due_at is not None:
                is_due = self._hurried is not None or due_at <= self._loop.time()
                if is_due or self._waiting.is_full:
                    return self._take()
            await self._sleep(due_at)

    def _take(self) -> ProducerBatch:
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

    async def _send(self, parcel: ProducerBatch) -> None:
        self.under_way = parcel
        try:
            placed = await self._posting.post(parcel)
        except GoQueueError as error:
            self._fail(parcel, error)
        except BaseException:
            words = "the producer ended before the answer came: the outcome is unknown"
            self._fail(parcel, Closed(words))
            raise
        else:
            parcel.settle(placed.first, placed.timestamp)
            if parcel.error is not None:
                self._on_failed(parcel)
            self._buffer.release(parcel.size_bytes)
        finally:
            self.under_way = None

    def _fail(self, parcel: ProducerBatch, error: GoQueueError) -> None:
        parcel.fail(error)
        self._on_failed(parcel)
        self._buffer.release(parcel.size_bytes)
