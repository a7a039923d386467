"""What the server tells about itself, as values.

The fields and units are those of the API contract; fields that are not known here are ignored, so
that a newer server can be talked to. Times are UTC, durations are in the contract's words.
"""

import datetime as dt

import msgspec

from goqueue.client.topic_settings import TopicConfig

__all__ = [
    "DelayStats",
    "DelayedMessage",
    "DelayedPage",
    "GroupDescription",
    "GroupLag",
    "GroupOffsets",
    "GroupSummary",
    "Health",
    "LaneStats",
    "MemberDescription",
    "NodeStats",
    "Partition",
    "PartitionEnds",
    "PartitionLag",
    "PartitionStart",
    "PositionReset",
    "PriorityStats",
    "Readiness",
    "ReadinessCheck",
    "ReliabilityStats",
    "ResetOffsets",
    "Topic",
    "TopicConfig",
    "TopicStats",
    "TransactionDescription",
    "TransactionPage",
    "TransactionPartition",
    "TransactionStats",
    "Version",
]


class PartitionEnds(msgspec.Struct, frozen=True, kw_only=True):
    """First and last offset of a partition; an empty one ends before it begins."""

    earliest: int
    latest: int


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic; `partition_offsets` goes by the number of the partition."""

    name: str
    partitions: int
    config: TopicConfig = TopicConfig()
    total_messages: int = 0
    total_size_bytes: int = 0
    partition_offsets: dict[int, PartitionEnds] = {}
    created_at: dt.datetime | None = None


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition as the cluster sees it; `leader` is empty while there is none.

    `error` is a code, such as `leader_unavailable`, where the offsets are not known.
    """

    partition: int
    leader: str
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    version: int
    earliest_offset: int
    end_offset: int
    high_watermark: int
    size_bytes: int
    error: str = ""


class PartitionStart(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition begins after a deletion.

    `kept_by` is empty, or what still needs older messages: delayed_message or open_transaction.
    """

    partition: int
    earliest_offset: int
    deleted_offsets: int
    kept_by: str = ""


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list; `members` is their number."""

    group_id: str
    state: str
    mode: str
    protocol: str
    members: int
    generation: int
    topics: tuple[str, ...]
    # When somebody last received without joining, to the hour.
    last_received_at: dt.datetime | None = None


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group; partitions are named `topic-N`."""

    member_id: str
    client_id: str
    assigned_partitions: tuple[str, ...]
    last_heartbeat: dt.datetime
    joined_at: dt.datetime
    in_flight: int
    # Of a static member.
    instance_id: str | None = None
    # Of those assigned, what the member of a cooperative group has to give up.
    revoking_partitions: tuple[str, ...] = ()


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its members."""

    group_id: str
    state: str
    mode: str
    protocol: str
    generation: int
    topics: tuple[str, ...]
    members: tuple[MemberDescription, ...]
    created_at: dt.datetime | None = None
    last_received_at: dt.datetime | None = None
    # How far the rebalance of a cooperative group is: none, pending_revoke or pending_assign.
    rebalance_state: str | None = None


class GroupOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """The next offset by topic and partition."""

    group_id: str
    offsets: dict[str, dict[int, int]]
    generation: int = 0
    updated_at: dt.datetime | None = None


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind in one partition."""

    topic: str
    partition: int
    committed_offset: int
    end_offset: int
    lag: int
    in_flight: int
    time_lag: str


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind."""

    group_id: str
    total_lag: int
    partitions: tuple[PartitionLag, ...]


class PositionReset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a reset put one position, or would put it."""

    topic: str
    partition: int
    offset: int
    lag: int


class ResetOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset did, or would do."""

    group_id: str
    reset_count: int
    new_offsets: tuple[PositionReset, ...]


class DelayedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A delayed message; `state` is pending, delivered, cancelled or expired.

    `time_remaining` is a duration, `delivered_offset` where it is read once it is delivered.
    """

    topic: str
    partition: int
    offset: int
    deliver_at: dt.datetime
    time_remaining: str
    priority: str
    state: str
    delivered_offset: int | None = None


class DelayedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Delayed messages that wait, after the first `skip` of `total`."""

    messages: tuple[DelayedMessage, ...]
    topic: str = ""
    total: int = 0
    skip: int = 0


class DelayStats(msgspec.Struct, frozen=True, kw_only=True):
    """Delayed messages of a node; `by_topic` counts those that wait, `avg_delay` is a duration."""

    pending_count: int
    delivered_count: int
    cancelled_count: int
    avg_delay: str
    by_topic: dict[str, int]
    next_due_at: dt.datetime | None = None


class LaneStats(msgspec.Struct, frozen=True, kw_only=True):
    """One priority of one group on one partition; `oldest_waiting` is a duration.

    `ready` is what the server looks ahead in memory, not the whole backlog.
    """

    consumer_group: str
    topic: str
    partition: int
    priority: str
    ready: int
    in_flight: int
    enqueued: int
    dequeued: int
    oldest_waiting: str
    last_served: dt.datetime | None = None


class PriorityStats(msgspec.Struct, frozen=True, kw_only=True):
    """Sums by the name of the priority, and each lane; waiting times are durations."""

    messages_by_priority: dict[str, int]
    avg_wait_time_by_priority: dict[str, str]
    pending_by_priority: dict[str, int]
    lanes: tuple[LaneStats, ...] = ()


class TransactionPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that a transaction has written to."""

    topic: str
    partition: int


class TransactionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction; `prepared` tells that it waits for a group commit.

    `state` is ongoing, preparing_commit, preparing_abort, completed_commit or completed_abort.
    """

    transaction_id: str
    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    started_at: dt.datetime
    timeout_ms: int
    partitions: tuple[TransactionPartition, ...]
    prepared: bool = False


class TransactionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Transactions that have not ended, after the first `skip` of `total`."""

    transactions: tuple[TransactionDescription, ...]
    total: int = 0
    skip: int = 0


class TransactionStats(msgspec.Struct, frozen=True, kw_only=True):
    """Transactions of a node since it started; `avg_duration` is a duration."""

    active_transactions: int
    committed_total: int
    aborted_total: int
    avg_duration: str
    active_producers: int


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is ok, degraded or fail."""

    status: str
    timestamp: dt.datetime


class ReadinessCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at; `status` is pass, warn or fail, `latency` a duration."""

    status: str
    message: str = ""
    latency: str = ""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a node takes requests: `status` is pass, degraded or fail; `uptime` is a duration.

    One that is degraded takes requests, and `message` says what is wrong.
    """

    status: str
    timestamp: dt.datetime
    uptime: str
    message: str = ""
    checks: dict[str, ReadinessCheck] = {}


class ReliabilityStats(msgspec.Struct, frozen=True, kw_only=True):
    """Settlements since the node started, and what is held now.

    `dlq_messages` and `dlq_by_topic`, by the topic that keeps them, count dead letters that were
    not redriven; `dlq_by_cause` counts every death.
    """

    acks_total: int
    nacks_total: int
    rejects_total: int
    dlq_messages: int
    visibility_extensions: int
    redeliveries_total: int
    lease_expirations_total: int
    in_flight: int
    dlq_by_cause: dict[str, int] = {}
    dlq_by_topic: dict[str, int] = {}
    releases_total: int = 0


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Which build answers."""

    version: str
    git_commit: str = ""
    build_time: str = ""
    python_version: str = ""


class TopicStats(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one topic, and what went through it since the node started.

    An older server does not tell what was published and consumed.
    """

    partitions: int
    total_messages: int
    total_size_bytes: int
    published_total: int | None = None
    consumed_total: int | None = None


class NodeStats(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a node; `uptime` is a duration."""

    node_id: str
    uptime: str
    topics: int
    total_size_bytes: int
    topic_stats: dict[str, TopicStats] = {}
