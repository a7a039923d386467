"""Batches as a log takes them: appended with new offsets, or as another broker stored them.

What another broker stored is checked in one pass over checksums and offsets, and only control
records are decoded. Nothing is encoded again: an offset holds the same bytes on every replica.
"""

import msgspec

from goqueue.log.batch_mark import headed_count
from goqueue.log.control import controls_in, epoch_of
from goqueue.model import Code, Effect, Offset, Refused, Timestamp
from goqueue.records import Buffer, Columns, decode, scan

__all__ = ["Appended", "StoredBatch", "check_stored"]


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a batch, and what the shell must do before it is committed.

    A repeat is already in the log and was not appended again. `is_plain` is known of what a
    follower appends: see `StoredBatch`.
    """

    first: Offset
    next: Offset
    effects: tuple[Effect, ...]
    is_repeat: bool = False
    is_plain: bool = False


class StoredBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a log must know of records that it did not stamp itself.

    `epochs` are the leader epochs that begin among them, each with its offset. `is_plain`: none of
    them is a control record or has headers, so nothing in them is about producers or delays.
    """

    max_timestamp: Timestamp
    epochs: tuple[tuple[int, int], ...]
    is_plain: bool


def check_stored(data: Buffer, first: Offset, following: Offset) -> StoredBatch:
    """Check records that should be those of [first, following); refuses any others.

    Compaction leaves gaps, so offsets only have to rise; the last one ends the range.
    """
    found = scan(data)
    columns = found.columns
    offsets = columns.offsets
    is_whole = found.reason is None and len(offsets) > 0
    if not is_whole or offsets[0] < first or offsets[-1] + 1 != following:
        raise Refused(Code.REQUEST_INVALID, field="data", reason=found.reason or "offsets")
    epochs: list[tuple[int, int]] = []
    has_controls = False
    for index in controls_in(columns):
        has_controls = True
        record = decode(data, columns.positions[index])
        epoch = epoch_of(record)
        if epoch is not None:
            epochs.append((epoch, record.offset))
    return StoredBatch(
        max_timestamp=_max_timestamp(columns),
        epochs=tuple(epochs),
        is_plain=not has_controls and not headed_count(columns),
    )


def _max_timestamp(columns: Columns) -> Timestamp:
    """The newest; the records of one batch nearly always have the same."""
    times = columns.timestamps
    if times.tobytes() == times[:1].tobytes() * len(times):
        return Timestamp(times[0])
    return Timestamp(max(times))
