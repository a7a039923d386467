"""Those who receive for a group without joining it: which partitions they may lease from.

For leases all of them on one topic are one holder, the *receiver* of that topic. A request for
several topics waits as the receiver of all of them, and leases of each topic as the receiver of
that one.

Owns what is not durable of them: the partitions by topic, and until when they are kept.
"""

from collections.abc import Mapping
from typing import NamedTuple

from goqueue.model import SECOND, Instant, LogId

__all__ = ["Receivers", "is_receiver", "received_topics", "receiver_of"]

# Client ids and topics are names, which have no colon and no comma: no member's id begins like
# this, and no topic contains the separator.
_RECEIVER = "receive:"
_SEPARATOR = ","
# What is known of the queues of a group is kept for so long after the last receive.
_RECEIVE_NS = 60 * SECOND


def receiver_of(*topics: str) -> str:
    """Who holds what is received of a topic without joining, or waits for some of several."""
    return _RECEIVER + _SEPARATOR.join(topics)


def received_topics(receiver: str) -> list[str]:
    """The topics of a receiver."""
    return receiver.removeprefix(_RECEIVER).split(_SEPARATOR)


def is_receiver(holder: str) -> bool:
    """Whether the holder of a lease is no member."""
    return holder.startswith(_RECEIVER)


class _TopicPartitions(NamedTuple):
    """The partitions of a topic; in order, and as a set."""

    logs: tuple[LogId, ...]
    log_set: frozenset[LogId]


_NOTHING = _TopicPartitions((), frozenset())


class Receivers:
    """The receivers of one group."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicPartitions] = {}
        # When it is to be seen whether anybody still receives.
        self.until: Instant | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._topics)

    @property
    def holders(self) -> list[str]:
        """Who may hold what was received."""
        return [receiver_of(topic) for topic in self._topics]

    def add(self, logs: Mapping[str, tuple[LogId, ...]], now: Instant) -> None:
        """Somebody receives from these topics, of which the partitions are given."""
        for topic, of_topic in logs.items():
            known = self._topics.get(topic)
            if known is None or known.logs != of_topic:
                self._topics[topic] = _TopicPartitions(of_topic, frozenset(of_topic))
        self.keep(now)

    def keep(self, now: Instant) -> None:
        """Somebody receives, or holds what was received."""
        self.until = Instant(now + _RECEIVE_NS)

    def clear(self) -> None:
        """Nobody receives, and nobody holds what was received."""
        self.until = None
        self._topics.clear()

    def logs(self, receiver: str) -> tuple[LogId, ...]:
        """The partitions that a receiver may lease from."""
        topics = received_topics(receiver)
        if len(topics) == 1:
            return self._topics.get(topics[0], _NOTHING).logs
        return tuple(log for topic in topics for log in self._topics.get(topic, _NOTHING).logs)

    def may_lease(self, receiver: str, log: LogId) -> bool:
        is_known = log in self._topics.get(log.topic, _NOTHING).log_set
        return is_known and log.topic in received_topics(receiver)
