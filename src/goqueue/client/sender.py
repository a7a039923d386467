"""Sends the batches of one partition in order, with back-pressure.

Four parts, from the outside in:

- `PartitionSender` does the waiting: one request at a time for its partition, so what is sent again
  after a failure is still ahead of what came later.
- `BatchSender` sends one batch until its outcome is known, and decides what to do about refusals. A
  numbered batch may be sent any number of times and is stored once. The broker takes a batch as a
  whole or not at all: where it refuses one message by its index, the others are sent without it,
  under the same number. Where it does not know the producer, the batch is sent under a new number,
  but never if the outcome of an earlier attempt is unknown.
- `Accumulator` fills batches and decides when the first one leaves. It is told the time and never
  sends anything.
- `Buffer` bounds the bytes of all messages of a producer that are not answered yet.

Invariants: messages leave in the order in which they were added. No batch is over its bounds,
except one with a single message. Whatever is raised, no message is stored twice; if the outcome is
known, none is stored.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable

import msgspec

from goqueue import records
from goqueue.client.batch import PartitionSequence, ProducerBatch, ProducerConfig, Receipt, Registry
from goqueue.client.errors import Closed, GoQueueError, refusal
from goqueue.client.http import Transport, target
from goqueue.client.stored_records import PublishedBatch, post_records
from goqueue.model import DELIVER_HEADER, LogId, Message
from goqueue.model.requests import Acks

__all__ = ["Accumulator", "BatchSender", "Buffer", "PartitionSender", "SenderContext"]


class Buffer:
    """Bytes taken, and those who wait for room."""

    __slots__ = ("_waiters", "bytes_max", "taken")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._waiters: list[asyncio.Future[None]] = []
        self.taken = 0

    def has_room(self, size_bytes: int) -> bool:
        return self.taken + size_bytes <= self.bytes_max or not self.taken

    async def wait_for_room(self, size_bytes: int) -> None:
        while not self.has_room(size_bytes):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def release(self, size_bytes: int) -> None:
        self.taken -= size_bytes
        assert self.taken >= 0, "released more than was taken"
        # Not at the first free byte: a sender that wakes for every batch gains nothing.
        if self._waiters and self.taken <= self.bytes_max // 2:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters = []


class Accumulator:
    """Fills the last batch, hands out the first."""

    def __init__(self, topic: str, partition: int, gathering: ProducerConfig) -> None:
        self._topic = topic
        self._partition = partition
        self._gathering = gathering
        self._batches: deque[ProducerBatch] = deque()
        self._open: ProducerBatch | None = None

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, key: bytes, value: bytes | None, size_bytes: int, now: float) -> Receipt:
        """Encode a message of normal priority; `size_bytes` is what it occupies in a request."""
        batch = self.roomy(size_bytes)
        if batch is not None:
            return batch.add(key, value, size_bytes)
        # A new batch waits for nothing until a message is in it.
        batch = ProducerBatch(self._topic, self._partition, now)
        receipt = batch.add(key, value, size_bytes)
        self._append(batch)
        return receipt

    def put(self, message: Message, size_bytes: int, now: float) -> Receipt:
        """Encode any message."""
        batch = self.roomy(size_bytes)
        if batch is not None:
            return batch.put(message, size_bytes)
        batch = ProducerBatch(self._topic, self._partition, now)
        receipt = batch.put(message, size_bytes)
        self._append(batch)
        return receipt

    def roomy(self, size_bytes: int) -> ProducerBatch | None:
        """The open batch, if there is one with room for so much."""
        batch = self._open
        gathering = self._gathering
        if (
            batch is not None
            and batch.count < gathering.messages_max
            and batch.size_bytes + size_bytes <= gathering.size_bytes_max
        ):
            return batch
        return None

    def _append(self, batch: ProducerBatch) -> None:
        self._open = batch
        self._batches.append(batch)

    @property
    def is_full(self) -> bool:
        """Whether the first batch has what it should have, so that it leaves without waiting."""
        if not self._batches:
            return False
        first = self._batches[0]
        gathering = self._gathering
        return (
            len(self._batches) > 1
            or first.count >= gathering.messages
            or first.size_bytes >= gathering.size_bytes
        )

    @property
    def is_filling(self) -> bool:
        """Whether a batch is open that has less than it should have."""
        return self._open is not None and self._open.count < self._gathering.messages

    def due_at(self) -> float | None:
        """When the first batch leaves even if it is not full; None while there is none."""
        return self._batches[0].opened_at + self._gathering.linger_s if self._batches else None

    def take(self) -> ProducerBatch:
        """The first batch, closed."""
        batch = self._batches.popleft()
        if batch is self._open:
            self._open = None
        return batch

    def last(self) -> ProducerBatch | None:
        """The batch that leaves last, of those that wait."""
        return self._batches[-1] if self._batches else None


# The broker has another opinion of the producer than the lane: it was forgotten, or its partition
# was, or the topic was made anew.
_ESTRANGED = frozenset({"producer_fenced", "producer_not_found", "sequence_out_of_order"})
_RENEWALS_MAX = 2


class BatchSender:
    """Posts the batches of one lane, one at a time."""

    def __init__(
        self,
        transport: Transport,
        topic: str,
        partition: int,
        *,
        registry: Registry | None,
        gathering: ProducerConfig,
    ) -> None:
        self._transport = transport
        self._log = LogId(topic, partition)
        acks = None if gathering.acks == Acks.ALL else str(gathering.acks)
        self._target = target("topics", topic, "records", partition=partition, acks=acks)
        self._sequence = None if registry is None else PartitionSequence(registry)
        self._is_repeatable = gathering.repeats or registry is not None
        self._is_unconfirmed = gathering.acks == Acks.NONE

    @property
    def following(self) -> int:
        return 0 if self._sequence is None else self._sequence.following

    @property
    def is_lost(self) -> bool:
        return self._sequence is not None and self._sequence.is_lost

    async def post(self, batch: ProducerBatch) -> PublishedBatch:
        """Where the batch went; raises if it went nowhere, or nobody can say."""
        renewals = 0
        while True:
            body, count = batch.close(), batch.remaining
            try:
                return await self._post_numbered(body, count)
            except GoQueueError as error:
                if error.is_outcome_unknown:
                    raise
                index = _culprit(error, body)
                if index is not None and count > 1:
                    batch.refuse(index, _reworded(error, body, index))
                elif index is not None:
                    raise _reworded(error, body, 0) from error
                elif error.code in _ESTRANGED and self._can_renew and renewals < _RENEWALS_MAX:
                    renewals += 1
                    await self._renew()
                else:
                    raise

    @property
    def _can_renew(self) -> bool:
        return self._sequence is not None and self._sequence.is_renewable

    async def _renew(self) -> None:
        assert self._sequence is not None, "without numbers there is nothing to renew"
        await self._sequence.renew()

    async def _post_numbered(self, body: bytearray, count: int) -> PublishedBatch:
        sequence = self._sequence
        if sequence is None:
            return await self._post(self._target, body, count)
        stamp = await sequence.stamp(count)
        try:
            placed = await self._post(self._target + stamp, body, count)
        except GoQueueError as error:
            # Who cannot become another producer goes on only when somebody gives it a new epoch.
            is_stuck = error.code in _ESTRANGED and not sequence.is_renewable
            if error.is_outcome_unknown or is_stuck:
                sequence.lose()
            raise
        sequence.advance(count)
        return placed

    async def _post(self, where: str, body: bytearray, count: int) -> PublishedBatch:
        return await post_records(
            self._transport,
            where,
            body,
            count,
            log=self._log,
            is_repeatable=self._is_repeatable,
            is_unconfirmed=self._is_unconfirmed,
        )


def _culprit(error: GoQueueError, body: bytearray) -> int | None:
    """Which of the records the broker will not have, if that is all that it says."""
    position = error.details.get("position")
    if error.code != "request_invalid" or not isinstance(position, int):
        return None
    positions = records.walk(body).positions
    return max(bisect_right(positions, position) - 1, 0)


def _reworded(error: GoQueueError, body: bytearray, index: int) -> GoQueueError:
    """The refusal of one message. All that can be wrong with a delay made here is its length."""
    headers = records.decode(body, records.walk(body).positions[index]).headers
    if any(name == DELIVER_HEADER for name, _ in headers):
        return refusal("delay_too_long", error.sentence, status=error.status)
    return error


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
        self._clock = self._loop.time
        self._waiting = Accumulator(topic, partition, road.gathering)
        self._posting = BatchSender(
            road.transport,
            topic,
            partition,
            registry=road.registry,
            gathering=road.gathering,
        )
        self._hurried: ProducerBatch | None = None
        self._sleeper: asyncio.Future[None] | None = None
        self._is_lingering = False
        self._is_ended = False
        # The batch whose answer has not come.
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

    def add(self, key: bytes, value: bytes | None, size_bytes: int) -> Receipt:
        """Take a message without headers and of normal priority; it leaves by itself."""
        if self._is_ended:
            raise Closed("the producer has ended")
        batch = self._waiting.roomy(size_bytes)
        # What enters an open batch needs no clock.
        receipt = (
            batch.add(key, value, size_bytes)
            if batch is not None
            else self._waiting.add(key, value, size_bytes, self._clock())
        )
        self._buffer.taken += size_bytes
        if self._sleeper is not None and (not self._is_lingering or self._waiting.is_full):
            self._wake()
        return receipt

    def put(self, message: Message, size_bytes: int) -> Receipt:
        """Take any message."""
        if self._is_ended:
            raise Closed("the producer has ended")
        receipt = self._waiting.put(message, size_bytes, self._clock())
        self._buffer.taken += size_bytes
        if self._sleeper is not None and (not self._is_lingering or self._waiting.is_full):
            self._wake()
        return receipt

    def hurry(self) -> ProducerBatch | None:
        """Let what waits leave now; the batch to wait for, if there is any."""
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
        """Send batch after batch until cancelled; then nothing is left unanswered for."""
        try:
            while True:
                await self._send(await self._next())
        finally:
            self._is_ended = True
            self.discard(Closed("the producer ended before it was sent"))

    async def _next(self) -> ProducerBatch:
        """Wait until the first batch is full, due or hurried."""
        while True:
            due_at = self._waiting.due_at()
            if due_at is not None:
                is_due = self._hurried is not None or due_at <= self._clock()
                if is_due or self._waiting.is_full:
                    return self._take()
            await self._sleep(due_at)

    def _take(self) -> ProducerBatch:
        batch = self._waiting.take()
        if batch is self._hurried:
            self._hurried = None
        return batch

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

    async def _send(self, batch: ProducerBatch) -> None:
        self.under_way = batch
        try:
            placed = await self._posting.post(batch)
        except GoQueueError as error:
            self._fail(batch, error)
        except BaseException:
            words = "the producer ended before the answer came: the outcome is unknown"
            self._fail(batch, Closed(words))
            raise
        else:
            batch.settle(placed.first, placed.timestamp)
            if batch.error is not None:
                self._on_failed(batch)
            self._buffer.release(batch.size_bytes)
        finally:
            self.under_way = None

    def _fail(self, batch: ProducerBatch, error: GoQueueError) -> None:
        batch.fail(error)
        self._on_failed(batch)
        self._buffer.release(batch.size_bytes)
