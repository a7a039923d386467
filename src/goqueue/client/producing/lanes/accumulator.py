"""Parcels of one partition in the order in which they will leave.

Pure: told the time, decides when the first parcel is due. Never sends anything.

Invariant: messages leave in the order in which they were added; no parcel is over its bounds,
except one that holds a single message.
"""

from collections import deque

from goqueue.client.producing.lanes.parcel import ProducerBatch, Receipt
from goqueue.client.producing.settings import ProducerConfig
from goqueue.model import Message

__all__ = ["Accumulator"]


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

    def add(self, message: Message, size_bytes: int, now: float) -> Receipt:
        """Take a message in; `size_bytes` is what it will occupy in a request."""
        parcel = self._open
        if parcel is None or not self._has_room(parcel, size_bytes):
            parcel = self._open = ProducerBatch(self._topic, self._partition, now)
            self._parcels.append(parcel)
        messages = parcel.messages
        receipt = Receipt(parcel, len(messages))
        messages.append(message)
        parcel.size_bytes += size_bytes
        return receipt

    @property
    def is_full(self) -> bool:
        """Whether the first parcel has what it should have, so that it leaves without waiting."""
        if not self._parcels:
            return False
        first = self._parcels[0]
        gathering = self._gathering
        return (
            len(self._parcels) > 1
            or len(first.messages) >= gathering.messages
            or first.size_bytes >= gathering.size_bytes
        )

    @property
    def is_filling(self) -> bool:
        """Whether a parcel is open that has less than it should have."""
        return self._open is not None and len(self._open.messages) < self._gathering.messages

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

    def _has_room(self, parcel: ProducerBatch, size_bytes: int) -> bool:
        gathering = self._gathering
        return (
            len(parcel.messages) < gathering.messages_max
            and parcel.size_bytes + size_bytes <= gathering.size_bytes_max
        )
