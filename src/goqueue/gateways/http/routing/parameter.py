"""A value that stands in the path or in the query: how it is read, its limits, its schema.

One object is the truth for all three, so the reading and the document cannot disagree. Never
looks at a body.
"""

import enum
import re
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from goqueue.gateways.http.bodies import (
    INT32_MAX,
    INT64_MAX,
    JsonSchema,
    Time,
    duration_pattern,
    scalar_schema,
    span_ns,
)
from goqueue.model import Code, Refused, Timestamp, check_name, format_duration, parse_time

__all__ = [
    "GROUP",
    "PARTITION",
    "TOPIC",
    "Parameter",
    "ParameterLocation",
    "boolean",
    "choice",
    "cursor",
    "duration",
    "identifier",
    "integer",
    "moment",
    "name",
    "partition",
    "text",
]

Value = TypeVar("Value")
Default = TypeVar("Default")
Choice = TypeVar("Choice", bound=enum.StrEnum)

# Numbers above their maximum may be cut to it, so more digits are read than any of them needs.
_INTEGER = re.compile(r"-?[0-9]{1,100}", re.ASCII)
_SECONDS = re.compile(r"[0-9]+(?:[.][0-9]+)?", re.ASCII)
_DURATION_TEXT = (
    "^([0-9]+([.][0-9]+)?|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h|d|w))+)$"
)
_DURATION = re.compile(_DURATION_TEXT)
_DURATION_LENGTH_MAX = 64
_NAME_SCHEMA: JsonSchema = {
    "type": "string",
    "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$",
    "minLength": 1,
    "maxLength": 249,
}


class ParameterLocation(enum.StrEnum):
    """Where a parameter stands."""

    PATH = "path"
    QUERY = "query"


class Parameter(msgspec.Struct, Generic[Value], frozen=True, kw_only=True):
    """One parameter; `read` refuses what is not in its limits, or cuts it to them."""

    name: str
    summary: str
    schema: JsonSchema
    read: Callable[[str], Value]
    default: Value | None = None
    location: ParameterLocation = ParameterLocation.QUERY
    is_required: bool = False
    error: Code = Code.REQUEST_INVALID


def integer(
    name: str,
    summary: str,
    *,
    default: Default,
    minimum: int,
    maximum: int,
    is_cut: bool = False,
) -> Parameter[int | Default]:
    """A whole number; above its maximum it is cut or refused."""

    def read(given: str) -> int:
        return _within(name, _number(name, given), minimum, maximum, is_cut=is_cut)

    schema: JsonSchema = {"type": "integer", "minimum": minimum}
    if is_cut:
        # Larger numbers that fit are cut, so the schema must not forbid them.
        summary = f"{summary}; more than {maximum} is cut to that"
    else:
        schema["maximum"] = maximum
    if default is not None:
        schema["default"] = default
    return Parameter(name=name, summary=summary, schema=schema, read=read, default=default)


def duration(
    name: str,
    summary: str,
    *,
    default: Default,
    minimum_ns: int = 0,
    maximum_ns: int,
    is_cut: bool = False,
) -> Parameter[int | Default]:
    """A duration in Go syntax, or a bare number of seconds; read as nanoseconds."""

    limits = f"{format_duration(minimum_ns)} to {format_duration(maximum_ns)}"

    def read(given: str) -> int:
        ns = _span(name, given)
        if ns < minimum_ns or (ns > maximum_ns and not is_cut):
            raise Refused(Code.REQUEST_INVALID, field=name, reason=f"must be from {limits}")
        return min(ns, maximum_ns)

    schema: JsonSchema = {"type": "string", "examples": ["10s"]}
    if is_cut:
        schema |= {"pattern": _DURATION_TEXT, "maxLength": _DURATION_LENGTH_MAX}
        summary = f"{summary}; {limits}, more is cut to that"
    else:
        schema["pattern"] = duration_pattern(minimum_ns, maximum_ns, has_seconds=True)
        summary = f"{summary}; {limits}"
    if isinstance(default, int):
        schema["default"] = format_duration(default)
    return Parameter(name=name, summary=summary, schema=schema, read=read, default=default)


def moment(name: str, summary: str) -> Parameter[Timestamp | None]:
    """A time in RFC 3339."""

    def read(given: str) -> Timestamp:
        # A plus that was not percent-encoded arrives as a space.
        zone = given[:-6] + "+" + given[-5:] if given[-6:-5] == " " else given
        try:
            return parse_time(zone)
        except ValueError as error:
            raise Refused(Code.REQUEST_INVALID, field=name, reason=str(error)) from None

    return Parameter(name=name, summary=summary, schema=scalar_schema(Time), read=read)


def choice(name: str, summary: str, *, default: Choice) -> Parameter[Choice]:
    """One word out of a list."""
    kind = type(default)

    def read(given: str) -> Choice:
        try:
            return kind(given)
        except ValueError:
            reason = "must be one of " + ", ".join(kind)
            raise Refused(Code.REQUEST_INVALID, field=name, reason=reason) from None

    schema: JsonSchema = {"type": "string", "enum": list(kind), "default": default.value}
    return Parameter(name=name, summary=summary, schema=schema, read=read, default=default)


def boolean(name: str, summary: str) -> Parameter[bool]:
    """`true` or `false`."""

    def read(given: str) -> bool:
        if given not in {"true", "false"}:
            raise Refused(Code.REQUEST_INVALID, field=name, reason="must be true or false")
        return given == "true"

    schema: JsonSchema = {"type": "boolean", "default": False}
    return Parameter(name=name, summary=summary, schema=schema, read=read, default=False)


def name(
    name: str, summary: str, *, location: ParameterLocation = ParameterLocation.QUERY
) -> Parameter[str]:
    """A name of a topic or group; absent it is the empty text."""

    def read(given: str) -> str:
        return check_name(given, name)

    return Parameter(
        name=name,
        summary=summary,
        schema=_NAME_SCHEMA,
        read=read,
        default="",
        location=location,
        is_required=location is ParameterLocation.PATH,
        error=Code.NAME_INVALID,
    )


def text(name: str, summary: str, *, maximum: int) -> Parameter[str]:
    """Free text that must be given."""

    def read(given: str) -> str:
        if not 1 <= len(given) <= maximum:
            reason = f"must have 1 to {maximum} characters"
            raise Refused(Code.REQUEST_INVALID, field=name, reason=reason)
        return given

    schema: JsonSchema = {"type": "string", "minLength": 1, "maxLength": maximum}
    return Parameter(
        name=name, summary=summary, schema=schema, read=read, default="", is_required=True
    )


_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_IDENTIFIER_SCHEMA: JsonSchema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}


def identifier(name: str, summary: str) -> Parameter[str]:
    """The id of a key, an ACL or a tenant, in the path."""

    def read(given: str) -> str:
        if not _IDENTIFIER.fullmatch(given):
            raise Refused(Code.REQUEST_INVALID, field=name, reason="is not an id")
        return given

    return Parameter(
        name=name,
        summary=summary,
        schema=_IDENTIFIER_SCHEMA,
        read=read,
        default="",
        location=ParameterLocation.PATH,
        is_required=True,
    )


def cursor(name: str, summary: str) -> Parameter[str]:
    """Where a page begins: what the page before said, or nothing."""

    def read(given: str) -> str:
        if not _IDENTIFIER.fullmatch(given):
            raise Refused(Code.REQUEST_INVALID, field=name, reason="is not the end of a page")
        return given

    return Parameter(name=name, summary=summary, schema=_IDENTIFIER_SCHEMA, read=read, default="")


def partition(
    name: str,
    summary: str,
    *,
    default: Default,
    location: ParameterLocation = ParameterLocation.QUERY,
) -> Parameter[int | Default]:
    """A partition number; a negative one has a code of its own."""

    def read(given: str) -> int:
        number = _number(name, given)
        if number < 0:
            raise Refused(Code.PARTITION_INVALID, field=name, found=number)
        return _within(name, number, 0, INT32_MAX, is_cut=False)

    return Parameter(
        name=name,
        summary=summary,
        schema={"type": "integer", "minimum": 0, "maximum": INT32_MAX},
        read=read,
        default=default,
        location=location,
        is_required=location is ParameterLocation.PATH,
    )


def _number(name: str, given: str) -> int:
    if not _INTEGER.fullmatch(given):
        raise Refused(Code.REQUEST_INVALID, field=name, reason="must be a whole number")
    return int(given)


def _within(name: str, number: int, minimum: int, maximum: int, *, is_cut: bool) -> int:
    if number < minimum or (number > maximum and not is_cut):
        raise Refused(Code.REQUEST_INVALID, field=name, minimum=minimum, maximum=maximum)
    return min(number, maximum)


def _span(name: str, given: str) -> int:
    """The nanoseconds of a duration; what is too long for a number is longer than any limit."""
    if len(given) > _DURATION_LENGTH_MAX or not _DURATION.fullmatch(given):
        reason = "must be a duration such as 250ms, 30s, 1h30m or 7d"
        raise Refused(Code.REQUEST_INVALID, field=name, reason=reason)
    try:
        return span_ns(float(given) if _SECONDS.fullmatch(given) else given)
    except ValueError:
        return INT64_MAX


TOPIC = name("topic", "name of the topic", location=ParameterLocation.PATH)
GROUP = name("group", "name of the group", location=ParameterLocation.PATH)
PARTITION = partition(
    "partition", "number of the partition", default=0, location=ParameterLocation.PATH
)
