"""Records one after the other: built from messages, verified, and given their offsets.

The publish path. Works on bytes that may come from anyone: whatever is wrong is found before
anything is changed.

Invariant: a batch that verify() accepted consists of whole records, and stamp() keeps it so.
"""

from collections.abc import Sequence

import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
import msgspec

from goqueue.model import Code, Message, Refused
from goqueue.records.cursor import Cursor
from goqueue.records.layout import OFFSET_MAX, Buffer
from goqueue.records.record import encode_headers

if not cython.compiled:
    from goqueue.records.layout import (
        HAS_HEADERS,
        IS_COMMIT,
        IS_COMPRESSED,
        IS_CONTROL,
        IS_DELAYED,
        IS_TOMBSTONE,
        OK,
        PRIORITY_MAX,
    )
    from goqueue.records.record import prove, weigh


class Stamped(msgspec.Struct, frozen=True):
    """How many records were stamped, and the newest of their timestamps."""

    count: int
    max_timestamp: int


def build(messages: Sequence[Message]) -> bytearray:
    """The records of these messages, with offset 0; a timestamp of 0 is left to the broker."""
    # A copy, because the buffer is sized by one pass and filled by the next.
    batch = tuple(messages)
    blocks: list[bytes] = []
    flags: list[int] = []
    size = 0
    for message in batch:
        try:
            block = _block(message)
            value = message.value
            size += weigh(message.key, b"" if value is None else value, block)
            _check(message)
            flags.append(prove(_flags(message), message.key, message.headers))
        except Refused as refused:
            raise Refused(refused.code, index=len(blocks), **refused.facts) from None
        blocks.append(block)
    built = bytearray(size)
    cursor = Cursor(built)
    cursor.offset = 0
    for index, message in enumerate(batch):
        value = message.value
        cursor.timestamp = message.timestamp
        cursor.priority = message.priority
        cursor.flags = flags[index]
        cursor.write(message.key, b"" if value is None else value, blocks[index])
    return built


def _block(message: Message) -> bytes:
    headers = message.headers
    if not headers:
        return b""
    for name, _ in headers:
        if not name:
            raise Refused(Code.MESSAGE_INVALID, part="headers", found="empty name")
    return encode_headers(headers)


def _check(message: Message) -> int:
    priority = message.priority
    if not 0 <= priority <= PRIORITY_MAX:
        raise Refused(Code.MESSAGE_INVALID, part="priority", found=priority)
    timestamp = message.timestamp
    if not 0 <= timestamp <= OFFSET_MAX:
        raise Refused(Code.MESSAGE_INVALID, part="timestamp", found=timestamp)
    if message.is_commit and not message.is_control:
        raise Refused(Code.MESSAGE_INVALID, part="flags", found="commit without control")
    return 0


def _flags(message: Message) -> int:
    flags = HAS_HEADERS if message.headers else 0
    if message.value is None:
        flags |= IS_TOMBSTONE
    if message.is_compressed:
        flags |= IS_COMPRESSED
    if message.is_control:
        flags |= IS_CONTROL
    if message.is_commit:
        flags |= IS_COMMIT
    if message.is_delayed:
        flags |= IS_DELAYED
    return flags


def verify(batch: Buffer) -> int:
    """The number of records, if the batch is nothing but whole and valid ones.

    Offsets are not looked at: a batch that was not stamped yet has none.
    """
    cursor = Cursor(batch)
    reason = cursor.check_all(0, False)
    if reason != OK:
        raise cursor.corrupt(reason)
    return cursor.count


def sums(data: Buffer, start: int, end: int) -> None:
    """Check the whole records in data[start:end] as verify() does, and that their offsets rise.

    For stored data: a valid record of another place is as wrong there as a damaged one.
    """
    cursor = Cursor(data)
    if not 0 <= start <= end <= cursor.size:
        raise IndexError(f"bytes {start} to {end} of {cursor.size}")
    cursor.size = end
    reason = cursor.check_all(start, True)
    if reason != OK:
        raise cursor.corrupt(reason)


def stamp(batch: bytearray | memoryview, first_offset: int, timestamp: int) -> Stamped:
    """Give the records offsets from `first_offset` on.

    A timestamp of 0, or one in the future, becomes `timestamp`; others are kept. Bodies are
    not verified: a wrong sum would be covered by the new one, so verify() comes first.
    """
    cursor = Cursor(batch)
    if cursor.is_readonly():
        raise BufferError("a batch is stamped in place: it must be writable")
    reason = cursor.hop_all()
    if reason != OK:
        raise cursor.corrupt(reason)
    count = cursor.count
    if first_offset < 0 or first_offset > OFFSET_MAX - count:
        raise IndexError(f"{count} offsets from {first_offset} on")
    position = 0
    newest = 0
    for index in range(count):
        reason = cursor.hop(position)
        # Only if someone wrote to the batch since it was counted: never sum past its end.
        if reason != OK:
            raise cursor.corrupt(reason)
        stamped = cursor.timestamp
        if stamped == 0 or stamped > timestamp:
            stamped = timestamp
        newest = max(newest, stamped)
        cursor.stamp(first_offset + index, stamped)
        position = cursor.end
    return Stamped(count, newest)
