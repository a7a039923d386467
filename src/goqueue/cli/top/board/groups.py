"""Groups as they are watched: how far behind, whether that rises, and whom to ask next.

A lag costs a request each, so only some are asked in a round: those on the screen, and the others
in turn. What is known of a group stays until the group is gone.

Invariant: a round asks for at most as many lags as it is allowed, and every group has its turn.
"""

from collections.abc import Iterator, Sequence

from goqueue.cli.top.board.meter import History, Meter
from goqueue.client.admin import GroupLag, GroupSummary
from goqueue.model import parse_duration

__all__ = ["GROUPS_MAX", "GroupTrack", "Groups"]

GROUPS_MAX = 10_000


class GroupTrack:
    """One group; `lag` and what depends on it are None until it was asked for."""

    __slots__ = ("_change", "_settled", "history", "in_flight", "lag", "oldest_ns", "summary")

    def __init__(self, summary: GroupSummary) -> None:
        self.summary = summary
        self.lag: int | None = None
        self.in_flight = 0
        self.oldest_ns = 0
        self.history = History()
        self._change = Meter(may_fall=True)
        self._settled = Meter()

    @property
    def name(self) -> str:
        return self.summary.group_id

    @property
    def change(self) -> float | None:
        """Messages per second by which the lag grows, or falls."""
        return self._change.rate

    @property
    def settled(self) -> float | None:
        """Messages per second that the group is done with."""
        return self._settled.rate

    def note(self, found: GroupLag, at_s: float) -> None:
        partitions = found.partitions
        self.lag = found.total_lag
        self.in_flight = sum(each.in_flight for each in partitions)
        self.oldest_ns = max((parse_duration(each.time_lag) for each in partitions), default=0)
        self.history.add(found.total_lag)
        # What lies below the end and is not behind was settled. Two looks compare only over the
        # same partitions: one that is new to the group brings a past of its own.
        settled = sum(each.end_offset - each.lag for each in partitions)
        self._settled.note(settled, at_s, len(partitions))
        self._change.note(found.total_lag, at_s, len(partitions))


class Groups:
    """Every group of the node, up to a limit."""

    def __init__(self) -> None:
        self._tracks: dict[str, GroupTrack] = {}
        self._turn = ""
        self.count = 0

    def __iter__(self) -> Iterator[GroupTrack]:
        return iter(self._tracks.values())

    def note(self, found: Sequence[GroupSummary], lags: dict[str, GroupLag], at_s: float) -> None:
        """Look at all of them; what is not there any more is forgotten."""
        self.count = len(found)
        tracks: dict[str, GroupTrack] = {}
        for summary in found[:GROUPS_MAX]:
            track = self._tracks.get(summary.group_id) or GroupTrack(summary)
            track.summary = summary
            tracks[summary.group_id] = track
        self._tracks = tracks
        for name, lag in lags.items():
            if name in tracks:
                tracks[name].note(lag, at_s)

    def choose(self, shown: Sequence[str], count: int) -> tuple[str, ...]:
        """At most so many groups to ask: those shown, then the others in turn."""
        names = list(self._tracks)
        chosen = dict.fromkeys(name for name in shown if name in self._tracks)
        # Some turns are kept for the others, or a full screen would leave them unknown for ever.
        kept = count if len(names) <= count else count - count // 4
        chosen = dict.fromkeys(list(chosen)[:kept])
        after = [name for name in names if name > self._turn]
        for name in after + names[: len(names) - len(after)]:
            if len(chosen) >= count:
                break
            if name not in chosen:
                chosen[name] = None
                self._turn = name
        return tuple(chosen)

    @property
    def lag(self) -> int:
        """How far all known groups are behind."""
        return sum(track.lag or 0 for track in self)

    @property
    def unknown(self) -> int:
        """Groups whose lag was not asked for yet."""
        return self.count - sum(track.lag is not None for track in self)
