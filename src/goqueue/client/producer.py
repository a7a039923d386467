"""The producer: chooses partitions, resolves delays, and feeds one sender per partition.

- Delays count by the broker's clock, which is asked for now and then; between two answers the
  monotonic clock counts on. The answer is taken as the time at which the question left, so a
  computed time is never early, and late by the network delay at most.
- Unusual messages are checked on their own before they enter a batch, where they would take others
  down with them.
- Partitions follow the broker's rule: an explicit partition, else the hash of the key, else round
  robin. The client applies it so that each message learns its offset. Without a key whole batches
  take turns, so that batches stay large.
- Failures are never silent: a receipt raises its own, and the next flush or close raises those that
  nobody awaited.

Invariant: messages of one partition are sent in the order of their `send` calls.
"""

import asyncio
import datetime as dt
import math
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from goqueue import records
from goqueue.client.batch import ProducerBatch, ProducerConfig, Receipt, Registry
from goqueue.client.errors import Closed, GoQueueError, MessageTooLarge, NotFound, copy_of, refusal
from goqueue.client.http import Transport, get
from goqueue.client.sender import Buffer, PartitionSender, SenderContext
from goqueue.client.tasks import Tasks
from goqueue.client.tracing import find_telemetry, start_sending
from goqueue.client.values import (
    NORMAL_PRIORITY,
    Delay,
    DeliverAt,
    Due,
    Headers,
    PriorityName,
    Value,
    due_of,
    encode_key,
    encode_value,
    headers,
    nanoseconds,
    priority_number,
)
from goqueue.model import DELIVER_HEADER, Code, Message, Refused
from goqueue.records import HEADER_SIZE, murmur3

__all__ = ["BrokerClock", "Due", "Partitioner", "Producer", "ProducerConfig", "draft", "weigh"]

# Writes a value for a topic.
ValueEncoder = Callable[[str, Value], Awaitable[bytes | None]]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_KNOWN_S_MAX = 60.0
_MOMENT_MAX = 2**63 - 1


class _Told(msgspec.Struct, frozen=True):
    timestamp: str


_TOLD = msgspec.json.Decoder(_Told)


class BrokerClock:
    """What time it is for the broker."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._ticks = transport.clock.time
        self._asking = asyncio.Lock()
        self._asked_at = -math.inf
        self._told = 0

    async def delay(self, message: Message, due: Due) -> Message:
        """The message with the time at which it is due, if that has not come."""
        due_at = _moment(due) if isinstance(due, dt.datetime) else await self._after(due)
        if due_at <= 0:
            return message
        header = (DELIVER_HEADER, b"%d" % due_at)
        return msgspec.structs.replace(message, headers=(*message.headers, header))

    async def _after(self, due: float | dt.timedelta) -> int:
        """The time so long from now; 0 for now."""
        seconds = due.total_seconds() if isinstance(due, dt.timedelta) else due
        if not math.isfinite(seconds) or seconds < 0:
            raise GoQueueError("message_invalid", f"a delay is at least 0 s, not {seconds:g}")
        if not seconds:
            return 0
        wanted_at = self._ticks()
        async with self._asking:
            if wanted_at - self._asked_at > _KNOWN_S_MAX:
                asked_at = self._ticks()
                told = await self._transport.read(get("healthz"), _TOLD)
                self._asked_at, self._told = asked_at, nanoseconds(told.timestamp)
        passed = max(wanted_at - self._asked_at, 0.0) + seconds
        return self._told + math.ceil(passed * 1_000_000_000)


def _moment(time: dt.datetime) -> int:
    if time.tzinfo is None:
        raise ValueError("a time to deliver at needs a time zone")
    # Beyond what a record can say only the limit of the server decides, which is far below it.
    return min((time - _EPOCH) // _MICROSECOND * 1000, _MOMENT_MAX)


def draft(
    value: Value, key: str | bytes | None, given: Headers | None, priority: int | str
) -> Message:
    """The message, checked as far as a record goes."""
    message = Message(
        value=encode_value(value),
        key=encode_key(key),
        headers=headers(given),
        priority=priority_number(priority),
    )
    try:
        records.build((message,))
    except Refused as refused:
        raise _refusal(refused) from refused
    return message


def _refusal(refused: Refused) -> GoQueueError:
    facts = refused.facts
    part = facts.get("part", "message")
    if refused.code is Code.MESSAGE_TOO_LARGE:
        words = (
            f"the {part} of the message: {facts.get('size')} bytes, at most {facts.get('limit')}"
        )
    else:
        words = f"the {part} of the message is not valid: {facts.get('found', facts.get('reason'))}"
    return refusal(refused.code, words, details=facts)


def weigh(message: Message, bytes_max: int) -> int:
    """What the message occupies in a request; refuses one that its topic would not take."""
    value = message.value
    size = len(message.key) + (0 if value is None else len(value))
    if message.headers:
        size += sum(len(name.encode()) + len(value) for name, value in message.headers)
    if size > bytes_max:
        raise _too_large(size, bytes_max)
    return HEADER_SIZE + size


def _too_large(size: int, bytes_max: int) -> MessageTooLarge:
    return MessageTooLarge(
        "message_too_large",
        f"{size} bytes, the topic takes {bytes_max}",
        details={"size": size, "limit": bytes_max},
    )


class Partitioner:
    """The partitions of one topic, and whose turn it is."""

    __slots__ = ("_topic", "count", "turn")

    def __init__(self, topic: str, count: int) -> None:
        self._topic = topic
        self.turn = -1
        self.count = count

    def choose(self, key: bytes, partition: int | None) -> int:
        """The partition of a message; one without key begins a batch in the next."""
        if partition is not None:
            if not isinstance(partition, int):
                raise TypeError(f"a partition is a number, not {partition!r}")
            if not 0 <= partition < self.count:
                raise NotFound(
                    "partition_not_found",
                    f"{self._topic} has no partition {partition}",
                    details={"partitions": self.count},
                )
            return partition
        if key:
            return murmur3(key) % self.count
        self.turn = turn = (self.turn + 1) % self.count
        return turn


_FAILURES_KEPT = 100
# Refusals that say: what is known about the topic is not true any more.
_OUTDATED = ("message_too_large", "partition_not_found", "topic_not_found")


class _Limits(msgspec.Struct, frozen=True):
    max_message_bytes: int = 1024 * 1024


class _Topic(msgspec.Struct, frozen=True):
    partitions: int
    config: _Limits = _Limits()


_TOPICS = msgspec.json.Decoder(_Topic)


class _Route:
    """What is known about a topic, and the lanes that are open to it."""

    __slots__ = ("lanes", "message_bytes_max", "partitioner", "stale_at")

    def __init__(self, topic: str, known: _Topic, stale_at: float) -> None:
        self.partitioner = Partitioner(topic, known.partitions)
        self.message_bytes_max = known.config.max_message_bytes
        self.stale_at = stale_at
        self.lanes: dict[int, PartitionSender] = {}

    def learn(self, known: _Topic) -> None:
        self.partitioner.count = known.partitions
        self.message_bytes_max = known.config.max_message_bytes


class Producer:
    """Gathers messages into batches per partition; one object per message, one request per batch.

    `receipt = await producer.send(...)` suspends only while the buffer is full; `await receipt`
    returns partition and offset. To publish many: send them all, then `await producer.flush()`.

    With a registry batches are numbered, so that one that is sent again is not taken again.
    """

    def __init__(
        self,
        transport: Transport,
        tasks: Tasks,
        gathering: ProducerConfig,
        registry: Registry | None = None,
        encoder: ValueEncoder | None = None,
    ) -> None:
        self._transport = transport
        self._encoder = encoder
        self._tasks = tasks
        self._gathering = gathering
        self._buffer = Buffer(gathering.buffer_bytes_max)
        self._road = SenderContext(transport, gathering, self._buffer, registry, self._note_failure)
        self._broker_clock = BrokerClock(transport)
        self._routes: dict[str, _Route] = {}
        self._running: list[asyncio.Task[None]] = []
        self._failed: deque[ProducerBatch] = deque(maxlen=_FAILURES_KEPT)
        self._turn = 0
        self._clock = asyncio.get_running_loop().time
        self._is_closed = False

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(  # noqa: PLR0913 - one for each property of a message
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | PriorityName = NORMAL_PRIORITY,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
        due: Due | None = None,
    ) -> Receipt:
        """Take a message in. What can be seen to be wrong with it is raised here.

        With a `delay`, or `deliver_at` a time, it is delivered later, and named by the place that
        its receipt tells until then. `due` is the former name of both.
        """
        if delay is not None or deliver_at is not None:
            due = due_of(delay, deliver_at, due)
        if self._encoder is not None:
            value = await self._encoder(topic, value)
        route = self._routes.get(topic)
        if route is None or self._is_closed or route.stale_at <= self._clock():
            route = await self._discover(topic)
        if (
            headers is not None
            or due is not None
            or priority != NORMAL_PRIORITY
            or find_telemetry() is not None
        ):
            message = draft(value, key, headers, priority)
            size_bytes = weigh(message, route.message_bytes_max)
            if due is not None:
                message = await self._broker_clock.delay(message, due)
            self._turn += 1
            await self._wait_for_turn(size_bytes)
            return self._put(topic, route, message, size_bytes, partition)
        if type(value) is not bytes:
            value = encode_value(value)
        key = b"" if key is None else key if type(key) is bytes else encode_key(key)
        size_bytes = len(key) if value is None else len(key) + len(value)
        if size_bytes > route.message_bytes_max:
            raise _too_large(size_bytes, route.message_bytes_max)
        size_bytes += HEADER_SIZE
        self._turn += 1
        if (
            self._turn >= self._gathering.messages
            or self._buffer.taken + size_bytes > self._buffer.bytes_max
        ):
            await self._wait_for_turn(size_bytes)
        lane = self._lane(topic, route, key, partition)
        try:
            return lane.add(key, value, size_bytes)
        except Refused as refused:
            raise _refusal(refused) from refused

    def _put(
        self, topic: str, route: _Route, message: Message, size_bytes: int, partition: int | None
    ) -> Receipt:
        """Take a message in that has more than a key and a value, or is traced."""
        lane = self._lane(topic, route, message.key, partition)
        sending = start_sending(topic, message)
        if sending is None:
            return lane.put(message, size_bytes)
        message, size_bytes = sending.load(message, size_bytes, route.message_bytes_max)
        receipt = lane.put(message, size_bytes)
        receipt.follow(sending)
        return receipt

    async def _wait_for_turn(self, size_bytes: int) -> None:
        """Wait for room, and let requests leave now and then."""
        if not self._buffer.has_room(size_bytes):
            await self._buffer.wait_for_room(size_bytes)
        if self._turn >= self._gathering.messages:
            # A sender that never waits for anything else would keep the requests from leaving.
            self._turn = 0
            await asyncio.sleep(0)
        if self._is_closed:
            # While this waited. A lane opened now would be nobody's to end.
            raise Closed("the producer is closed")

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more messages."""
        return self._is_closed

    @property
    def failure(self) -> GoQueueError | None:
        """The first failure since the last flush."""
        error = self._failed[0].error if self._failed else None
        return None if error is None else copy_of(error)

    @property
    def following(self) -> int:
        """The highest number that the next message to any partition would have."""
        return max((lane.following for lane in self._lanes()), default=0)

    @property
    def is_lost(self) -> bool:
        """Whether the outcome of a numbered batch is unknown."""
        return any(lane.is_lost for lane in self._lanes())

    async def flush(self) -> None:
        """Send what waits, wait until all is answered, and raise the first failure nobody saw."""
        await self.drain()
        unseen = [batch.error for batch in self._failed if not batch.is_seen]
        self._failed.clear()
        for error in unseen:
            if error is not None:
                raise copy_of(error)

    async def drain(self) -> None:
        """Send what waits, and wait until all is answered, in whichever way."""
        for batch in [lane.hurry() for lane in self._lanes()]:
            if batch is not None:
                await batch.wait()

    def discard(self, error: GoQueueError) -> bool:
        """Give up what was not sent; whether something is under way all the same."""
        lanes = self._lanes()
        for lane in lanes:
            lane.discard(error)
        self._failed.clear()
        return any(lane.under_way is not None for lane in lanes)

    async def close(self) -> None:
        """Take no more, then flush."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.flush()
        finally:
            await self.end()

    async def end(self) -> None:
        """Take no more, and let go of everything at once, what is under way included."""
        self._is_closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._routes.clear()

    def _lanes(self) -> list[PartitionSender]:
        return [lane for route in self._routes.values() for lane in route.lanes.values()]

    async def _discover(self, topic: str) -> _Route:
        """Ask, or ask again, how many partitions there are and how large a message may be."""
        if self._is_closed:
            raise Closed("the producer is closed")
        route = self._routes.get(topic)
        if route is not None:
            # Others go on with what is known meanwhile.
            route.stale_at = self._clock() + _KNOWN_S_MAX
        known = await self._transport.read(get("topics", topic), _TOPICS)
        # Another send may have asked at the same time.
        route = self._routes.get(topic)
        if route is None:
            stale_at = self._clock() + _KNOWN_S_MAX
            route = self._routes[topic] = _Route(topic, known, stale_at)
        else:
            route.learn(known)
        return route

    def _lane(
        self, topic: str, route: _Route, key: bytes, partition: int | None
    ) -> PartitionSender:
        if partition is None and not key:
            filling = route.lanes.get(route.partitioner.turn)
            if filling is not None and filling.is_filling:
                return filling
        partition = route.partitioner.choose(key, partition)
        lane = route.lanes.get(partition)
        if lane is None:
            lane = route.lanes[partition] = PartitionSender(topic, partition, self._road)
            self._running.append(self._tasks.start(lane.run()))
        return lane

    def _note_failure(self, batch: ProducerBatch) -> None:
        self._failed.append(batch)
        route = self._routes.get(batch.topic)
        if route is not None and batch.error is not None and batch.error.code in _OUTDATED:
            route.stale_at = 0.0
