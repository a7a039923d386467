"""Counts over time: their rates, the last values of each, and those of topics.

Pure: times are passed in. A rate comes from two looks and is unknown on the first one, after a
count has fallen, and when the clock has not moved.

Invariant: a history holds at most its length, a meter two looks.
"""

import math
from array import array
from collections.abc import Iterator

import msgspec

from goqueue.client.admin_replies import TopicStats

__all__ = [
    "HISTORY_MAX",
    "TOPICS_MAX",
    "History",
    "MachineFacts",
    "Meter",
    "TopicTrack",
    "Topics",
]


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of the machine, from the metrics: space on its disk, and errors since the start."""

    free_bytes: int
    size_bytes: int
    errors: int

    @property
    def free_share(self) -> float:
        return self.free_bytes / self.size_bytes if self.size_bytes else 1.0


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
        """The newest values, at most `count`."""
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


# Those that come first by name; a node holds more only if someone made them by mistake.
TOPICS_MAX = 10_000


class TopicTrack:
    """One topic; rates are per second, `consumed` over all groups and readers without one."""

    __slots__ = ("_consumed", "_published", "history", "name", "stats")

    def __init__(self, name: str, stats: TopicStats) -> None:
        self.name = name
        self.stats = stats
        self.history = History()
        self._published = Meter()
        self._consumed = Meter()

    @property
    def published(self) -> float | None:
        return self._published.rate

    @property
    def consumed(self) -> float | None:
        return self._consumed.rate

    def note(self, stats: TopicStats, at_s: float, basis: int = 0) -> None:
        self.stats = stats
        # An older server reports only what is kept: that rises as messages come, but retention
        # makes it fall.
        published = stats.published_total
        self._published.note(stats.total_messages if published is None else published, at_s, basis)
        if stats.consumed_total is not None:
            self._consumed.note(stats.consumed_total, at_s, basis)
        self.history.add(self._published.rate)


class Topics:
    """Every topic of the node, up to a limit."""

    def __init__(self) -> None:
        self._tracks: dict[str, TopicTrack] = {}
        self.count = 0

    def __iter__(self) -> Iterator[TopicTrack]:
        return iter(self._tracks.values())

    def note(self, found: dict[str, TopicStats], at_s: float, basis: int = 0) -> None:
        """Look at all of them; what is not there any more is forgotten.

        Counts compare with those of the last look if they are on the same basis.
        """
        self.count = len(found)
        tracks: dict[str, TopicTrack] = {}
        for name in sorted(found)[:TOPICS_MAX]:
            track = self._tracks.get(name) or TopicTrack(name, found[name])
            track.note(found[name], at_s, basis)
            tracks[name] = track
        self._tracks = tracks

    @property
    def published(self) -> float | None:
        """Messages per second over all topics."""
        return total(track.published for track in self)

    @property
    def consumed(self) -> float | None:
        return total(track.consumed for track in self)


def total(rates: Iterator[float | None]) -> float | None:
    """The sum of those that are known; None if none is."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
