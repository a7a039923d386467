"""What is wrong with a node, judged from what it says about itself.

Pure functions from facts to findings: no request, no clock. Each check is one function; it returns
a finding also when all is well, so that a report shows what was looked at. A finding that is not
well says what to do about it.
"""

import datetime as dt
import enum
import math
import re
from collections.abc import Iterable, Mapping

import msgspec

from goqueue.cli.quantities import shown_duration, sized
from goqueue.client.admin_replies import (
    GroupSummary,
    Readiness,
    ReliabilityStats,
    Topic,
)
from goqueue.model import SECOND

__all__ = ["CheckResult", "Facts", "Level", "Metrics", "diagnose", "parse_metrics"]

_GIB = 1 << 30
_FREE_SHARE_LOW = 0.15
_FREE_SHARE_MIN = 0.05
_DESCRIPTOR_SHARE_HIGH = 0.6
_DESCRIPTOR_SHARE_MAX = 0.8
_SYNC_S_SLOW = 0.1
_SYNC_S_MAX = 1.0
_LOOP_S_SLOW = 0.1
_SAMPLES_MIN = 20
_SKEW_S = 1.0
_SKEW_S_MAX = 30.0
_NAMED_MAX = 5


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check, and what to do about it."""

    check: str
    level: Level
    found: str
    advice: str = ""


# Metrics

Labels = tuple[tuple[str, str], ...]
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """The samples of a scrape by name."""

    def __init__(self, samples: Mapping[str, Mapping[Labels, float]]) -> None:
        self._samples = samples

    def value(self, name: str) -> float | None:
        """The sum over all labels; None if the node does not have the metric."""
        found = self._samples.get(name)
        return None if found is None else sum(found.values())

    def quantile(self, name: str, share: float) -> float | None:
        """An upper bound of a quantile of a histogram; None with too few observations."""
        counts: dict[float, float] = {}
        for labels, count in self._samples.get(f"{name}_bucket", {}).items():
            bound = float(dict(labels)["le"])
            counts[bound] = counts.get(bound, 0.0) + count
        total = counts.get(math.inf, 0.0)
        if total < _SAMPLES_MIN:
            return None
        return next(bound for bound in sorted(counts) if counts[bound] >= share * total)


def parse_metrics(text: str) -> Metrics:
    """Read the text format of Prometheus; what cannot be read is left out."""
    samples: dict[str, dict[Labels, float]] = {}
    for line in text.splitlines():
        found = None if line.startswith("#") else _SAMPLE.match(line)
        if found is None:
            continue
        labels = tuple((each[1], each[2]) for each in _LABEL.finditer(found[2] or ""))
        try:
            samples.setdefault(found[1], {})[labels] = float(found[3])
        except ValueError:
            continue
    return Metrics(samples)


# Facts


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned about a node. `skew_s` is how far its clock is ahead of ours.

    `letters_before` and `letters` are dead letters by topic, some seconds apart.
    """

    server: str
    own_version: str
    server_version: str
    latency_s: float
    readiness: Readiness
    metrics: Metrics
    skew_s: float
    letters_before: ReliabilityStats
    letters: ReliabilityStats
    groups: tuple[GroupSummary, ...]
    lags: Mapping[str, int]
    topics: tuple[Topic, ...]
    now: dt.datetime


def diagnose(facts: Facts) -> list[CheckResult]:
    """All checks in the order in which a person would look."""
    return [
        _reachability(facts),
        _version(facts),
        _readiness(facts),
        _damage(facts),
        _disk(facts),
        _descriptors(facts),
        _syncs(facts),
        _loop(facts),
        _clock(facts),
        _lag(facts),
        _dead_letters(facts),
        _delays(facts),
        _settings(facts),
    ]


def _finding(check: str, level: Level, found: str, advice: str = "") -> CheckResult:
    return CheckResult(check=check, level=level, found=found, advice=advice)


def _unknown(check: str) -> CheckResult:
    return _finding(check, Level.NOTE, "the node does not say", "update the node")


# Checks


def _reachability(facts: Facts) -> CheckResult:
    return _finding(
        "reachability", Level.OK, f"{facts.server} answers in {facts.latency_s * 1000:.1f} ms"
    )


def _version(facts: Facts) -> CheckResult:
    if facts.own_version == facts.server_version:
        return _finding("version", Level.OK, f"{facts.server_version} on both sides")
    found = f"the node is {facts.server_version}, this program is {facts.own_version}"
    return _finding("version", Level.NOTE, found, "use the same version to be sure of all commands")


def _readiness(facts: Facts) -> CheckResult:
    ready = facts.readiness
    parts = [
        f"{name}: {check.message or check.status}"
        for name, check in sorted(ready.checks.items())
        if check.status != "pass"
    ]
    if ready.status == "pass" and not parts:
        return _finding("readiness", Level.OK, f"ready, up {shown_duration(ready.uptime)}")
    words = "; ".join([*filter(None, [ready.message]), *parts])
    level = Level.PROBLEM if ready.status == "fail" else Level.WARNING
    return _finding(
        "readiness", level, f"{ready.status}: {words}", "the log of the node has the cause"
    )


def _damage(facts: Facts) -> CheckResult:
    metrics = facts.metrics
    failed = metrics.value("goqueue_storage_failed_logs")
    ranges = metrics.value("goqueue_storage_damaged_ranges")
    errors = metrics.value("goqueue_storage_fsync_errors_total")
    if failed:
        advice = "check the disk, then restart the node; its log names the partitions"
        found = f"{failed:.0f} partitions accept no writes: the disk failed"
        return _finding("storage", Level.PROBLEM, found, advice)
    if ranges:
        advice = "see which offsets with: goqueue log verify DIR; restore them from a copy"
        return _finding(
            "storage", Level.PROBLEM, f"{ranges:.0f} ranges of records are damaged", advice
        )
    if errors:
        return _finding(
            "storage", Level.WARNING, f"{errors:.0f} syncs failed since the start", "check the disk"
        )
    return _unknown("storage") if failed is None else _finding("storage", Level.OK, "no damage")


def _disk(facts: Facts) -> CheckResult:
    metrics = facts.metrics
    free = metrics.value("goqueue_storage_volume_free_bytes")
    size = metrics.value("goqueue_storage_volume_size_bytes")
    full = metrics.value("goqueue_storage_full_logs")
    if free is None or not size:
        return _unknown("disk space")
    share = free / size
    found = f"{sized(int(free))} of {sized(int(size))} free ({share:.0%})"
    advice = "free space, shorten retention (topic alter -r) or delete old messages (topic trim)"
    if full:
        words = f"{full:.0f} partitions found the disk full; {found}"
        return _finding("disk space", Level.PROBLEM, words, advice)
    if share < _FREE_SHARE_MIN or free < _GIB:
        return _finding("disk space", Level.PROBLEM, found, advice)
    level = Level.WARNING if share < _FREE_SHARE_LOW else Level.OK
    return _finding("disk space", level, found, advice if level is Level.WARNING else "")


def _descriptors(facts: Facts) -> CheckResult:
    used = facts.metrics.value("process_open_fds")
    most = facts.metrics.value("process_max_fds")
    if used is None or not most:
        return _unknown("file descriptors")
    share = used / most
    found = f"{used:.0f} of {most:.0f} in use ({share:.0%})"
    if share < _DESCRIPTOR_SHARE_HIGH:
        return _finding("file descriptors", Level.OK, found)
    level = Level.PROBLEM if share >= _DESCRIPTOR_SHARE_MAX else Level.WARNING
    advice = "raise the limit (ulimit -n, LimitNOFILE) or use fewer connections and partitions"
    return _finding("file descriptors", level, found, advice)


def _syncs(facts: Facts) -> CheckResult:
    slow_s = facts.metrics.quantile("goqueue_storage_fsync_latency_seconds", 0.99)
    if slow_s is None:
        return _finding("sync time", Level.OK, "too few syncs to tell")
    found = f"99 % of syncs take at most {shown_duration(_ns(slow_s))}"
    if slow_s <= _SYNC_S_SLOW:
        return _finding("sync time", Level.OK, found)
    level = Level.PROBLEM if slow_s > _SYNC_S_MAX else Level.WARNING
    advice = "every publish waits for a sync: use a faster disk, or one of its own"
    return _finding("sync time", level, found, advice)


def _loop(facts: Facts) -> CheckResult:
    late_s = facts.metrics.quantile("goqueue_runtime_event_loop_lag_seconds", 0.99)
    if late_s is None:
        return _finding("load", Level.OK, "too few samples to tell")
    found = f"99 % of timers are at most {shown_duration(_ns(late_s))} late"
    if late_s <= _LOOP_S_SLOW:
        return _finding("load", Level.OK, found)
    advice = "the node lacks CPU: see goqueue top, and what else runs on the machine"
    return _finding("load", Level.WARNING, found, advice)


def _clock(facts: Facts) -> CheckResult:
    skew_s = abs(facts.skew_s)
    if skew_s < _SKEW_S:
        return _finding("clock", Level.OK, "agrees with this machine")
    ahead = "ahead of" if facts.skew_s > 0 else "behind"
    found = f"the node is {shown_duration(_ns(skew_s))} {ahead} this machine"
    level = Level.PROBLEM if skew_s >= _SKEW_S_MAX else Level.WARNING
    advice = "synchronize both clocks (NTP): delays, retention and times depend on them"
    return _finding("clock", level, found, advice)


def _lag(facts: Facts) -> CheckResult:
    idle = {
        group.group_id: facts.lags[group.group_id]
        for group in facts.groups
        if not group.members and facts.lags.get(group.group_id)
    }
    if not idle:
        total = sum(facts.lags.values())
        return _finding("groups", Level.OK, f"{len(facts.groups)} groups, lag {total:,}")
    named = _named(f"{name} ({lag:,})" for name, lag in _largest(idle))
    found = f"nobody consumes for {len(idle)} of {len(facts.groups)} groups with messages: {named}"
    return _finding(
        "groups", Level.WARNING, found, "start their consumers, or: goqueue group delete GROUP"
    )


def _dead_letters(facts: Facts) -> CheckResult:
    kept = facts.letters.dlq_by_topic
    total = facts.letters.dlq_messages
    more = {
        topic: count - facts.letters_before.dlq_by_topic.get(topic, 0)
        for topic, count in kept.items()
        if count > facts.letters_before.dlq_by_topic.get(topic, 0)
    }
    if not total:
        return _finding("dead letters", Level.OK, "none")
    named = _named(f"{topic} ({count:,})" for topic, count in _largest(more or kept) if count)
    if more:
        advice = "messages are failing now: goqueue dlq list TOPIC shows the reasons"
        found = f"growing: {sum(more.values()):,} more while looking, {named}"
        return _finding("dead letters", Level.WARNING, found, advice)
    advice = "goqueue dlq list TOPIC, then dlq redrive or dlq purge"
    return _finding("dead letters", Level.NOTE, f"{total:,} kept: {named}", advice)


def _delays(facts: Facts) -> CheckResult:
    due_s = facts.metrics.value("goqueue_broker_delayed_messages_next_due")
    pending = facts.metrics.value("goqueue_broker_delayed_messages_pending") or 0
    late_s = facts.now.timestamp() + facts.skew_s - due_s if due_s and pending else 0.0
    if late_s < _SKEW_S_MAX:
        return _finding("delayed messages", Level.OK, f"{pending:.0f} pending, none overdue")
    found = f"the first is overdue by {shown_duration(_ns(late_s))}"
    return _finding("delayed messages", Level.WARNING, found, "check disk space and readiness")


def _settings(facts: Facts) -> CheckResult:
    endless = [each.name for each in facts.topics if each.config.max_deliveries == 0]
    loose = [each.name for each in facts.topics if each.config.flush_policy == "interval"]
    if endless:
        found = f"no limit of deliveries in {_named(endless)}"
        advice = "a message that always fails is delivered for ever: topic alter --set "
        return _finding("settings", Level.WARNING, found, f"{advice}max_deliveries=5")
    if loose:
        found = f"acknowledged before the sync in {_named(loose)}"
        advice = "a power failure may lose messages: topic alter --set flush_policy=commit"
        return _finding("settings", Level.NOTE, found, advice)
    return _finding("settings", Level.OK, f"{len(facts.topics)} topics, nothing unusual")


def _largest(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _named(names: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    listed = list(names)
    rest = len(listed) - _NAMED_MAX
    shown = ", ".join(listed[:_NAMED_MAX])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _ns(seconds: float) -> int:
    return round(min(seconds, 1e9) * SECOND)
