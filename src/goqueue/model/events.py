"""What the shell reports to the core. Events are in the past tense."""

import msgspec

from goqueue.model.callers import Caller
from goqueue.model.ids import LogId, Offset, RequestId, Timestamp
from goqueue.model.peer_messages import PeerIdentity, PeerLane, PeerMessage
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
    "Observed",
    "PeerConnected",
    "PeerDisconnected",
    "PeerEvent",
    "PeerMessageReceived",
    "Repaired",
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


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """The records of [first, below) are whole again, durably; none if they could not be placed."""

    log: LogId
    first: Offset
    below: Offset


class Truncated(msgspec.Struct, frozen=True, kw_only=True):
    """A truncation is done; `active` is what is left of the last segment.

    After a reset there is nothing else, and the log begins there.
    """

    log: LogId
    offset: Offset
    active: SegmentFacts
    is_reset: bool = False


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


DiskEvent = (
    Synced
    | Failed
    | Filled
    | Damaged
    | Repaired
    | Truncated
    | Dropped
    | Compacted
    | Created
    | Deleted
)


# For a whole node


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A caller wants something."""

    request: RequestId
    command: Command
    caller: Caller


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The caller no longer waits for an answer."""

    request: RequestId


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The shell did something that belongs into the audit log, such as a reload of certificates."""

    action: str
    resource: str
    facts: dict[str, str] = {}


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


# For a node of a cluster


class PeerConnected(msgspec.Struct, frozen=True, kw_only=True):
    """A lane to another broker is open: messages to it arrive from now on.

    `reached_at` is the address where this broker dialled it, None if it dialled. `version` is that
    of the protocol which both use. `clock_offset_ns` is how far its wall clock is ahead of ours.
    """

    identity: PeerIdentity
    lane: PeerLane
    reached_at: str | None = None
    version: int = 1
    clock_offset_ns: int = 0

    @property
    def broker(self) -> str:
        return self.identity.broker

    @property
    def directory(self) -> str:
        return self.identity.directory

    @property
    def incarnation(self) -> int:
        return self.identity.incarnation

    @property
    def address(self) -> str:
        return self.identity.address


class PeerDisconnected(msgspec.Struct, frozen=True, kw_only=True):
    """The lane to this incarnation of a broker has ended; nothing more comes from it.

    Messages that were sent and not answered may or may not have arrived. It comes once more, with
    `is_refused`, when the address of the broker then refuses connections: its process is gone.
    """

    broker: str
    incarnation: int
    lane: PeerLane
    is_refused: bool = False


class PeerMessageReceived(msgspec.Struct, frozen=True, kw_only=True):
    """Another broker said something, in this incarnation of it.

    Comes between `PeerConnected` and `PeerDisconnected` of its lane, never from an incarnation
    below one that has connected on any lane.
    """

    broker: str
    directory: str
    incarnation: int
    message: PeerMessage
    data: tuple[bytes | memoryview, ...] = ()


PeerEvent = PeerConnected | PeerDisconnected | PeerMessageReceived
