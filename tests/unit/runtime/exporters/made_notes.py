"""Notes as a node makes them, and spans of them."""

from typing import Any, cast

from goqueue.tracing import Kind, Note, Span, place_of, spans_of

__all__ = ["GIVEN", "PLACE", "note", "spans"]

PLACE = place_of("orders", 2, "1 0")

# A context that a message brought: trace, span, flags.
GIVEN = bytes(range(1, 17)) + bytes(range(8)) + b"\x01"


def note(count: int = 1, kind: Kind = Kind.PUBLISH, first: int = 0, **fields: object) -> Note:
    offsets = range(first, first + count)
    return Note(kind, PLACE, offsets, 1_000, 2_500, **cast("dict[str, Any]", fields))


def spans(made: Note) -> list[Span]:
    return list(spans_of(made, range(len(made))))
