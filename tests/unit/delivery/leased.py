"""Leases message by message, for tests that look at single ones."""

from collections.abc import Iterable

from goqueue.delivery import LeasePart, NewLease

__all__ = ["offset_of", "offsets_of", "singles"]


def singles(begun: Iterable[NewLease]) -> list[LeasePart]:
    """One part for each message, in the order of delivery."""
    return [
        LeasePart(new.lease, new.lease.select([(offset, offset + 1)]))
        for new in begun
        for offset in new.offsets
    ]


def offset_of(part: LeasePart) -> int:
    """The offset of a part of one message."""
    (offset,) = part.offsets
    return offset


def offsets_of(parts: Iterable[LeasePart]) -> list[int]:
    """The offsets of all parts."""
    return [offset for part in parts for offset in part.offsets]
