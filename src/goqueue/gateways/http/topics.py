"""Topics over HTTP: bodies, handlers and routes.

The structs that hold settings are built at import from the rows of `TOPIC_SETTINGS`, so a new
setting needs no change here unless it is of a new kind.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any, assert_never

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import (
    Count,
    Duration,
    DurationText,
    Name,
    OffsetNumber,
    TimeText,
    duration_limits,
)
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import TOPIC
from goqueue.gateways.http.routing.router import SCHEMA_REF, Route
from goqueue.model import Code, Offset, Refused, check_name, format_time
from goqueue.model.requests import (
    PARTITION_COUNT,
    PARTITIONS_DEFAULT,
    TOPIC_SETTINGS,
    AlterTopic,
    CreateTopic,
    DeleteRecords,
    DeleteTopic,
    DeletionLimit,
    DescribePartitions,
    DescribeTopic,
    Done,
    ListTopics,
    PartitionList,
    RecordsDeleted,
    SettingKind,
    SettingValue,
    TopicChanges,
    TopicConfig,
    TopicDescription,
    TopicList,
    TopicSetting,
    with_settings,
)

__all__ = [
    "TOPIC_ROUTES",
    "AlterTopicBody",
    "CreateTopicBody",
    "Created",
    "DeletedTopic",
    "OffsetRange",
    "PartitionOut",
    "PartitionStartOut",
    "Partitions",
    "Topic",
    "TopicConfigOut",
    "Topics",
    "TrimBody",
    "Trimmed",
]

# A type that is computed; type checkers have no name for it.
_FieldType = Any
_DURATION_SYNTAX = "A duration: Go syntax, or a number of seconds."


def _given_type(setting: TopicSetting) -> _FieldType:
    """The type of a setting in requests. Names and the publish limit are checked by the route."""
    low, high, meaning = setting.minimum, setting.maximum, setting.meaning
    match setting.kind:
        case SettingKind.NUMBER:
            return Annotated[int, Meta(ge=low, le=high, description=meaning)]
        case SettingKind.DURATION:
            return Annotated[Duration, duration_limits(low, high, f"{meaning} {_DURATION_SYNTAX}")]
        case SettingKind.CHOICE:
            return Annotated[setting.value_type, Meta(description=meaning)]
        case SettingKind.SWITCH:
            only = {"enum": [setting.default]} if setting.unavailable else None
            return Annotated[bool, Meta(description=meaning, extra_json_schema=only)]
        case SettingKind.TOPIC_NAME:
            return Annotated[Name, Meta(description=meaning)]
        case SettingKind.NUMBERS:
            elements = (Annotated[int, Meta(ge=low, le=high)],) * setting.length
            meta = Meta(description=meaning, examples=[setting.default])
            return Annotated[tuple[elements], meta]  # type: ignore[valid-type]  # a computed type
        case _:
            assert_never(setting.kind)


def _refused_type(setting: TopicSetting) -> _FieldType:
    """The type of a setting that is fixed: read only to be refused with a reason."""
    return Annotated[setting.value_type, Meta(extra_json_schema={"not": {}})]


def _shown_type(setting: TopicSetting) -> _FieldType:
    """The type of a setting in answers."""
    is_duration = setting.kind is SettingKind.DURATION
    shown = DurationText if is_duration else setting.value_type
    return Annotated[shown, Meta(description=setting.meaning)]


def _body_struct(name: str, meaning: str, fields: Iterable[Any]) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        name,
        fields,
        namespace={"__doc__": meaning},
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


CreateTopicBody = _body_struct(
    "CreateTopicBody",
    "A topic to create; settings that are absent have their defaults.",
    [
        ("name", Name),
        *((each.name, _given_type(each) | None, None) for each in TOPIC_SETTINGS),
    ],
)
AlterTopicBody = _body_struct(
    "AlterTopicBody",
    "Settings to change; what is absent stays as it is.",
    [
        (each.name, (_refused_type(each) if each.is_fixed else _given_type(each)) | None, None)
        for each in TOPIC_SETTINGS
    ],
)
TopicConfigOut = msgspec.defstruct(
    "TopicConfigOut",
    [(each.name, _shown_type(each)) for each in TOPIC_SETTINGS],
    namespace={"__doc__": "The settings in force."},
    module=__name__,
    frozen=True,
    kw_only=True,
)


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """The topic was created."""

    name: Name
    partitions: int
    created: bool
    config: TopicConfigOut  # type: ignore[valid-type]  # it is made of the table above


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """The names of all topics, sorted."""

    topics: tuple[str, ...]


class OffsetRange(msgspec.Struct, frozen=True, kw_only=True):
    """The first offset kept and the last one written; in an empty partition, the one before it."""

    earliest: OffsetNumber
    latest: Annotated[int, Meta(ge=-1)]


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its size and settings."""

    name: Name
    partitions: int
    total_messages: Count
    total_size_bytes: Count
    partition_offsets: dict[str, OffsetRange]
    created_at: TimeText
    config: TopicConfigOut  # type: ignore[valid-type]  # it is made of the table above


class DeletedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The topic was deleted."""

    deleted: bool
    name: Name


class PartitionOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One partition as the cluster sees it."""

    partition: int
    leader: Annotated[str, Meta(description="Empty while there is none.")]
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    version: int
    earliest_offset: OffsetNumber
    end_offset: OffsetNumber
    high_watermark: OffsetNumber
    size_bytes: Count
    error: Annotated[str, Meta(description="Why the offsets are not known.")] = ""


class Partitions(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a topic in order."""

    topic: Name
    partitions: tuple[PartitionOut, ...]


_PARTITION = re.compile("0|[1-9][0-9]{0,3}")
PartitionKey = Annotated[str, Meta(extra_json_schema={"pattern": f"^({_PARTITION.pattern})$"})]


class TrimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first offset to keep, by partition; all messages below it are deleted."""

    offsets: Annotated[dict[PartitionKey, OffsetNumber], Meta(min_length=1, max_length=10_000)]


class PartitionStartOut(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition begins now; `kept_by` says what still needs older messages, if anything."""

    partition: Count
    earliest_offset: OffsetNumber
    deleted_offsets: Count
    kept_by: DeletionLimit


class Trimmed(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions that were asked for. The deletion survives a crash of the node."""

    topic: Name
    partitions: tuple[PartitionStartOut, ...]


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


async def _create(call: Call) -> Created:
    given = msgspec.structs.asdict(call.body(CreateTopicBody))
    name = check_name(given["name"], "name")
    settings = _settings(call, given)
    partitions = settings.pop(PARTITION_COUNT.name, PARTITIONS_DEFAULT)
    assert isinstance(partitions, int)
    config = with_settings(TopicConfig(), settings)
    command = CreateTopic(
        name=name, partitions=partitions, config=config, chosen=tuple(sorted(settings))
    )
    made = await call.ask(command, TopicDescription)
    count = len(made.offsets)
    return Created(name=made.name, partitions=count, created=True, config=_config(made))


async def _list(call: Call) -> Topics:
    listed = await call.ask(ListTopics(), TopicList)
    return Topics(topics=listed.topics)


async def _describe(call: Call) -> Topic:
    return _topic(await call.ask(DescribeTopic(name=call[TOPIC]), TopicDescription))


async def _alter(call: Call) -> Topic:
    given = msgspec.structs.asdict(call.body(AlterTopicBody))
    for setting in TOPIC_SETTINGS:
        if setting.is_fixed and given[setting.name] is not None:
            reason = "is fixed when a topic is created"
            raise Refused(Code.REQUEST_INVALID, field=setting.name, reason=reason)
    changes = TopicChanges(_settings(call, given))
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
                error="" if each.error is None else each.error.value,
            )
            for each in listed.partitions
        ),
    )


async def _trim(call: Call) -> Trimmed:
    before: dict[int, Offset] = {}
    for partition, offset in call.body(TrimBody).offsets.items():
        if not _PARTITION.fullmatch(partition):
            reason = f"{partition[:20]!r} is not a partition"
            raise Refused(Code.REQUEST_INVALID, field="offsets", reason=reason)
        before[int(partition)] = Offset(offset)
    return await _deleted(call, DeleteRecords(topic=call[TOPIC], before=before))


async def _purge(call: Call) -> Trimmed:
    if call.request.body:
        # Whoever sends conditions does not mean all messages.
        raise Refused(Code.REQUEST_INVALID, field="body", reason="is not known here: see /trim")
    return await _deleted(call, DeleteRecords(topic=call[TOPIC]))


async def _deleted(call: Call, command: DeleteRecords) -> Trimmed:
    deleted = await call.ask(command, RecordsDeleted)
    return Trimmed(
        topic=deleted.topic,
        partitions=tuple(
            PartitionStartOut(
                partition=each.partition,
                earliest_offset=each.earliest_offset,
                deleted_offsets=each.deleted_offsets,
                kept_by=each.kept_by,
            )
            for each in deleted.partitions
        ),
    )


def _settings(call: Call, given: dict[str, Any]) -> dict[str, SettingValue]:
    """The settings that were given, in the units of the core."""
    settings: dict[str, SettingValue] = {}
    for setting in TOPIC_SETTINGS:
        value = given[setting.name]
        if value is None:
            continue
        if setting.kind is SettingKind.TOPIC_NAME:
            check_name(value, setting.name)
        settings[setting.name] = value.ns if isinstance(value, Duration) else value
    size, limit = given["max_message_bytes"], call.context.limits.publish_body_bytes_max
    if size is not None and size > limit:
        raise Refused(Code.REQUEST_INVALID, field="max_message_bytes", minimum=1, maximum=limit)
    return settings


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


def _config(described: TopicDescription) -> msgspec.Struct:
    shown = {
        each.name: each.written(each.of(described.config)) for each in TOPIC_SETTINGS if each.path
    }
    shown[PARTITION_COUNT.name] = len(described.offsets)
    return TopicConfigOut(**shown)


TOPIC_ROUTES = (
    Route(
        method="POST",
        path="/topics",
        section=_SECTION,
        summary="Create a topic",
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
        summary="Change the settings of a topic",
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
        summary="Delete a topic with its messages and the offsets of all groups",
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
    Route(
        method="POST",
        path="/topics/{topic}/trim",
        section=_SECTION,
        summary="Delete all messages before an offset",
        run=_trim,
        parameters=(TOPIC,),
        body=TrimBody,
        answer=Trimmed,
        errors=(
            Code.TOPIC_INTERNAL,
            Code.PARTITION_NOT_FOUND,
            Code.OFFSET_OUT_OF_RANGE,
            Code.STORAGE_FAILED,
        ),
        writes=True,
        example={"offsets": {"0": 100}},
    ),
    Route(
        method="DELETE",
        path="/topics/{topic}/messages",
        section=_SECTION,
        summary="Delete all messages of a topic",
        run=_purge,
        parameters=(TOPIC,),
        answer=Trimmed,
        errors=(Code.TOPIC_INTERNAL, Code.STORAGE_FAILED),
        writes=True,
    ),
)
