"""Spans as JSON lines, and the names of each kind of span.

Owns the format of span files and of standard output, which docs/reference/span-files.md describes,
and the names by OpenTelemetry's messaging conventions. Other programs read both: fields and names
are added, never removed or changed.
"""

import enum
import functools
import os
from collections.abc import Sequence

import msgspec

from goqueue.model import format_time
from goqueue.runtime.exporters.exporter import NotShipped
from goqueue.tracing import Kind, Span

__all__ = ["WORDS", "Role", "SpanEvent", "SpanLine", "StreamSink", "Words", "encode_line"]


class Role(enum.StrEnum):
    """The role of a span in its trace."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    INTERNAL = "internal"


class Words(msgspec.Struct, frozen=True):
    """The names of one kind of span; `operation_type` is empty if the conventions have none.

    `failure` is `error.type` in the conventions, empty for a success. A refusal has its own code.
    """

    name: str
    role: Role = Role.INTERNAL
    operation: str = ""
    operation_type: str = ""
    failure: str = ""


WORDS: dict[Kind, Words] = {
    Kind.PUBLISH: Words("publish", Role.PRODUCER, "send", "send"),
    Kind.REFUSE: Words("refuse", Role.PRODUCER, "send", "send", "refused"),
    Kind.FETCH: Words("consume", Role.CONSUMER, "receive", "receive"),
    Kind.ACK: Words("ack", Role.INTERNAL, "ack", "settle"),
    Kind.NACK: Words("nack", Role.INTERNAL, "nack", "settle", "nacked"),
    Kind.REJECT: Words("reject", Role.INTERNAL, "reject", "settle", "rejected"),
    Kind.RELEASE: Words("release", Role.INTERNAL, "release", "settle"),
    Kind.EXTEND: Words("extend", operation="extend"),
    Kind.EXPIRE: Words("expire", operation="expire", failure="visibility_expired"),
    Kind.FIRE: Words("fire", operation="fire"),
    Kind.CANCEL: Words("cancel", operation="cancel"),
    Kind.DEAD_LETTER: Words("dead_letter", operation="dead_letter", failure="dead_letter"),
    Kind.REDRIVE: Words("redrive", operation="redrive"),
    Kind.ABORT: Words("abort", operation="abort", failure="transaction_aborted"),
    Kind.REBALANCE: Words("rebalance", operation="rebalance"),
    Kind.REPLICATE: Words("replicate", operation="replicate"),
}

# The spans of an entry share their times, and entries of one moment are adjacent.
_format_time = functools.lru_cache(maxsize=256)(format_time)
_encode = msgspec.json.Encoder().encode


class SpanEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a span, with its name in the API."""

    timestamp: str
    event_type: str


class SpanLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One span. Fields that do not apply are omitted."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str
    kind: str
    topic: str
    partition: int
    offset: int
    start_time: str
    end_time: str
    events: list[SpanEvent]
    node_id: str
    consumer_group: str = ""
    consumer_id: str = ""
    delivery_count: int = 0
    deliver_at: str = ""
    dlq_topic: str = ""
    error: str = ""


def encode_line(span: Span, node_id: str) -> bytes:
    """The line of a span, with its line feed."""
    words = WORDS[span.kind]
    line = SpanLine(
        trace_id=span.trace.hex(),
        span_id=f"{span.span_id:016x}",
        parent_span_id=f"{span.parent:016x}" if span.parent else "",
        name=words.name,
        kind=words.role,
        topic=span.topic,
        partition=span.partition,
        offset=span.offset,
        start_time=_format_time(span.start),
        end_time=_format_time(span.end),
        events=[
            SpanEvent(timestamp=_format_time(at), event_type=name) for at, name in span.events()
        ],
        node_id=node_id,
        consumer_group=span.group,
        consumer_id=span.member,
        delivery_count=span.attempt,
        deliver_at="" if span.due is None else _format_time(span.due),
        dlq_topic=span.topic if span.kind is Kind.DEAD_LETTER else "",
        error=span.detail,
    )
    return _encode(line) + b"\n"


_BATCH_SPANS = 512


class StreamSink:
    """Writes lines to a descriptor that it does not own; waits for a slow reader."""

    name = "stdout"
    batch_spans = _BATCH_SPANS

    def __init__(self, descriptor: int, node_id: str) -> None:
        self._descriptor = descriptor
        self._node_id = node_id

    def encode(self, span: Span) -> bytes:
        return encode_line(span, self._node_id)

    def ship(self, encoded: Sequence[bytes]) -> None:
        left = memoryview(b"".join(encoded))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            words = f"standard output cannot be written to: {error.strerror}"
            raise NotShipped(words) from error

    @staticmethod
    def tidy() -> bool:
        return False

    def abort(self) -> None:
        """Does nothing: a write to a slow reader cannot be interrupted."""

    def close(self) -> None:
        """Does nothing: the stream belongs to the process."""
