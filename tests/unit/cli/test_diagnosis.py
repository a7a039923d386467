"""What `goqueue doctor` makes of what a node says: each check well, worse and bad."""

import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.diagnosis import CheckResult, Facts, Level, diagnose, parse_metrics
from goqueue.client.admin_replies import (
    GroupSummary,
    Readiness,
    ReadinessCheck,
    ReliabilityStats,
    Topic,
    TopicConfig,
)

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


def group(name: str, members: int) -> GroupSummary:
    return GroupSummary(
        group_id=name,
        state="stable",
        mode="shared",
        protocol="eager",
        members=members,
        generation=1,
        topics=("a",),
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
    )


def finding(found: Facts, check: str) -> CheckResult:
    return next(each for each in diagnose(found) if each.check == check)


def test_a_healthy_node_has_nothing_wrong() -> None:
    findings = diagnose(facts())
    assert {each.level for each in findings} == {Level.OK}
    assert len({each.check for each in findings}) == len(findings) == 13


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


def test_an_older_node_that_lacks_metrics_is_no_problem() -> None:
    bare = msgspec.structs.replace(facts(), metrics=parse_metrics(""))
    levels = {each.level for each in diagnose(bare)}
    assert levels == {Level.OK, Level.NOTE}


@given(st.text())
def test_metrics_of_any_text_are_read(text: str) -> None:
    assert isinstance(parse_metrics(text).value("x"), float | int | None)
