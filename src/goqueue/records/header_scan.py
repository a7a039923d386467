"""Scans that read only the headers of records: slices, index entries, messages to deliver.

Of a body they read the key and the trace context at most.

The bytes were verified when they arrived. Every step is bounds checked all the same, and offsets
must rise: a reader that follows `next_offset` always advances.
"""

from array import array
from collections.abc import Sequence

import msgspec

from goqueue.records.cursor import Cursor
from goqueue.records.layout import DELIVER_HEADER, OFFSET_MAX, Buffer
from goqueue.records.record import decode_headers

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import (
        BAD_LENGTH,
        HEADER_SIZE,
        IS_COMPRESSED,
        IS_CONTROL,
        IS_DELAYED,
        IS_TOMBSTONE,
        OK,
        SCHEMA_FRAME_BYTES,
        TRUNCATED,
    )
    from goqueue.records.traceparent import header_context

# In the place of a schema id: a value without one, and a record without a value to look at.
UNFRAMED = -1
OPAQUE = -2
_OPAQUE = OPAQUE

# Of the largest number of 64 bits.
_DIGITS_MAX = 19


class RecordSlice(msgspec.Struct, frozen=True):
    """Whole records in data[start:end], and the offset to continue from.

    `reached` says that a bound ended it; otherwise the data ran out.
    """

    start: int
    end: int
    next_offset: int
    reached: bool


class IndexEntries(msgspec.Struct, frozen=True, kw_only=True):
    """Sparse index entries: offset, file position and highest timestamp so far, in columns."""

    offsets: "array[int]"
    positions: "array[int]"
    timestamps: "array[int]"
    max_timestamp: int
    last: int
    count: int
    next_offset: int


class DelayedRecords(msgspec.Struct, frozen=True):
    """Records that wait for their time, in offset order; the columns are equally long."""

    offsets: "array[int]"
    dues: "array[int]"
    priorities: "array[int]"

    def __len__(self) -> int:
        return len(self.offsets)


class MessageSummary(msgspec.Struct, frozen=True, order=True):
    """What a queue knows of a message; `size` is that of its record. Ordered by offset.

    There is one for every record that a queue delivers. A struct is made in half the time of a
    tuple, is read as fast, is smaller, and is no object that the garbage collector visits (a
    `NamedTuple` is, and takes twice as long to make as a tuple).
    """

    offset: int
    size: int
    priority: int
    # Empty: none, or not asked for.
    key: bytes
    # Trace id, span id and flags, if its producer gave them.
    trace_context: bytes


class ValueRun(msgspec.Struct, frozen=True):
    """Consecutive records [first, end) whose values begin with the same schema id.

    `UNFRAMED`: they have none. `OPAQUE`: there is no value, or only a compressed one.
    """

    schema_id: int
    first: int
    end: int


class ValueScan(msgspec.Struct, frozen=True):
    """Where the values of records begin, without the schema id of their frames, and end.

    Those of an opaque run are the places of whole records.
    """

    starts: "array[int]"
    ends: "array[int]"
    runs: list[ValueRun]


class MessageScan(msgspec.Struct, frozen=True):
    """What there is to deliver, in offset order, and the offset to go on from."""

    known: list[MessageSummary]
    next_offset: int


def slice_records(data: Buffer, from_offset: int, below_offset: int, max_bytes: int) -> RecordSlice:
    """The records with from_offset <= offset < below_offset, in at most `max_bytes`.

    The first record is included even if it alone is larger, so that a reader advances.
    """
    cursor = Cursor(data)
    position = 0
    start = -1
    previous = -1
    next_offset = from_offset
    reached = False
    while position < cursor.size:
        reason = cursor.rise(position, previous)
        if reason == TRUNCATED:
            break
        if reason != OK:
            raise cursor.corrupt(reason)
        if cursor.offset >= below_offset:
            reached = True
            break
        previous = cursor.offset
        if previous >= from_offset:
            if start < 0:
                start = position
            elif cursor.end - start > max_bytes:
                reached = True
                break
            next_offset = previous + 1
        position = cursor.end
    return RecordSlice(position if start < 0 else start, position, next_offset, reached)


def gather_records(pieces: Sequence[Buffer], offsets: list[int], size: int) -> bytearray | None:
    """Copy the records with these offsets, each given once, in this order out of stored ones.

    None if one of them is missing, or if they are not `size` bytes together.
    """
    ordered = sorted(offsets)
    # One more than there are: there is no view of nothing.
    wanted = array("q", [*ordered, OFFSET_MAX])
    positions = array("q", bytes(8 * len(wanted)))
    gathered = _gather(pieces, wanted, positions, size)
    if gathered is None or ordered == offsets:
        return gathered
    return _rearrange(gathered, wanted, positions, offsets)


def _gather(
    pieces: Sequence[Buffer], offsets: "array[int]", positions: "array[int]", size: int
) -> bytearray | None:
    """Copy the records with these offsets, which rise, and note where they are in the copy."""
    gathered = bytearray(size)
    into = Cursor(gathered)
    count = len(offsets) - 1
    index = 0
    previous = -1
    for piece in pieces:
        cursor = Cursor(piece)
        position = 0
        while position < cursor.size and index < count:
            reason = cursor.rise(position, previous)
            if reason != OK:
                return None
            previous = cursor.offset
            wanted = offsets[index]
            if previous == wanted:
                if cursor.end - position > into.size - into.position:
                    return None
                positions[index] = into.position
                cursor.copy(into)
                index += 1
            elif previous > wanted:
                return None
            position = cursor.end
    return gathered if index == count and into.position == size else None


def _rearrange(
    gathered: bytearray, offsets: "array[int]", positions: "array[int]", order: list[int]
) -> bytearray:
    """Copy records, whose offsets and positions rise, in another order of the same offsets."""
    cursor = Cursor(gathered)
    arranged = bytearray(cursor.size)
    into = Cursor(arranged)
    count = len(offsets) - 1
    index = 0
    for wanted in order:
        # Those of a lane often follow each other.
        if offsets[index] != wanted:
            index = 0
            after = count
            while index < after:
                middle = (index + after) // 2
                if offsets[middle] < wanted:
                    index = middle + 1
                else:
                    after = middle
        cursor.hop(positions[index])
        cursor.copy(into)
        index += 1
    return arranged


def index_records(data: Buffer, position: int, last: int, interval: int) -> IndexEntries:
    """Index entries for the whole records of `data`, which will stand at file `position`.

    A record is marked when it begins `interval` bytes or more after the one marked `last`.
    """
    cursor = Cursor(data)
    # Room for as many marks as there can be: no two are nearer than an interval, or than a header.
    # Three columns one after the other; `columns` is the same memory, typed where compiled.
    room = cursor.size // max(interval, HEADER_SIZE) + 1
    kept = array("q", bytes(3 * 8 * room))
    columns = kept
    marked = 0
    place = 0
    count = 0
    previous = -1
    max_timestamp = 0
    while place < cursor.size:
        reason = cursor.rise(place, previous)
        if reason == TRUNCATED:
            break
        if reason != OK:
            raise cursor.corrupt(reason)
        previous = cursor.offset
        max_timestamp = max(max_timestamp, cursor.timestamp)
        if last < 0 or position + place - last >= interval:
            last = position + place
            columns[marked] = previous
            columns[room + marked] = last
            columns[2 * room + marked] = max_timestamp
            marked += 1
        place = cursor.end
        count += 1
    return IndexEntries(
        offsets=kept[:marked],
        positions=kept[room : room + marked],
        timestamps=kept[2 * room : 2 * room + marked],
        max_timestamp=max_timestamp,
        last=last,
        count=count,
        next_offset=previous + 1,
    )


def has_compressed(data: Buffer) -> bool:
    """Whether one of these records has a compressed value; a search for its header costs more."""
    cursor = Cursor(data)
    position = 0
    while position < cursor.size:
        reason = cursor.skim(position)
        if reason != OK:
            raise cursor.corrupt(reason)
        if cursor.flags & IS_COMPRESSED:
            return True
        position = cursor.end
    return False


def scan_messages(data: Buffer, from_offset: int, *, with_keys: bool) -> MessageScan:
    """The visible records from an offset on, out of whole stored ones; keys are empty if unwanted.

    Control records and those that wait for their time are passed by, but count as seen.
    """
    cursor = Cursor(data)
    known: list[MessageSummary] = []
    return MessageScan(known, _scan_messages(cursor, from_offset, with_keys, known))


def _scan_messages(
    cursor: Cursor,
    from_offset: int,
    with_keys: bool,
    known: list[MessageSummary],
) -> int:
    """Note what is visible; returns the offset after the last record, shown or not."""
    position = 0
    previous = -1
    while position < cursor.size:
        reason = cursor.rise(position, previous)
        if reason != OK:
            raise cursor.corrupt(reason)
        previous = cursor.offset
        if previous >= from_offset and not cursor.flags & (IS_CONTROL | IS_DELAYED):
            key = cursor.key() if with_keys else b""
            context = header_context(cursor) if cursor.headers_length > 0 else b""
            size = cursor.end - position
            known.append(MessageSummary(previous, size, cursor.priority, key, context))
        position = cursor.end
    return max(from_offset, previous + 1)


def scan_values(data: Buffer) -> ValueScan:
    """Find the values of records that a schema is asked about, by the schema."""
    cursor = Cursor(data)
    cursor.hop_all()
    starts = array("q", bytes(8 * cursor.count))
    ends = starts[:]
    runs: list[ValueRun] = []
    _scan_values(cursor, starts, ends, runs)
    return ValueScan(starts, ends, runs)


def _scan_values(
    cursor: Cursor, starts: "array[int]", ends: "array[int]", runs: list[ValueRun]
) -> None:
    room = len(starts)
    position = 0
    index = 0
    first = 0
    last_id = _OPAQUE
    while position < cursor.size:
        reason = cursor.skim(position)
        # Only if someone wrote to the data since it was counted are there more than counted.
        if reason == OK and index >= room:
            reason = BAD_LENGTH
        if reason != OK:
            raise cursor.corrupt(reason)
        if cursor.flags & (IS_TOMBSTONE | IS_COMPRESSED):
            schema_id = _OPAQUE
            starts[index] = position
            ends[index] = cursor.end
        else:
            schema_id = cursor.schema_id()
            start = position + HEADER_SIZE + cursor.key_length
            starts[index] = start if schema_id < 0 else start + SCHEMA_FRAME_BYTES
            ends[index] = start + cursor.value_length
        if schema_id != last_id:
            if index > first:
                runs.append(ValueRun(last_id, first, index))
            first = index
            last_id = schema_id
        position = cursor.end
        index += 1
    if index > first:
        runs.append(ValueRun(last_id, first, index))


def find_delayed(data: Buffer, first: int = -1) -> DelayedRecords:
    """The delayed ones out of whole stored records; due at 0 where no time can be read.

    Records that have no offsets of their own yet have those from `first` on.
    """
    cursor = Cursor(data)
    cursor.hop_all()
    zeros = bytes(8 * cursor.count)
    found = DelayedRecords(array("q", zeros), array("q", zeros), array("B", zeros[: cursor.count]))
    count = _find_delayed(cursor, first, found.offsets, found.dues, found.priorities)
    for column in (found.offsets, found.dues, found.priorities):
        del column[count:]
    return found


def _find_delayed(
    cursor: Cursor,
    first: int,
    offsets: "array[int]",
    dues: "array[int]",
    priorities: "array[int]",
) -> int:
    """Note what is delayed; returns how many that are."""
    room = len(offsets)
    count = 0
    seen = 0
    position = 0
    previous = -1
    while position < cursor.size:
        reason = cursor.skim(position) if first >= 0 else cursor.rise(position, previous)
        # Only if someone wrote to the data since it was counted are there more than counted.
        if reason == OK and count >= room:
            reason = BAD_LENGTH
        if reason == OK and cursor.flags & IS_DELAYED:
            reason = cursor.check_headers()
            offsets[count] = first + seen if first >= 0 else cursor.offset
            dues[count] = cursor.due if cursor.due >= 0 else _told(cursor.headers())
            priorities[count] = cursor.priority
            count += 1
        if reason != OK:
            raise cursor.corrupt(reason)
        previous = cursor.offset
        position = cursor.end
        seen += 1
    return count


def _told(block: bytes) -> int:
    """The time that stands first among several reserved headers."""
    for name, value in decode_headers(block):
        if name == DELIVER_HEADER:
            due = int(value) if value.isdigit() and len(value) <= _DIGITS_MAX else 0
            return due if due <= OFFSET_MAX else 0
    return 0


def last_offset(data: Buffer) -> int:
    """The offset of the last of whole stored records; -1 if there are none."""
    cursor = Cursor(data)
    position = 0
    previous = -1
    while position < cursor.size:
        reason = cursor.rise(position, previous)
        if reason != OK:
            raise cursor.corrupt(reason)
        previous = cursor.offset
        position = cursor.end
    return previous
