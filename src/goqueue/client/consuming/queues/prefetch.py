"""How many messages to lease ahead of their turn.

Pure: told the time. A lease runs while its message waits, so no more is leased ahead than can be
handled within a third of a lease at the measured pace. Starts at one, and at most doubles with
each poll, so that a fast consumer reaches its bound within a few polls.

Invariant: never more than the limit.
"""

__all__ = ["PrefetchWindow"]

_SHARE_OF_LEASE = 1 / 3
# A slower message counts more than a faster one: to lease too few ahead costs a round trip.
_WEIGHT_OF_SLOWER = 0.5
_WEIGHT_OF_FASTER = 0.25


class PrefetchWindow:
    """Learns the pace from how long after a message was handed out the next one is asked for.

    With several workers that is the time between two messages of all of them together.
    """

    __slots__ = ("_handed", "_handling_s", "_limit", "_since", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = min(1, limit)
        self._handling_s: float | None = None
        # How many were handed out since anybody asked, and when the last one was.
        self._handed = 0
        self._since = 0.0

    def ask(self, now: float) -> None:
        """A worker wants its next message: it is done with the last one."""
        if not self._handed:
            return
        sample_s = (now - self._since) / self._handed
        self._handed = 0
        known_s = self._handling_s
        if known_s is None:
            self._handling_s = sample_s
        elif sample_s > known_s:
            self._handling_s = known_s + _WEIGHT_OF_SLOWER * (sample_s - known_s)
        else:
            self._handling_s = known_s + _WEIGHT_OF_FASTER * (sample_s - known_s)

    def hand(self, now: float) -> None:
        """A worker gets a message, or one more, and is busy from now on."""
        self._handed += 1
        self._since = now

    def grow(self, lease_s: float, now: float) -> int:
        """The size for the next poll."""
        self._size = min(max(2 * self._size, 1), self.fitting(lease_s, now))
        return self._size

    def fitting(self, lease_s: float, now: float) -> int:
        """How many of those that wait can be handled in time, as far as is known."""
        # While everybody is busy the pace may have changed: nobody has asked for so long.
        busy_s = now - self._since if self._handed else 0.0
        pace_s = max(self._handling_s or 0.0, busy_s)
        limit = self._limit if self._handling_s is not None else min(1, self._limit)
        budget_s = lease_s * _SHARE_OF_LEASE
        if pace_s * limit <= budget_s:
            return limit
        return int(budget_s / pace_s)
