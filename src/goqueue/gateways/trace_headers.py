"""Which trace a request is part of, from its headers or metadata."""

from collections.abc import Mapping

from goqueue.model import TRACEPARENT_HEADER, TRACESTATE_HEADER, Header
from goqueue.records import parse_traceparent

__all__ = ["request_trace"]

_TRACEPARENT = TRACEPARENT_HEADER.encode()
_TRACESTATE = TRACESTATE_HEADER.encode()
_STATE_BYTES_MAX = 4096


def request_trace(headers: Mapping[bytes, bytes]) -> tuple[Header, ...]:
    """What a request says of the trace that it is part of, for the messages that it brings."""
    parent = headers.get(_TRACEPARENT)
    if parent is None or not parse_traceparent(parent):
        return ()
    state = headers.get(_TRACESTATE, b"")
    if not state or len(state) > _STATE_BYTES_MAX:
        return ((TRACEPARENT_HEADER, parent),)
    return ((TRACEPARENT_HEADER, parent), (TRACESTATE_HEADER, state))
