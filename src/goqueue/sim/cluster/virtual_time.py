"""The time of a simulated world, and what is to happen in it.

Everything that happens does so at a moment of this time, in the order in which it was asked for
where moments are equal: a run is a function of its seed.
"""

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["VirtualTime"]


class VirtualTime:
    """Nanoseconds since the world began, and an agenda."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self.events_total = 0

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Let something happen later."""
        assert delay_ns >= 0
        self._serial += 1
        heappush(self._agenda, (self.now_ns + delay_ns, self._serial, action))

    def run_until(self, end_ns: int) -> None:
        """Let everything happen that is due until then."""
        while self._agenda and self._agenda[0][0] <= end_ns:
            self.now_ns, _, action = heappop(self._agenda)
            self.events_total += 1
            action()
        self.now_ns = max(self.now_ns, end_ns)
