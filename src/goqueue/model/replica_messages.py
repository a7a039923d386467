"""What leaders and followers of a replicated log say to each other (numbers 64 to 95).

`epoch` is the leader epoch in which a message counts. `asked` is the instant of the leader at which
it sent something; a follower returns the newest one, and so confirms that it follows.
"""

import enum

import msgspec

from goqueue.model.ids import Instant, Offset
from goqueue.model.peer_numbers import PeerCounter, PeerInstant, PeerOffset

__all__ = [
    "METADATA_REPLICA",
    "ReplicaAck",
    "ReplicaAppend",
    "ReplicaDiverged",
    "ReplicaKind",
    "ReplicaLog",
    "ReplicaMessage",
    "ReplicaRepair",
    "ReplicaReset",
    "ReplicaSubscribe",
    "WatermarkAdvanced",
]


class ReplicaKind(enum.IntEnum):
    """What a replicated log holds."""

    METADATA = 0
    DATA = 1
    DELIVERY = 2


class ReplicaLog(msgspec.Struct, frozen=True, array_like=True):
    """A replicated log as brokers name it: by the number of its topic."""

    kind: ReplicaKind
    topic: PeerCounter = 0
    partition: PeerCounter = 0


METADATA_REPLICA = ReplicaLog(ReplicaKind.METADATA)


class ReplicaSubscribe(msgspec.Struct, frozen=True, array_like=True, tag=64, kw_only=True):
    """Send me what comes behind my log, which holds [start, end); its last record is of `last`."""

    log: ReplicaLog
    epoch: PeerCounter
    start: PeerOffset
    end: PeerOffset
    last: PeerCounter
    lineage: str = ""
    asked: PeerInstant = Instant(0)


class ReplicaAppend(msgspec.Struct, frozen=True, array_like=True, tag=65, kw_only=True):
    """Records [first, next) are attached; without any, the logs agree up to `first`.

    `before` is the epoch of the record before `first`, 0 at the start of the leader's log; `wrote`
    is the epoch of the first one attached.
    """

    log: ReplicaLog
    epoch: PeerCounter
    before: PeerCounter
    wrote: PeerCounter
    first: PeerOffset
    next: PeerOffset
    committed: PeerOffset
    start: PeerOffset
    asked: PeerInstant = Instant(0)


class ReplicaDiverged(msgspec.Struct, frozen=True, array_like=True, tag=66, kw_only=True):
    """A log that ends as `subscribed_*` differs: the leader's `common` epoch ends at `end`."""

    log: ReplicaLog
    epoch: PeerCounter
    subscribed_last: PeerCounter
    subscribed_end: PeerOffset
    common: PeerCounter
    end: PeerOffset
    asked: PeerInstant = Instant(0)


class ReplicaReset(msgspec.Struct, frozen=True, array_like=True, tag=67, kw_only=True):
    """A log that ends as `subscribed_*` has nothing that the leader's goes on from: start anew."""

    log: ReplicaLog
    epoch: PeerCounter
    subscribed_last: PeerCounter
    subscribed_end: PeerOffset
    start: PeerOffset
    asked: PeerInstant = Instant(0)


class ReplicaAck(msgspec.Struct, frozen=True, array_like=True, tag=68, kw_only=True):
    """What a follower that agrees has synced and written; one that does not only confirms."""

    log: ReplicaLog
    epoch: PeerCounter
    asked: PeerInstant
    is_agreed: bool = False
    durable: PeerOffset = Offset(0)
    written: PeerOffset = Offset(0)
    broker_epoch: PeerCounter = 0


class WatermarkAdvanced(msgspec.Struct, frozen=True, array_like=True, tag=69, kw_only=True):
    """The leader runs, and its log is committed so far; `sent` is the end of what it sent here."""

    log: ReplicaLog
    epoch: PeerCounter
    committed: PeerOffset
    start: PeerOffset
    sent: PeerOffset
    asked: PeerInstant
    lineage: str = ""


class ReplicaRepair(msgspec.Struct, frozen=True, array_like=True, tag=73, kw_only=True):
    """Send me the committed records of [first, below) again: mine are damaged.

    Answered by a `ReplicaAppend` with some of them.
    """

    log: ReplicaLog
    epoch: PeerCounter
    first: PeerOffset
    below: PeerOffset


ReplicaMessage = (
    ReplicaSubscribe
    | ReplicaAppend
    | ReplicaDiverged
    | ReplicaReset
    | ReplicaAck
    | WatermarkAdvanced
)
