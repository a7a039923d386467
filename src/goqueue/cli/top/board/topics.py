"""Topics as they are watched: sizes, how fast messages come, and how that went on."""

from collections.abc import Iterator

from goqueue.cli.top.board.meter import History, Meter
from goqueue.client.admin import TopicStats

__all__ = ["TOPICS_MAX", "TopicTrack", "Topics"]

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

    def note(self, stats: TopicStats, at_s: float) -> None:
        self.stats = stats
        # An older server tells only what is kept: that rises as messages come, but retention
        # makes it fall.
        published = stats.published_total
        self._published.note(stats.total_messages if published is None else published, at_s)
        if stats.consumed_total is not None:
            self._consumed.note(stats.consumed_total, at_s)
        self.history.add(self._published.rate)


class Topics:
    """Every topic of the node, up to a limit."""

    def __init__(self) -> None:
        self._tracks: dict[str, TopicTrack] = {}
        self.count = 0

    def __iter__(self) -> Iterator[TopicTrack]:
        return iter(self._tracks.values())

    def note(self, found: dict[str, TopicStats], at_s: float) -> None:
        """Look at all of them; what is not there any more is forgotten."""
        self.count = len(found)
        tracks: dict[str, TopicTrack] = {}
        for name in sorted(found)[:TOPICS_MAX]:
            track = self._tracks.get(name) or TopicTrack(name, found[name])
            track.note(found[name], at_s)
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
