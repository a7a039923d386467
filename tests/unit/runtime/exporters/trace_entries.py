"""Entries as a node makes them, and spans of them."""

from typing import Any, cast

from goqueue.tracing import Kind, Span, TraceEntry, place_of, spans_of

__all__ = ["GIVEN", "PLACE", "entry", "spans"]

PLACE = place_of("orders", 2, "1 0")

# A context that a message brought: trace, span, flags.
GIVEN = bytes(range(1, 17)) + bytes(range(8)) + b"\x01"


def entry(
    count: int = 1, kind: Kind = Kind.PUBLISH, first: int = 0, **fields: object
) -> TraceEntry:
    offsets = range(first, first + count)
    return TraceEntry(kind, PLACE, offsets, 1_000, 2_500, **cast("dict[str, Any]", fields))


def spans(made: TraceEntry) -> list[Span]:
    return list(spans_of(made, range(len(made))))
