"""Messages of the protocol from stored records, for reads and leases.

Which records are shown is decided by `gateways/visibility.py`; here they get their form. A header
whose value is not UTF-8 is shown in base64, because the protocol has texts there.
"""

import base64
from collections.abc import Sequence

from goqueue.gateways.grpc import protocol
from goqueue.gateways.visibility import INTERNAL_HEADERS
from goqueue.model import (
    DELAYED_FROM_HEADER,
    DELIVER_HEADER,
    SECOND,
    TRACEPARENT_HEADER,
    LogId,
    Record,
    Timestamp,
)
from goqueue.model.requests import TraceSeed
from goqueue.records import CONTEXT_BYTES, derive_contexts, parse_traceparent

__all__ = ["duration_ns", "message_of", "moment_ns", "timestamp_of", "trace_ids"]

_TRACE_BYTES = 16
_DIGITS_MAX = 19


def timestamp_of(at: int) -> protocol.Timestamp:
    """A moment in nanoseconds as the protocol has it."""
    seconds, nanos = divmod(at, SECOND)
    return protocol.Timestamp(seconds=seconds, nanos=nanos)


def moment_ns(given: protocol.Timestamp) -> int:
    """A moment of the protocol in nanoseconds."""
    return given.seconds * SECOND + given.nanos


def duration_ns(given: protocol.Duration) -> int:
    """A duration of the protocol in nanoseconds."""
    return given.seconds * SECOND + given.nanos


def message_of(log: LogId, record: Record, trace_id: str) -> protocol.Message:
    """A record as a message; what a lease adds is added by the caller."""
    seconds, nanos = divmod(record.timestamp, SECOND)
    message = protocol.Message(
        topic=log.topic,
        partition=log.partition,
        offset=record.offset,
        timestamp=protocol.Timestamp(seconds=seconds, nanos=nanos),
        key=record.key,
        value=record.value,
        priority=record.priority,
        trace_id=trace_id,
    )
    if record.headers:
        _add_headers(message, record)
    return message


def _add_headers(message: protocol.Message, record: Record) -> None:
    for name, value in record.headers:
        if name in INTERNAL_HEADERS:
            continue
        if name == DELIVER_HEADER and value.isdigit():
            message.deliver_at.CopyFrom(timestamp_of(Timestamp(int(value))))
        try:
            message.headers[name] = value.decode()
        except UnicodeDecodeError:
            message.headers[name] = base64.b64encode(value).decode()


def trace_ids(records: Sequence[Record], seed: TraceSeed | None) -> list[str]:
    """The trace of each record: that of its header, or the one that its offset has, if sampled."""
    found: list[str] = []
    offsets: list[int] = []
    for record in records:
        given, origin = _given(record) if record.headers else ("", record.offset)
        found.append(given)
        offsets.append(origin)
    if seed is None:
        return found
    contexts = derive_contexts(seed.high, seed.low, offsets)
    for index, given in enumerate(found):
        start = index * CONTEXT_BYTES
        trace = contexts[start : start + _TRACE_BYTES]
        if not given and int.from_bytes(trace[_TRACE_BYTES // 2 :], "big") < seed.threshold:
            found[index] = trace.hex()
    return found


def _given(record: Record) -> tuple[str, int]:
    """The trace that the headers name, and the offset from which one follows otherwise."""
    origin = record.offset
    for name, value in record.headers:
        if name == TRACEPARENT_HEADER:
            context = parse_traceparent(value)
            if context:
                return context[:_TRACE_BYTES].hex(), origin
        elif name == DELAYED_FROM_HEADER and value.isdigit() and len(value) <= _DIGITS_MAX:
            origin = int(value)
    return "", origin
