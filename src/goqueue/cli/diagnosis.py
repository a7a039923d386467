"""What is wrong with a node, judged from what it says about itself.

Pure functions from facts to findings: no request, no clock. Each check is one function; it returns
a finding also when all is well, so that a report shows what was looked at. A finding that is not
well says what to do about it. What the node did not answer is None: its checks say so, and the
others are made all the same.
"""

import datetime as dt
import enum
from collections.abc import Callable, Iterable, Mapping

import msgspec

from goqueue.cli.quantities import shown_duration, sized
from goqueue.cli.scraped_metrics import Metrics
from goqueue.client.admin_replies import (
    GroupSummary,
    Readiness,
    ReliabilityStats,
    Topic,
)
from goqueue.client.cluster import ClusterHealth
from goqueue.client.schedules import Schedule
from goqueue.model import SECOND

__all__ = [
    "CheckResult",
    "Facts",
    "FailedRequest",
    "Level",
    "NodeFacts",
    "diagnose",
]

_GIB = 1 << 30
_FREE_SHARE_LOW = 0.15
_FREE_SHARE_MIN = 0.05
_DESCRIPTOR_SHARE_HIGH = 0.6
_DESCRIPTOR_SHARE_MAX = 0.8
_SYNC_S_SLOW = 0.1
_SYNC_S_MAX = 1.0
_LOOP_S_SLOW = 0.1
_SKEW_S = 1.0
# Nodes compare their clocks with each other.
_APART_S = 0.5
# Of fewer nodes it is none.
_CLUSTER_MIN = 2
_SKEW_S_MAX = 30.0
_NAMED_MAX = 5
_DAY_S = 24 * 3600.0
_CERTIFICATE_S_LOW = 30 * _DAY_S
_CERTIFICATE_S_MIN = 7 * _DAY_S
# Ticks are sent within a second; a node that is just starting sends them when it is ready.
_TICK_LATE = dt.timedelta(seconds=30)
# Receivers have no session; the node records to the hour that somebody received.
_RECEIVED = dt.timedelta(hours=2)
# The answer to a caller, not a sign of a sick node.
_CALLERS_FAULT = frozenset({"permission_denied", "route_not_found", "unauthenticated"})


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


# Facts


class FailedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the node did not answer, and why."""

    what: str
    code: str
    reason: str


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What one node of a cluster said of itself; `failure` is why it could not be asked."""

    name: str
    address: str
    version: str | None = None
    readiness: Readiness | None = None
    metrics: Metrics | None = None
    skew_s: float | None = None
    failure: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned about a node. `skew_s` is how far its clock is ahead of ours.

    `letters_before` and `letters` are dead letters by topic, some seconds apart. Of a cluster there
    are `nodes`, then `metrics` are those of all of them, and the partitions that have no leader or
    lack copies.
    """

    server: str
    own_version: str
    server_version: str | None
    latency_s: float
    readiness: Readiness | None
    metrics: Metrics | None
    skew_s: float | None
    letters_before: ReliabilityStats | None
    letters: ReliabilityStats | None
    groups: tuple[GroupSummary, ...] | None
    lags: Mapping[str, int]
    topics: tuple[Topic, ...] | None
    now: dt.datetime
    schedules: tuple[Schedule, ...] | None = None
    cluster: ClusterHealth | None = None
    failed: tuple[FailedRequest, ...] = ()
    nodes: tuple[NodeFacts, ...] = ()
    offline: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


def diagnose(facts: Facts) -> list[CheckResult]:
    """All checks in the order in which a person would look."""
    checks = _CHECKS if len(facts.nodes) < _CLUSTER_MIN else _CHECKS_OF_CLUSTER
    findings = (check(facts) for check in checks)
    flat = (each if isinstance(each, list) else [each] for each in findings)
    return [finding for each in flat for finding in each]


def _finding(check: str, level: Level, found: str, advice: str = "") -> CheckResult:
    return CheckResult(check=check, level=level, found=found, advice=advice)


def _unknown(check: str) -> CheckResult:
    return _finding(check, Level.NOTE, "the node does not say", "update the node")


def _unasked(check: str) -> CheckResult:
    return _finding(check, Level.NOTE, "not examined", "see the check of requests")


def _failures(facts: Facts) -> list[CheckResult]:
    """One finding for all requests that failed; none if none did."""
    if not facts.failed:
        return []
    is_ours = all(each.code in _CALLERS_FAULT for each in facts.failed)
    whats: dict[str, list[str]] = {}
    for each in facts.failed:
        whats.setdefault(f"{each.reason} ({each.code})", []).append(each.what)
    named = "; ".join(f"{_named(found)}: {reason}" for reason, found in whats.items())
    advice = "use a key that may read everything (--api-key), and a node of the same version"
    if not is_ours:
        advice = "the log of the node has the cause; the findings above are incomplete"
    return [_finding("requests", Level.WARNING if is_ours else Level.PROBLEM, named, advice)]


# Checks


def _reachability(facts: Facts) -> CheckResult:
    return _finding(
        "reachability", Level.OK, f"{facts.server} answers in {facts.latency_s * 1000:.1f} ms"
    )


def _version(facts: Facts) -> CheckResult:
    if facts.server_version is None:
        return _unasked("version")
    if facts.own_version == facts.server_version:
        return _finding("version", Level.OK, f"{facts.server_version} on both sides")
    found = f"the node is {facts.server_version}, this program is {facts.own_version}"
    return _finding("version", Level.NOTE, found, "use the same version to be sure of all commands")


def _readiness(facts: Facts) -> CheckResult:
    ready = facts.readiness
    if ready is None:
        return _unasked("readiness")
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
    if metrics is None:
        return _unasked("storage")
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
    if metrics is None:
        return _unasked("disk space")
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
    if facts.metrics is None:
        return _unasked("file descriptors")
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
    if facts.metrics is None:
        return _unasked("sync time")
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
    if facts.metrics is None:
        return _unasked("load")
    late_s = facts.metrics.quantile("goqueue_runtime_event_loop_lag_seconds", 0.99)
    if late_s is None:
        return _finding("load", Level.OK, "too few samples to tell")
    found = f"99 % of timers are at most {shown_duration(_ns(late_s))} late"
    if late_s <= _LOOP_S_SLOW:
        return _finding("load", Level.OK, found)
    advice = "the node lacks CPU: see goqueue top, and what else runs on the machine"
    return _finding("load", Level.WARNING, found, advice)


def _clock(facts: Facts) -> CheckResult:
    if facts.skew_s is None:
        return _unasked("clock")
    skew_s = abs(facts.skew_s)
    if skew_s < _SKEW_S:
        return _finding("clock", Level.OK, "agrees with this machine")
    ahead = "ahead of" if facts.skew_s > 0 else "behind"
    found = f"the node is {shown_duration(_ns(skew_s))} {ahead} this machine"
    level = Level.PROBLEM if skew_s >= _SKEW_S_MAX else Level.WARNING
    advice = "synchronize both clocks (NTP): delays, retention and times depend on them"
    return _finding("clock", level, found, advice)


def _lag(facts: Facts) -> CheckResult:
    if facts.groups is None:
        return _unasked("groups")
    idle = {
        group.group_id: facts.lags[group.group_id]
        for group in facts.groups
        if facts.lags.get(group.group_id) and not _is_consumed(group, facts.now)
    }
    if not idle:
        total = sum(facts.lags.values())
        count = len(facts.groups)
        groups = "1 group" if count == 1 else f"{count} groups"
        return _finding("groups", Level.OK, f"{groups}, lag {total:,}")
    named = _named(f"{name} ({lag:,})" for name, lag in _largest(idle))
    found = f"nobody consumes for {len(idle)} of {len(facts.groups)} groups with messages: {named}"
    return _finding(
        "groups", Level.WARNING, found, "start their consumers, or: goqueue group delete GROUP"
    )


def _is_consumed(group: GroupSummary, now: dt.datetime) -> bool:
    """Whether it has members, or somebody receives without joining."""
    at = group.last_received_at
    return bool(group.members) or (at is not None and now - at < _RECEIVED)


def _dead_letters(facts: Facts) -> CheckResult:
    if facts.letters is None:
        return _unasked("dead letters")
    kept = facts.letters.dlq_by_topic
    total = facts.letters.dlq_messages
    before = kept if facts.letters_before is None else facts.letters_before.dlq_by_topic
    more = {
        topic: count - before.get(topic, 0)
        for topic, count in kept.items()
        if count > before.get(topic, 0)
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
    if facts.metrics is None:
        return _unasked("delayed messages")
    due_s = facts.metrics.minimum("goqueue_broker_delayed_messages_next_due")
    pending = facts.metrics.value("goqueue_broker_delayed_messages_pending") or 0
    now_s = facts.now.timestamp() + (facts.skew_s or 0.0)
    late_s = now_s - due_s if due_s and pending else 0.0
    if late_s < _SKEW_S_MAX:
        return _finding("delayed messages", Level.OK, f"{pending:.0f} pending, none overdue")
    found = f"the first is overdue by {shown_duration(_ns(late_s))}"
    return _finding("delayed messages", Level.WARNING, found, "check disk space and readiness")


def _schedules(facts: Facts) -> CheckResult:
    if facts.schedules is None:
        return _unasked("schedules")
    now = facts.now + dt.timedelta(seconds=facts.skew_s or 0.0)
    stuck = [
        f"{each.name} ({each.problem or 'failed'})"
        for each in facts.schedules
        if each.problem or each.state == "failed"
    ]
    if stuck:
        found = f"{len(stuck)} of {len(facts.schedules)} do not send: {_named(stuck)}"
        advice = "goqueue schedule show NAME; then correct its message or its topic"
        return _finding("schedules", Level.PROBLEM, found, advice)
    late = [
        each.name
        for each in facts.schedules
        if each.state == "active" and each.next_tick_at and now - each.next_tick_at > _TICK_LATE
    ]
    if late:
        found = f"the next tick is overdue for {len(late)}: {_named(late)}"
        return _finding("schedules", Level.WARNING, found, "check disk space, readiness and load")
    skips = None if facts.metrics is None else facts.metrics.value(_SKIPS)
    if skips:
        found = f"missed ticks were skipped {skips:.0f} times since the start"
        advice = "the node was down or busy then; missed=all sends such ticks later"
        return _finding("schedules", Level.NOTE, found, advice)
    return _finding("schedules", Level.OK, f"{len(facts.schedules)}, none overdue")


_SKIPS = "goqueue_broker_schedule_skips_total"


def _certificates(facts: Facts) -> CheckResult:
    if facts.metrics is None:
        return _unasked("certificates")
    left_s = facts.metrics.minimum("goqueue_tls_certificate_expiry_seconds")
    if left_s is None:
        return _finding("certificates", Level.OK, "TLS is off")
    advice = "replace the files; the node loads them without a restart (docs/guides/tls.md)"
    if left_s <= 0:
        found = f"one expired {shown_duration(_ns(-left_s))} ago: clients refuse the node"
        return _finding("certificates", Level.PROBLEM, found, advice)
    found = f"the first expires in {shown_duration(_ns(left_s))}"
    if left_s < _CERTIFICATE_S_LOW:
        level = Level.PROBLEM if left_s < _CERTIFICATE_S_MIN else Level.WARNING
        return _finding("certificates", level, found, advice)
    if facts.metrics.value("goqueue_tls_reload_errors_total"):
        words = "new files could not be loaded; the log of the node has the cause"
        return _finding("certificates", Level.WARNING, f"{found}, but a reload failed", words)
    return _finding("certificates", Level.OK, found)


def _cluster(facts: Facts) -> CheckResult:
    health = facts.cluster
    if health is None:
        return _unasked("cluster")
    if health.node_count <= 1 and health.status == "ok":
        return _finding("cluster", Level.OK, "one node")
    missing = [each.id for each in health.nodes if each.status not in ("alive", "ok")]
    full = [each.id for each in health.nodes if each.is_full]
    nodes = f"{health.healthy} of {health.node_count} nodes are healthy"
    if health.status == "fail":
        words = f"no controller: {nodes}" + (f"; {health.problem}" if health.problem else "")
        advice = "start the missing nodes: a majority of the voters is needed for changes"
        if health.problem:
            advice += "; if they run, peer_unreachable in the log says what keeps them apart"
        return _finding("cluster", Level.PROBLEM, words, advice)
    if health.offline_partitions:
        named = f": {_named(facts.offline)}" if facts.offline else ""
        found = f"{health.offline_partitions} partitions have no leader{named}; {nodes}"
        advice = "start the nodes that hold their copies: goqueue topic partitions TOPIC; if those "
        advice += "in sync are gone for good: goqueue cluster elect --unclean"
        return _finding("cluster", Level.PROBLEM, found, advice)
    if health.under_replicated_partitions or health.unhealthy:
        named = f": {_named(facts.lacking)}" if facts.lacking else ""
        found = f"{health.under_replicated_partitions} partitions lack copies{named}; {nodes}"
        found += f", missing: {_named(missing)}" if missing else ""
        advice = "wait while copies catch up: goqueue cluster health"
        if health.unhealthy:
            advice = "start the missing nodes, or remove dead ones: goqueue cluster forget NODE"
        return _finding("cluster", Level.WARNING, found, advice)
    if full:
        advice = "free space there, or move partitions away; it leads nothing meanwhile"
        return _finding("cluster", Level.PROBLEM, f"no space is left on {_named(full)}", advice)
    return _finding("cluster", Level.OK, f"{nodes}, all copies complete")


def _nodes(facts: Facts) -> list[CheckResult]:
    """What is wrong with each node, or that nothing is."""
    found: list[CheckResult] = []
    for node in facts.nodes:
        if node.failure:
            advice = "start it, or look at its log; goqueue cluster nodes shows where it should be"
            words = f"{node.address or 'it has no address for clients'}: {node.failure}"
            found.append(_finding(f"node {node.name}", Level.PROBLEM, words, advice))
            continue
        own = msgspec.structs.replace(
            facts, readiness=_own(node.readiness), metrics=node.metrics, skew_s=node.skew_s
        )
        checked = (check(own) for check in _NODE_CHECKS)
        found += [
            msgspec.structs.replace(each, check=f"{each.check} of {node.name}")
            for each in checked
            if each.level is not Level.OK
        ]
    names = _named(node.name for node in facts.nodes)
    return found or [_finding("nodes", Level.OK, f"{names}: nothing is wrong")]


def _own(ready: Readiness | None) -> Readiness | None:
    """What a node says of itself: its cluster is judged once."""
    if ready is None:
        return None
    checks = {name: check for name, check in ready.checks.items() if name != "cluster"}
    return msgspec.structs.replace(ready, checks=checks)


def _clocks(facts: Facts) -> CheckResult:
    """Whether the nodes agree on the time: each is compared with this machine."""
    skews = {each.name: each.skew_s for each in facts.nodes if each.skew_s is not None}
    if not skews:
        return _unasked("clocks")
    first, last = min(skews, key=skews.__getitem__), max(skews, key=skews.__getitem__)
    apart_s = skews[last] - skews[first]
    if apart_s < _APART_S:
        return _finding("clocks", Level.OK, f"those of {len(skews)} nodes agree")
    found = f"that of {last} is {shown_duration(_ns(apart_s))} ahead of that of {first}"
    advice = "synchronize the clocks (NTP): delays, schedules and retention follow leaders"
    return _finding("clocks", Level.WARNING, found, advice)


def _versions(facts: Facts) -> CheckResult:
    by_version: dict[str, list[str]] = {}
    for node in facts.nodes:
        if node.version is not None:
            by_version.setdefault(node.version, []).append(node.name)
    if len(by_version) < _CLUSTER_MIN:
        version = next(iter(by_version), None)
        return _version(msgspec.structs.replace(facts, server_version=version))
    named = "; ".join(f"{_named(names)}: {version}" for version, names in by_version.items())
    advice = "finish the upgrade: what only the newer version understands is refused until then"
    return _finding("version", Level.WARNING, named, advice)


def _settings(facts: Facts) -> CheckResult:
    if facts.topics is None:
        return _unasked("settings")
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
    count = len(facts.topics)
    topics = "1 topic" if count == 1 else f"{count} topics"
    return _finding("settings", Level.OK, f"{topics}, nothing unusual")


_NODE_CHECKS = (
    _readiness,
    _damage,
    _disk,
    _descriptors,
    _syncs,
    _loop,
    _clock,
    _certificates,
)
_MESSAGE_CHECKS = (_lag, _dead_letters, _delays, _schedules)
_Check = Callable[[Facts], CheckResult | list[CheckResult]]
_CHECKS: tuple[_Check, ...] = (
    *(_reachability, _version),
    *_NODE_CHECKS[:-1],
    *_MESSAGE_CHECKS,
    *(_certificates, _cluster, _settings, _failures),
)
_CHECKS_OF_CLUSTER: tuple[_Check, ...] = (
    *(_reachability, _versions, _cluster, _nodes, _clocks),
    *_MESSAGE_CHECKS,
    *(_settings, _failures),
)


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
