"""Traces of messages over HTTP: list and search them, show one, count them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import INT32_MAX, INT64_MAX, Count, DurationText, TimeText
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import (
    Parameter,
    ParameterLocation,
    integer,
    moment,
    name,
)
from goqueue.gateways.http.routing.router import Route
from goqueue.model import MILLISECOND, Code, Refused, format_duration, format_time
from goqueue.model.requests import (
    DescribeTracing,
    FindTrace,
    SearchTraces,
    TraceDescription,
    TraceDetail,
    TraceEvent,
    TraceList,
    TraceStatus,
    TracingStatistics,
)

__all__ = [
    "TRACE_ROUTES",
    "TraceEventOut",
    "TraceFacts",
    "TraceOut",
    "TraceStats",
    "TraceSummary",
    "TracesOut",
]

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
    """What the node keeps. Latencies are those of completed traces, first to last event."""

    traces_total: Count
    traces_completed: Count
    traces_error: Count
    traces_pending: Count
    avg_latency: DurationText
    sampling_rate: float
    spans_in_buffer: Count
    buffer_capacity: Count


_SECTION = "Traces"
_TRACE_DIGITS = 32
_HEXADECIMAL = frozenset("0123456789abcdef")
# Longer keys are keys, too, but no line of a request.
_KEY_CHARACTERS_MAX = 1024


def _trace_id(given: str) -> bytes:
    if len(given) != _TRACE_DIGITS or not _HEXADECIMAL.issuperset(given):
        reason = f"must have {_TRACE_DIGITS} hexadecimal digits in lower case"
        raise Refused(Code.REQUEST_INVALID, field="id", reason=reason)
    return bytes.fromhex(given)


def _status(given: str) -> TraceStatus:
    try:
        return TraceStatus(given)
    except ValueError:
        reason = "must be one of " + ", ".join(TraceStatus)
        raise Refused(Code.REQUEST_INVALID, field="status", reason=reason) from None


def _key(given: str) -> str:
    if not 1 <= len(given) <= _KEY_CHARACTERS_MAX:
        reason = f"must have 1 to {_KEY_CHARACTERS_MAX} characters"
        raise Refused(Code.REQUEST_INVALID, field="key", reason=reason)
    return given


_ID: Parameter[bytes] = Parameter(
    name="id",
    summary="trace id",
    schema={"type": "string", "pattern": "^[0-9a-f]{32}$"},
    read=_trace_id,
    location=ParameterLocation.PATH,
    is_required=True,
)
_LIMIT = integer(
    "limit", "how many traces at most", default=100, minimum=1, maximum=1000, is_cut=True
)
_TOPIC = name("topic", "with a message in this topic")
_PARTITION = integer(
    "partition", "with a message in this partition", default=None, minimum=0, maximum=INT32_MAX
)
_OFFSET = integer(
    "offset", "with a message at this offset", default=None, minimum=0, maximum=INT64_MAX
)
_MESSAGE_KEY: Parameter[str] = Parameter(
    name="key",
    summary="with a message of this key",
    schema={"type": "string", "minLength": 1, "maxLength": _KEY_CHARACTERS_MAX},
    read=_key,
    default="",
)
_GROUP = name("consumer_group", "that this group has read")
_CONSUMER = name("consumer_id", "that this member has read")
_START = moment("start", "with an event at or after this time")
_END = moment("end", "with an event at or before this time")
_STATUS: Parameter[TraceStatus | None] = Parameter(
    name="status",
    summary="with this status",
    schema={"type": "string", "enum": list(TraceStatus)},
    read=_status,
)
_FILTERS = (
    _TOPIC,
    _PARTITION,
    _OFFSET,
    _MESSAGE_KEY,
    _GROUP,
    _CONSUMER,
    _START,
    _END,
    _STATUS,
    _LIMIT,
)


async def _list(call: Call) -> TracesOut:
    return _page(await call.ask(SearchTraces(limit=call[_LIMIT]), TraceList))


async def _search(call: Call) -> TracesOut:
    key = call[_MESSAGE_KEY]
    command = SearchTraces(
        topic=call[_TOPIC] or None,
        partition=call[_PARTITION],
        offset=call[_OFFSET],
        key=key.encode() if key else None,
        group=call[_GROUP] or None,
        member=call[_CONSUMER] or None,
        start=call[_START],
        end=call[_END],
        status=call[_STATUS],
        limit=call[_LIMIT],
    )
    return _page(await call.ask(command, TraceList))


async def _find(call: Call) -> TraceOut:
    detail = await call.ask(FindTrace(call[_ID]), TraceDetail)
    summary = msgspec.structs.asdict(_summary(detail.trace))
    return TraceOut(**summary, events=[_event(event) for event in detail.events])


async def _statistics(call: Call) -> TraceStats:
    counts = await call.ask(DescribeTracing(), TracingStatistics)
    return TraceStats(
        traces_total=counts.completed + counts.errors + counts.pending,
        traces_completed=counts.completed,
        traces_error=counts.errors,
        traces_pending=counts.pending,
        avg_latency=format_duration(counts.average_ns),
        sampling_rate=counts.sampling,
        spans_in_buffer=counts.spans,
        buffer_capacity=counts.capacity,
    )


def _page(found: TraceList) -> TracesOut:
    return TracesOut(traces=[_summary(trace) for trace in found.traces], total=found.total)


def _summary(trace: TraceDescription) -> TraceSummary:
    return TraceSummary(
        trace_id=trace.trace_id,
        topic=trace.topic,
        partition=trace.partition,
        offset=trace.offset,
        status=trace.status,
        start_time=format_time(trace.start),
        end_time=None if trace.end is None else format_time(trace.end),
        duration_ms=trace.duration_ns / MILLISECOND,
        event_count=trace.event_count,
    )


def _event(event: TraceEvent) -> TraceEventOut:
    return TraceEventOut(
        timestamp=format_time(event.at),
        event_type=event.event_type,
        span_id=event.span_id,
        parent_span_id=event.parent_span_id,
        details=TraceFacts(
            topic=event.topic,
            partition=event.partition,
            offset=event.offset,
            consumer_group=event.group,
            consumer_id=event.member,
            delivery_count=event.attempt,
            deliver_at="" if event.due is None else format_time(event.due),
            dlq_topic=event.dead_letter_topic,
            error=event.detail,
        ),
    )


TRACE_ROUTES = (
    Route(
        method="GET",
        path="/traces",
        section=_SECTION,
        summary="List the newest traces",
        run=_list,
        parameters=(_LIMIT,),
        answer=TracesOut,
    ),
    Route(
        method="GET",
        path="/traces/search",
        section=_SECTION,
        summary="Search traces",
        run=_search,
        parameters=_FILTERS,
        answer=TracesOut,
    ),
    Route(
        method="GET",
        path="/traces/stats",
        section=_SECTION,
        summary="Count the traces and spans that the node keeps",
        run=_statistics,
        answer=TraceStats,
    ),
    Route(
        method="GET",
        path="/traces/{id}",
        section=_SECTION,
        summary="Show everything that happened to one message",
        run=_find,
        parameters=(_ID,),
        answer=TraceOut,
        errors=(Code.TRACE_NOT_FOUND,),
    ),
)
