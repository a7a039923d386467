"""Schedules: recurring messages that the node publishes by itself, exactly once per tick.

Times are as everywhere in the SDK: a span is text such as "15m", seconds, or a timedelta; a moment
is a datetime with a zone, or RFC 3339 text. Values and keys are encoded as by `publish`.
"""

import datetime as dt
from typing import Literal, TypedDict, Unpack

import msgspec

from goqueue.client.admin import check_keywords
from goqueue.client.http import Request, Transport, get, post, target
from goqueue.client.message_drafts import MessageDraft, encode_draft
from goqueue.client.values import (
    Headers,
    Value,
    duration,
    encode_key,
    encode_value,
    headers,
    priority_number,
)

__all__ = [
    "UNCHANGED",
    "Schedule",
    "ScheduleMessage",
    "ScheduleOptions",
    "SchedulePage",
    "ScheduleRun",
    "Schedules",
]

Span = str | float | dt.timedelta
Moment = str | dt.datetime
Missed = Literal["latest", "skip", "all"]


class ScheduleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule publishes; with `encoding` "base64", key and value are base64."""

    value: str | None
    priority: str
    key: str | None = None
    partition: int | None = None
    headers: dict[str, str] = {}
    encoding: str | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule; `state` is active, paused, ended or failed.

    `every` and `grace` are durations. `problem` says why ticks are not sent, while that is so.
    """

    name: str
    topic: str
    state: str
    message: ScheduleMessage
    missed: str
    missed_max: int
    grace: str
    created_at: dt.datetime
    ticks_sent: int
    every: str | None = None
    cron: str | None = None
    time_zone: str | None = None
    start: dt.datetime | None = None
    end: dt.datetime | None = None
    next_tick_at: dt.datetime | None = None
    last_tick_at: dt.datetime | None = None
    problem: str | None = None


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules by name, after the first `skip` of `total`."""

    schedules: tuple[Schedule, ...]
    total: int = 0
    skip: int = 0


class ScheduleRun(msgspec.Struct, frozen=True, kw_only=True):
    """Where the message of a run now is."""

    name: str
    topic: str
    partition: int
    offset: int


_SCHEDULES = msgspec.json.Decoder(Schedule)
_PAGES = msgspec.json.Decoder(SchedulePage)
_RUNS = msgspec.json.Decoder(ScheduleRun)
# Stands for a value that is not given: None is a tombstone.
UNCHANGED = msgspec.UNSET


class ScheduleOptions(TypedDict, total=False):
    """When a schedule ticks, and what else its message has.

    `every` is a span, `cron` an expression of five fields in `time_zone` (UTC). Ticks later than
    `grace` (one minute) are missed: of those, `missed` sends the "latest" (the default), none
    ("skip") or "all", at most `missed_max` (100).
    """

    every: Span
    cron: str
    time_zone: str
    start: Moment
    end: Moment
    missed: Missed
    missed_max: int
    grace: Span
    key: str | bytes
    headers: Headers
    partition: int
    priority: int | str


_OPTIONS = tuple(ScheduleOptions.__annotations__)
_OF_MESSAGE = ("key", "headers", "partition", "priority")


class Schedules:
    """`q.schedules`. Exactly one of `every` and `cron` says when a schedule ticks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        topic: str,
        value: Value,
        *,
        paused: bool = False,
        replace: bool = False,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Publish a message to a topic again and again; see `ScheduleOptions`.

        A name that is taken is refused with the code `schedule_exists`. With `replace` the
        definition is replaced instead, which may be repeated, as by every start of a program.
        """
        check_keywords("create", options, ("paused", "replace", *_OPTIONS))
        fields = _fields(options)
        fields |= {"topic": topic, "message": _message(value, options)}
        if replace:
            return await self._transport.read(_send("PUT", name, fields), _SCHEDULES)
        fields |= {"name": name, "paused": paused}
        return await self._transport.read(post("schedules", fields=fields), _SCHEDULES)

    async def list(self, *, limit: int = 100, skip: int = 0) -> tuple[Schedule, ...]:
        """A page of the schedules by name; a page has at most 1,000."""
        return (await self.page(limit=limit, skip=skip)).schedules

    async def page(self, *, limit: int = 100, skip: int = 0) -> SchedulePage:
        """The same with their total, for a program that shows them page by page."""
        return await self._transport.read(get("schedules", limit=limit, skip=skip), _PAGES)

    async def describe(self, name: str) -> Schedule:
        """One schedule; `NotFound` if there is none of this name."""
        return await self._transport.read(get("schedules", name), _SCHEDULES)

    async def alter(
        self,
        name: str,
        *,
        topic: str | None = None,
        value: Value = UNCHANGED,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Change a schedule; what is not named stays as it is, and other times count from now on.

        A `value` replaces the whole message, with its key, headers, partition and priority.
        """
        check_keywords("alter", options, ("topic", "value", *_OPTIONS))
        fields = _fields(options)
        if topic is not None:
            fields["topic"] = topic
        if value is not UNCHANGED:
            fields["message"] = _message(value, options)
        elif any(option in options for option in _OF_MESSAGE):
            raise TypeError("alter() needs the value of a message to change the rest of it")
        return await self._transport.read(_send("PATCH", name, fields), _SCHEDULES)

    async def pause(self, name: str) -> Schedule:
        """Send no tick any more, until it is resumed."""
        request = post("schedules", name, "pause", fields={}, is_repeatable=True)
        return await self._transport.read(request, _SCHEDULES)

    async def resume(self, name: str) -> Schedule:
        """Tick from now on; ticks of the pause are not sent."""
        request = post("schedules", name, "resume", fields={}, is_repeatable=True)
        return await self._transport.read(request, _SCHEDULES)

    async def run(self, name: str) -> ScheduleRun:
        """Publish its message now, beside its ticks, also while it is paused."""
        request = post("schedules", name, "run", fields={})
        return await self._transport.read(request, _RUNS)

    async def delete(self, name: str) -> None:
        """Delete a schedule; no tick follows."""
        await self._transport.ask(Request(method="DELETE", target=target("schedules", name)))


def _send(method: str, name: str, fields: dict[str, object]) -> Request:
    body = msgspec.json.encode(fields)
    return Request(method=method, target=target("schedules", name), body=body, is_repeatable=True)


def _fields(options: ScheduleOptions) -> dict[str, object]:
    """The options that are not of the message, as the API takes them."""
    fields: dict[str, object] = {}
    for name, given in options.items():
        match given:
            case _ if name in _OF_MESSAGE or given is None:
                continue
            case dt.timedelta():
                fields[name] = duration(given.total_seconds())
            case dt.datetime():
                if given.tzinfo is None:
                    raise ValueError(f"the {name} of a schedule needs a time zone")
                fields[name] = given.isoformat()
            case _:
                fields[name] = given
    return fields


def _message(value: Value, options: ScheduleOptions) -> msgspec.Raw:
    priority = options.get("priority")
    draft = MessageDraft(
        value=encode_value(value),
        key=encode_key(options.get("key")),
        headers={name: text.decode() for name, text in headers(options.get("headers"))},
        partition=options.get("partition"),
        priority=None if priority is None else priority_number(priority),
    )
    return msgspec.Raw(encode_draft(draft))
