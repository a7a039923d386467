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

    A repeat is already in the log and was not appended again. `stating_bytes` is known of what a
    follower appends: see `StoredBatch`.
    """

    first: Offset
    next: Offset
    effects: tuple[Effect, ...]
    is_repeat: bool = False
    stating_bytes: int = 0


class StoredBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a log must know of records that it did not stamp itself.

    `epochs` are the leader epochs that begin among them, each with its offset. The first
    `stating_bytes` hold all that are control records or have headers: nothing behind them is about
    producers or delays. The batch of a producer has its mark on the first record, so that is as a
    rule all of it.
    """

    max_timestamp: Timestamp
    epochs: tuple[tuple[int, int], ...]
    stating_bytes: int


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
    stating = headed_count(columns)
    for index in controls_in(columns):
        stating = max(stating, index + 1)
        record = decode(data, columns.positions[index])
        epoch = epoch_of(record)
        if epoch is not None:
            epochs.append((epoch, record.offset))
    return StoredBatch(
        max_timestamp=_max_timestamp(columns),
        epochs=tuple(epochs),
        stating_bytes=len(data) if stating == len(offsets) else columns.positions[stating],
    )


def _max_timestamp(columns: Columns) -> Timestamp:
    """The newest; the records of one batch nearly always have the same."""
    times = columns.timestamps
    if times.tobytes() == times[:1].tobytes() * len(times):
        return Timestamp(times[0])
    return Timestamp(max(times))
