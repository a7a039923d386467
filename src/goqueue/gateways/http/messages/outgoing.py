"""Stored records as JSON messages: which are shown, and how their bytes become text.

Compressed values come out as they were before; one that cannot be unpacked, or that would make the
answer boundless, is handed out as stored, with the header that names its codec. Control and delayed
records are never shown, nor what was aborted, nor what the log notes about its writers.
"""

import base64
import itertools
from collections.abc import Iterable
from typing import Literal

import msgspec

from goqueue.gateways.http.bodies import DeliveredMessage, Delivery, ReadMessage
from goqueue.gateways.http.bodies.messages import PRIORITY_NAMES
from goqueue.gateways.http.messages.aborted import AbortedRanges
from goqueue.gateways.http.messages.clock import TimeWriter
from goqueue.gateways.http.messages.traces import TraceNames
from goqueue.model import Header, Record, format_time
from goqueue.model.requests import Leased, Parcel, Records
from goqueue.records import (
    Corrupt,
    Flag,
    decode,
    decompress,
    has_compressed,
    last_offset,
    pick,
    visible,
    walk,
)

__all__ = ["ANSWER_BYTES_MAX", "EncodedRead", "encode_poll", "encode_read"]

ANSWER_BYTES_MAX = 4 * 1024 * 1024
_UNPACKED_BYTES_MAX = 64 * 1024 * 1024
_HIDDEN = int(Flag.CONTROL | Flag.DELAYED)

# Who wrote a batch is for the log alone.
_BOOKKEEPING = "gq.batch"

Encoding = Literal["base64"] | None


class EncodedRead(msgspec.Struct, frozen=True):
    """Messages for a reader, about how many bytes they are, and where to go on."""

    messages: list[ReadMessage]
    size: int
    next_offset: int


class _Text(msgspec.Struct, frozen=True):
    """Key, value and headers of a record as JSON writes them."""

    key: str | None
    value: str | None
    encoding: Encoding
    headers: dict[str, str] | None
    base64_headers: list[str] | None


def encode_read(records: Records, count_max: int, bytes_max: int, times: TimeWriter) -> EncodedRead:
    """The visible ones among the records that were read, within the limits; at least one."""
    topic, partition = records.log.topic, records.log.partition
    aborted = AbortedRanges(records.aborted)
    traces = TraceNames(records.seed)
    messages: list[ReadMessage] = []
    size = 0
    for piece in records.data:
        shown = _visible(piece, records.offset, count_max - len(messages), aborted)
        for record, trace in _with_traces(shown, traces):
            if messages and size >= bytes_max:
                return EncodedRead(messages, size, messages[-1].offset + 1)
            size += len(record.key) + len(record.value or b"")
            if record.headers:
                size += sum(len(name) + len(text) for name, text in record.headers)
            messages.append(_read_message(topic, partition, record, times, trace))
        if len(messages) >= count_max:
            return EncodedRead(messages, size, messages[-1].offset + 1)
    return EncodedRead(messages, size, _after(records))


def _after(records: Records) -> int:
    """The offset after everything that was read, shown or not."""
    pieces = [piece for piece in records.data if len(piece)]
    return last_offset(pieces[-1]) + 1 if pieces else records.upto


def _read_message(
    topic: str, partition: int, record: Record, times: TimeWriter, trace: str | None
) -> ReadMessage:
    timestamp, priority = times.write(record.timestamp), PRIORITY_NAMES[record.priority]
    if not record.headers:
        key, value = record.key, record.value
        try:
            # By position: keywords would cost more than the rest of the message.
            return ReadMessage(
                topic,
                partition,
                record.offset,
                timestamp,
                None if value is None else value.decode(),
                priority,
                key.decode() if key else None,
                trace_id=trace,
            )
        except UnicodeDecodeError:
            pass
    text = _text(record)
    return ReadMessage(
        topic,
        partition,
        record.offset,
        timestamp,
        text.value,
        priority,
        text.key,
        text.headers,
        text.encoding,
        text.base64_headers,
        trace,
    )


def encode_poll(leased: Leased) -> Delivery:
    """The messages of a poll, in the order in which they were leased."""
    times = TimeWriter()
    messages: list[DeliveredMessage] = []
    room = _UNPACKED_BYTES_MAX
    for parcel in leased.parcels:
        traced = _with_traces(list(_picked(parcel, room)), TraceNames(parcel.seed))
        found = {record.offset: (record, trace) for record, trace in traced}
        deadline = format_time(parcel.deadline)
        for offset, receipt, attempt in zip(
            parcel.offsets, parcel.receipts, parcel.attempts, strict=True
        ):
            # A lease without its bytes would be a message that nobody can settle.
            record, trace = found[offset]
            room -= len(record.value or b"")
            text = _text(record)
            messages.append(
                DeliveredMessage(
                    parcel.log.topic,
                    parcel.log.partition,
                    offset,
                    times.write(record.timestamp),
                    text.value,
                    PRIORITY_NAMES[record.priority],
                    receipt,
                    attempt,
                    deadline,
                    text.key,
                    text.headers,
                    text.encoding,
                    text.base64_headers,
                    trace,
                )
            )
    return Delivery(messages=messages)


def _with_traces(
    records: Iterable[Record], traces: TraceNames
) -> Iterable[tuple[Record, str | None]]:
    """Each record with its trace; those that are unpacked on the way one at a time."""
    if isinstance(records, list):
        return zip(records, traces.of_all(records), strict=True)
    return ((record, traces.of_all((record,))[0]) for record in records)


def _visible(
    piece: memoryview, from_offset: int, count_max: int, aborted: AbortedRanges
) -> Iterable[Record]:
    if has_compressed(piece):
        return _unpacked(piece, from_offset, count_max, aborted)
    return visible(piece, from_offset, count_max, aborted.ranges)


def _picked(parcel: Parcel, room: int) -> Iterable[Record]:
    offsets = sorted(parcel.offsets)
    for piece in parcel.data:
        if not has_compressed(piece):
            yield from pick(piece, offsets)
        else:
            wanted = frozenset(parcel.offsets)
            for record in _stored(piece, 0):
                if record.offset in wanted:
                    unpacked = _unpack(record) if room > 0 else record
                    room -= len(unpacked.value or b"")
                    yield unpacked


def _unpacked(
    piece: memoryview, from_offset: int, count_max: int, aborted: AbortedRanges
) -> Iterable[Record]:
    """Visible records one at a time: whoever reads may stop before the next is unpacked."""
    kept = (record for record in _stored(piece, from_offset) if record.offset not in aborted)
    for record in itertools.islice(kept, count_max):
        yield _unpack(record)


def _stored(piece: memoryview, from_offset: int) -> Iterable[Record]:
    """The visible records of a piece as they are stored."""
    columns = walk(piece)
    for index, position in enumerate(columns.positions):
        is_hidden = columns.flags[index] & _HIDDEN
        if columns.offsets[index] >= from_offset and not is_hidden:
            yield decode(piece, position)


def _unpack(record: Record) -> Record:
    try:
        return decompress(record)
    except Corrupt:
        return record


def _text(record: Record) -> _Text:
    encoding: Encoding = None
    value = record.value
    try:
        key_text = record.key.decode()
        value_text = None if value is None else value.decode()
    except UnicodeDecodeError:
        encoding = "base64"
        key_text = base64.b64encode(record.key).decode()
        value_text = None if value is None else base64.b64encode(value).decode()
    headers, unreadable = _headers(record.headers) if record.headers else (None, None)
    return _Text(key_text or None, value_text, encoding, headers or None, unreadable)


def _headers(headers: tuple[Header, ...]) -> tuple[dict[str, str], list[str] | None]:
    texts: dict[str, str] = {}
    unreadable: list[str] = []
    for name, value in headers:
        if name == _BOOKKEEPING:
            continue
        try:
            texts[name] = value.decode()
        except UnicodeDecodeError:
            texts[name] = base64.b64encode(value).decode()
            unreadable.append(name)
    return texts, unreadable or None
