"""Control records: what the log says about itself, in records that no reader is shown.

The key of a control record names its kind. They take offsets and are replicated like any other.
"""

import enum

import msgspec

from goqueue.model import Message, Record
from goqueue.records import Flag, encode

__all__ = ["ControlKind", "EpochStart", "epoch_of", "epoch_start", "placeholder"]


class ControlKind(enum.StrEnum):
    """The kinds of control record. A name never changes once it is on disk."""

    EPOCH = "gq.epoch"
    PLACEHOLDER = "gq.placeholder"


class EpochStart(msgspec.Struct, frozen=True):
    """Value of an epoch record: the leader epoch that begins at its offset."""

    epoch: int


_encoder = msgspec.json.Encoder()
_epoch_decoder = msgspec.json.Decoder(EpochStart)


def epoch_start(epoch: int) -> Message:
    """The record that a new leader appends first."""
    return Message(
        key=ControlKind.EPOCH.encode(), value=_encoder.encode(EpochStart(epoch)), is_control=True
    )


def epoch_of(record: Record) -> int | None:
    """The leader epoch that this record starts, or None if it is no such record."""
    if not record.flags & Flag.CONTROL or record.key != ControlKind.EPOCH.encode():
        return None
    try:
        return _epoch_decoder.decode(record.value or b"").epoch
    except msgspec.DecodeError:
        return None


def placeholder(offset: int, timestamp: int) -> bytes:
    """Stands where compaction removed the last record of a segment.

    Without it the segment would end early, and a missing neighbour could not be told
    from a compacted one: with it, each segment ends where the next begins, always.
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
