"""What `goqueue doctor` makes of what a node says: each check well, worse and bad."""

import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.diagnosis import (
    CheckResult,
    Facts,
    FailedRequest,
    Level,
    NodeFacts,
    diagnose,
)
from goqueue.cli.scraped_metrics import Metrics, parse_metrics
from goqueue.client.admin_replies import (
    GroupSummary,
    Readiness,
    ReadinessCheck,
    ReliabilityStats,
    Topic,
    TopicConfig,
)
from goqueue.client.cluster import ClusterHealth, NodeHealth
from goqueue.client.schedules import Schedule, ScheduleMessage

NOW = dt.datetime(2026, 1, 2, 12, 0, tzinfo=dt.UTC)
GIB = 1 << 30
WELL = f"""
# HELP goqueue_storage_failed_logs Logs that take no writes.
goqueue_storage_failed_logs 0
goqueue_storage_full_logs 0
goqueue_storage_damaged_ranges 0
goqueue_storage_fsync_errors_total{{topic="a"}} 0
goqueue_storage_volume_free_bytes {50 * GIB}
goqueue_storage_volume_size_bytes {100 * GIB}
process_open_fds 20
process_max_fds 1000
"""


def counts(**by_topic: int) -> ReliabilityStats:
    return ReliabilityStats(
        acks_total=0,
        nacks_total=0,
        rejects_total=0,
        visibility_extensions=0,
        redeliveries_total=0,
        lease_expirations_total=0,
        in_flight=0,
        dlq_messages=sum(by_topic.values()),
        dlq_by_topic=by_topic,
    )


def group(name: str, members: int, received_at: dt.datetime | None = None) -> GroupSummary:
    return GroupSummary(
        group_id=name,
        state="stable",
        mode="shared",
        protocol="eager",
        members=members,
        generation=1,
        topics=("a",),
        last_received_at=received_at,
    )


def facts(metrics: str = "") -> Facts:
    """A healthy node, but for these metrics."""
    return Facts(
        server="http://h",
        own_version="1",
        server_version="1",
        latency_s=0.001,
        readiness=Readiness(status="pass", timestamp=NOW, uptime="1m"),
        metrics=parse_metrics(WELL + metrics),
        skew_s=0.0,
        letters_before=counts(),
        letters=counts(),
        groups=(),
        lags={},
        topics=(),
        now=NOW,
        schedules=(schedule("nightly"),),
        cluster=cluster(),
    )


def schedule(name: str, *, state: str = "active", in_s: int = 60, problem: str = "") -> Schedule:
    return Schedule(
        name=name,
        topic="a",
        state=state,
        message=ScheduleMessage(value="", priority="normal"),
        missed="latest",
        missed_max=100,
        grace="1m0s",
        created_at=NOW,
        ticks_sent=0,
        next_tick_at=NOW + dt.timedelta(seconds=in_s),
        problem=problem or None,
    )


def cluster(
    *, status: str = "ok", dead: int = 0, lacking: int = 0, offline: int = 0
) -> ClusterHealth:
    return ClusterHealth(
        status=status,
        node_id="n1",
        role="controller",
        controller_id="" if status == "fail" else "n1",
        controller_epoch=1,
        node_count=3,
        healthy=3 - dead,
        unhealthy=dead,
        under_replicated_partitions=lacking,
        offline_partitions=offline,
        nodes=tuple(
            NodeHealth(id=f"n{number}", status="dead" if number > 3 - dead else "alive")
            for number in (1, 2, 3)
        ),
    )


def of_cluster(*nodes: NodeFacts) -> Facts:
    """Three healthy nodes, but for these."""
    usual = {name: member(name) for name in ("n1", "n2", "n3")}
    usual |= {each.name: each for each in nodes}
    return msgspec.structs.replace(facts(), nodes=tuple(usual.values()))


def member(
    name: str,
    metrics: str = "",
    *,
    skew_s: float = 0.0,
    version: str = "1",
    checks: dict[str, ReadinessCheck] | None = None,
) -> NodeFacts:
    return NodeFacts(
        name=name,
        address=f"{name}:8080",
        version=version,
        readiness=Readiness(status="pass", timestamp=NOW, uptime="1m", checks=checks or {}),
        metrics=parse_metrics(WELL + metrics),
        skew_s=skew_s,
    )


def test_a_healthy_cluster_has_nothing_wrong() -> None:
    found = diagnose(of_cluster())
    assert {each.level for each in found} == {Level.OK}
    assert "n1, n2, n3" in finding(of_cluster(), "nodes").found


def test_a_node_that_is_not_reached_costs_no_other_finding() -> None:
    gone = NodeFacts(name="n2", address="n2:8080", failure="Connection refused")
    full = member("n3", "goqueue_storage_full_logs 2\n")
    found = of_cluster(gone, full)

    assert finding(found, "node n2").level is Level.PROBLEM
    assert finding(found, "disk space of n3").level is Level.PROBLEM
    assert not [each for each in diagnose(found) if each.check.endswith("of n1")]


def test_the_cluster_is_judged_once_and_not_by_each_node() -> None:
    lacks = {"cluster": ReadinessCheck(status="warn", message="2 of 3 nodes are healthy")}
    assert finding(of_cluster(member("n1", checks=lacks)), "nodes").level is Level.OK


@pytest.mark.parametrize(
    ("skews", "level", "words"),
    [
        ((0.2, 0.0, -0.2), Level.OK, "3 nodes agree"),
        ((0.4, 0.0, -0.3), Level.WARNING, "that of n1 is 700ms ahead of that of n3"),
    ],
)
def test_clocks_of_nodes_are_compared_with_each_other(
    skews: tuple[float, float, float], level: Level, words: str
) -> None:
    nodes = [member(f"n{number}", skew_s=skew) for number, skew in enumerate(skews, 1)]
    found = finding(of_cluster(*nodes), "clocks")
    assert found.level is level
    assert words in found.found


def test_nodes_of_two_versions_are_an_upgrade_under_way() -> None:
    found = finding(of_cluster(member("n3", version="2")), "version")
    assert (found.level, found.found) == (Level.WARNING, "n1, n2: 1; n3: 2")


def test_partitions_in_need_and_full_disks_are_named() -> None:
    lacking = msgspec.structs.replace(
        facts(), cluster=cluster(status="degraded", lacking=2), lacking=("orders-0", "orders-1")
    )
    assert "orders-0, orders-1" in finding(lacking, "cluster").found
    well = cluster()
    nodes = tuple(msgspec.structs.replace(each, is_full=each.id == "n2") for each in well.nodes)
    full = msgspec.structs.replace(facts(), cluster=msgspec.structs.replace(well, nodes=nodes))
    assert finding(full, "cluster").level is Level.PROBLEM
    assert finding(full, "cluster").found.endswith("n2")


def test_the_soonest_delayed_message_of_all_nodes_counts() -> None:
    late, soon = NOW.timestamp() - 100, NOW.timestamp() + 100
    text = 'goqueue_broker_delayed_messages_pending{{topic="a"}} 1\n'
    text += 'goqueue_broker_delayed_messages_next_due{{topic="a"}} {}\n'
    scrapes = {"n1": parse_metrics(text.format(soon)), "n2": parse_metrics(text.format(late))}
    found = msgspec.structs.replace(of_cluster(), metrics=Metrics.joined(scrapes))
    assert "overdue by 1m40s" in finding(found, "delayed messages").found


@pytest.mark.parametrize(
    ("schedules", "level", "words"),
    [
        ((), Level.OK, "0, none overdue"),
        ((schedule("a"), schedule("b", state="paused", in_s=-600)), Level.OK, "2, none overdue"),
        ((schedule("a"), schedule("b", in_s=-600)), Level.WARNING, "overdue for 1: b"),
        ((schedule("a", problem="topic_not_found"),), Level.PROBLEM, "a (topic_not_found)"),
        ((schedule("a", state="failed"), schedule("b")), Level.PROBLEM, "1 of 2 do not send"),
    ],
)
def test_schedules_that_are_late_or_stuck_are_named(
    schedules: tuple[Schedule, ...], level: Level, words: str
) -> None:
    found = finding(msgspec.structs.replace(facts(), schedules=schedules), "schedules")
    assert found.level is level
    assert words in found.found


@pytest.mark.parametrize(
    ("health", "level", "words"),
    [
        (cluster(), Level.OK, "3 of 3 nodes are healthy, all copies complete"),
        (cluster(status="degraded", dead=1, lacking=7), Level.WARNING, "7 partitions lack copies"),
        (cluster(status="degraded", dead=1), Level.WARNING, "missing: n3"),
        (
            cluster(status="degraded", dead=2, offline=4),
            Level.PROBLEM,
            "4 partitions have no leader",
        ),
        (cluster(status="fail", dead=2), Level.PROBLEM, "no controller: 1 of 3 nodes"),
    ],
)
def test_a_cluster_without_quorum_or_with_missing_copies_is_not_well(
    health: ClusterHealth, level: Level, words: str
) -> None:
    found = finding(msgspec.structs.replace(facts(), cluster=health), "cluster")
    assert found.level is level
    assert words in found.found


@pytest.mark.parametrize(
    ("days", "level", "words"),
    [
        (None, Level.OK, "TLS is off"),
        (90, Level.OK, "expires in 90d"),
        (20, Level.WARNING, "expires in 20d"),
        (2, Level.PROBLEM, "expires in 2d"),
        (-3, Level.PROBLEM, "expired 3d ago"),
    ],
)
def test_a_certificate_is_reported_before_it_expires(
    days: int | None, level: Level, words: str
) -> None:
    metric = 'goqueue_tls_certificate_expiry_seconds{listener="http"}'
    found = finding(facts("" if days is None else f"{metric} {days * 86_400}"), "certificates")
    assert found.level is level
    assert words in found.found


def finding(found: Facts, check: str) -> CheckResult:
    return next(each for each in diagnose(found) if each.check == check)


def test_a_healthy_node_has_nothing_wrong() -> None:
    findings = diagnose(facts())
    assert {each.level for each in findings} == {Level.OK}
    assert len({each.check for each in findings}) == len(findings) == 16


def syncs(slow: str) -> str:
    return "\n".join(
        f'goqueue_storage_fsync_latency_seconds_bucket{{topic="a",le="{bound}"}} {count}'
        for bound, count in (("0.001", 50), (slow, 100), ("+Inf", 100))
    )


@pytest.mark.parametrize(
    ("check", "metrics", "level"),
    [
        ("storage", "goqueue_storage_failed_logs 2", Level.PROBLEM),
        ("storage", "goqueue_storage_damaged_ranges 1", Level.PROBLEM),
        ("storage", 'goqueue_storage_fsync_errors_total{topic="b"} 1', Level.WARNING),
        ("disk space", "goqueue_storage_full_logs 1", Level.PROBLEM),
        ("disk space", f"goqueue_storage_volume_free_bytes {10 * GIB}", Level.WARNING),
        ("disk space", f"goqueue_storage_volume_free_bytes {4 * GIB}", Level.PROBLEM),
        ("file descriptors", "process_open_fds 700", Level.WARNING),
        ("file descriptors", "process_open_fds 900", Level.PROBLEM),
        ("sync time", syncs("0.05"), Level.OK),
        ("sync time", syncs("0.5"), Level.WARNING),
        ("sync time", syncs("5"), Level.PROBLEM),
        (
            "delayed messages",
            f"""goqueue_broker_delayed_messages_pending 1
goqueue_broker_delayed_messages_next_due {NOW.timestamp() - 60}""",
            Level.WARNING,
        ),
        (
            "delayed messages",
            f"""goqueue_broker_delayed_messages_pending{{topic="a"}} 1
goqueue_broker_delayed_messages_next_due{{topic="a"}} {NOW.timestamp() + 60}
goqueue_broker_delayed_messages_next_due{{topic="b"}} {NOW.timestamp() - 60}""",
            Level.WARNING,
        ),
        (
            "delayed messages",
            f"""goqueue_broker_delayed_messages_pending{{topic="a"}} 1
goqueue_broker_delayed_messages_next_due{{topic="a"}} {NOW.timestamp() + 60}
goqueue_broker_delayed_messages_next_due{{topic="b"}} {NOW.timestamp() + 60}""",
            Level.OK,
        ),
    ],
)
def test_a_metric_out_of_bounds_is_found(check: str, metrics: str, level: Level) -> None:
    found = finding(facts(metrics), check)
    assert found.level is level
    assert bool(found.advice) is (level is not Level.OK)


@pytest.mark.parametrize(
    ("check", "changes", "level"),
    [
        ("version", {"server_version": "2"}, Level.NOTE),
        (
            "readiness",
            {
                "readiness": Readiness(
                    status="fail",
                    timestamp=NOW,
                    uptime="1m",
                    checks={"storage": ReadinessCheck(status="fail", message="no")},
                )
            },
            Level.PROBLEM,
        ),
        (
            "readiness",
            {"readiness": Readiness(status="degraded", timestamp=NOW, uptime="1m", message="x")},
            Level.WARNING,
        ),
        ("clock", {"skew_s": 2.0}, Level.WARNING),
        ("clock", {"skew_s": -60.0}, Level.PROBLEM),
        ("groups", {"groups": (group("g", 0),), "lags": {"g": 7}}, Level.WARNING),
        ("groups", {"groups": (group("g", 1),), "lags": {"g": 7}}, Level.OK),
        ("groups", {"groups": (group("g", 0),), "lags": {"g": 0}}, Level.OK),
        (
            "groups",
            {"groups": (group("g", 0, NOW - dt.timedelta(minutes=90)),), "lags": {"g": 7}},
            Level.OK,
        ),
        (
            "groups",
            {"groups": (group("g", 0, NOW - dt.timedelta(hours=3)),), "lags": {"g": 7}},
            Level.WARNING,
        ),
        ("dead letters", {"letters": counts(a=3), "letters_before": counts(a=3)}, Level.NOTE),
        ("dead letters", {"letters": counts(a=3), "letters_before": counts(a=1)}, Level.WARNING),
        (
            "settings",
            {"topics": (Topic(name="t", partitions=1, config=TopicConfig(max_deliveries=0)),)},
            Level.WARNING,
        ),
        (
            "settings",
            {
                "topics": (
                    Topic(name="t", partitions=1, config=TopicConfig(flush_policy="interval")),
                )
            },
            Level.NOTE,
        ),
    ],
)
def test_a_fact_out_of_bounds_is_found(
    check: str, changes: dict[str, object], level: Level
) -> None:
    found = finding(msgspec.structs.replace(facts(), **changes), check)
    assert found.level is level
    assert bool(found.advice) is (level is not Level.OK)


@pytest.mark.parametrize(
    ("field", "checks"),
    [
        ("server_version", {"version"}),
        ("readiness", {"readiness"}),
        (
            "metrics",
            {
                "storage",
                "disk space",
                "file descriptors",
                "sync time",
                "load",
                "delayed messages",
                "certificates",
            },
        ),
        ("skew_s", {"clock"}),
        ("groups", {"groups"}),
        ("letters", {"dead letters"}),
        ("letters_before", set()),
        ("topics", {"settings"}),
        ("schedules", {"schedules"}),
        ("cluster", {"cluster"}),
    ],
)
def test_what_was_not_answered_is_not_examined_and_the_rest_is(
    field: str, checks: set[str]
) -> None:
    findings = diagnose(msgspec.structs.replace(facts(), **{field: None}))
    assert {each.check for each in findings if each.found == "not examined"} == checks
    assert len(findings) == 16


@pytest.mark.parametrize(
    ("code", "level"),
    [("internal_error", Level.PROBLEM), ("permission_denied", Level.WARNING)],
)
def test_requests_that_failed_are_a_finding(code: str, level: Level) -> None:
    failed = (FailedRequest(what="groups", code=code, reason="No"),)
    found = finding(msgspec.structs.replace(facts(), failed=failed), "requests")
    assert found.level is level
    assert found.found == f"groups: No ({code})"


def test_an_older_node_that_lacks_metrics_is_no_problem() -> None:
    bare = msgspec.structs.replace(facts(), metrics=parse_metrics(""))
    levels = {each.level for each in diagnose(bare)}
    assert levels == {Level.OK, Level.NOTE}


@given(st.text())
def test_metrics_of_any_text_are_read(text: str) -> None:
    assert isinstance(parse_metrics(text).value("x"), float | int | None)
