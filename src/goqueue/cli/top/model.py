"""What `goqueue top` knows about a node: the last sample, rates, topics, groups and outages.

Pure: samples and times are passed in. It never asks the node; it says what to ask next. A rate
comes from the last two samples and is unknown on the first sample, after a counter has fallen, and
when the clock has not moved.

A lag costs one request, so a round asks for those of the groups on the screen, and of some others
in turn. What is known about a group is kept until the group is gone.

Invariant: a history holds at most its length, a meter two samples; a round asks for at most as many
lags as allowed, and every group gets its turn.
"""

import datetime as dt
from collections.abc import Iterator, Sequence

import msgspec

from goqueue.cli.top.nodes import ClusterSample, Nodes
from goqueue.cli.top.tracks import History, MachineFacts, Meter, Topics
from goqueue.client.admin_replies import (
    DelayStats,
    GroupDescription,
    GroupLag,
    GroupSummary,
    LaneStats,
    NodeStats,
    Partition,
    PriorityStats,
    Readiness,
    ReliabilityStats,
    TransactionDescription,
    TransactionStats,
    Version,
)
from goqueue.client.dead_letter import DeadLetter
from goqueue.model import parse_duration

__all__ = [
    "GROUPS_MAX",
    "Board",
    "DeadLetterTrack",
    "GroupTrack",
    "Groups",
    "LaneSum",
    "Outage",
    "Sample",
    "Wants",
]


class Wants(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask besides the totals of the node, which are always asked.

    `lags` are groups, `dues` topics with delayed messages, `topics`, `groups` and dead-letter
    topics in `letters` those that are opened: each costs a request or some. The metrics of a
    node may be large.
    """

    lags: tuple[str, ...] = ()
    dues: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()
    has_metrics: bool = False
    has_lanes: bool = False
    has_transactions: bool = False


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The node as it was found; `at_s` is a clock that never turns back, `time` that of the wall.

    Groups and topics that were gone when they were asked for are not in `lags` and `dues`.
    """

    at_s: float
    time: dt.datetime
    round_trip_s: float
    version: Version
    readiness: Readiness
    stats: NodeStats
    reliability: ReliabilityStats
    delays: DelayStats
    transactions: TransactionStats
    groups: tuple[GroupSummary, ...]
    lags: dict[str, GroupLag] = {}
    dues: dict[str, dt.datetime] = {}
    priorities: PriorityStats | None = None
    open_transactions: tuple[TransactionDescription, ...] | None = None
    partitions: dict[str, tuple[Partition, ...]] = {}
    described: dict[str, GroupDescription] = {}
    machine: MachineFacts | None = None
    letters: "dict[str, tuple[DeadLetter, ...]]" = {}
    cluster: ClusterSample | None = None


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
        """At most `count` groups to ask next: those shown, then the others in turn."""
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


_LAGS_MAX = 32
# On screens that show no lag, its sum at the top still follows.
_LAGS_ASIDE_MAX = 8
_DUES_MAX = 24
_DEAD_LETTERS_MAX = 1_000
# Metrics have some lines per topic: of a large node they are not asked for, of others seldom.
_METRICS_TOPICS_MAX = 500
_METRICS_EVERY = 3
PRIORITIES = ("critical", "high", "normal", "low", "background")


class Outage(msgspec.Struct, frozen=True):
    """Since when there is no answer, and why in one word: not reached, not ready, a code."""

    since: dt.datetime
    reason: str


class DeadLetterTrack:
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
    """Everything that the screen shows."""

    def __init__(self) -> None:
        self.sample: Sample | None = None
        self.outage: Outage | None = None
        self.topics = Topics()
        self.nodes = Nodes()
        self.groups = Groups()
        self.dead_letters: dict[str, DeadLetterTrack] = {}
        # The last letters of the topic that was opened, and how many it kept then.
        self.letters: dict[str, tuple[DeadLetter, ...]] = {}
        self._letters_kept: dict[str, int] = {}
        self.lanes: tuple[LaneSum, ...] = ()
        self.published = History()
        self.machine: MachineFacts | None = None
        self._rounds = 0
        self._meters: dict[str, Meter] = {}

    def apply(self, sample: Sample) -> None:
        """Take in one round of answers."""
        self.outage = None
        self.sample = sample
        basis = 0 if sample.cluster is None else sample.cluster.basis
        self.topics.note(sample.stats.topic_stats, sample.at_s, basis)
        self.nodes.note(sample.cluster, sample.at_s)
        self.groups.note(sample.groups, sample.lags, sample.at_s)
        self.published.add(self.topics.published)
        self._note_dead_letters(sample)
        if sample.letters:
            self.letters = sample.letters
            kept = sample.reliability.dlq_by_topic
            self._letters_kept = {name: kept.get(name, 0) for name in sample.letters}
        self._note_counters(sample)
        if sample.machine is not None:
            self.machine = sample.machine
            self._note("errors", sample.machine.errors, sample.at_s)
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

    def wants(self, *, shown: tuple[str, ...], view: str, opened: str = "") -> Wants:
        """What to ask next for a view that shows these topics or groups."""
        is_about_lag = view == "groups" or (view == "topics" and bool(opened))
        if opened and view == "groups":
            shown = (opened,)
        self._rounds += 1
        return Wants(
            lags=self.groups.choose(
                shown if is_about_lag else (), _LAGS_MAX if is_about_lag else _LAGS_ASIDE_MAX
            ),
            topics=(opened,) if opened and view == "topics" else (),
            groups=(opened,) if opened and view == "groups" else (),
            letters=(opened,) if view == "letters" and self._wants_letters(opened) else (),
            has_metrics=self.wants_metrics,
            dues=shown[:_DUES_MAX] if view == "waiting" else (),
            has_lanes=view == "waiting",
            has_transactions=view == "node",
        )

    def _wants_letters(self, opened: str) -> bool:
        """Whether letters are opened that were not read, or have become more or fewer since."""
        track = self.dead_letters.get(opened)
        return track is not None and self._letters_kept.get(opened) != track.kept

    @property
    def wants_metrics(self) -> bool:
        """Whether it is time to look at the disk."""
        is_due = self.machine is None or self._rounds % _METRICS_EVERY == 0
        return is_due and self.topics.count <= _METRICS_TOPICS_MAX

    def _note_dead_letters(self, sample: Sample) -> None:
        kept = sample.reliability.dlq_by_topic
        # A topic whose dead letters were all redriven stays at zero, as long as it exists.
        names = [name for name in self.dead_letters if name in sample.stats.topic_stats]
        tracks: dict[str, DeadLetterTrack] = {}
        for name in sorted({*names, *kept}, key=lambda name: -kept.get(name, 0))[
            :_DEAD_LETTERS_MAX
        ]:
            tracks[name] = self.dead_letters.get(name) or DeadLetterTrack(name)
            tracks[name].note(kept.get(name, 0), sample.at_s)
        self.dead_letters = tracks

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
