"""Messages that travel in one request, and what became of them.

A receipt is a place in a parcel: one small object per message, no future and no callback. The
parcel is settled once, and answers for all of its messages.

Invariant: a settled parcel never changes; those of its messages that were taken have consecutive
offsets from `first` on.
"""

import asyncio
from collections.abc import Generator, Sequence

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.tracing import SendTrace
from goqueue.model import Message

__all__ = ["ProducerBatch", "Receipt", "Sent"]


class Sent(msgspec.Struct, frozen=True):
    """Where a message went. `timestamp` is the broker's, in nanoseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class ProducerBatch:
    """An open parcel takes messages; a sent one waits for its answer; a settled one has it."""

    __slots__ = (
        "_error",
        "_first",
        "_followed",
        "_refused",
        "_timestamp",
        "_waiters",
        "is_seen",
        "is_settled",
        "messages",
        "opened_at",
        "partition",
        "size_bytes",
        "topic",
    )

    def __init__(self, topic: str, partition: int, opened_at: float) -> None:
        self.topic = topic
        self.partition = partition
        self.opened_at = opened_at
        self.messages: list[Message] = []
        self.size_bytes = 0
        self.is_settled = False
        # Whether somebody was told of the failure.
        self.is_seen = False
        self._first = self._timestamp = 0
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
    def remaining(self) -> Sequence[Message]:
        """The messages that were not refused."""
        if not self._refused:
            return self.messages
        refused = self._refused
        return [message for index, message in enumerate(self.messages) if index not in refused]

    def refuse(self, index: int, error: GoQueueError) -> None:
        """The broker will not have message number `index` of the remaining ones."""
        for place in sorted(self._refused):
            index += place <= index
        self._refused[index] = error

    def settle(self, first: int, timestamp: int) -> None:
        """The broker took what remains."""
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
            raise error
        return Sent(self.topic, self.partition, self._offset_of(index), self._timestamp)

    def follow(self, sending: SendTrace) -> None:
        """Tell the span of the message that was added last what becomes of it."""
        self._followed[len(self.messages) - 1] = sending

    def _error_of(self, index: int) -> GoQueueError | None:
        return self._refused.get(index, self._error) if self._refused else self._error

    def _offset_of(self, index: int) -> int:
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
        self.messages = []
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


class Receipt:
    """What `send` hands out at once: await it, now or later, to learn where the message went.

    Awaiting one that is already settled does not suspend, so that a loop over many receipts costs
    little. It may be awaited by any number of tasks, any number of times.
    """

    __slots__ = ("_index", "_parcel")

    def __init__(self, parcel: ProducerBatch, index: int) -> None:
        self._parcel = parcel
        self._index = index

    @property
    def is_settled(self) -> bool:
        return self._parcel.is_settled

    @property
    def partition(self) -> int:
        """The partition that the message is for, known before it is sent."""
        return self._parcel.partition

    def follow(self, sending: SendTrace) -> None:
        """Tell a span what becomes of the message; asked for right after it was taken in."""
        self._parcel.follow(sending)

    def __await__(self) -> Generator[object, None, Sent]:
        if not self._parcel.is_settled:
            yield from self._parcel.wait().__await__()
        return self._parcel.sent(self._index)
