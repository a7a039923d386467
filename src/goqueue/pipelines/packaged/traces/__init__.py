"""Span files: latencies by topic and hop, the slowest journeys, and those that never ended."""

from goqueue.pipelines.packaged.traces.journeys import (
    HopLatency,
    Incomplete,
    Journey,
    TraceReport,
    report_on,
    trace_report,
)
from goqueue.pipelines.packaged.traces.options import TracesOptions
from goqueue.pipelines.packaged.traces.spans import BROKEN, events

__all__ = [
    "BROKEN",
    "HopLatency",
    "Incomplete",
    "Journey",
    "TraceReport",
    "TracesOptions",
    "events",
    "report_on",
    "trace_report",
]
