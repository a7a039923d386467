"""How late the wall clock ever was since a moment: what was due by then may have happened.

The clock may be put back, so what it says now tells nothing about what a node has seen. Costs
O(log n) to ask; keeps only times that were not reached again.
"""

from bisect import bisect_left

__all__ = ["Peaks"]


class Peaks:
    """The wall clock of a run, from its beginning."""

    def __init__(self) -> None:
        self._moment = 0
        # The moment and the time of each peak; the times fall.
        self._peaks: list[tuple[int, int]] = []

    @property
    def moment(self) -> int:
        """Now, to ask from later."""
        return self._moment

    def note(self, wall: int) -> None:
        """The clock says this now."""
        self._moment += 1
        while self._peaks and self._peaks[-1][1] <= wall:
            self._peaks.pop()
        self._peaks.append((self._moment, wall))

    def highest_since(self, moment: int) -> int:
        """The latest time since that moment, what it was then included."""
        return self._peaks[bisect_left(self._peaks, (moment,))][1]
