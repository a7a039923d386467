"""The trace of each message that is shown, and the trace that a request is part of.

A message names its trace by a header, or its offset does; see `goqueue.records.tracing`.
"""

from collections.abc import Mapping

from goqueue.model import Header, Record
from goqueue.model.requests import TraceSeed
from goqueue.records.tracing import CONTEXT_BYTES, make_contexts, read_context

__all__ = ["TraceNames", "request_trace"]

_PARENT = "traceparent"
_STATE = "tracestate"
_DELAYED_FROM = "gq.delayed-from"
_TRACE_BYTES = 16
# Contexts are made for so many neighbours at once: whoever reads one mostly reads the next.
_BLOCK = 256
_STATE_BYTES_MAX = 4096


class TraceNames:
    """The trace ids of the messages of one partition."""

    __slots__ = ("_base", "_block", "_seed")

    def __init__(self, seed: TraceSeed | None) -> None:
        self._seed = seed
        self._base = -1
        self._block = ""

    def of(self, record: Record) -> str | None:
        """The id of the trace, if it has one that is followed."""
        offset = record.offset
        for name, value in record.headers:
            if name == _PARENT:
                context = read_context(value)
                if context:
                    return context[:_TRACE_BYTES].hex()
            elif name == _DELAYED_FROM and value.isdigit():
                offset = int(value)
        return None if self._seed is None else self._made(self._seed, offset)

    def _made(self, seed: TraceSeed, offset: int) -> str | None:
        base = offset - offset % _BLOCK
        if base != self._base:
            neighbours = range(base, base + _BLOCK)
            self._block = make_contexts(seed.high, seed.low, neighbours).hex()
            self._base = base
        start = 2 * CONTEXT_BYTES * (offset - base)
        trace = self._block[start : start + 2 * _TRACE_BYTES]
        return trace if seed.is_all or int(trace[_TRACE_BYTES:], 16) < seed.threshold else None


def request_trace(headers: Mapping[bytes, bytes]) -> tuple[Header, ...]:
    """What a request says of the trace that it is part of, for the messages that it brings."""
    parent = headers.get(b"traceparent")
    if parent is None or not read_context(parent):
        return ()
    state = headers.get(b"tracestate", b"")
    if not state or len(state) > _STATE_BYTES_MAX:
        return ((_PARENT, parent),)
    return ((_PARENT, parent), (_STATE, state))
