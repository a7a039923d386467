"""Control records: records about the log itself, hidden from readers.

The key of a control record names its kind. They have offsets and are replicated like any other.
"""

import enum
from collections.abc import Iterator

import msgspec

from goqueue.model import (
    CANCEL_KEY,
    EPOCH_KEY,
    PLACEHOLDER_KEY,
    RESTORED_KEY,
    TRANSACTION_KEY,
    Message,
    Record,
)
from goqueue.records import Columns, Flag, encode

__all__ = [
    "Cancellation",
    "ControlKind",
    "EpochStart",
    "Marker",
    "Restored",
    "cancellation",
    "cancelled_by",
    "ended_by",
    "epoch_of",
    "epoch_start",
    "marker_of",
    "placeholder",
    "restored",
    "restored_by",
]


# For each value of the flags whether they are those of a control record.
_IS_CONTROL = bytes(bool(flags & Flag.CONTROL) for flags in range(256))


def controls_in(columns: Columns) -> Iterator[int]:
    """The indexes of control records: as a rule there is none, and that costs next to nothing."""
    found = columns.flags.tobytes().translate(_IS_CONTROL)
    index = found.find(1)
    while index >= 0:
        yield index
        index = found.find(1, index + 1)


class ControlKind(enum.StrEnum):
    """The kinds of control record. A name never changes once it is on disk."""

    CANCEL = CANCEL_KEY
    EPOCH = EPOCH_KEY
    PLACEHOLDER = PLACEHOLDER_KEY
    RESTORED = RESTORED_KEY
    TRANSACTION = TRANSACTION_KEY


class EpochStart(msgspec.Struct, frozen=True):
    """Value of an epoch record: the leader epoch that begins at its offset."""

    epoch: int


class Cancellation(msgspec.Struct, frozen=True):
    """Value of a cancellation: the offset of the delayed message."""

    offset: int


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Value of the record that ends a transaction.

    Repeats the flag COMMIT, because no checksum covers the flags.
    """

    producer: int
    epoch: int
    transaction: int
    is_commit: bool


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """Value of the record that a restore puts behind the records of a backup.

    Producers and transactions before it are those of another time, and perhaps of another node:
    their numbers mean nothing from here on. What was open ends here: `committed` names the
    producers and transactions that were committed, all others are aborted.
    """

    committed: tuple[tuple[int, int], ...] = ()


_encoder = msgspec.json.Encoder()
_epoch_decoder = msgspec.json.Decoder(EpochStart)
_marker_decoder = msgspec.json.Decoder(Marker)
_restored_decoder = msgspec.json.Decoder(Restored)
_cancellation_decoder = msgspec.json.Decoder(Cancellation)


def epoch_start(epoch: int) -> Message:
    """The record that a new leader appends first."""
    return Message(
        key=ControlKind.EPOCH.encode(), value=_encoder.encode(EpochStart(epoch)), is_control=True
    )


def epoch_of(record: Record) -> int | None:
    """The leader epoch that this record starts; None for other records."""
    if not record.flags & Flag.CONTROL or record.key != ControlKind.EPOCH.encode():
        return None
    try:
        return _epoch_decoder.decode(record.value or b"").epoch
    except msgspec.DecodeError:
        return None


def cancellation(offset: int) -> Message:
    """The record that cancels a delayed message."""
    value = _encoder.encode(Cancellation(offset))
    return Message(key=ControlKind.CANCEL.encode(), value=value, is_control=True)


def cancelled_by(record: Record) -> int | None:
    """The offset of the delayed message that this record cancels; None for other records."""
    if not record.flags & Flag.CONTROL or record.key != ControlKind.CANCEL.encode():
        return None
    try:
        return _cancellation_decoder.decode(record.value or b"").offset
    except msgspec.DecodeError:
        return None


def marker_of(marker: Marker) -> Message:
    """The record that ends a transaction in one partition."""
    return Message(
        key=ControlKind.TRANSACTION.encode(),
        value=_encoder.encode(marker),
        is_control=True,
        is_commit=marker.is_commit,
    )


def ended_by(record: Record) -> Marker | None:
    """The transaction that this record ends; None for other records."""
    if not record.flags & Flag.CONTROL or record.key != ControlKind.TRANSACTION.encode():
        return None
    try:
        return _marker_decoder.decode(record.value or b"")
    except msgspec.DecodeError:
        return None


def placeholder(offset: int, timestamp: int) -> bytes:
    """Replaces the last record of a segment that compaction removed.

    Without it the segment would end early, and a missing segment could not be distinguished from a
    compacted one: with it, each segment ends where the next begins, always.
    """
    return encode(
        Record(
            offset=offset,
            timestamp=timestamp,
            priority=2,
            flags=int(Flag.CONTROL),
            key=ControlKind.PLACEHOLDER.encode(),
            value=b"",
            headers=(),
        )
    )


def restored(offset: int, timestamp: int, committed: tuple[tuple[int, int], ...]) -> bytes:
    """The record that ends what a backup says of producers and transactions."""
    return encode(
        Record(
            offset=offset,
            timestamp=timestamp,
            priority=2,
            flags=int(Flag.CONTROL),
            key=ControlKind.RESTORED.encode(),
            value=_encoder.encode(Restored(committed=committed)),
            headers=(),
        )
    )


def restored_by(record: Record) -> Restored | None:
    """What this record says of the end of a backup; None for other records."""
    if not record.flags & Flag.CONTROL or record.key != ControlKind.RESTORED.encode():
        return None
    try:
        return _restored_decoder.decode(record.value or b"")
    except msgspec.MsgspecError:
        return None
