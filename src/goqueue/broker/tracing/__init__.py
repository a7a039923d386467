"""Journeys of messages: what the node tells the tracer, and what it answers about them."""

from goqueue.broker.tracing.asking import Asking
from goqueue.broker.tracing.journeys import TRACE_PARENT, Journeys, Story, trace_header

__all__ = ["TRACE_PARENT", "Asking", "Journeys", "Story", "trace_header"]
