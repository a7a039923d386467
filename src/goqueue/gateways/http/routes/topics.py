"""The topic routes: make, list, describe, change and delete topics."""

import msgspec

from goqueue.gateways.http.bodies import (
    AlterTopicBody,
    Created,
    CreateTopicBody,
    DeletedTopic,
    OffsetRange,
    PartitionOut,
    Partitions,
    Topic,
    TopicConfigOut,
    Topics,
)
from goqueue.gateways.http.table import SCHEMA_REF, TOPIC, Call, Route
from goqueue.model import Code, Refused, check_name, format_duration, format_time
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

__all__ = ["TOPIC_ROUTES"]

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
