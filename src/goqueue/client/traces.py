"""Journeys of messages: what happened to one, as far as the node still knows."""

import datetime as dt
from typing import TypedDict, Unpack

import msgspec

from goqueue.client.admin import check_keywords
from goqueue.client.http import Transport, get

__all__ = [
    "Trace",
    "TraceCriteria",
    "TraceEvent",
    "TraceFacts",
    "TraceList",
    "TraceStats",
    "TraceSummary",
    "Traces",
]


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One journey: where its first message stands, and what became of it.

    `status` is pending, completed or error. Partition and offset are -1 for what was never written.
    """

    trace_id: str
    topic: str
    partition: int
    offset: int
    status: str
    start_time: dt.datetime
    duration_ms: float
    event_count: int
    end_time: dt.datetime | None = None


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What applies to an event; the place is where the message was then."""

    topic: str = ""
    partition: int = -1
    offset: int = -1
    consumer_group: str = ""
    consumer_id: str = ""
    delivery_count: int = 0
    deliver_at: dt.datetime | None = None
    dlq_topic: str = ""
    error: str = ""


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened. Events of one span share its id."""

    timestamp: dt.datetime
    event_type: str
    span_id: str
    details: TraceFacts
    parent_span_id: str | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One journey with all that is kept of it, in order of time."""

    trace_id: str
    topic: str
    partition: int
    offset: int
    status: str
    start_time: dt.datetime
    duration_ms: float
    event_count: int
    events: tuple[TraceEvent, ...]
    end_time: dt.datetime | None = None


class TraceList(msgspec.Struct, frozen=True, kw_only=True):
    """Journeys, newest first; `total` counts all that match and are kept."""

    traces: tuple[TraceSummary, ...]
    total: int


class TraceStats(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept. `avg_latency` is that of completed ones."""

    traces_total: int
    traces_completed: int
    traces_error: int
    traces_pending: int
    avg_latency: str
    sampling_rate: float
    spans_in_buffer: int
    buffer_capacity: int


class TraceCriteria(TypedDict, total=False):
    """What a search may ask for; times have a zone, and are inclusive.

    A time may be text (RFC 3339) with up to nanoseconds.
    """

    topic: str
    partition: int
    offset: int
    key: str
    group: str
    consumer: str
    start: dt.datetime | str
    end: dt.datetime | str
    status: str


_CRITERIA = ("limit", *TraceCriteria.__annotations__)
_LISTS = msgspec.json.Decoder(TraceList)
_TRACES = msgspec.json.Decoder(Trace)
_STATS = msgspec.json.Decoder(TraceStats)


class Traces:
    """`q.traces`: only the newest events are kept, and none of before the last start."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, *, limit: int = 100) -> TraceList:
        """The newest, 1000 at most."""
        return await self._transport.read(get("traces", limit=limit), _LISTS)

    async def search(self, *, limit: int = 100, **wanted: Unpack[TraceCriteria]) -> TraceList:
        """The newest with an event that is like this."""
        check_keywords("search", wanted, _CRITERIA)
        request = get(
            "traces",
            "search",
            topic=wanted.get("topic"),
            partition=wanted.get("partition"),
            offset=wanted.get("offset"),
            key=wanted.get("key"),
            consumer_group=wanted.get("group"),
            consumer_id=wanted.get("consumer"),
            start=_time(wanted.get("start")),
            end=_time(wanted.get("end")),
            status=wanted.get("status"),
            limit=limit,
        )
        return await self._transport.read(request, _LISTS)

    async def get(self, trace_id: str) -> Trace:
        """Everything that is kept of one; `NotFound` if that is nothing."""
        return await self._transport.read(get("traces", trace_id), _TRACES)

    async def stats(self) -> TraceStats:
        """Counts over all that is kept."""
        return await self._transport.read(get("traces", "stats"), _STATS)


def _time(given: dt.datetime | str | None) -> str | None:
    return given.isoformat() if isinstance(given, dt.datetime) else given
