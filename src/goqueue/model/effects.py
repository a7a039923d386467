"""What the core asks the shell to do to files, and where it may read.

Effects are imperative. The shell carries them out in the order given, per log.
"""

import msgspec

from goqueue.model.ids import LogId, Offset, Timestamp

__all__ = [
    "Change",
    "Compact",
    "Drop",
    "Effect",
    "Quarantine",
    "Reshape",
    "Rewind",
    "Roll",
    "SaveEpochs",
    "Seek",
    "Slice",
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

    With `is_durable=False` only that it was written, so that the page cache has it.
    """

    log: LogId
    upto: Offset
    is_durable: bool = True


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
    """Remove every segment that ends at or below `start`, where the log now begins."""

    start: Offset


class Quarantine(msgspec.Struct, frozen=True, tag="quarantine"):
    """Set a damaged segment aside; nothing of it is served, nothing of it is deleted."""

    segment: Offset


class Compact(msgspec.Struct, frozen=True, tag="compact"):
    """Rewrite sealed segments so that only the newest record of each key is left.

    Each group of neighbours becomes one segment. Tombstones older than `tombstones_before` go too.
    """

    groups: tuple[tuple[Offset, ...], ...]
    dirty_from: Offset
    tombstones_before: Timestamp


class SaveEpochs(msgspec.Struct, frozen=True, tag="save_epochs"):
    """Keep a copy of the leader-epoch history beside the log (a cache of its control records)."""

    epochs: tuple[tuple[int, int], ...]


Change = Roll | Truncate | Rewind | Drop | Quarantine | Compact | SaveEpochs


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
