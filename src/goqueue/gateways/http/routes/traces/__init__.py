"""The routes about the journeys of messages."""

from goqueue.gateways.http.routes.traces.routes import TRACE_ROUTES

__all__ = ["TRACE_ROUTES"]
