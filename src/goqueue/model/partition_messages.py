"""What leaders of partitions ask of the controller (numbers 48 to 63), and news of many logs.

Wishes are answered by the metadata log alone: a broker that sees no change repeats its wish. News
of many logs between two brokers travel in one message a turn (numbers 70 to 79), so a partition
that nobody writes to costs nothing.
"""

import msgspec

from goqueue.model.ids import Instant
from goqueue.model.peer_numbers import PeerCounter, PeerInstant, PeerOffset

__all__ = [
    "AllocateProducerIds",
    "IsrWish",
    "LogAck",
    "LogSubscription",
    "LogWatermark",
    "LogsAcknowledged",
    "LogsAdvanced",
    "LogsSubscribed",
    "MoveProgress",
    "PartitionMessage",
    "ReportLogEnds",
    "ReportLostReplicas",
    "RequestIsrs",
    "RequestTopic",
    "ResignLeaderships",
    "StreamMessage",
]


class IsrWish(msgspec.Struct, frozen=True, array_like=True):
    """Another ISR of a partition that the sender leads; each member with its broker epoch."""

    topic: PeerCounter
    partition: PeerCounter
    epoch: PeerCounter
    version: PeerCounter
    isr: tuple[tuple[str, PeerCounter], ...]


class RequestIsrs(msgspec.Struct, frozen=True, array_like=True, tag=50, kw_only=True):
    """The sender leads these partitions and wants their ISRs changed: compare and set."""

    wishes: tuple[IsrWish, ...]


class ResignLeaderships(msgspec.Struct, frozen=True, array_like=True, tag=51, kw_only=True):
    """The sender can no longer lead these (topic, partition, epoch): give them to others.

    With `is_able` it may lead again itself, in a new epoch. `heirs` has for each partition who is
    to lead, and has all that is there; without them anybody may. From the controller: a leader is
    to take no appends until such an heir has all, and to ask for the change then.
    """

    partitions: tuple[tuple[PeerCounter, PeerCounter, PeerCounter], ...]
    is_able: bool = True
    heirs: tuple[str, ...] = ()


class AllocateProducerIds(msgspec.Struct, frozen=True, array_like=True, tag=52, kw_only=True):
    """The sender, in this broker epoch, has few producer ids left."""

    broker_epoch: PeerCounter
    version: PeerCounter = 0


class ReportLostReplicas(msgspec.Struct, frozen=True, array_like=True, tag=53, kw_only=True):
    """The sender, in this broker epoch, no longer has what it confirmed of these partitions."""

    broker_epoch: PeerCounter
    partitions: tuple[tuple[PeerCounter, PeerCounter], ...]


class ReportLogEnds(msgspec.Struct, frozen=True, array_like=True, tag=54, kw_only=True):
    """How the sender's logs end that nobody leads, in this broker epoch.

    For each: topic, partition, partition version, leader epoch of the last record, end.
    """

    broker_epoch: PeerCounter
    logs: tuple[tuple[PeerCounter, PeerCounter, PeerCounter, PeerCounter, PeerCounter], ...]


class RequestTopic(msgspec.Struct, frozen=True, array_like=True, tag=55, kw_only=True):
    """The sender, in this broker epoch, needs a topic that no client creates.

    That is the log of the group coordinator, or the dead-letter topic of `origin`.
    """

    broker_epoch: PeerCounter
    name: str
    origin: PeerCounter = 0


class MoveProgress(msgspec.Struct, frozen=True, array_like=True):
    """How far the learners of a partition are, as its leader in `epoch` knows it.

    `sent` are the bytes that it sent them, `held` the share of the log that all of them hold, in
    thousandths. `is_near`: they are sent what is appended.
    """

    topic: PeerCounter
    partition: PeerCounter
    epoch: PeerCounter
    sent: PeerCounter
    held: PeerCounter
    is_near: bool


class LogSubscription(msgspec.Struct, frozen=True, array_like=True):
    """One log as in `ReplicaSubscribe`: it holds [start, end), its last record is of `last`.

    `is_over`: whoever observed the log wants no more of it. `added` is the version that added this
    copy, 0 if it was there from the beginning.
    """

    topic: PeerCounter
    partition: PeerCounter
    epoch: PeerCounter
    start: PeerOffset
    end: PeerOffset
    last: PeerCounter
    is_over: bool = False
    added: PeerCounter = 0


class LogsSubscribed(msgspec.Struct, frozen=True, array_like=True, tag=70, kw_only=True):
    """Send me what comes behind each of these logs of data."""

    logs: tuple[LogSubscription, ...]


class LogAck(msgspec.Struct, frozen=True, array_like=True):
    """What a follower that agrees in `epoch` has synced and written of one log.

    `asked` is the newest instant of the leader that it heard: it still followed after that.
    `added` as in `LogSubscription`: what is said of an earlier copy counts no more.
    """

    topic: PeerCounter
    partition: PeerCounter
    epoch: PeerCounter
    durable: PeerOffset
    written: PeerOffset
    asked: PeerInstant = Instant(0)
    added: PeerCounter = 0


class LogsAcknowledged(msgspec.Struct, frozen=True, array_like=True, tag=71, kw_only=True):
    """What the sender, in this broker epoch, has of several logs."""

    broker_epoch: PeerCounter
    logs: tuple[LogAck, ...]


class LogWatermark(msgspec.Struct, frozen=True, array_like=True):
    """How far a log is committed, where it begins, and up to where it was sent to this broker."""

    topic: PeerCounter
    partition: PeerCounter
    epoch: PeerCounter
    committed: PeerOffset
    start: PeerOffset
    sent: PeerOffset


class LogsAdvanced(msgspec.Struct, frozen=True, array_like=True, tag=72, kw_only=True):
    """Several logs that the sender leads moved on, and no append will say so."""

    logs: tuple[LogWatermark, ...]
    asked: PeerInstant = Instant(0)


PartitionMessage = (
    RequestIsrs
    | ResignLeaderships
    | AllocateProducerIds
    | ReportLostReplicas
    | ReportLogEnds
    | RequestTopic
)
StreamMessage = LogsSubscribed | LogsAcknowledged | LogsAdvanced
