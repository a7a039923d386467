"""Stored records of one partition as messages.

Owns what a reader of raw records has to drop: records below the wanted offset, control records,
delayed ones, those of aborted transactions. Every sum is checked on the way.
"""

import itertools
import re
from bisect import bisect_left, bisect_right

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.message import Message
from goqueue.model import LogId
from goqueue.model.requests import TraceSeed
from goqueue.records import (
    HEADER_SIZE,
    Columns,
    Corrupt,
    Flag,
    decode,
    decode_headers,
    decompress,
    encode_headers,
    walk,
)

__all__ = ["Chunk", "decode_chunk", "read_ranges", "read_seed"]

# How a record is treated, by its flags: left out, taken as it is, or unpacked.
_LEFT_OUT, _TAKEN, _UNPACKED = range(3)
_HIDDEN = int(Flag.CONTROL | Flag.DELAYED)
_PACKED = int(Flag.COMPRESSED | Flag.TOMBSTONE)
_TREATMENTS = bytes(
    _LEFT_OUT if flags & _HIDDEN else _UNPACKED if flags & _PACKED else _TAKEN
    for flags in range(256)
)
# The first header of a batch that a known producer wrote, after the count of headers: the broker's
# own note, which is nobody else's business.
_NOTE = b"\x00\x08gq.batch"
_COUNT_SIZE = 2
_SEED = re.compile(rb"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{1,17})")

Ranges = tuple[tuple[int, int], ...]


class Chunk(msgspec.Struct, frozen=True):
    """Messages in offset order, and where to go on after the last of them."""

    log: LogId
    messages: list[Message]
    next_offset: int


def decode_chunk(
    log: LogId, data: bytes, offset: int, aborted: Ranges = (), seed: TraceSeed | None = None
) -> list[Message]:
    """The messages that a reader who wants `offset` and later is to see.

    The traces of those that carry no context follow from the seed.
    """
    try:
        columns = walk(data)
        treatments = _treatments(columns, offset, aborted)
        if treatments.count(_TAKEN) == len(treatments):
            return _plain(log, data, columns, seed)
        return _picked(log, data, columns, treatments, seed)
    except Corrupt as corrupt:
        words = f"{log}: {corrupt}"
        raise GoQueueError("records_damaged", words) from corrupt


def _treatments(columns: Columns, offset: int, aborted: Ranges) -> bytearray:
    """One byte per record; no work per record here."""
    treatments = bytearray(bytes(columns.flags).translate(_TREATMENTS))
    offsets = columns.offsets
    for first, last in ((0, offset - 1), *aborted):
        begin, end = bisect_left(offsets, first), bisect_right(offsets, last)
        if begin < end:
            treatments[begin:end] = bytes(end - begin)
    return treatments


def read_ranges(text: bytes) -> Ranges:
    """The header that lists aborted offsets: `a-b,c-d`, both ends included."""
    try:
        pairs = [part.split(b"-") for part in text.split(b",") if part.strip()]
        return tuple((int(first), int(last)) for first, last in pairs)
    except ValueError:
        raise GoQueueError("response_invalid", f"{text!r} lists no offsets") from None


def read_seed(text: bytes) -> TraceSeed | None:
    """The header from which traces follow: three hexadecimal numbers, or nothing."""
    if not text:
        return None
    found = _SEED.fullmatch(text)
    if found is None:
        raise GoQueueError("response_invalid", f"{text!r} is no seed")
    high, low, threshold = (int(part, 16) for part in found.groups())
    return TraceSeed(high, low, threshold)


def _plain(log: LogId, data: bytes, columns: Columns, seed: TraceSeed | None) -> list[Message]:
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
                _headers(data[end : end + headers_size]) if headers_size else b"",
                None,
                seed,
            )
        )
    return messages


def _headers(block: bytes) -> bytes:
    """The headers of a record without the broker's note."""
    if not block.startswith(_NOTE, _COUNT_SIZE):
        return block
    return encode_headers(decode_headers(block)[1:])


def _picked(
    log: LogId, data: bytes, columns: Columns, treatments: bytearray, seed: TraceSeed | None
) -> list[Message]:
    """As above, with a look at what is to be done with each; those left out cost nothing."""
    topic, partition = log.topic, log.partition
    messages: list[Message] = []
    append = messages.append
    records = zip(
        treatments,
        columns.positions,
        columns.offsets,
        columns.timestamps,
        columns.priorities,
        columns.key_lengths,
        columns.value_lengths,
        columns.header_lengths,
        strict=True,
    )
    for (
        treatment,
        start,
        offset,
        timestamp,
        priority,
        key_size,
        value_size,
        headers_size,
    ) in itertools.compress(records, treatments):
        if treatment == _UNPACKED:
            append(_unpacked(log, data, start, seed))
            continue
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
                _headers(data[end : end + headers_size]) if headers_size else b"",
                None,
                seed,
            )
        )
    return messages


def _unpacked(log: LogId, data: bytes, position: int, seed: TraceSeed | None) -> Message:
    record = decode(data, position)
    if record.flags & Flag.COMPRESSED:
        record = decompress(record)
    return Message(
        log.topic,
        log.partition,
        record.offset,
        record.timestamp,
        record.priority,
        record.key,
        record.value,
        _headers(encode_headers(record.headers)),
        None,
        seed,
    )
