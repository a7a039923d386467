# cython: boundscheck=False, wraparound=False
"""Many records at once, one column per field, for whoever works on batches as a whole.

Every column is an array.array, so numpy and pyarrow wrap it without a copy.

Invariant: all columns of one Columns are equally long.
"""

from array import array

import msgspec

from goqueue.records.cursor import Cursor
from goqueue.records.layout import REASONS, Buffer

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import BAD_LENGTH, BAD_OFFSET, OK, TRUNCATED

# What the offsets of consecutive records must do, where no first offset is given.
_RISE = -1
_ANYTHING = -2


class Columns:
    """The headers of consecutive records, and where in the data each record begins."""

    __slots__ = (
        "flags",
        "header_lengths",
        "key_lengths",
        "offsets",
        "positions",
        "priorities",
        "timestamps",
        "value_lengths",
    )

    def __init__(self, count: int) -> None:
        zeros = bytes(8 * count)
        self.offsets = array("q", zeros)
        self.timestamps = array("q", zeros)
        self.positions = array("q", zeros)
        self.priorities = array("B", zeros[:count])
        self.flags = array("B", zeros[:count])
        self.key_lengths = array("H", zeros[: 2 * count])
        self.value_lengths = array("I", zeros[: 4 * count])
        self.header_lengths = array("H", zeros[: 2 * count])

    def __len__(self) -> int:
        return len(self.offsets)

    def note(self, cursor: Cursor, expected: int) -> int:
        """Fill the columns with the records from the start on; keep as many as are good."""
        reason = self._fill(cursor, expected)
        if cursor.count < len(self.offsets):
            for column in (self.offsets, self.timestamps, self.positions):
                del column[cursor.count :]
            for column in (self.priorities, self.flags):
                del column[cursor.count :]
            for column in (self.key_lengths, self.value_lengths, self.header_lengths):
                del column[cursor.count :]
        return reason

    def _fill(self, cursor: Cursor, expected: int) -> int:
        """Check and note record after record; leaves the cursor where it stopped."""
        offsets = self.offsets
        timestamps = self.timestamps
        positions = self.positions
        priorities = self.priorities
        flags = self.flags
        key_lengths = self.key_lengths
        value_lengths = self.value_lengths
        header_lengths = self.header_lengths
        room = len(offsets)
        position = 0
        index = 0
        previous = -1
        reason = OK
        while position < cursor.size:
            reason = cursor.hop(position)
            if reason == OK:
                reason = cursor.check()
            if reason == OK and expected != _ANYTHING:
                is_next = cursor.offset == expected + index or expected < 0
                if not is_next or cursor.offset <= previous:
                    reason = BAD_OFFSET
            # Only if someone wrote to the data since it was counted are there more than counted.
            if reason == OK and index >= room:
                reason = BAD_LENGTH
            if reason != OK:
                break
            previous = cursor.offset
            offsets[index] = previous
            timestamps[index] = cursor.timestamp
            positions[index] = position
            priorities[index] = cursor.priority
            flags[index] = cursor.flags
            key_lengths[index] = cursor.key_length
            value_lengths[index] = cursor.value_length
            header_lengths[index] = cursor.headers_length
            position = cursor.end
            index += 1
        cursor.position = position
        cursor.count = index
        return reason


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """The good records from the start of some data, and why there were no more.

    `reason` is None when the data ends with the last record. When it is "truncated", the
    record at `end` announces `needs` bytes in total.
    """

    columns: Columns
    end: int
    reason: str | None
    needs: int


def walk(data: Buffer) -> Columns:
    """The records of data that consists of nothing else. Offsets need not rise."""
    cursor = Cursor(data)
    cursor.hop_all()
    columns = Columns(cursor.count)
    reason = columns.note(cursor, _ANYTHING)
    if reason != OK:
        raise cursor.corrupt(reason)
    return columns


def scan(data: Buffer, expected_offset: int = _RISE) -> Scan:
    """As many whole, valid records as there are from the start; never raises for the bytes.

    With an expected offset the first record must have it, and each next one the next.
    """
    cursor = Cursor(data)
    cursor.hop_all()
    columns = Columns(cursor.count)
    reason = columns.note(cursor, max(expected_offset, _RISE))
    return Scan(
        columns=columns,
        end=cursor.position,
        reason=None if reason == OK else REASONS[reason],
        needs=cursor.end - cursor.position if reason == TRUNCATED else 0,
    )
