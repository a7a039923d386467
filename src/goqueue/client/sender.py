"""Sends the batches of one partition in order, with back-pressure.

How much a producer may hold that was not answered yet.

Invariant: never more than the bound, except for a single message that alone is larger.

Parcels of one partition in the order in which they will leave.

Pure: told the time, decides when the first parcel is due. Never sends anything.

Invariant: messages leave in the order in which they were added; no parcel is over its bounds,
except one that holds a single message.

A parcel on its way to the broker, until it is known what became of it.

Owns what is done about refusals. A batch with a number may be sent any number of times and is
taken once. The broker takes a batch as a whole or not at all: where it names the one message that
it will not have, the others are sent without it, under the same number. Where it does not know the
producer, the batch is sent as another one, but never if an attempt at it has an unknown outcome.

Invariant: whatever is raised, no message was taken twice; if the outcome is known, none was taken.

The way of messages to one partition: gathered, sent one parcel at a time, settled.

One request under way per lane keeps the order: what is sent again after a failure is still ahead
of what came later. Does the waiting; what leaves and when is the accumulator's to say.
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
from goqueue.model import DELIVER_HEADER, Message

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
        # Not at the first free byte: a sender that wakes for every parcel gains nothing.
        if self._waiters and self.taken <= self.bytes_max // 2:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters = []


class Accumulator:
    """Fills the last parcel, hands out the first."""

    def __init__(self, topic: str, partition: int, gathering: ProducerConfig) -> None:
        self._topic = topic
        self._partition = partition
        self._gathering = gathering
        self._parcels: deque[ProducerBatch] = deque()
        self._open: ProducerBatch | None = None

    def __bool__(self) -> bool:
        return bool(self._parcels)

    def add(self, key: bytes, value: bytes | None, size_bytes: int, now: float) -> Receipt:
        """Encode a message of normal priority; `size_bytes` is what it occupies in a request."""
        parcel = self._roomy(size_bytes, now)
        receipt = parcel.add(key, value, size_bytes)
        if parcel is not self._open:
            self._append(parcel)
        return receipt

    def put(self, message: Message, size_bytes: int, now: float) -> Receipt:
        """Encode any message."""
        parcel = self._roomy(size_bytes, now)
        receipt = parcel.put(message, size_bytes)
        if parcel is not self._open:
            self._append(parcel)
        return receipt

    def _roomy(self, size_bytes: int, now: float) -> ProducerBatch:
        """The open parcel, or a new one, which waits for nothing until a message is in it."""
        parcel = self._open
        gathering = self._gathering
        if (
            parcel is not None
            and parcel.count < gathering.messages_max
            and parcel.size_bytes + size_bytes <= gathering.size_bytes_max
        ):
            return parcel
        return ProducerBatch(self._topic, self._partition, now)

    def _append(self, parcel: ProducerBatch) -> None:
        self._open = parcel
        self._parcels.append(parcel)

    @property
    def is_full(self) -> bool:
        """Whether the first parcel has what it should have, so that it leaves without waiting."""
        if not self._parcels:
            return False
        first = self._parcels[0]
        gathering = self._gathering
        return (
            len(self._parcels) > 1
            or first.count >= gathering.messages
            or first.size_bytes >= gathering.size_bytes
        )

    @property
    def is_filling(self) -> bool:
        """Whether a parcel is open that has less than it should have."""
        return self._open is not None and self._open.count < self._gathering.messages

    def due_at(self) -> float | None:
        """When the first parcel leaves even if it is not full; None while there is none."""
        return self._parcels[0].opened_at + self._gathering.linger_s if self._parcels else None

    def take(self) -> ProducerBatch:
        """The first parcel, closed."""
        parcel = self._parcels.popleft()
        if parcel is self._open:
            self._open = None
        return parcel

    def last(self) -> ProducerBatch | None:
        """The parcel that leaves last, of those that wait."""
        return self._parcels[-1] if self._parcels else None


# The broker has another opinion of the producer than the lane: it was forgotten, or its partition
# was, or the topic was made anew.
_ESTRANGED = frozenset({"producer_fenced", "producer_not_found", "sequence_out_of_order"})
_RENEWALS_MAX = 2


class BatchSender:
    """Posts the parcels of one lane, one at a time."""

    def __init__(
        self,
        transport: Transport,
        topic: str,
        partition: int,
        *,
        registry: Registry | None,
        is_repeatable: bool,
    ) -> None:
        self._transport = transport
        self._target = target("topics", topic, "records", partition=partition)
        self._sequence = None if registry is None else PartitionSequence(registry)
        self._is_repeatable = is_repeatable or registry is not None

    @property
    def following(self) -> int:
        return 0 if self._sequence is None else self._sequence.following

    @property
    def is_lost(self) -> bool:
        return self._sequence is not None and self._sequence.is_lost

    async def post(self, parcel: ProducerBatch) -> PublishedBatch:
        """Where the parcel went; raises if it went nowhere, or nobody can say."""
        renewals = 0
        while True:
            body, count = parcel.close(), parcel.remaining
            try:
                return await self._post_numbered(body, count)
            except GoQueueError as error:
                if error.is_outcome_unknown:
                    raise
                index = _culprit(error, body)
                if index is not None and count > 1:
                    parcel.refuse(index, _reworded(error, body, index))
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
            self._transport, where, body, count, is_repeatable=self._is_repeatable
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

    def add(self, key: bytes, value: bytes | None, size_bytes: int) -> Receipt:
        """Take a message without headers and of normal priority; it leaves by itself."""
        if self._is_ended:
            raise Closed("the producer has ended")
        receipt = self._waiting.add(key, value, size_bytes, self._clock())
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
                is_due = self._hurried is not None or due_at <= self._clock()
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
