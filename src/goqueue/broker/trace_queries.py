"""Queries about traces, answered from what the tracer keeps."""

from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.model import Code, Now, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    FindTrace,
    SearchTraces,
    TraceDescription,
    TraceDetail,
    TraceEvent,
    TraceList,
    TraceStatus,
)
from goqueue.records import key_fingerprint
from goqueue.security import NameFilter
from goqueue.tracing import Kind, Search, Span, Trace

__all__ = ["TraceQueries"]


class TraceQueries:
    """Takes questions about traces."""

    def __init__(self, state: NodeState) -> None:
        self._outbox = state.outbox
        self._stepwise = state.stepwise
        self._tracer = state.traces.tracer
        self._access = state.access

    def search(self, request: RequestId, command: SearchTraces, now: Now) -> None:
        if command.start is not None and command.end is not None and command.end < command.start:
            raise Refused(Code.REQUEST_INVALID, field="end", reason="is before the start")
        search = Search(
            topic=command.topic,
            partition=command.partition,
            offset=command.offset,
            key=None if command.key is None else key_fingerprint(command.key),
            group=command.group,
            member=command.member,
            start=command.start,
            end=command.end,
            status=command.status,
        )
        steps = self._found(request, search, command.limit, self._access.readable_topics())
        self._stepwise.begin(request, steps, now)

    def _found(self, request: RequestId, search: Search, limit: int, sees: NameFilter) -> Steps:
        traces, total = yield from self._tracer.search_steps(search, limit, sees)
        found = tuple(_described(trace) for trace in traces)
        self._outbox.answer(request, TraceList(traces=found, total=total))

    def find(self, request: RequestId, command: FindTrace) -> None:
        trace = self._tracer.find(command.trace_id, self._access.readable_topics())
        if trace is None:
            raise Refused(Code.TRACE_NOT_FOUND, trace_id=command.trace_id.hex())
        events = sorted(
            (event for span in trace.spans for event in _events(span)), key=lambda event: event.at
        )
        self._outbox.answer(request, TraceDetail(trace=_described(trace), events=tuple(events)))

    def statistics(self, request: RequestId, now: Now) -> None:
        steps = self._counted(request, self._access.readable_topics())
        self._stepwise.begin(request, steps, now)

    def _counted(self, request: RequestId, sees: NameFilter) -> Steps:
        counts = yield from self._tracer.statistics_steps(sees)
        self._outbox.answer(request, counts)


def _described(trace: Trace) -> TraceDescription:
    first = trace.first
    return TraceDescription(
        trace_id=first.trace.hex(),
        topic=first.topic,
        partition=first.partition,
        offset=first.offset,
        status=trace.status,
        start=Timestamp(first.start),
        end=None if trace.status is TraceStatus.PENDING else Timestamp(trace.end),
        duration_ns=trace.end - first.start,
        event_count=trace.event_count,
    )


def _events(span: Span) -> list[TraceEvent]:
    return [
        TraceEvent(
            at=Timestamp(at),
            event_type=name,
            span_id=f"{span.span_id:016x}",
            parent_span_id=f"{span.parent:016x}" if span.parent else None,
            topic=span.topic,
            partition=span.partition,
            offset=span.offset,
            group=span.group,
            member=span.member,
            attempt=span.attempt,
            due=None if span.due is None else Timestamp(span.due),
            dead_letter_topic=span.topic if span.kind is Kind.DEAD_LETTER else "",
            detail=span.detail,
        )
        for at, name in span.events()
    ]
