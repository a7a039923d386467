"""Topics over HTTP: bodies, handlers and routes.

Bodies of the topic routes: settings as callers write them, topics as they read them.

The topic routes: make, list, describe, change and delete topics.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import (
    Boost,
    Count,
    DurationText,
    Lease,
    Name,
    OffsetNumber,
    TimeText,
)
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import TOPIC
from goqueue.gateways.http.routing.router import SCHEMA_REF, Route
from goqueue.model import Cleanup, Code, Flush, Refused, check_name, format_duration, format_time
from goqueue.model.requests import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    DescribePartitions,
    DescribeTopic,
    Done,
    LaneSettings,
    ListTopics,
    PartitionList,
    TopicChanges,
    TopicConfig,
    TopicDescription,
    TopicList,
)

__all__ = [
    "TOPIC_ROUTES",
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


_SECTION = "Topics"
# Where the name leaves no room for `.dlq`, the dead-letter topic must be named.
_CREATE_SCHEMA = {
    "allOf": [{"$ref": SCHEMA_REF.format(name=CreateTopicBody.__name__)}],
    "anyOf": [
        {"properties": {"name": {"maxLength": 245}}},
        {
            "properties": {"dead_letter_topic": {"type": "string"}},
            "required": ["dead_letter_topic"],
        },
    ],
}
# What the structs of the core call otherwise, or have no place for.
_RENAMED = (
    "name",
    "num_partitions",
    "priority_boost",
    "priority_weights",
    "replication_factor",
    "visibility_timeout",
)

_FIXED = ("num_partitions", "replication_factor")


async def _create(call: Call) -> Created:
    body = call.body(CreateTopicBody)
    check_name(body.name, "name")
    settings = _settings(call, body)
    settings["lanes"] = _lanes(body)
    if body.replication_factor is not None:
        settings["replication_factor"] = body.replication_factor
    made = await call.ask(
        CreateTopic(
            name=body.name,
            partitions=3 if body.num_partitions is None else body.num_partitions,
            config=msgspec.convert(settings, TopicConfig, strict=True),
        ),
        TopicDescription,
    )
    count = len(made.offsets)
    return Created(name=made.name, partitions=count, created=True, config=_config(made))


async def _list(call: Call) -> Topics:
    listed = await call.ask(ListTopics(), TopicList)
    return Topics(topics=listed.topics)


async def _describe(call: Call) -> Topic:
    return _topic(await call.ask(DescribeTopic(name=call[TOPIC]), TopicDescription))


async def _alter(call: Call) -> Topic:
    body = call.body(AlterTopicBody)
    for field in _FIXED:
        if getattr(body, field) is not None:
            raise Refused(Code.REQUEST_INVALID, field=field, reason="cannot be changed here")
    settings = _settings(call, body)
    settings["lane_weights"] = body.priority_weights
    settings["lane_boost_ns"] = None if body.priority_boost is None else body.priority_boost.ns
    changes = msgspec.convert(settings, TopicChanges)
    altered = AlterTopic(name=call[TOPIC], changes=changes)
    return _topic(await call.ask(altered, TopicDescription))


async def _delete(call: Call) -> DeletedTopic:
    await call.ask(DeleteTopic(name=call[TOPIC]), Done)
    return DeletedTopic(deleted=True, name=call[TOPIC])


async def _partitions(call: Call) -> Partitions:
    listed = await call.ask(DescribePartitions(topic=call[TOPIC]), PartitionList)
    return Partitions(
        topic=listed.topic,
        partitions=tuple(
            PartitionOut(
                partition=each.partition,
                leader=each.leader,
                replicas=each.replicas,
                isr=each.isr,
                version=each.version,
                earliest_offset=each.earliest_offset,
                end_offset=each.end_offset,
                high_watermark=each.high_watermark,
                size_bytes=each.size_bytes,
            )
            for each in listed.partitions
        ),
    )


def _settings(call: Call, body: CreateTopicBody | AlterTopicBody) -> dict[str, object]:
    """The settings that were given, under the names of the core."""
    given = msgspec.structs.asdict(body)
    settings = {
        name: value for name, value in given.items() if value is not None and name not in _RENAMED
    }
    if body.visibility_timeout is not None:
        settings["visibility_ns"] = body.visibility_timeout.ns
    size, limit = body.max_message_bytes, call.context.limits.publish_body_bytes_max
    if size is not None and size > limit:
        raise Refused(Code.REQUEST_INVALID, field="max_message_bytes", minimum=1, maximum=limit)
    if body.dead_letter_topic is not None:
        check_name(body.dead_letter_topic, "dead_letter_topic")
    return settings


def _lanes(body: CreateTopicBody) -> LaneSettings:
    """How the priorities share."""
    lanes = LaneSettings()
    weights, boost = body.priority_weights, body.priority_boost
    return LaneSettings(
        weights=lanes.weights if weights is None else weights,
        boost_ns=lanes.boost_ns if boost is None else boost.ns,
    )


def _topic(described: TopicDescription) -> Topic:
    return Topic(
        name=described.name,
        partitions=len(described.offsets),
        total_messages=described.total_messages,
        total_size_bytes=described.total_size_bytes,
        partition_offsets={
            str(number): OffsetRange(earliest=earliest, latest=latest)
            for number, (earliest, latest) in enumerate(described.offsets)
        },
        created_at=format_time(described.created_at),
        config=_config(described),
    )


def _config(described: TopicDescription) -> TopicConfigOut:
    config = described.config
    return TopicConfigOut(
        num_partitions=len(described.offsets),
        replication_factor=config.replication_factor,
        min_insync_replicas=config.min_insync_replicas,
        retention_hours=config.retention_hours,
        retention_bytes=config.retention_bytes,
        segment_bytes=config.segment_bytes,
        cleanup_policy=config.cleanup_policy,
        flush_policy=config.flush_policy,
        flush_interval_ms=config.flush_interval_ms,
        visibility_timeout=format_duration(config.visibility_ns),
        max_deliveries=config.max_deliveries,
        max_message_bytes=config.max_message_bytes,
        dead_letter_topic=config.dead_letter_topic,
        schema_validation=config.schema_validation,
        priority_weights=config.lanes.weights,
        priority_boost=format_duration(config.lanes.boost_ns),
    )


TOPIC_ROUTES = (
    Route(
        method="POST",
        path="/topics",
        section=_SECTION,
        summary="Make a topic",
        run=_create,
        body=CreateTopicBody,
        body_schema=_CREATE_SCHEMA,
        answer=Created,
        status=201,
        errors=(
            Code.NAME_INVALID,
            Code.TOPIC_EXISTS,
            Code.TOPIC_INTERNAL,
            Code.LOG_BUSY,
            Code.QUOTA_EXCEEDED,
            Code.DEAD_LETTER_LOOP,
        ),
        writes=True,
        example={"name": "orders", "num_partitions": 3},
    ),
    Route(
        method="GET",
        path="/topics",
        section=_SECTION,
        summary="List the topics",
        run=_list,
        answer=Topics,
    ),
    Route(
        method="GET",
        path="/topics/{topic}",
        section=_SECTION,
        summary="Describe a topic",
        run=_describe,
        parameters=(TOPIC,),
        answer=Topic,
    ),
    Route(
        method="PATCH",
        path="/topics/{topic}",
        section=_SECTION,
        summary="Change settings of a topic",
        run=_alter,
        parameters=(TOPIC,),
        body=AlterTopicBody,
        answer=Topic,
        errors=(
            Code.TOPIC_INTERNAL,
            Code.LOG_BUSY,
            Code.QUOTA_EXCEEDED,
            Code.DEAD_LETTER_LOOP,
        ),
        writes=True,
        example={"retention_hours": 24},
    ),
    Route(
        method="DELETE",
        path="/topics/{topic}",
        section=_SECTION,
        summary="Delete a topic with its messages and every group's position in it",
        run=_delete,
        parameters=(TOPIC,),
        answer=DeletedTopic,
        errors=(Code.TOPIC_INTERNAL, Code.LOG_BUSY),
        writes=True,
    ),
    Route(
        method="GET",
        path="/topics/{topic}/partitions",
        section=_SECTION,
        summary="List the partitions of a topic",
        run=_partitions,
        parameters=(TOPIC,),
        answer=Partitions,
    ),
)
