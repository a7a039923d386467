"""How fast something goes, from the last two times that it was looked at, and how that went on.

Pure: told the time. Never guesses: a count that fell, a clock that stood still and a first look
all say that the rate is not known.

Invariant: a history holds at most its length, a meter two looks.
"""

import math
from array import array

__all__ = ["HISTORY_MAX", "History", "Meter"]

# As many as the widest sparkline shows.
HISTORY_MAX = 60


class History:
    """The last values of something, the oldest first; what was not known is None."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        # Four bytes each: there may be thousands of histories.
        self._values = array("f")

    def add(self, value: float | None) -> None:
        if len(self._values) == HISTORY_MAX:
            del self._values[0]
        self._values.append(math.nan if value is None else value)

    def last(self, count: int) -> tuple[float | None, ...]:
        """The newest, at most so many."""
        newest = self._values[-count:] if count > 0 else ()
        return tuple(None if math.isnan(value) else value for value in newest)


class Meter:
    """The rate of a count, per second; None while it is not known.

    With `may_fall` the rate may be negative; otherwise a count that fell began anew.
    """

    __slots__ = ("_at_s", "_basis", "_count", "_has_seen", "_may_fall", "rate")

    def __init__(self, *, may_fall: bool = False) -> None:
        self._may_fall = may_fall
        self._has_seen = False
        self._count = 0
        self._at_s = 0.0
        self._basis = 0
        self.rate: float | None = None

    def note(self, count: int, at_s: float, basis: int = 0) -> None:
        """Look at the count; two looks compare only if they are on the same basis."""
        elapsed_s = at_s - self._at_s
        compares = self._has_seen and basis == self._basis and elapsed_s > 0
        if compares and (self._may_fall or count >= self._count):
            self.rate = (count - self._count) / elapsed_s
        else:
            self.rate = None
        self._has_seen, self._count, self._at_s, self._basis = True, count, at_s, basis
