"""A batch of a producer: its settings, its number, its messages and their receipts.

- `ProducerConfig`: how many messages and bytes a batch takes, and how long it waits for more.
- `Registration`: asks the broker for a producer id and epoch when the first batch is to leave.
- `PartitionSequence`: the number of the next message for one partition. A refused batch uses up no
  number. After a batch with an unknown outcome the next number is unknown too, so the partition
  continues under a new producer id, from 0.
- `ProducerBatch`: messages that travel in one request. A message is encoded into the body when it
  is added, and no object of it is kept.
- `Receipt`: a message's index in its batch. One small object, without a future or a callback.

Invariants: a number belongs to one batch only, however often that batch is sent. A settled batch
never changes; its stored messages have consecutive offsets from `first` on. A message that cannot
be encoded leaves the batch as it was.
"""

import asyncio
from collections.abc import Generator
from typing import Protocol

import msgspec

from goqueue import records
from goqueue.client.errors import GoQueueError, SequenceOutOfOrder, copy_of
from goqueue.client.http import Transport, post
from goqueue.client.tracing import SendTrace
from goqueue.model import Message
from goqueue.model.requests import Acks

__all__ = [
    "Fixed",
    "Identity",
    "PartitionSequence",
    "ProducerBatch",
    "ProducerConfig",
    "Receipt",
    "Registration",
    "Registry",
    "Sent",
    "init_producer",
]

# The offset of a message whose publisher did not wait to learn it.
UNKNOWN_OFFSET = -1

KIB = 1024
MIB = 1024 * KIB


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """When a batch leaves, how large it may grow meanwhile, and how much may wait in all.

    A batch leaves at the first of `messages`, `size_bytes` and `linger_s`. While another batch of
    its partition is under way it cannot leave, and grows up to the `_max` bounds instead: so the
    more there is to send, the larger the requests.

    An `idempotent` producer numbers its batches: one whose connection broke is sent again, and
    the broker takes it once. Without numbers, `repeats` decides about such a batch: it is sent
    again although the broker may have taken it, at least once; or it fails, its outcome unknown.

    `acks` is what a receipt waits for: "all", that every in-sync replica has synced the message;
    "leader", that the leader has: a failover may lose it; "none", that the broker has it: it may be
    lost, its offset is -1, and batches are never numbered.
    """

    messages: int = 100
    size_bytes: int = 64 * KIB
    linger_s: float = 0.005
    messages_max: int = 1000
    size_bytes_max: int = MIB
    buffer_bytes_max: int = 32 * MIB
    repeats: bool = True
    idempotent: bool = True
    acks: str = Acks.ALL

    def __post_init__(self) -> None:
        if self.acks not in list(Acks):
            raise ValueError(f"acks is {self.acks!r}, and must be one of {', '.join(Acks)}")

    @property
    def is_numbered(self) -> bool:
        """Whether batches carry numbers, so that one that is sent again is stored once."""
        return self.idempotent and self.acks != Acks.NONE


class Identity(msgspec.Struct, frozen=True):
    """A producer that the broker knows."""

    producer_id: int
    epoch: int


class Registry(Protocol):
    """Where lanes learn who they are. Without `is_renewable` they are that for good."""

    @property
    def is_renewable(self) -> bool: ...

    async def identity(self) -> Identity: ...

    async def renew(self, old: Identity) -> Identity: ...


_GRANTED = msgspec.json.Decoder(Identity)


async def init_producer(transport: Transport, **fields: object) -> Identity:
    """Become a producer that the broker knows; with a transactional id, take over that id."""
    # An id that was granted and whose answer was lost is nobody's, and of two epochs the one that
    # is answered last counts: no harm is done by a repetition.
    request = post("producers", "init", fields=fields, is_repeatable=True)
    return await transport.read(request, _GRANTED)


class Registration:
    """A producer without transactions: any number of ids, one after the other."""

    is_renewable = True

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._asking = asyncio.Lock()
        self._identity: Identity | None = None

    async def identity(self) -> Identity:
        return self._identity or await self.renew(None)

    async def renew(self, old: Identity | None) -> Identity:
        """Another than `old`: the one that was granted meanwhile, or a new one."""
        async with self._asking:
            if self._identity is None or self._identity == old:
                try:
                    self._identity = await init_producer(self._transport)
                except GoQueueError as error:
                    # Of whoever asks for an id to send something with, nothing was sent.
                    error.is_outcome_unknown = False
                    raise
            return self._identity


class Fixed:
    """The holder of a transactional id, as long as its epoch lasts."""

    is_renewable = False

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def identity(self) -> Identity:
        return self._identity

    async def renew(self, old: Identity) -> Identity:
        raise AssertionError(f"the epoch of {old} is not a lane's to end")


_NUMBER_MAX = 2**31 - 1


class PartitionSequence:
    """Where one lane stands."""

    __slots__ = ("_identity", "_registry", "following", "is_lost")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._identity: Identity | None = None
        self.is_lost = False
        self.following = 0

    async def stamp(self, count: int) -> str:
        """The part of a query that says who sends a batch of so many messages, and its number."""
        if self.is_lost or self.following + count > _NUMBER_MAX:
            await self.renew()
        if self._identity is None:
            self._identity = await self._registry.identity()
        identity = self._identity
        return (
            f"&producer_id={identity.producer_id}&epoch={identity.epoch}&sequence={self.following}"
        )

    @property
    def is_renewable(self) -> bool:
        return self._registry.is_renewable

    def advance(self, count: int) -> None:
        """The broker took the batch, now or before."""
        self.following += count

    def lose(self) -> None:
        """The outcome of the batch is unknown, and nobody will ask again."""
        self.is_lost = True

    async def renew(self) -> None:
        """Begin at 0 as another producer. Only where no batch is left that may still be sent."""
        if not self._registry.is_renewable:
            words = "what became of an earlier batch is unknown: no other can follow it"
            raise SequenceOutOfOrder("sequence_out_of_order", words)
        if self._identity is not None:
            self._identity = await self._registry.renew(self._identity)
        self.following = 0
        self.is_lost = False


class Sent(msgspec.Struct, frozen=True):
    """Where a message went. `timestamp` is the broker's, in nanoseconds since 1970.

    With `acks="none"` nobody knows the offset yet: it is -1.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class ProducerBatch:
    """An open batch takes messages; a sent one waits for its answer; a settled one has it."""

    __slots__ = (
        "_body",
        "_draft",
        "_error",
        "_first",
        "_followed",
        "_refused",
        "_timestamp",
        "_waiters",
        "count",
        "is_seen",
        "is_settled",
        "opened_at",
        "partition",
        "size_bytes",
        "topic",
    )

    def __init__(self, topic: str, partition: int, opened_at: float) -> None:
        self.topic = topic
        self.partition = partition
        self.opened_at = opened_at
        self.count = 0
        self.size_bytes = 0
        self.is_settled = False
        # Whether somebody was told of the failure.
        self.is_seen = False
        self._draft = records.Draft()
        # What is sent: the records of those that were not refused.
        self._body: bytearray | None = None
        self._first: int | None = 0
        self._timestamp = 0
        self._error: GoQueueError | None = None
        # Messages that the broker will not have, by their place.
        self._refused: dict[int, GoQueueError] = {}
        self._waiters: list[asyncio.Future[None]] = []
        # The spans of those that are traced, by their place.
        self._followed: dict[int, SendTrace] = {}

    @property
    def error(self) -> GoQueueError | None:
        """Why it went nowhere, or why the first of its messages that went nowhere did."""
        return self._error or next(iter(self._refused.values()), None)

    @property
    def remaining(self) -> int:
        """How many messages were not refused."""
        return self.count - len(self._refused)

    def add(self, key: bytes, value: bytes | None, size_bytes: int) -> "Receipt":
        """Encode a message without headers and of normal priority."""
        self._draft.add(key, value)
        # The same as in `put`: a call less for each message.
        index = self.count
        self.count = index + 1
        self.size_bytes += size_bytes
        return Receipt(self, index)

    def put(self, message: Message, size_bytes: int) -> "Receipt":
        """Encode any message."""
        self._draft.put(message)
        index = self.count
        self.count = index + 1
        self.size_bytes += size_bytes
        return Receipt(self, index)

    def close(self) -> bytearray:
        """The records of those that were not refused; nothing is added any more."""
        if self._body is None:
            self._body = self._draft.take()
        return self._body

    def refuse(self, index: int, error: GoQueueError) -> None:
        """The broker will not have message number `index` of the remaining ones."""
        body = self.close()
        bounds = [*records.walk(body).positions, len(body)]
        self._body = body[: bounds[index]] + body[bounds[index + 1] :]
        for place in sorted(self._refused):
            index += place <= index
        self._refused[index] = error

    def settle(self, first: int | None, timestamp: int) -> None:
        """The broker took what remains; without a `first` offset it did not say where."""
        self._first, self._timestamp = first, timestamp
        self._wake()

    def fail(self, error: GoQueueError) -> None:
        """The broker refused it, or its outcome is unknown."""
        self._error = error
        self._wake()

    def sent(self, index: int) -> Sent:
        """Where message number `index` went; raises if it went nowhere."""
        assert self.is_settled, "asked before the answer came"
        error = self._error_of(index)
        if error is not None:
            self.is_seen = True
            raise copy_of(error)
        return Sent(self.topic, self.partition, self._offset_of(index), self._timestamp)

    def follow(self, sending: SendTrace) -> None:
        """Tell the span of the message that was added last what becomes of it."""
        self._followed[self.count - 1] = sending

    def _error_of(self, index: int) -> GoQueueError | None:
        return self._refused.get(index, self._error) if self._refused else self._error

    def _offset_of(self, index: int) -> int:
        if self._first is None:
            return UNKNOWN_OFFSET
        if self._refused:
            index -= sum(place < index for place in self._refused)
        return self._first + index

    async def wait(self) -> None:
        """Wait until it is settled, either way."""
        if not self.is_settled:
            # A future of its own per waiter: one that is cancelled must not take others along.
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        assert not self.is_settled, "settled twice"
        self.is_settled = True
        # Its receipts may live on for long, and what was never sent is in the draft.
        self._draft.take()
        self._body = None
        for index, sending in self._followed.items():
            error = self._error_of(index)
            if error is None:
                sending.end(self.topic, self.partition, self._offset_of(index))
            else:
                sending.fail(error)
        self._followed = {}
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters = []


# Not tracked by the garbage collector, which otherwise takes a fifth of the time of a program that
# keeps a receipt for each message. So a receipt must never be in a cycle: a batch knows none of its
# receipts, and keeps no error that was raised to a caller, whose frames may hold receipts.
class Receipt(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What `send` hands out at once: await it, now or later, to learn where the message went.

    Awaiting one that is already settled does not suspend, so that a loop over many receipts costs
    little. It may be awaited by any number of tasks, any number of times.
    """

    _batch: ProducerBatch
    _index: int

    @property
    def is_settled(self) -> bool:
        """Whether the answer is known."""
        return self._batch.is_settled

    @property
    def partition(self) -> int:
        """The partition that the message is for, known before it is sent."""
        return self._batch.partition

    def follow(self, sending: SendTrace) -> None:
        """Tell a span what becomes of the message; asked for right after it was taken in."""
        self._batch.follow(sending)

    def __await__(self) -> Generator[object, None, Sent]:
        if not self._batch.is_settled:
            yield from self._batch.wait().__await__()
        return self._batch.sent(self._index)
