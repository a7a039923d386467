"""Stored records of one partition as messages.

Owns what a reader of raw records has to drop: records below the wanted offset, control records,
delayed ones, those of aborted transactions. Every sum is checked on the way.
"""

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.message import Message
from goqueue.model import LogId
from goqueue.records import (
    HEADER_SIZE,
    Columns,
    Corrupt,
    Flag,
    decode,
    decompress,
    encode_headers,
    walk,
)

__all__ = ["Chunk", "decode_chunk", "read_ranges"]

_HIDDEN = int(Flag.CONTROL | Flag.DELAYED)
_UNUSUAL = int(Flag.COMPRESSED | Flag.TOMBSTONE) | _HIDDEN

Ranges = tuple[tuple[int, int], ...]


class Chunk(msgspec.Struct, frozen=True):
    """Messages in offset order, and where to go on after the last of them."""

    log: LogId
    messages: list[Message]
    next_offset: int


def decode_chunk(log: LogId, data: bytes, offset: int, aborted: Ranges = ()) -> list[Message]:
    """The messages that a reader who wants `offset` and later is to see."""
    try:
        columns = walk(data)
        flags = frozenset(columns.flags)
        is_plain = not any(flag & _UNUSUAL for flag in flags) and not aborted
        if is_plain and (not len(columns) or columns.offsets[0] >= offset):
            return _plain(log, data, columns)
        return _picked(log, data, columns, offset, aborted)
    except Corrupt as corrupt:
        words = f"{log}: {corrupt}"
        raise GoQueueError("records_damaged", words) from corrupt


def read_ranges(text: bytes) -> Ranges:
    """The header that lists aborted offsets: `a-b,c-d`, both ends included."""
    try:
        pairs = [part.split(b"-") for part in text.split(b",") if part.strip()]
        return tuple((int(first), int(last)) for first, last in pairs)
    except ValueError:
        raise GoQueueError("response_invalid", f"{text!r} lists no offsets") from None


def _plain(log: LogId, data: bytes, columns: Columns) -> list[Message]:
    """The fast road: nothing to drop, nothing to unpack, one object per record."""
    topic, partition = log.topic, log.partition
    messages: list[Message] = []
    append = messages.append
    for start, offset, timestamp, priority, key_size, value_size, headers_size in zip(
        columns.positions,
        columns.offsets,
        columns.timestamps,
        columns.priorities,
        columns.key_lengths,
        columns.value_lengths,
        columns.header_lengths,
        strict=True,
    ):
        value_at = start + HEADER_SIZE + key_size
        end = value_at + value_size
        append(
            Message(
                topic,
                partition,
                offset,
                timestamp,
                priority,
                data[start + HEADER_SIZE : value_at],
                data[value_at:end],
                data[end : end + headers_size] if headers_size else b"",
            )
        )
    return messages


def _picked(
    log: LogId, data: bytes, columns: Columns, offset: int, aborted: Ranges
) -> list[Message]:
    messages: list[Message] = []
    for position, found, flags in zip(
        columns.positions, columns.offsets, columns.flags, strict=True
    ):
        if found < offset or flags & _HIDDEN:
            continue
        if any(first <= found <= last for first, last in aborted):
            continue
        record = decode(data, position)
        if flags & Flag.COMPRESSED:
            record = decompress(record)
        messages.append(
            Message(
                log.topic,
                log.partition,
                record.offset,
                record.timestamp,
                record.priority,
                record.key,
                record.value,
                encode_headers(record.headers),
            )
        )
    return messages
