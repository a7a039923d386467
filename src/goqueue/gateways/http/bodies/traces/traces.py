"""Traces, their events, and counts of them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.scalars import Count, DurationText, TimeText
from goqueue.model.requests import TraceStatus

__all__ = ["TraceEventOut", "TraceFacts", "TraceOut", "TraceStats", "TraceSummary", "TracesOut"]

TraceId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", examples=["0" * 31 + "1"])]
SpanId = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
_Written = Annotated[int, Meta(description="-1 where nothing was written")]


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trace: where its first message stands, and what became of it."""

    trace_id: TraceId
    topic: str
    partition: _Written
    offset: _Written
    status: TraceStatus
    start_time: TimeText
    duration_ms: float
    event_count: Count
    end_time: TimeText | None = None


class TracesOut(msgspec.Struct, frozen=True, kw_only=True):
    """Traces, newest first; `total` counts all that match and are kept."""

    traces: list[TraceSummary]
    total: Count


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What applies to an event. Topic, partition and offset say where the message was then."""

    topic: str = ""
    partition: int = -1
    offset: int = -1
    consumer_group: str = ""
    consumer_id: str = ""
    delivery_count: int = 0
    deliver_at: TimeText = ""
    dlq_topic: str = ""
    error: str = ""


class TraceEventOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened."""

    timestamp: TimeText
    event_type: str
    span_id: SpanId
    details: TraceFacts
    parent_span_id: SpanId | None = None


class TraceOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trace with all that is kept of it, in order of time."""

    trace_id: TraceId
    topic: str
    partition: _Written
    offset: _Written
    status: TraceStatus
    start_time: TimeText
    duration_ms: float
    event_count: Count
    events: list[TraceEventOut]
    end_time: TimeText | None = None


class TraceStats(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept. The latency is that of completed traces, from first to last event."""

    traces_total: Count
    traces_completed: Count
    traces_error: Count
    traces_pending: Count
    avg_latency: DurationText
    sampling_rate: float
    spans_in_buffer: Count
    buffer_capacity: Count
