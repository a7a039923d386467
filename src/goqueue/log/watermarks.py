"""How far a log is durable, committed and stable.

Invariant: stable <= committed, and neither falls except by a truncation.
"""

from goqueue.model import Offset

__all__ = ["Watermarks"]


class Watermarks:
    """Three offsets; everything below each has its property."""

    __slots__ = ("_committed", "_durable", "_unstable_from")

    def __init__(self, end: Offset) -> None:
        self._durable = end
        self._committed = end
        self._unstable_from: Offset | None = None

    @property
    def durable(self) -> Offset:
        """Below this a power cut loses nothing."""
        return self._durable

    @property
    def committed(self) -> Offset:
        """The high watermark: below this records are acknowledged and readable."""
        return self._committed

    @property
    def stable(self) -> Offset:
        """Below this records are committed and belong to no open transaction."""
        if self._unstable_from is None:
            return self._committed
        return min(self._unstable_from, self._committed)

    def hold_stable_at(self, offset: Offset | None) -> None:
        """Set the first offset of the oldest open transaction, or None when there is none."""
        self._unstable_from = offset

    def advance(self, upto: Offset, *, is_durable: bool) -> None:
        """The disk has everything below `upto`."""
        if is_durable:
            self._durable = max(self._durable, upto)
        self._committed = max(self._committed, upto)

    def lower_to(self, end: Offset) -> None:
        """Records from `end` on are being removed."""
        self._durable = min(self._durable, end)
        self._committed = min(self._committed, end)
