"""Queries about the traces of messages, and their replies."""

import enum

import msgspec

from goqueue.model.ids import Timestamp

__all__ = [
    "DescribeTracing",
    "FindTrace",
    "SearchTraces",
    "TraceDescription",
    "TraceDetail",
    "TraceEvent",
    "TraceList",
    "TraceSeed",
    "TraceStatus",
    "TracingStatistics",
]


class TraceStatus(enum.StrEnum):
    """What became of a message, as far as it is known."""

    PENDING = "pending"
    COMPLETED = "completed"
    ERROR = "error"


class SearchTraces(msgspec.Struct, frozen=True, kw_only=True):
    """The newest traces with a span that is like this; answered by `TraceList`.

    `key` is that of the message, `member` the id of a consumer; times are inclusive.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: bytes | None = None
    group: str | None = None
    member: str | None = None
    start: Timestamp | None = None
    end: Timestamp | None = None
    status: TraceStatus | None = None
    limit: int = 100


class FindTrace(msgspec.Struct, frozen=True):
    """One trace by its id; answered by `TraceDetail`."""

    trace_id: bytes


class DescribeTracing(msgspec.Struct, frozen=True):
    """Count what is kept; answered by `TracingStatistics`."""


class TraceDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One trace: where its first message stands, and what became of it.

    Partition and offset are -1 for what was never written. `end` is None while it is pending.
    """

    trace_id: str
    topic: str
    partition: int
    offset: int
    status: TraceStatus
    start: Timestamp
    end: Timestamp | None
    duration_ns: int
    event_count: int


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened at one time; `detail` is a reason or a code."""

    at: Timestamp
    event_type: str
    span_id: str
    parent_span_id: str | None
    topic: str
    partition: int
    offset: int
    group: str
    member: str
    attempt: int
    due: Timestamp | None
    dead_letter_topic: str
    detail: str


class TraceList(msgspec.Struct, frozen=True, kw_only=True):
    """Traces, newest first, and how many there are in all."""

    traces: tuple[TraceDescription, ...]
    total: int


class TraceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with all that is kept of it, in order of time."""

    trace: TraceDescription
    events: tuple[TraceEvent, ...]


class TraceSeed(msgspec.Struct, frozen=True):
    """From what the trace ids of a partition follow, and below what half of one it is followed."""

    high: int
    low: int
    threshold: int

    @property
    def is_all(self) -> bool:
        """Whether every trace is followed."""
        return self.threshold >> 64 > 0

    def __str__(self) -> str:
        """As it is sent to clients."""
        return f"{self.high:016x}-{self.low:016x}-{self.threshold:x}"


class TracingStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept, counted."""

    completed: int
    errors: int
    pending: int
    average_ns: int
    sampling: float
    spans: int
    capacity: int
