"""A trace: the spans that share an id, in order of time, and what became of the message."""

from collections.abc import Iterable, Sequence

import msgspec

from goqueue.model.requests import TraceStatus
from goqueue.tracing.note import Kind
from goqueue.tracing.span import Span

__all__ = ["Trace", "status_of", "trace_of"]


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


def trace_of(spans: Sequence[Span]) -> Trace:
    """The trace of spans that share an id."""
    ordered = sorted(spans, key=_order)
    return Trace(ordered, status_of((span.kind, span.group) for span in ordered))


def _order(span: Span) -> tuple[int, int]:
    return span.start, span.end


def status_of(happened: Iterable[tuple[Kind, str]]) -> TraceStatus:
    """What became of a message, from what happened in which group, in order.

    Pending until settled in every group that read it; a redrive begins anew.
    """
    groups: dict[str, TraceStatus] = {}
    # Whether it was redriven, and nobody has taken it since.
    is_back = False
    for kind, group in happened:
        match kind:
            case Kind.REFUSE:
                return TraceStatus.ERROR
            case Kind.CANCEL | Kind.REBALANCE:
                return TraceStatus.COMPLETED
            case Kind.FETCH | Kind.NACK | Kind.EXPIRE | Kind.EXTEND:
                if groups.get(group) is not TraceStatus.ERROR:
                    groups[group] = TraceStatus.PENDING
            case Kind.ACK:
                groups[group] = TraceStatus.COMPLETED
            case Kind.REJECT | Kind.LETTER:
                groups[group] = TraceStatus.ERROR
            case Kind.REDRIVE:
                groups = {name: at for name, at in groups.items() if at is not TraceStatus.ERROR}
                is_back = True
                continue
        is_back = is_back and kind is not Kind.FETCH
    states = set(groups.values())
    if TraceStatus.ERROR in states:
        return TraceStatus.ERROR
    is_done = states == {TraceStatus.COMPLETED} and not is_back
    return TraceStatus.COMPLETED if is_done else TraceStatus.PENDING
