"""Bodies of the topic routes: settings as callers write them, topics as they read them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.scalars import (
    Boost,
    Count,
    DurationText,
    Lease,
    Name,
    OffsetNumber,
    TimeText,
)
from goqueue.model import Cleanup, Flush

__all__ = [
    "AlterTopicBody",
    "CreateTopicBody",
    "Created",
    "DeletedTopic",
    "OffsetRange",
    "PartitionOut",
    "Partitions",
    "Topic",
    "TopicConfigOut",
    "Topics",
]

Partitions10k = Annotated[int, Meta(ge=1, le=10_000, examples=[3])]
RetentionHours = Annotated[int, Meta(ge=-1, le=10_000_000, description="-1 keeps everything")]
RetentionBytes = Annotated[int, Meta(ge=-1, le=1 << 62, description="per partition; -1: no limit")]
SegmentBytes = Annotated[int, Meta(ge=65_536, le=1 << 30)]
FlushInterval = Annotated[int, Meta(ge=1, le=60_000)]
Deliveries = Annotated[int, Meta(ge=0, le=1_000_000, description="then dead-letter; 0: no limit")]
# Where publish bodies are limited to less, the route compares with that.
MessageBytes = Annotated[int, Meta(ge=1, le=16 << 20)]
Weight = Annotated[int, Meta(ge=1, le=1000)]
Weights = Annotated[
    tuple[Weight, Weight, Weight, Weight, Weight],
    Meta(
        description="messages per round of each priority, critical first",
        examples=[[50, 25, 15, 7, 3]],
    ),
]
Replicas = Annotated[int, Meta(ge=1, le=1, description="this node stands alone")]

# Taken only to be refused with a reason while there is no registry.
Validation = Annotated[bool, Meta(extra_json_schema={"enum": [False]})]

Elsewhere = Annotated[int, Meta(extra_json_schema={"not": {}})]


class CreateTopicBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic to be made; what is absent has the default of the contract."""

    name: Name
    num_partitions: Partitions10k | None = None
    replication_factor: Replicas | None = None
    min_insync_replicas: Replicas | None = None
    retention_hours: RetentionHours | None = None
    retention_bytes: RetentionBytes | None = None
    segment_bytes: SegmentBytes | None = None
    cleanup_policy: Cleanup | None = None
    flush_policy: Flush | None = None
    flush_interval_ms: FlushInterval | None = None
    visibility_timeout: Lease | None = None
    max_deliveries: Deliveries | None = None
    max_message_bytes: MessageBytes | None = None
    dead_letter_topic: Name | None = None
    schema_validation: Validation | None = None
    priority_weights: Weights | None = None
    priority_boost: Boost | None = None


class AlterTopicBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to change; what is absent stays as it is."""

    min_insync_replicas: Replicas | None = None
    retention_hours: RetentionHours | None = None
    retention_bytes: RetentionBytes | None = None
    segment_bytes: SegmentBytes | None = None
    cleanup_policy: Cleanup | None = None
    flush_policy: Flush | None = None
    flush_interval_ms: FlushInterval | None = None
    visibility_timeout: Lease | None = None
    max_deliveries: Deliveries | None = None
    max_message_bytes: MessageBytes | None = None
    dead_letter_topic: Name | None = None
    schema_validation: Validation | None = None
    priority_weights: Weights | None = None
    priority_boost: Boost | None = None
    # Read only to be refused with a reason: they have routes of their own.
    num_partitions: Elsewhere | None = None
    replication_factor: Elsewhere | None = None


class TopicConfigOut(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force."""

    num_partitions: int
    replication_factor: int
    min_insync_replicas: int
    retention_hours: int
    retention_bytes: int
    segment_bytes: int
    cleanup_policy: Cleanup
    flush_policy: Flush
    flush_interval_ms: int
    visibility_timeout: DurationText
    max_deliveries: int
    max_message_bytes: int
    dead_letter_topic: str
    schema_validation: bool
    priority_weights: tuple[int, ...]
    priority_boost: DurationText


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that was made."""

    name: Name
    partitions: int
    created: bool
    config: TopicConfigOut


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """The names of all topics, sorted."""

    topics: tuple[str, ...]


class OffsetRange(msgspec.Struct, frozen=True, kw_only=True):
    """The first offset kept and the last one written, which is the one before it when empty."""

    earliest: OffsetNumber
    latest: Annotated[int, Meta(ge=-1)]


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with what it holds."""

    name: Name
    partitions: int
    total_messages: Count
    total_size_bytes: Count
    partition_offsets: dict[str, OffsetRange]
    created_at: TimeText
    config: TopicConfigOut


class DeletedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that is gone."""

    deleted: bool
    name: Name


class PartitionOut(msgspec.Struct, frozen=True, kw_only=True):
    """One partition as the cluster sees it."""

    partition: int
    leader: str
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    version: int
    earliest_offset: OffsetNumber
    end_offset: OffsetNumber
    high_watermark: OffsetNumber
    size_bytes: Count


class Partitions(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a topic in order."""

    topic: Name
    partitions: tuple[PartitionOut, ...]
