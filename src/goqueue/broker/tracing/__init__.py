"""Traces of messages: what the node tells the tracer, and what it answers about them."""

from goqueue.broker.tracing.asking import TraceQueries
from goqueue.broker.tracing.journeys import TRACE_PARENT, TraceRecorder, PublishTrace, trace_header

__all__ = ["TRACE_PARENT", "TraceQueries", "TraceRecorder", "PublishTrace", "trace_header"]
