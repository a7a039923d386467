"""What the core asks the shell to do: to files, and for whoever asked.

Effects are imperative. The shell carries them out in the order given, per log.
"""

import msgspec

from goqueue.model.backup_jobs import HoldSegments, RunBackupJob
from goqueue.model.errors import Refused
from goqueue.model.ids import LogId, Offset, RequestId, Timestamp
from goqueue.model.peer_messages import PeerIdentity, PeerLane, PeerMessage
from goqueue.model.reports import NodeReport
from goqueue.model.requests import Reply
from goqueue.model.schema_jobs import CheckSchema, CompileSchema
from goqueue.model.settings import LogSettings
from goqueue.model.store import CallStore

__all__ = [
    "Answer",
    "Change",
    "Compact",
    "ConnectPeers",
    "Create",
    "Delete",
    "Drop",
    "Effect",
    "Fetch",
    "FetchedSlice",
    "Find",
    "Halt",
    "Load",
    "NodeEffect",
    "Open",
    "Repair",
    "Report",
    "Reset",
    "Reshape",
    "Rewind",
    "Roll",
    "Save",
    "SaveEpochs",
    "Seek",
    "Send",
    "Serve",
    "Slice",
    "Sweep",
    "Sync",
    "Truncate",
    "Write",
]


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Put whole records at the end of the active segment of a log."""

    log: LogId
    segment: Offset
    position: int
    data: bytes | bytearray | memoryview
    next_offset: Offset


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """Report `Synced` once everything below `upto` is durable.

    With `is_durable=False` only that it was written, so that the page cache has it. `committed` of
    a replicated log is saved with the recovery point; 0 for a standalone one.
    """

    log: LogId
    upto: Offset
    is_durable: bool = True
    committed: Offset = Offset(0)


class Roll(msgspec.Struct, frozen=True, tag="roll"):
    """Seal the active segment and start an empty one at `base`."""

    base: Offset


class Truncate(msgspec.Struct, frozen=True, tag="truncate"):
    """Remove every record from `offset` on; answered by `Truncated`."""

    offset: Offset


class Rewind(msgspec.Struct, frozen=True, tag="rewind"):
    """Take writes again after `Filled`, from the offset that it named."""

    offset: Offset


class Drop(msgspec.Struct, frozen=True, tag="drop"):
    """Begin the log at `start`, and remove every segment that ends there or below.

    Answered by `Dropped`.
    """

    start: Offset


class Compact(msgspec.Struct, frozen=True, tag="compact"):
    """Rewrite sealed segments so that only the newest record of each key is left.

    Each group of neighbours becomes one segment. Tombstones older than `tombstones_before` go too,
    so do the `aborted` ranges. What a record that goes says of its batch is kept, unless that is
    from before `marks_before`.
    """

    groups: tuple[tuple[Offset, ...], ...]
    dirty_from: Offset
    tombstones_before: Timestamp
    marks_before: Timestamp = Timestamp(0)
    aborted: tuple[tuple[int, int], ...] = ()


class Reset(msgspec.Struct, frozen=True, tag="reset"):
    """Remove every record and begin an empty log at `start`; answered by `Truncated`."""

    start: Offset


class Repair(msgspec.Struct, frozen=True, tag="repair"):
    """Write whole records, those of another copy, over damaged ones from `first` on.

    Answered by `Repaired`.
    """

    first: Offset
    data: bytes | memoryview


class SaveEpochs(msgspec.Struct, frozen=True, tag="save_epochs"):
    """Keep a copy of the leader-epoch history beside the log (a cache of its control records)."""

    epochs: tuple[tuple[int, int], ...]


class Create(msgspec.Struct, frozen=True, tag="create"):
    """Make an empty log that does not exist yet; answered by `Created`."""

    settings: LogSettings


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """Remove a log with all its files; answered by `Deleted`."""


Change = Create | Delete | Roll | Truncate | Rewind | Drop | Reset | Compact | SaveEpochs | Repair


class Reshape(msgspec.Struct, frozen=True, kw_only=True):
    """Change the set of segment files of a log."""

    log: LogId
    change: Change


Effect = Write | Sync | Reshape


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Whole records of one segment: from the first at or after `offset`, all below `below`."""

    log: LogId
    segment: Offset
    offset: Offset
    below: Offset
    bytes_max: int


class Seek(msgspec.Struct, frozen=True, kw_only=True):
    """The first offset in a segment whose record was stamped at or after `timestamp`.

    Offsets before `offset` and from `below` on do not count.
    """

    log: LogId
    segment: Offset
    timestamp: Timestamp
    offset: Offset
    below: Offset


# For a whole node


class FetchedSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a slice that the node has in memory, so that nobody reads them again."""

    wanted: Slice
    data: memoryview


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """Recover a log, or make it if it is not there; answered by `Opened`."""

    log: LogId
    settings: LogSettings


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """Move the logs of every topic but these out of the way. Nothing is deleted."""

    topics: tuple[str, ...]


class Fetch(msgspec.Struct, frozen=True, kw_only=True):
    """Read records for the core itself; answered by `Fetched` with the same token.

    `in_background`: beside the event loop, in order among such reads; there may be many, of old
    records, and nothing else waits for them.
    """

    token: int
    wanted: Slice
    in_background: bool = False


class Find(msgspec.Struct, frozen=True, kw_only=True):
    """Find an offset by time; answered by `Found` with the same token."""

    token: int
    seeks: tuple[Seek, ...]


class Save(msgspec.Struct, frozen=True, kw_only=True):
    """Keep a snapshot under this name. Losing it loses nothing but time.

    A large one comes as a value, which nobody changes any more, for the shell to encode.
    """

    name: str
    data: bytes | msgspec.Struct


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Bring the snapshot of this name, if there is one; answered by `Loaded`."""

    name: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the caller the outcome of its command."""

    request: RequestId
    reply: Reply | Refused


class Serve(msgspec.Struct, frozen=True, kw_only=True):
    """Answer with log bytes; the shell reads those that the node does not bring.

    For `Records` there is one run of slices, for `Leased` one per partition.
    """

    request: RequestId
    reply: Reply
    runs: tuple[tuple[Slice | FetchedSlice, ...], ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the operator what happened; nothing waits for it, and a shell may leave it out."""

    report: NodeReport


class ConnectPeers(msgspec.Struct, frozen=True, kw_only=True):
    """Connect to other brokers as `identity`, and let them connect; nothing is sent before.

    The shell dials the addresses in its settings, those of `addresses`, and those that brokers
    named when they connected. The last effect counts: a broker says anew who it is when it learns
    its cluster, and connections that are open stay.
    """

    identity: PeerIdentity
    addresses: tuple[str, ...] = ()


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """Send a message to another broker, with whole batches of records behind it.

    On one lane messages arrive in order, up to where its connection ends; `PeerDisconnected`
    reports that. Without a connection the message is lost, and nothing reports it. `data` must not
    change any more.
    """

    broker: str
    message: PeerMessage
    data: tuple[bytes | bytearray | memoryview, ...] = ()
    lane: PeerLane = PeerLane.CONTROL


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """Stop the process: what the node knows can no longer be made durable.

    With `is_misconfigured` its settings are wrong: to start it again would not help.
    """

    reason: str
    is_misconfigured: bool = False


NodeEffect = (
    Write
    | Sync
    | Reshape
    | Open
    | Sweep
    | Fetch
    | Find
    | Save
    | Load
    | Answer
    | Serve
    | HoldSegments
    | RunBackupJob
    | CheckSchema
    | CompileSchema
    | ConnectPeers
    | Send
    | CallStore
    | Report
    | Halt
)
