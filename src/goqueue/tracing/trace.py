"""A trace: the spans that share an id, in order of time, and what became of the message."""

from collections.abc import Sequence

import msgspec

from goqueue.model.requests import TraceStatus
from goqueue.tracing.span import Span

__all__ = ["Trace", "trace_of"]


class Trace(msgspec.Struct, frozen=True):
    """What is kept of one trace, oldest span first; there is at least one."""

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
    """The trace of spans that share an id."""
    return Trace(sorted(spans, key=_order), status)


def _order(span: Span) -> tuple[int, int]:
    return span.start, span.end
