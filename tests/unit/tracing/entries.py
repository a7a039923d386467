"""Entries to try."""

from collections.abc import Mapping, Sequence

from goqueue.tracing import Kind, Place, TraceEntry, place_of

__all__ = ["GIVEN", "PLACE", "entry"]

PLACE = place_of("orders", 0, "1")
GIVEN = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b701")


def entry(
    kind: Kind,
    *offsets: int,
    at: int = 0,
    place: Place = PLACE,
    given: Mapping[int, bytes] | None = None,
    group: str = "",
    attempts: Sequence[int] = (),
    detail: str = "",
) -> TraceEntry:
    """Something that happened to these messages."""
    return TraceEntry(
        kind,
        place,
        offsets,
        at,
        at,
        given={} if given is None else given,
        attempts=attempts,
        group=group,
        group_number=len(group),
        member=f"{group}-1" if group else "",
        detail=detail,
    )
