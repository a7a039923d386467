"""Spans and traces: an entry split by message, and the spans that share a trace id.

Every span id is derived from the position of its message, so the parent of a span is known without
having seen it: a position is a child of the supplied context, a delivery is a child of its
position, and the outcome of a delivery is a child of the delivery. A trace holds its spans in order
of time, and the status of the message.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from goqueue.model.requests import TraceStatus
from goqueue.records import derive_contexts, mix_seed
from goqueue.tracing.trace_entry import Kind, TraceEntry

__all__ = [
    "EVENTS",
    "NO_OFFSET",
    "TRACE_BYTES",
    "UNWRITTEN",
    "Span",
    "Trace",
    "due_of",
    "spans_of",
    "trace_of",
]

TRACE_BYTES = 16
NO_OFFSET = -1
# Offsets of messages that were never written: contexts are derived from them; never shown.
UNWRITTEN = 1 << 63

EVENTS: dict[Kind, tuple[str, ...]] = {
    Kind.PUBLISH: ("publish.received", "publish.partitioned", "publish.persisted"),
    Kind.REFUSE: ("publish.received", "publish.validation_failed"),
    Kind.FETCH: ("consume.fetched",),
    Kind.ACK: ("consume.acked",),
    Kind.NACK: ("consume.nacked",),
    Kind.REJECT: ("consume.rejected",),
    Kind.RELEASE: ("consume.released",),
    Kind.EXTEND: ("visibility.extended",),
    Kind.EXPIRE: ("visibility.expired",),
    Kind.FIRE: ("delay.fired",),
    Kind.CANCEL: ("delay.cancelled",),
    Kind.DEAD_LETTER: ("dlq.routed",),
    Kind.REDRIVE: ("dlq.redriven",),
    Kind.ABORT: ("transaction.aborted",),
    Kind.REBALANCE: ("rebalance.start", "rebalance.complete"),
    Kind.REPLICATE: ("replication.pending", "replication.complete"),
}
_SCHEDULED = "delay.scheduled"
# These give a message a position; everything else happens at a position.
_POSITIONS = frozenset({Kind.PUBLISH, Kind.REFUSE, Kind.FIRE, Kind.DEAD_LETTER, Kind.REDRIVE})
_OF_A_DELIVERY = frozenset(
    {Kind.ACK, Kind.NACK, Kind.REJECT, Kind.RELEASE, Kind.EXTEND, Kind.EXPIRE}
)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to one message. `parent` is 0 if there is none.

    `creation` is the span that created the message: the supplied one, or its first. `offset` is
    NO_OFFSET if the message was never written, or if there is none.
    """

    trace: bytes
    span_id: int
    parent: int
    kind: Kind
    topic: str
    partition: int
    offset: int
    start: int
    end: int
    group: str
    member: str
    attempt: int
    due: int | None
    detail: str
    key: int
    creation: int = 0

    def events(self) -> Iterator[tuple[int, str]]:
        """The events in order: all but the last happened at the start."""
        names = EVENTS[self.kind]
        for name in names[:-1]:
            yield self.start, name
        yield self.end, names[-1]
        if self.due is not None and self.kind is Kind.PUBLISH:
            yield self.end, _SCHEDULED

    @property
    def event_count(self) -> int:
        return len(EVENTS[self.kind]) + (self.due is not None and self.kind is Kind.PUBLISH)


def spans_of(entry: TraceEntry, indexes: Iterable[int]) -> Iterator[Span]:
    """The spans of some messages of an entry."""
    for index in indexes:
        yield _span(entry, index, entry.context(index))


def _span(entry: TraceEntry, index: int, context: bytes) -> Span:
    offset = entry.offsets[index]
    creation = int.from_bytes(context[TRACE_BYTES:])
    span_id, parent = _ids(entry, index, creation)
    keys = entry.keys
    return Span(
        trace=context[:TRACE_BYTES],
        span_id=span_id,
        parent=parent,
        kind=entry.kind,
        topic=entry.place.topic,
        partition=entry.place.partition,
        offset=NO_OFFSET if offset >= UNWRITTEN or entry.kind is Kind.REBALANCE else offset,
        start=entry.at,
        end=entry.until,
        group=entry.group,
        member=entry.member,
        attempt=entry.attempt(index),
        due=due_of(entry, offset),
        detail=entry.detail,
        key=0 if keys is None else keys[index],
        creation=creation,
    )


def _ids(entry: TraceEntry, index: int, context: int) -> tuple[int, int]:
    """The id of a span and that of its parent, 0 if it has none."""
    position, above = context, 0
    given = entry.given.get(index)
    if given is not None:
        place = entry.place
        own = derive_contexts(place.high, place.low, (entry.offsets[index],))
        position, above = mix_seed(context, int.from_bytes(own[TRACE_BYTES:])), context
    kind = entry.kind
    if kind in _POSITIONS or kind is Kind.REBALANCE:
        return position, above
    if kind not in _OF_A_DELIVERY and kind is not Kind.FETCH:
        return mix_seed(position, kind), position
    delivery = mix_seed(position, mix_seed(entry.group_number, entry.attempt(index)))
    if kind is Kind.FETCH:
        return delivery, position
    return mix_seed(delivery, mix_seed(kind, entry.at)), delivery


def due_of(entry: TraceEntry, offset: int) -> int | None:
    """The due time of a message; None if it is not delayed."""
    waiting = entry.waiting
    if waiting is None:
        return None
    place = bisect_left(waiting.offsets, offset)
    if place == len(waiting) or waiting.offsets[place] != offset:
        return None
    return waiting.dues[place]


class Trace(msgspec.Struct, frozen=True):
    """The known spans of one trace, oldest first; at least one."""

    spans: list[Span]
    status: TraceStatus

    @property
    def first(self) -> Span:
        return self.spans[0]

    @property
    def end(self) -> int:
        return max(span.end for span in self.spans)

    @property
    def event_count(self) -> int:
        return sum(span.event_count for span in self.spans)


def trace_of(spans: Sequence[Span], status: TraceStatus) -> Trace:
    """The trace of spans with one id."""
    return Trace(sorted(spans, key=_order), status)


def _order(span: Span) -> tuple[int, int]:
    return span.start, span.end
