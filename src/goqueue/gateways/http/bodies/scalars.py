"""Single values as JSON writes them: durations, times, names and numbers, with their schemas.

Owns how each is read and what OpenAPI says about it, side by side so that they agree. Never knows
which field it stands in; the decoder adds that.
"""

import math
from typing import Annotated, Any

from msgspec import Meta

from goqueue.model import SECOND, Timestamp, parse_duration, parse_time

__all__ = [
    "INT32_MAX",
    "INT64_MAX",
    "TIME_PATTERN",
    "Boost",
    "Count",
    "Delay",
    "Duration",
    "DurationText",
    "Generation",
    "JsonSchema",
    "Lease",
    "Name",
    "OffsetNumber",
    "PartitionNumber",
    "Session",
    "Time",
    "TimeText",
    "Wait",
    "read_scalar",
    "scalar_schema",
    "span_ns",
]

JsonSchema = dict[str, Any]

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

# Whole seconds of this many digits are beyond every limit, whatever follows.
_SECONDS_MAX = 10**10

# Names are checked by the core, which has a code of its own for them: here the schema only tells.
Name = Annotated[
    str,
    Meta(
        extra_json_schema={
            "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$",
            "minLength": 1,
            "maxLength": 249,
        },
        examples=["orders"],
    ),
]
OffsetNumber = Annotated[int, Meta(ge=0, le=INT64_MAX)]
PartitionNumber = Annotated[int, Meta(le=INT32_MAX, extra_json_schema={"minimum": 0})]
Generation = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Count = Annotated[int, Meta(ge=0)]
TimeText = Annotated[
    str,
    Meta(
        description="UTC, up to nanoseconds",
        extra_json_schema={"format": "date-time"},
        examples=["2025-01-31T12:00:00.123456789Z"],
    ),
]
# A pattern cannot compare lengths of time. Those below let pass only what is within the limits;
# `1h0m` and its like are taken as well.
_LEASE_TEXT = "^(([1-9]|1[01])h|[1-9][0-9]?(m|s)|[1-9][0-9]{2}ms)$"
_BOOST_TEXT = "^(1?[1-9]h|[1-9][0-9]?(m|s)|[1-9][0-9]{2}ms)$"
_SESSION_TEXT = "^([1-9]m|[1-9][0-9]?s)$"
# Longer waits are cut, so there is no longest.
_WAIT_TEXT = "^[0-9]{1,5}(ms|s|m)$"
_DELAY_TEXT = "^[0-9]{1,5}(ms|s|m)$"
TIME_PATTERN = (
    "^(19[7-9][0-9]|20[0-9]{2}|21[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)


def _limits(pattern: str, minimum: float, maximum: int) -> Meta:
    text: JsonSchema = {"type": "string", "pattern": pattern}
    seconds: JsonSchema = {"type": "number", "minimum": minimum, "maximum": maximum}
    return Meta(extra_json_schema={"anyOf": [text, seconds], "examples": ["30s"]})


DurationText = Annotated[str, Meta(description="Go syntax", examples=["1h30m0s"])]


class Duration:
    """A length of time that a caller gave: Go syntax, or a number of seconds."""

    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        self.ns = ns


class Time:
    """A moment that a caller gave in RFC 3339."""

    __slots__ = ("at",)

    def __init__(self, at: Timestamp) -> None:
        self.at = at


Lease = Annotated[Duration, _limits(_LEASE_TEXT, 0.1, 43_200)]
Boost = Annotated[Duration, _limits(_BOOST_TEXT, 0.1, 86_400)]
Session = Annotated[Duration, _limits(_SESSION_TEXT, 1, 600)]
Wait = Annotated[Duration, _limits(_WAIT_TEXT, 0, 10_000)]
Delay = Annotated[Duration, _limits(_DELAY_TEXT, 0, 604_800)]


def span_ns(given: str | float) -> int:
    """The nanoseconds of a duration in Go syntax or in seconds; ValueError says what is wrong."""
    if isinstance(given, str):
        return parse_duration(given)
    if given < 0:
        raise ValueError("a duration is not negative")
    if not math.isfinite(given) or given > _SECONDS_MAX:
        raise ValueError("longer than 292 years")
    return int(given * SECOND) if isinstance(given, int) else round(given * SECOND)


def read_scalar(kind: type, given: object) -> object:
    """The hook of every decoder of bodies."""
    if kind is Duration:
        if isinstance(given, str | int | float) and not isinstance(given, bool):
            return Duration(span_ns(given))
        raise ValueError("Expected a duration such as `30s` or a number of seconds")
    if kind is Time:
        if isinstance(given, str):
            return Time(parse_time(given))
        raise ValueError("Expected a time such as `2025-01-31T12:00:00Z`")
    raise NotImplementedError(kind)


def scalar_schema(kind: type) -> JsonSchema:
    """The hook of the schema generator; the limits of a duration stand at its field."""
    if kind is Duration:
        return {"description": "a duration: Go syntax, or a number of seconds"}
    if kind is Time:
        return {
            "description": "RFC 3339 with `Z` or an offset",
            "type": "string",
            "format": "date-time",
            "pattern": TIME_PATTERN,
            "examples": ["2025-01-31T12:00:00Z"],
        }
    raise NotImplementedError(kind)
