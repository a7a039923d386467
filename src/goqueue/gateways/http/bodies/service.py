"""Bodies of the service routes: probes, version, totals."""

from typing import Literal

import msgspec

from goqueue.gateways.http.bodies.scalars import Count, DurationText, TimeText

__all__ = [
    "BrokerOut",
    "Check",
    "Health",
    "Probe",
    "Readiness",
    "Stats",
    "TopicStats",
    "Version",
]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the node does its work."""

    status: Literal["ok", "degraded", "fail"]
    timestamp: TimeText


class Probe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the process lives."""

    status: Literal["pass", "fail"]
    timestamp: TimeText
    uptime: DurationText
    message: str | None = None


class BrokerOut(msgspec.Struct, frozen=True, kw_only=True):
    """The node in short."""

    node_id: str
    topic_count: Count
    total_size: Count


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was looked at."""

    status: Literal["pass", "warn", "fail"]
    message: str | None = None
    latency: DurationText | None = None


class Readiness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the node takes requests; `degraded` does, and `message` says what is wrong."""

    status: Literal["pass", "degraded", "fail"]
    timestamp: TimeText
    uptime: DurationText
    broker: BrokerOut
    message: str | None = None
    checks: dict[str, Check] | None = None


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What is running."""

    version: str
    git_commit: str
    build_time: str
    python_version: str


class TopicStats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of one topic; what was published and consumed counts from the start of the node."""

    partitions: Count
    total_messages: Count
    total_size_bytes: Count
    published_total: Count
    consumed_total: Count


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of the node."""

    node_id: str
    uptime: DurationText
    topics: Count
    total_size_bytes: Count
    topic_stats: dict[str, TopicStats]
