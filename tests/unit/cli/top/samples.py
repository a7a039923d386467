"""Nodes that never were, as the API would describe them."""

import datetime as dt

from goqueue.cli.top.model import Sample
from goqueue.client.admin_replies import (
    DelayStats,
    GroupLag,
    GroupSummary,
    LaneStats,
    NodeStats,
    PartitionLag,
    PriorityStats,
    Readiness,
    ReadinessCheck,
    ReliabilityStats,
    TopicStats,
    TransactionDescription,
    TransactionStats,
    Version,
)

__all__ = ["NOON", "group", "lag_of", "lanes", "sample", "topic", "transaction"]

NOON = dt.datetime(2026, 1, 2, 12, 0, 0, tzinfo=dt.UTC)
PRIORITIES = ("critical", "high", "normal", "low", "background")


def topic(
    messages: int,
    size: int = 0,
    *,
    published: int | None = None,
    consumed: int | None = None,
) -> TopicStats:
    return TopicStats(
        partitions=3,
        total_messages=messages,
        total_size_bytes=size,
        published_total=published,
        consumed_total=consumed,
    )


def group(
    name: str, *, members: int = 1, state: str = "stable", topics: tuple[str, ...] = ()
) -> GroupSummary:
    return GroupSummary(
        group_id=name,
        state=state,
        mode="partitioned",
        protocol="eager",
        members=members,
        generation=1,
        topics=topics,
    )


def lag_of(name: str, *, lag: int, end: int = 0, topic: str = "orders", parts: int = 1) -> GroupLag:
    """All of it on the first partition."""
    partitions = tuple(
        PartitionLag(
            topic=topic,
            partition=number,
            committed_offset=0,
            end_offset=end if number == 0 else 0,
            lag=lag if number == 0 else 0,
            in_flight=0,
            time_lag="1m30s" if number == 0 else "0s",
        )
        for number in range(parts)
    )
    return GroupLag(group_id=name, total_lag=lag, partitions=partitions)


def lanes(*found: LaneStats, ready: int = 0) -> PriorityStats:
    return PriorityStats(
        messages_by_priority=dict.fromkeys(PRIORITIES, 7),
        avg_wait_time_by_priority=dict.fromkeys(PRIORITIES, "1.5ms"),
        pending_by_priority=dict.fromkeys(PRIORITIES, ready),
        lanes=found,
    )


def transaction(name: str, *, started: dt.datetime = NOON) -> TransactionDescription:
    return TransactionDescription(
        transaction_id=name,
        transactional_id=f"worker of {name}",
        producer_id=1,
        epoch=0,
        state="ongoing",
        started_at=started,
        timeout_ms=60_000,
        partitions=(),
    )


def sample(
    at_s: float = 0.0,
    *,
    topics: dict[str, TopicStats] | None = None,
    groups: tuple[GroupSummary, ...] = (),
    lags: dict[str, GroupLag] | None = None,
    letters: dict[str, int] | None = None,
    delayed: dict[str, int] | None = None,
    dues: dict[str, dt.datetime] | None = None,
    acks: int = 0,
    status: str = "pass",
    message: str = "",
    storage: str = "pass",
    priorities: PriorityStats | None = None,
    transactions: tuple[TransactionDescription, ...] | None = None,
    node_id: str = "node-1",
) -> Sample:
    topics, letters, delayed = topics or {}, letters or {}, delayed or {}
    checks = {"broker": ReadinessCheck(status=status), "storage": ReadinessCheck(status=storage)}
    return Sample(
        at_s=at_s,
        time=NOON,
        round_trip_s=0.001,
        version=Version(version="0.1.0"),
        readiness=Readiness(
            status=status, timestamp=NOON, uptime="1h30m0s", message=message, checks=checks
        ),
        stats=NodeStats(
            node_id=node_id,
            uptime="1h30m0s",
            topics=len(topics),
            total_size_bytes=sum(each.total_size_bytes for each in topics.values()),
            topic_stats=topics,
        ),
        reliability=_reliability(acks, letters),
        delays=DelayStats(
            pending_count=sum(delayed.values()),
            delivered_count=0,
            cancelled_count=0,
            avg_delay="0s",
            by_topic=delayed,
            next_due_at=min((dues or {}).values(), default=None),
        ),
        transactions=TransactionStats(
            active_transactions=len(transactions or ()),
            committed_total=0,
            aborted_total=0,
            avg_duration="0s",
            active_producers=0,
        ),
        groups=groups,
        lags=lags or {},
        dues=dues or {},
        priorities=priorities,
        open_transactions=transactions,
    )


def _reliability(acks: int, letters: dict[str, int]) -> ReliabilityStats:
    return ReliabilityStats(
        acks_total=acks,
        nacks_total=0,
        rejects_total=0,
        dlq_messages=sum(letters.values()),
        visibility_extensions=0,
        redeliveries_total=0,
        lease_expirations_total=0,
        in_flight=0,
        dlq_by_cause={"rejected": 1, "max_deliveries": 2},
        dlq_by_topic=letters,
    )
