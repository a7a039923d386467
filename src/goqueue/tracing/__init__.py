"""Message traces: what happened to which message. Pure, and bounded in memory."""

from goqueue.tracing.span import NO_OFFSET, TRACE_BYTES, UNWRITTEN, Span, Trace, spans_of
from goqueue.tracing.trace_entry import Kind, Place, TraceEntry, place_of
from goqueue.tracing.tracer import SPANS_MAX, Search, Tracer

__all__ = [
    "NO_OFFSET",
    "SPANS_MAX",
    "TRACE_BYTES",
    "UNWRITTEN",
    "Kind",
    "Place",
    "Search",
    "Span",
    "Trace",
    "TraceEntry",
    "Tracer",
    "place_of",
    "spans_of",
]
