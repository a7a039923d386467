"""How far a log is written, durable, committed and stable.

What the disk reports moves `written` and `durable`; the log's commit rule (`Replica`) moves
`committed`.

Invariant: durable <= written, stable <= committed <= written, and none falls except by a
truncation.
"""

from goqueue.model import Offset

__all__ = ["Watermarks"]


class Watermarks:
    """Four offsets; everything below each has its property."""

    __slots__ = ("_committed", "_durable", "_unstable_from", "_written")

    def __init__(self, end: Offset, committed: Offset | None = None) -> None:
        self._written = end
        self._durable = end
        self._committed = end if committed is None else min(committed, end)
        self._unstable_from: Offset | None = None

    @property
    def written(self) -> Offset:
        """Below this the page cache or the disk has everything: a killed process loses nothing."""
        return self._written

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

    # Comparisons instead of `max`: these are called with every sync.

    def advance(self, upto: Offset, *, is_durable: bool, is_committed: bool = False) -> None:
        """The disk has everything below `upto`; with `is_committed` nobody else is asked."""
        if is_durable and upto > self._durable:
            self._durable = upto
        self._written = max(self._written, upto)
        if is_committed and upto > self._committed:
            self._committed = upto

    def commit(self, upto: Offset) -> bool:
        """Everything below `upto` is committed; whether that is more than before."""
        assert upto <= self._written, "what the own disk does not hold is never committed"
        if upto <= self._committed:
            return False
        self._committed = upto
        return True

    def lower_to(self, end: Offset) -> None:
        """Records from `end` on are being removed."""
        self._written = min(self._written, end)
        self._durable = min(self._durable, end)
        self._committed = min(self._committed, end)
