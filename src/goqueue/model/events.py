"""What the shell reports to the core. Events are in the past tense."""

import msgspec

from goqueue.model.ids import LogId, Offset, RequestId, Timestamp
from goqueue.model.requests import Command

__all__ = [
    "Asked",
    "Compacted",
    "Created",
    "Damaged",
    "Deleted",
    "DiskEvent",
    "Dropped",
    "Failed",
    "Fetched",
    "Filled",
    "Found",
    "Left",
    "Loaded",
    "SegmentFacts",
    "Synced",
    "Truncated",
    "Woke",
]


class SegmentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the core knows of one segment: offsets `base` up to `end`, size, newest stamp."""

    base: Offset
    end: Offset
    size: int
    max_timestamp: Timestamp


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below `upto` is durable, or written if `is_durable` is False."""

    log: LogId
    upto: Offset
    is_durable: bool = True


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The disk broke a promise. This log takes no more writes until the process restarts."""

    log: LogId
    reason: str


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """There was no space: nothing from `offset` on was written. Answer with `Rewind`.

    `segment` is the active one on disk: the last `Roll` may or may not have been carried out.
    """

    log: LogId
    offset: Offset
    segment: Offset


class Damaged(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that were durable once no longer add up: the records of [first, below) are lost."""

    log: LogId
    segment: Offset
    position: int
    first: Offset
    below: Offset
    reason: str


class Truncated(msgspec.Struct, frozen=True, kw_only=True):
    """A truncation is done; `active` is what is left of the last segment."""

    log: LogId
    offset: Offset
    active: SegmentFacts


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A log begins at `start`, and will after any crash."""

    log: LogId
    start: Offset


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """A group of segments was rewritten as one, or (with `segment` None) the pass was given up.

    Below `cleaned_upto` no older record of any key is left.
    """

    log: LogId
    replaced: tuple[Offset, ...] = ()
    segment: SegmentFacts | None = None
    cleaned_upto: Offset = Offset(0)
    is_last: bool


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """A new log is there, empty and durable."""

    log: LogId


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A log is gone, and its name is free."""

    log: LogId


DiskEvent = Synced | Failed | Filled | Damaged | Truncated | Dropped | Compacted | Created | Deleted


# For a whole node


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A caller wants something."""

    request: RequestId
    command: Command


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The caller no longer waits for an answer."""

    request: RequestId


class Woke(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline passed."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """The records that were wanted; None when they could not be read (`Damaged` says why)."""

    token: int
    data: memoryview | None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The offset that was looked for, or None."""

    token: int
    offset: Offset | None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot, or None when there is none."""

    name: str
    data: bytes | None
