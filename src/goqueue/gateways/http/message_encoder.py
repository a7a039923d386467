"""Encodes stored records as the JSON messages of reads and polls.

Owns how keys, values, headers and timestamps become text: UTF-8 where it is, base64 where it is
not. Which records are shown at all is decided in `gateways/visibility.py`.
"""

import base64
from collections.abc import Iterable
from typing import Literal

import msgspec

from goqueue.gateways.http.messages import (
    PRIORITY_NAMES,
    DeliveredMessage,
    Delivery,
    ReadMessage,
    TraceNames,
)
from goqueue.gateways.visibility import (
    INTERNAL_HEADERS,
    AbortedRanges,
    leased_records,
    offset_after,
    visible_records,
)
from goqueue.model import SECOND, Header, Record, Timestamp, format_time
from goqueue.model.requests import Leased, Records

__all__ = ["ANSWER_BYTES_MAX", "EncodedRead", "TimeWriter", "encode_poll", "encode_read"]


class TimeWriter:
    """Writes times as `format_time` does, and remembers the last moment and its second."""

    __slots__ = ("_at", "_prefix", "_second", "_text")

    def __init__(self) -> None:
        self._at = -1
        self._text = ""
        self._second = -1
        self._prefix = ""

    def write(self, at: int) -> str:
        """The text of a time that is not before 1970."""
        if at == self._at:
            return self._text
        second, fraction = divmod(at, SECOND)
        if second != self._second:
            self._second = second
            self._prefix = format_time(Timestamp(second * SECOND))[:-1]
        decimals = f".{fraction:09d}".rstrip("0") if fraction else ""
        self._at = at
        self._text = f"{self._prefix}{decimals}Z"
        return self._text


ANSWER_BYTES_MAX = 4 * 1024 * 1024
_UNPACKED_BYTES_MAX = 64 * 1024 * 1024

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
        shown = visible_records(piece, records.offset, count_max - len(messages), aborted)
        for record, trace in _with_traces(shown, traces):
            if messages and size >= bytes_max:
                return EncodedRead(messages, size, messages[-1].offset + 1)
            size += len(record.key) + len(record.value or b"")
            if record.headers:
                size += sum(len(name) + len(text) for name, text in record.headers)
            messages.append(_read_message(topic, partition, record, times, trace))
        if len(messages) >= count_max:
            return EncodedRead(messages, size, messages[-1].offset + 1)
    return EncodedRead(messages, size, offset_after(records))


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
        traced = _with_traces(list(leased_records(parcel, room)), TraceNames(parcel.seed))
        found = {record.offset: (record, trace) for record, trace in traced}
        deadline = format_time(parcel.deadline)
        for offset, attempt, receipt in parcel:
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
        if name in INTERNAL_HEADERS:
            continue
        try:
            texts[name] = value.decode()
        except UnicodeDecodeError:
            texts[name] = base64.b64encode(value).decode()
            unreadable.append(name)
    return texts, unreadable or None
