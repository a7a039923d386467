"""Bodies of the routes about the journeys of messages."""

from goqueue.gateways.http.bodies.traces.traces import (
    TraceEventOut,
    TraceFacts,
    TraceOut,
    TracesOut,
    TraceStats,
    TraceSummary,
)

__all__ = ["TraceEventOut", "TraceFacts", "TraceOut", "TraceStats", "TraceSummary", "TracesOut"]
