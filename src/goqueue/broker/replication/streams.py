"""What this broker says to each other about many logs, merged into few messages a turn.

Owns nothing but what waits for the end of the turn: subscriptions, acknowledgements and watermarks,
the newest of each log. A partition that nobody writes to is in no message.

Cost per turn: one message of each kind for each broker, for each 400 logs.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from goqueue.broker.outbox import Outbox
from goqueue.cluster import PartitionId
from goqueue.model import (
    Instant,
    LogAck,
    LogsAcknowledged,
    LogsAdvanced,
    LogsSubscribed,
    LogSubscription,
    LogWatermark,
    PeerLane,
    Send,
    StreamMessage,
)

__all__ = ["ReplicaStreams"]

_LOGS_MAX = 400
_T = TypeVar("_T")


class ReplicaStreams:
    """Collects what goes to each broker, and sends it when the turn ends."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._subscriptions: dict[str, dict[PartitionId, LogSubscription]] = {}
        self._acks: dict[str, dict[PartitionId, LogAck]] = {}
        self._watermarks: dict[str, dict[PartitionId, LogWatermark]] = {}

    def subscribe(self, broker: str, log: LogSubscription) -> None:
        where = PartitionId(log.topic, log.partition)
        self._subscriptions.setdefault(broker, {})[where] = log
        # What was confirmed before counts no more.
        self._acks.get(broker, {}).pop(where, None)

    def acknowledge(self, broker: str, log: LogAck) -> None:
        self._acks.setdefault(broker, {})[PartitionId(log.topic, log.partition)] = log

    def advance(self, broker: str, log: LogWatermark) -> None:
        self._watermarks.setdefault(broker, {})[PartitionId(log.topic, log.partition)] = log

    @property
    def is_empty(self) -> bool:
        return not (self._subscriptions or self._acks or self._watermarks)

    def flush(self, broker_epoch: int, now: Instant) -> None:
        """The turn ends: send what was collected."""
        for broker, subscriptions in self._subscriptions.items():
            for logs in _pieces(subscriptions.values()):
                self._send(broker, LogsSubscribed(logs=logs))
        for broker, acks in self._acks.items():
            for acked in _pieces(acks.values()):
                self._send(broker, LogsAcknowledged(broker_epoch=broker_epoch, logs=acked))
        for broker, watermarks in self._watermarks.items():
            for advanced in _pieces(watermarks.values()):
                self._send(broker, LogsAdvanced(logs=advanced, asked=now))
        self._subscriptions.clear()
        self._acks.clear()
        self._watermarks.clear()

    def _send(self, broker: str, message: StreamMessage) -> None:
        self._outbox.append(Send(broker=broker, message=message, lane=PeerLane.REPLICATION))


def _pieces(entries: Iterable[_T]) -> Iterator[tuple[_T, ...]]:
    every = tuple(entries)
    for first in range(0, len(every), _LOGS_MAX):
        yield every[first : first + _LOGS_MAX]
