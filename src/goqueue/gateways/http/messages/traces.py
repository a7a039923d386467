"""The trace of each message that is shown, and the trace that a request is part of.

A message names its trace by a header, or its offset does; see `goqueue.records.tracing`.
"""

from collections.abc import Mapping, Sequence

from goqueue.model import Header, Record
from goqueue.model.requests import TraceSeed
from goqueue.records.tracing import CONTEXT_BYTES, make_contexts, read_context

__all__ = ["TraceNames", "request_trace"]

_PARENT = "traceparent"
_STATE = "tracestate"
_DELAYED_FROM = "gq.delayed-from"
_TRACE_DIGITS = 32
_STATE_BYTES_MAX = 4096


class TraceNames:
    """The trace ids of the messages of one partition."""

    __slots__ = ("_seed",)

    def __init__(self, seed: TraceSeed | None) -> None:
        self._seed = seed

    def of_all(self, records: Sequence[Record]) -> list[str | None]:
        """The trace of each record, None where it has none that is followed."""
        names = self._made([record.offset for record in records])
        for index, record in enumerate(records):
            if record.headers:
                names[index] = self._told(record.headers) or names[index]
        return names

    def _made(self, offsets: Sequence[int]) -> list[str | None]:
        """What follows from offsets."""
        seed = self._seed
        if seed is None:
            return [None] * len(offsets)
        digits = make_contexts(seed.high, seed.low, offsets).hex()
        names: list[str | None] = [
            digits[start : start + _TRACE_DIGITS]
            for start in range(0, len(digits), 2 * CONTEXT_BYTES)
        ]
        if not seed.is_all:
            for index, name in enumerate(names):
                if name is not None and int(name[_TRACE_DIGITS // 2 :], 16) >= seed.threshold:
                    names[index] = None
        return names

    def _told(self, headers: tuple[Header, ...]) -> str | None:
        """What headers say: a trace, or where the message stood first."""
        made: str | None = None
        for name, value in headers:
            if name == _PARENT:
                context = read_context(value)
                if context:
                    return context.hex()[:_TRACE_DIGITS]
            elif name == _DELAYED_FROM and value.isdigit():
                made = self._made((int(value),))[0]
        return made


def request_trace(headers: Mapping[bytes, bytes]) -> tuple[Header, ...]:
    """What a request says of the trace that it is part of, for the messages that it brings."""
    parent = headers.get(b"traceparent")
    if parent is None or not read_context(parent):
        return ()
    state = headers.get(b"tracestate", b"")
    if not state or len(state) > _STATE_BYTES_MAX:
        return ((_PARENT, parent),)
    return ((_PARENT, parent), (_STATE, state))
