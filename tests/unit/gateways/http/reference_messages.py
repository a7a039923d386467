"""The plain way to write messages as JSON, with a struct each, to compare with."""

import base64
from collections.abc import Iterator

import msgspec

from goqueue.gateways import INTERNAL_HEADERS, AbortedRanges, leased_records, visible_records
from goqueue.gateways.http.messages import (
    PRIORITY_NAMES,
    DeliveredMessage,
    Delivery,
    ReadMessage,
    ReadOut,
)
from goqueue.model import (
    DELAYED_FROM_HEADER,
    TRACEPARENT_HEADER,
    Header,
    Record,
    format_time,
)
from goqueue.model.requests import Leased, Records, TraceSeed
from goqueue.records import derive_contexts, last_offset, parse_traceparent

__all__ = ["reference_poll", "reference_read"]

MANY = 1 << 30


class Text(msgspec.Struct, frozen=True):
    """Key, value and headers of a record as JSON writes them."""

    key: str | None
    value: str | None
    encoding: str | None
    headers: dict[str, str] | None
    base64_headers: list[str] | None


def reference_read(records: Records, count_max: int, bytes_max: int) -> bytes:
    """The answer to a read that brought these records."""
    aborted = AbortedRanges(records.aborted)
    messages: list[ReadMessage] = []
    size = 0
    for record in _visible(records, aborted):
        if len(messages) >= count_max or (messages and size >= bytes_max):
            return _answer(messages, messages[-1].offset + 1)
        size += len(record.key) + len(record.value or b"")
        size += sum(len(name.encode()) + len(value) for name, value in record.headers)
        text = text_of(record)
        messages.append(
            ReadMessage(
                records.log.topic,
                records.log.partition,
                record.offset,
                format_time(record.timestamp),
                text.value,
                PRIORITY_NAMES[record.priority],
                text.key,
                text.headers,
                "base64" if text.encoding else None,
                text.base64_headers,
                trace_of(record, records.seed),
            )
        )
    pieces = [piece for piece in records.data if len(piece)]
    if len(messages) >= count_max:
        return _answer(messages, messages[-1].offset + 1)
    return _answer(messages, last_offset(pieces[-1]) + 1 if pieces else records.upto)


def _visible(records: Records, aborted: AbortedRanges) -> Iterator[Record]:
    for piece in records.data:
        yield from visible_records(piece, records.offset, MANY, aborted)


def _answer(messages: list[ReadMessage], next_offset: int) -> bytes:
    return msgspec.json.encode(ReadOut(messages=messages, next_offset=next_offset))


def reference_poll(leased: Leased) -> bytes:
    """The answer to a poll that leased these messages."""
    messages: list[DeliveredMessage] = []
    for share in leased.partitions:
        found = {record.offset: record for record in leased_records(share, MANY)}
        for offset, attempt, receipt in share:
            record = found[offset]
            text = text_of(record)
            messages.append(
                DeliveredMessage(
                    share.log.topic,
                    share.log.partition,
                    offset,
                    format_time(record.timestamp),
                    text.value,
                    PRIORITY_NAMES[record.priority],
                    receipt,
                    attempt,
                    format_time(share.deadline),
                    text.key,
                    text.headers,
                    "base64" if text.encoding else None,
                    text.base64_headers,
                    trace_of(record, share.seed),
                )
            )
    return msgspec.json.encode(Delivery(messages=messages))


def text_of(record: Record) -> Text:
    """UTF-8 where it is; key and value in base64 where one of them is not."""
    encoding = None
    value = record.value
    try:
        key_text = record.key.decode()
        value_text = None if value is None else value.decode()
    except UnicodeDecodeError:
        encoding = "base64"
        key_text = base64.b64encode(record.key).decode()
        value_text = None if value is None else base64.b64encode(value).decode()
    texts: dict[str, str] = {}
    unreadable: list[str] = []
    for name, given in record.headers:
        if name in INTERNAL_HEADERS:
            continue
        try:
            texts[name] = given.decode()
        except UnicodeDecodeError:
            texts[name] = base64.b64encode(given).decode()
            unreadable.append(name)
    return Text(key_text or None, value_text, encoding, texts or None, unreadable or None)


def trace_of(record: Record, seed: TraceSeed | None) -> str | None:
    """What its headers give, or what follows from its offset, if that is followed."""
    return _given(record.headers, seed) or _derived(seed, record.offset)


def _derived(seed: TraceSeed | None, offset: int) -> str | None:
    if seed is None:
        return None
    name = derive_contexts(seed.high, seed.low, (offset,)).hex()[:32]
    return name if seed.is_all or int(name[16:], 16) < seed.threshold else None


def _given(headers: tuple[Header, ...], seed: TraceSeed | None) -> str | None:
    origin: str | None = None
    for name, value in headers:
        if name == TRACEPARENT_HEADER:
            context = parse_traceparent(value)
            if context:
                return context.hex()[:32]
        elif name == DELAYED_FROM_HEADER and value.isdigit():
            origin = _derived(seed, int(value))
    return origin
