"""All that is known of the node: the last sample, rates since the one before, and outages.

Pure: samples and times are handed in. Never asks; says what would be worth asking.
"""

import datetime as dt

import msgspec

from goqueue.cli.top.board.groups import Groups
from goqueue.cli.top.board.meter import History, Meter
from goqueue.cli.top.board.sample import Sample, Wants
from goqueue.cli.top.board.topics import Topics
from goqueue.client.admin import LaneStats

__all__ = ["Board", "LaneSum", "LetterTrack", "Outage"]

_LAGS_MAX = 32
# On screens that show no lag, its sum at the top still follows.
_LAGS_ASIDE_MAX = 8
_DUES_MAX = 24
_LETTERS_MAX = 1_000
PRIORITIES = ("critical", "high", "normal", "low", "background")


class Outage(msgspec.Struct, frozen=True):
    """Since when there is no answer, and in a word why: not reached, not ready, a code."""

    since: dt.datetime
    reason: str


class LetterTrack:
    """Dead letters of one dead-letter topic."""

    __slots__ = ("change", "history", "kept", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.kept = 0
        self.change = Meter(may_fall=True)
        self.history = History()

    def note(self, kept: int, at_s: float) -> None:
        self.kept = kept
        self.change.note(kept, at_s)
        self.history.add(kept)


class LaneSum(msgspec.Struct, frozen=True, kw_only=True):
    """One priority over all groups and partitions."""

    priority: str
    published: int
    ready: int
    in_flight: int
    wait: str
    publish_rate: float | None
    serve_rate: float | None


class Board:
    """What the picture is made of."""

    def __init__(self) -> None:
        self.sample: Sample | None = None
        self.outage: Outage | None = None
        self.topics = Topics()
        self.groups = Groups()
        self.letters: dict[str, LetterTrack] = {}
        self.lanes: tuple[LaneSum, ...] = ()
        self.published = History()
        self._meters: dict[str, Meter] = {}

    def apply(self, sample: Sample) -> None:
        """Take in one round of answers."""
        self.outage = None
        self.sample = sample
        self.topics.note(sample.stats.topic_stats, sample.at_s)
        self.groups.note(sample.groups, sample.lags, sample.at_s)
        self.published.add(self.topics.published)
        self._note_letters(sample)
        self._note_counters(sample)
        if sample.priorities is not None:
            self.lanes = self._sum_lanes(sample)

    def lose(self, time: dt.datetime, reason: str) -> None:
        """A round brought no answer: what was known stays, and is marked as old."""
        since = self.outage.since if self.outage else time
        self.outage = Outage(since, reason)

    def rate(self, counter: str) -> float | None:
        """Per second, of a counter that the node names."""
        meter = self._meters.get(counter)
        return meter.rate if meter else None

    def wants(self, *, shown: tuple[str, ...], view: str) -> Wants:
        """What to ask next for a view that shows these topics or groups."""
        is_about_lag = view == "groups"
        return Wants(
            lags=self.groups.choose(
                shown if is_about_lag else (), _LAGS_MAX if is_about_lag else _LAGS_ASIDE_MAX
            ),
            dues=shown[:_DUES_MAX] if view == "waiting" else (),
            has_lanes=view == "waiting",
            has_transactions=view == "node",
        )

    def _note_letters(self, sample: Sample) -> None:
        kept = sample.reliability.dlq_by_topic
        # A topic whose letters were all redriven goes on at zero, as long as it is there.
        names = [name for name in self.letters if name in sample.stats.topic_stats]
        letters: dict[str, LetterTrack] = {}
        for name in sorted({*names, *kept}, key=lambda name: -kept.get(name, 0))[:_LETTERS_MAX]:
            letters[name] = self.letters.get(name) or LetterTrack(name)
            letters[name].note(kept.get(name, 0), sample.at_s)
        self.letters = letters

    def _note_counters(self, sample: Sample) -> None:
        reliability, transactions = sample.reliability, sample.transactions
        counts = {
            "acks": reliability.acks_total,
            "nacks": reliability.nacks_total,
            "rejects": reliability.rejects_total,
            "redeliveries": reliability.redeliveries_total,
            "expirations": reliability.lease_expirations_total,
            "delivered": sample.delays.delivered_count,
            "committed": transactions.committed_total,
            "aborted": transactions.aborted_total,
        }
        for name, count in counts.items():
            self._note(name, count, sample.at_s)

    def _note(self, name: str, count: int, at_s: float) -> float | None:
        meter = self._meters.setdefault(name, Meter())
        meter.note(count, at_s)
        return meter.rate

    def _sum_lanes(self, sample: Sample) -> tuple[LaneSum, ...]:
        stats = sample.priorities
        assert stats is not None
        by_priority: dict[str, list[LaneStats]] = {name: [] for name in PRIORITIES}
        for lane in stats.lanes:
            by_priority.setdefault(lane.priority, []).append(lane)
        sums: list[LaneSum] = []
        for name, lanes in by_priority.items():
            published = stats.messages_by_priority.get(name, 0)
            served = sum(lane.dequeued for lane in lanes)
            sums.append(
                LaneSum(
                    priority=name,
                    published=published,
                    ready=stats.pending_by_priority.get(name, 0),
                    in_flight=sum(lane.in_flight for lane in lanes),
                    wait=stats.avg_wait_time_by_priority.get(name, "0s"),
                    publish_rate=self._note(f"published {name}", published, sample.at_s),
                    serve_rate=self._note(f"served {name}", served, sample.at_s),
                )
            )
        return tuple(sums)
