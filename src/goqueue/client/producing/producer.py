"""Publishes messages one by one, and sends them many at a time.

Owns the lanes, what is known about topics, and the failures that nobody was told of yet. Never
loses a message silently: a failure is raised by its receipt, or else by the next flush or close.

Invariant: messages of one partition are sent in the order of their `send` calls.
"""

import asyncio
from collections import deque

import msgspec

from goqueue.client.errors import Closed, GoQueueError
from goqueue.client.producing.draft import draft, weigh
from goqueue.client.producing.due import BrokerClock, Due
from goqueue.client.producing.lanes import (
    Buffer,
    PartitionSender,
    ProducerBatch,
    Receipt,
    Registry,
    SenderContext,
)
from goqueue.client.producing.partitioner import Partitioner
from goqueue.client.producing.settings import ProducerConfig
from goqueue.client.tasks import Tasks
from goqueue.client.tracing import start_sending
from goqueue.client.transport import Transport, get
from goqueue.client.values import Headers, Value
from goqueue.model import Priority

__all__ = ["Producer"]

_NORMAL = int(Priority.NORMAL)
_FAILURES_KEPT = 100
# A topic may get more partitions; keys then belong elsewhere.
_KNOWN_S_MAX = 60.0
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
    tells where the message went. To publish many: send them all, then `await producer.flush()`.

    With a registry batches are numbered, so that one that is sent again is not taken again.
    """

    def __init__(
        self,
        transport: Transport,
        tasks: Tasks,
        gathering: ProducerConfig,
        registry: Registry | None = None,
    ) -> None:
        self._transport = transport
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

    async def send(
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | str = _NORMAL,
        due: Due | None = None,
    ) -> Receipt:
        """Take a message in. What can be seen to be wrong with it is raised here.

        With `due`, seconds, a span or a time, it is delivered later, and named by the place that
        its receipt tells until then.
        """
        route = self._routes.get(topic)
        if route is None or self._is_closed or route.stale_at <= self._clock():
            route = await self._discover(topic)
        message = draft(value, key, headers, priority)
        size_bytes = weigh(message, route.message_bytes_max)
        if due is not None:
            message = await self._broker_clock.delay(message, due)
        if not self._buffer.has_room(size_bytes):
            await self._buffer.wait_for_room(size_bytes)
        self._turn += 1
        if self._turn >= self._gathering.messages:
            # A sender that never waits for anything else would keep the requests from leaving.
            self._turn = 0
            await asyncio.sleep(0)
        if self._is_closed:
            # While this waited. A lane opened now would be nobody's to end.
            raise Closed("the producer is closed")
        lane = self._lane(topic, route, message.key, partition)
        sending = start_sending(topic, message)
        if sending is None:
            return lane.add(message, size_bytes)
        message, size_bytes = sending.load(message, size_bytes, route.message_bytes_max)
        receipt = lane.add(message, size_bytes)
        receipt.follow(sending)
        return receipt

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def failure(self) -> GoQueueError | None:
        """The first failure since the last flush."""
        return self._failed[0].error if self._failed else None

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
        unseen = [parcel.error for parcel in self._failed if not parcel.is_seen]
        self._failed.clear()
        for error in unseen:
            if error is not None:
                raise error

    async def drain(self) -> None:
        """Send what waits, and wait until all is answered, in whichever way."""
        for parcel in [lane.hurry() for lane in self._lanes()]:
            if parcel is not None:
                await parcel.wait()

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

    def _note_failure(self, parcel: ProducerBatch) -> None:
        self._failed.append(parcel)
        route = self._routes.get(parcel.topic)
        if route is not None and parcel.error is not None and parcel.error.code in _OUTDATED:
            route.stale_at = 0.0
