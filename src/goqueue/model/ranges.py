"""Ranges of offsets [first, next): how messages beside each other are named together."""

from collections.abc import Iterable

__all__ = ["Range", "runs"]

Range = tuple[int, int]


def runs(offsets: Iterable[int]) -> list[Range]:
    """The same offsets as ranges; they must be sorted, and each given once."""
    found: list[Range] = []
    first = following = -1
    for offset in offsets:
        if offset == following:
            following += 1
            continue
        if first >= 0:
            found.append((first, following))
        first, following = offset, offset + 1
    if first >= 0:
        found.append((first, following))
    return found
