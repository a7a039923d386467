"""Local time: what a zone is, and which moments a local time names.

A zone answers one question, its offset from UTC at a moment; everything else follows from that. Who
creates a node hands the zones in (`Zones`), so that no rule is read from a file here and the
simulator can have zones of its own. Times are whole seconds since 1970, of UTC or as a local clock
shows them.

Invariant: `resolve` is monotonic. A later local time never names an earlier moment, neither by its
first nor by its last occurrence; a local time inside a gap names the moment at which the gap ends.
It takes for granted that two transitions of a zone are at least three days apart.

Cost: two questions to the zone, four next to a transition, about twenty inside a gap.
"""

from typing import Protocol

import msgspec

__all__ = ["DAY", "UTC", "FixedZone", "Moments", "Zone", "Zones", "resolve"]

DAY = 86_400


class Zone(Protocol):
    """The clocks of one place."""

    def offset_at(self, seconds: int) -> int:
        """How many seconds local clocks are ahead of UTC at a moment."""


class Zones(Protocol):
    """The zones that there are. Both methods are fast enough to be called in a turn."""

    def find(self, name: str) -> Zone | None:
        """The zone of a name such as `Europe/Vienna`; None if there is none."""


class FixedZone(msgspec.Struct, frozen=True):
    """Clocks that are never changed."""

    offset: int = 0

    def offset_at(self, seconds: int) -> int:
        """The same at every moment."""
        del seconds
        return self.offset


UTC = FixedZone()


class Moments(msgspec.Struct, frozen=True):
    """When a local time occurs: first and last differ where clocks are put back.

    Inside a gap it never occurs, and both are the moment at which the gap ends.
    """

    first: int
    last: int
    is_gap: bool = False


def resolve(zone: Zone, local: int) -> Moments:
    """The moments at which the clocks of a zone show this time."""
    # No offset exceeds a day, so what it changes from and to is in force by then.
    before, after = zone.offset_at(local - DAY), zone.offset_at(local + DAY)
    if before == after:
        return Moments(local - before, local - before)
    occurrences = [
        moment
        for moment in sorted((local - before, local - after))
        if moment + zone.offset_at(moment) == local
    ]
    if occurrences:
        return Moments(occurrences[0], occurrences[-1])
    end = _gap_end(zone, local, local - after, local - before)
    return Moments(end, end, is_gap=True)


def _gap_end(zone: Zone, local: int, early: int, late: int) -> int:
    """The first moment at which clocks show more than this; `early` is before it, `late` is not."""
    while late - early > 1:
        middle = (early + late) // 2
        if middle + zone.offset_at(middle) > local:
            late = middle
        else:
            early = middle
    return late
