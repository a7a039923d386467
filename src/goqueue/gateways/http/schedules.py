"""Schedules over HTTP: bodies, handlers and routes."""

import base64
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import (
    Count,
    Duration,
    DurationText,
    Name,
    OffsetNumber,
    PartitionNumber,
    Time,
    TimeText,
    duration_limits,
)
from goqueue.gateways.http.messages import (
    PRIORITY_NAMES,
    EncodingIn,
    HeadersIn,
    MessageFields,
    PriorityIn,
    PriorityName,
    Text,
)
from goqueue.gateways.http.publish_decoder import decode_message
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import ParameterLocation, integer, name
from goqueue.gateways.http.routing.router import Route
from goqueue.model import Code, Timestamp, format_duration, format_time
from goqueue.model.requests import (
    EVERY_NS_MAX,
    EVERY_NS_MIN,
    GRACE_NS_DEFAULT,
    GRACE_NS_MAX,
    GRACE_NS_MIN,
    MISSED_COUNT_MAX,
    AlterSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    Done,
    ListSchedules,
    MissedPolicy,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    ScheduleChanges,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleList,
    ScheduleRan,
    ScheduleSpec,
    ScheduleState,
)

__all__ = [
    "SCHEDULE_ROUTES",
    "AlterScheduleBody",
    "CreateScheduleBody",
    "DeletedSchedule",
    "NoFields",
    "PutScheduleBody",
    "RanOut",
    "Schedule",
    "ScheduleMessageBody",
    "ScheduleMessageOut",
    "Schedules",
]

_Every = Annotated[
    Duration,
    duration_limits(
        EVERY_NS_MIN, EVERY_NS_MAX, "The time between two ticks, instead of `cron`; from 100ms on."
    ),
]
_Cron = Annotated[
    str,
    Meta(
        description=(
            "Five fields (minute, hour, day of month, month, day of week) or a name such as "
            "`@daily`, instead of `every`."
        ),
        examples=["0 9 * * MON-FRI"],
    ),
]
_Zone = Annotated[
    str,
    Meta(
        description="The time zone of `cron`, by its name in the IANA database; UTC if absent.",
        examples=["Europe/Vienna"],
    ),
]
_Start = Annotated[
    Time, Meta(description="No tick before this time; with `every`, the first tick.")
]
_End = Annotated[Time, Meta(description="No tick after this time.")]
_Missed = Annotated[
    MissedPolicy,
    Meta(
        description=(
            "What to do when ticks are later than `grace`: send only the `latest`, `skip` those "
            "that are too late, or send `all`, at most `missed_max`."
        )
    ),
]
_MissedMax = Annotated[int, Meta(ge=1, le=MISSED_COUNT_MAX)]
_Grace = Annotated[
    Duration,
    duration_limits(GRACE_NS_MIN, GRACE_NS_MAX, "How late a tick may be and not count as missed."),
]


class ScheduleMessageBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to publish. `value` must be given: a tombstone is an explicit `null`."""

    value: Text | None
    key: Text | None = None
    partition: PartitionNumber | None = None
    headers: HeadersIn | None = None
    priority: PriorityIn | None = None
    encoding: EncodingIn | None = None


class PutScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule in full; fields that are absent have their defaults."""

    topic: Name
    message: ScheduleMessageBody
    every: _Every | None = None
    cron: _Cron | None = None
    time_zone: _Zone | None = None
    start: _Start | None = None
    end: _End | None = None
    missed: _Missed | None = None
    missed_max: _MissedMax | None = None
    grace: _Grace | None = None


class CreateScheduleBody(PutScheduleBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to create; either `every` or `cron` must be given."""

    name: Name
    paused: bool | None = None


class AlterScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change; what is absent stays as it is."""

    topic: Name | None = None
    message: ScheduleMessageBody | None = None
    every: _Every | None = None
    cron: _Cron | None = None
    time_zone: _Zone | None = None
    start: _Start | None = None
    end: _End | None = None
    missed: _Missed | None = None
    missed_max: _MissedMax | None = None
    grace: _Grace | None = None


class NoFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing has to be given."""


class ScheduleMessageOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule publishes."""

    value: Text | None
    priority: PriorityName
    key: Text | None = None
    partition: int | None = None
    headers: dict[str, str] | None = None
    encoding: Literal["base64"] | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule, its next tick, and how many it has sent.

    `problem` says why ticks are not sent, while that is so.
    """

    name: str
    topic: str
    state: ScheduleState
    message: ScheduleMessageOut
    missed: MissedPolicy
    missed_max: int
    grace: DurationText
    created_at: TimeText
    ticks_sent: Count
    every: DurationText | None = None
    cron: str | None = None
    time_zone: str | None = None
    start: TimeText | None = None
    end: TimeText | None = None
    next_tick_at: TimeText | None = None
    last_tick_at: TimeText | None = None
    problem: str | None = None


class Schedules(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the schedules by name; `count` is for this page, `total` for all."""

    schedules: list[Schedule]
    count: Count
    total: Count
    limit: Count
    skip: Count


class DeletedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule was deleted: no tick follows."""

    deleted: bool
    name: str


class RanOut(msgspec.Struct, frozen=True, kw_only=True):
    """Where the message is."""

    name: str
    topic: str
    partition: int
    offset: OffsetNumber
    timestamp: TimeText


_SECTION = "Schedules"
_NAME = name("schedule", "name of the schedule", location=ParameterLocation.PATH)
_LIMIT = integer(
    "limit", "how many schedules at most", default=100, minimum=1, maximum=1000, is_cut=True
)
_SKIP = integer("skip", "how many to skip", default=0, minimum=0, maximum=1 << 53)


def _spec(schedule: str, body: PutScheduleBody) -> ScheduleSpec:
    return ScheduleSpec(
        name=schedule,
        topic=body.topic,
        message=_message(body.message),
        every_ns=_ns(body.every),
        cron=body.cron,
        time_zone=body.time_zone or "UTC",
        start=_at(body.start),
        end=_at(body.end),
        missed=body.missed or MissedPolicy.LATEST,
        missed_max=body.missed_max or MISSED_COUNT_MAX,
        grace_ns=GRACE_NS_DEFAULT if body.grace is None else body.grace.ns,
    )


def _message(body: ScheduleMessageBody) -> ScheduledMessage:
    fields = MessageFields(
        value=body.value,
        key=body.key,
        headers=body.headers,
        priority=body.priority,
        encoding=body.encoding,
    )
    message = decode_message(fields)
    return ScheduledMessage(
        value=message.value,
        key=message.key,
        headers=message.headers,
        priority=message.priority,
        partition=body.partition,
    )


def _ns(given: Duration | None) -> int | None:
    return None if given is None else given.ns


def _at(given: Time | None) -> Timestamp | None:
    return None if given is None else given.at


async def _create(call: Call) -> Schedule:
    body = call.body(CreateScheduleBody)
    command = CreateSchedule(spec=_spec(body.name, body), is_paused=bool(body.paused))
    return _schedule(await call.ask(command, ScheduleDescription))


async def _put(call: Call) -> Schedule:
    spec = _spec(call[_NAME], call.body(PutScheduleBody))
    command = CreateSchedule(spec=spec, may_replace=True)
    return _schedule(await call.ask(command, ScheduleDescription))


async def _alter(call: Call) -> Schedule:
    body = call.body(AlterScheduleBody)
    changes = ScheduleChanges(
        topic=body.topic,
        message=None if body.message is None else _message(body.message),
        every_ns=_ns(body.every),
        cron=body.cron,
        time_zone=body.time_zone,
        start=_at(body.start),
        end=_at(body.end),
        missed=body.missed,
        missed_max=body.missed_max,
        grace_ns=_ns(body.grace),
    )
    command = AlterSchedule(name=call[_NAME], changes=changes)
    return _schedule(await call.ask(command, ScheduleDescription))


async def _list(call: Call) -> Schedules:
    limit, skip = call[_LIMIT], call[_SKIP]
    listed = await call.ask(ListSchedules(limit=limit, skip=skip), ScheduleList)
    schedules = [_schedule(each) for each in listed.schedules]
    return Schedules(
        schedules=schedules, count=len(schedules), total=listed.total, limit=limit, skip=skip
    )


async def _describe(call: Call) -> Schedule:
    return _schedule(await call.ask(DescribeSchedule(name=call[_NAME]), ScheduleDescription))


async def _pause(call: Call) -> Schedule:
    call.body(NoFields)
    return _schedule(await call.ask(PauseSchedule(name=call[_NAME]), ScheduleDescription))


async def _resume(call: Call) -> Schedule:
    call.body(NoFields)
    return _schedule(await call.ask(ResumeSchedule(name=call[_NAME]), ScheduleDescription))


async def _run(call: Call) -> RanOut:
    call.body(NoFields)
    ran = await call.ask(RunSchedule(name=call[_NAME]), ScheduleRan)
    return RanOut(
        name=call[_NAME],
        topic=ran.log.topic,
        partition=ran.log.partition,
        offset=ran.offset,
        timestamp=format_time(ran.timestamp),
    )


async def _delete(call: Call) -> DeletedSchedule:
    await call.ask(DeleteSchedule(name=call[_NAME]), Done)
    return DeletedSchedule(deleted=True, name=call[_NAME])


def _schedule(described: ScheduleDescription) -> Schedule:
    spec = described.spec
    return Schedule(
        name=spec.name,
        topic=spec.topic,
        state=described.state,
        message=_shown(spec.message),
        missed=spec.missed,
        missed_max=spec.missed_max,
        grace=format_duration(spec.grace_ns),
        created_at=format_time(described.created_at),
        ticks_sent=described.sent,
        every=None if spec.every_ns is None else format_duration(spec.every_ns),
        cron=spec.cron,
        time_zone=None if spec.cron is None else spec.time_zone,
        start=_time(spec.start),
        end=_time(spec.end),
        next_tick_at=_time(described.next_tick),
        last_tick_at=_time(described.last_tick),
        problem=described.problem,
    )


def _time(at: Timestamp | None) -> str | None:
    return None if at is None else format_time(at)


def _shown(message: ScheduledMessage) -> ScheduleMessageOut:
    headers = {header: value.decode() for header, value in message.headers}
    key: str | None
    value: str | None
    try:
        key, encoding = message.key.decode() or None, None
        value = None if message.value is None else message.value.decode()
    except UnicodeDecodeError:
        key, encoding = base64.b64encode(message.key).decode() or None, "base64"
        value = None if message.value is None else base64.b64encode(message.value).decode()
    return ScheduleMessageOut(
        value=value,
        key=key,
        partition=message.partition,
        headers=headers or None,
        priority=PRIORITY_NAMES[message.priority],
        encoding="base64" if encoding else None,
    )


_TARGET_ERRORS = (
    Code.NAME_INVALID,
    Code.TOPIC_NOT_FOUND,
    Code.TOPIC_INTERNAL,
    Code.PARTITION_NOT_FOUND,
    Code.PARTITION_INVALID,
    Code.MESSAGE_INVALID,
    Code.MESSAGE_TOO_LARGE,
    Code.SCHEMA_VIOLATION,
    Code.SUBJECT_NOT_FOUND,
    Code.QUOTA_EXCEEDED,
    Code.LOG_BUSY,
)
_MESSAGE_EXAMPLE = {"value": "build the report"}
_FIELDS_EXAMPLE = {
    "topic": "orders",
    "cron": "0 9 * * MON-FRI",
    "time_zone": "Europe/Vienna",
    "message": _MESSAGE_EXAMPLE,
}

SCHEDULE_ROUTES = (
    Route(
        method="POST",
        path="/schedules",
        section=_SECTION,
        summary="Create a schedule: a message that is published again and again",
        run=_create,
        body=CreateScheduleBody,
        answer=Schedule,
        status=201,
        errors=(Code.SCHEDULE_EXISTS, *_TARGET_ERRORS),
        writes=True,
        example={
            "name": "heartbeat",
            "topic": "orders",
            "every": "15m",
            "message": {"value": "tick"},
        },
    ),
    Route(
        method="GET",
        path="/schedules",
        section=_SECTION,
        summary="List the schedules by name",
        run=_list,
        parameters=(_LIMIT, _SKIP),
        answer=Schedules,
    ),
    Route(
        method="GET",
        path="/schedules/{schedule}",
        section=_SECTION,
        summary="Describe a schedule",
        run=_describe,
        parameters=(_NAME,),
        answer=Schedule,
        errors=(Code.SCHEDULE_NOT_FOUND,),
    ),
    Route(
        method="PUT",
        path="/schedules/{schedule}",
        section=_SECTION,
        summary="Create a schedule, or replace the definition of the one that exists",
        run=_put,
        parameters=(_NAME,),
        body=PutScheduleBody,
        answer=Schedule,
        errors=_TARGET_ERRORS,
        writes=True,
        example=_FIELDS_EXAMPLE,
    ),
    Route(
        method="PATCH",
        path="/schedules/{schedule}",
        section=_SECTION,
        summary="Change a schedule; other times take effect from now on",
        run=_alter,
        parameters=(_NAME,),
        body=AlterScheduleBody,
        answer=Schedule,
        errors=(Code.SCHEDULE_NOT_FOUND, *_TARGET_ERRORS),
        writes=True,
        example={"cron": "0 8 * * *", "time_zone": "Europe/Vienna"},
    ),
    Route(
        method="DELETE",
        path="/schedules/{schedule}",
        section=_SECTION,
        summary="Delete a schedule; no tick follows the answer",
        run=_delete,
        parameters=(_NAME,),
        answer=DeletedSchedule,
        errors=(Code.SCHEDULE_NOT_FOUND, Code.LOG_BUSY),
        writes=True,
    ),
    Route(
        method="POST",
        path="/schedules/{schedule}/pause",
        section=_SECTION,
        summary="Pause a schedule; no tick follows the answer",
        run=_pause,
        parameters=(_NAME,),
        body=NoFields,
        answer=Schedule,
        errors=(Code.SCHEDULE_NOT_FOUND, Code.LOG_BUSY),
        writes=True,
    ),
    Route(
        method="POST",
        path="/schedules/{schedule}/resume",
        section=_SECTION,
        summary="Resume a schedule; ticks of the pause are not sent",
        run=_resume,
        parameters=(_NAME,),
        body=NoFields,
        answer=Schedule,
        errors=(Code.SCHEDULE_NOT_FOUND, Code.LOG_BUSY),
        writes=True,
    ),
    Route(
        method="POST",
        path="/schedules/{schedule}/run",
        section=_SECTION,
        summary="Publish the message of a schedule now, beside its ticks",
        run=_run,
        parameters=(_NAME,),
        body=NoFields,
        answer=RanOut,
        errors=(Code.SCHEDULE_NOT_FOUND, *_TARGET_ERRORS),
        writes=True,
    ),
)
