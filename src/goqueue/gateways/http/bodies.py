"""Fields of JSON bodies, and how bodies are decoded and encoded.

Owns the single values of JSON: durations, times, names and numbers. How each is read and what
OpenAPI says about it stand side by side, so that they agree. Unknown fields are refused and `null`
is the same as absent, both by the shape of the structs, so no body nests deeper than its struct.

Invariant: decoding raises nothing but a refusal, which names the field, whatever the bytes are.
"""

import functools
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, inspect

from goqueue.model import (
    HOUR,
    MILLISECOND,
    SECOND,
    Code,
    Refused,
    Timestamp,
    nearest_name,
    parse_duration,
    parse_time,
)

__all__ = [
    "EPOCH_MAX",
    "INT32_MAX",
    "INT64_MAX",
    "TIME_PATTERN",
    "Backoff",
    "Count",
    "Duration",
    "DurationText",
    "Epoch",
    "Generation",
    "JsonSchema",
    "Lease",
    "Name",
    "OffsetNumber",
    "PartitionNumber",
    "ProducerId",
    "SequenceNumber",
    "Session",
    "Time",
    "TimeText",
    "TransactionId",
    "Wait",
    "decoder_of",
    "duration_limits",
    "duration_pattern",
    "encode_json",
    "make_whole",
    "read_body",
    "read_scalar",
    "refusal_of",
    "scalar_schema",
    "span_ns",
    "unknown_name",
]

_ENCODER = msgspec.json.Encoder()


def encode_json(body: msgspec.Struct) -> bytes:
    """The bytes of an answer."""
    return _ENCODER.encode(body)


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
# Longer waits are cut, so there is no longest.
_WAIT_TEXT = "^([0-9]{1,5}([.][0-9]{1,3})?(ms|s|m|h)){1,4}$"
TIME_PATTERN = (
    "^(19[7-9][0-9]|20[0-9]{2}|21[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)


_PATTERN_UNITS = (("h", HOUR), ("m", 60 * SECOND), ("s", SECOND), ("ms", MILLISECOND))
_PATTERN_NUMBER_MAX = 999
_SMALLER_UNITS = (("m", 2), ("s", 2), ("ms", 3))
_FRACTION = "[.][0-9]{1,3}"


def duration_pattern(minimum_ns: int, maximum_ns: int) -> str:
    """A pattern of durations in Go syntax that are within the limits: `90s`, `1.5h`, `1h30m`.

    A pattern cannot add, so it matches a number with its unit, and smaller units behind it where
    all of them together stay below the next number.
    """
    matched = []
    for place, (name, unit) in enumerate(_PATTERN_UNITS):
        low = max(-(-minimum_ns // unit), 1)
        high = min(maximum_ns // unit, _PATTERN_NUMBER_MAX)
        rest = "".join(
            f"([0-9]{{1,{digits}}}{each})?" if each == "ms" else f"([1-5]?[0-9]{each})?"
            for each, digits in _SMALLER_UNITS[place:]
        )
        matched += [
            f"{number}({_FRACTION}{name}|{name}{rest})"
            for number in _number_patterns(low, high - 1)
        ]
        matched += [number + name for number in _number_patterns(max(low, high), high)]
    if minimum_ns <= 0:
        matched.append("0(ms|s|m|h)")
    return f"^({'|'.join(matched)})$"


def _number_patterns(low: int, high: int) -> Iterator[str]:
    """Patterns that together match the numbers from `low`, which is positive, to `high`."""
    while low <= high:
        # A block is all numbers that begin alike: 20 to 29, 300 to 399.
        block, digits = 1, ""
        while low % (10 * block) == 0 and low + 10 * block - 1 <= high:
            block, digits = 10 * block, digits + "[0-9]"
        before, first = divmod(low // block, 10)
        last = min(first + (high - low + 1) // block - 1, 9)
        digit = f"[{first}-{last}]" if last > first else str(first)
        yield f"{before or ''}{digit}{digits}"
        low += (last - first + 1) * block


def duration_limits(minimum_ns: int, maximum_ns: int, description: str | None = None) -> Meta:
    """The schema of a duration within these limits."""
    pattern = duration_pattern(minimum_ns, maximum_ns)
    return _limits(pattern, _in_seconds(minimum_ns), _in_seconds(maximum_ns), description)


def _limits(pattern: str, minimum: float, maximum: float, description: str | None = None) -> Meta:
    text: JsonSchema = {"type": "string", "pattern": pattern}
    seconds: JsonSchema = {"type": "number", "minimum": minimum, "maximum": maximum}
    schema: JsonSchema = {"anyOf": [text, seconds], "examples": ["30s"]}
    return Meta(description=description, extra_json_schema=schema)


def _in_seconds(ns: int) -> float:
    return ns / SECOND if ns % SECOND else ns // SECOND


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


Lease = Annotated[Duration, duration_limits(100 * MILLISECOND, 12 * HOUR)]
Session = Annotated[Duration, duration_limits(SECOND, 600 * SECOND)]
Wait = Annotated[Duration, _limits(_WAIT_TEXT, 0, 10_000)]
Backoff = Annotated[Duration, duration_limits(0, 12 * HOUR)]


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


EPOCH_MAX = 32_767

# Zero is the broker's own, which no caller can be.
ProducerId = Annotated[int, Meta(ge=1, le=INT64_MAX, examples=[1])]
Epoch = Annotated[int, Meta(ge=0, le=EPOCH_MAX)]
SequenceNumber = Annotated[int, Meta(ge=0, le=INT32_MAX)]
TransactionId = Annotated[str, Meta(min_length=1, max_length=249, examples=["7-3"])]

# A second reading that makes every value is for bodies that people write.
_LENIENT_BYTES_MAX = 64 * 1024
# Above this a float cannot tell a whole number from its neighbours.
_FLOAT_EXACT_MAX = 1 << 53

Body = TypeVar("Body")

_AT = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_INDEX = re.compile(r"\[[^]]*\]")
_SHOWN_LENGTH_MAX = 100


def decoder_of(kind: type[Body]) -> msgspec.json.Decoder[Body]:
    """A decoder for bodies of this kind; make it once."""
    return msgspec.json.Decoder(kind, dec_hook=read_scalar)


def read_body(decoder: msgspec.json.Decoder[Body], body: bytes | bytearray) -> Body:
    """The body as its struct, or a refusal that names the field."""
    try:
        return _decode_leniently(decoder, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal_of(error, decoder.type) from None


def _decode_leniently(decoder: msgspec.json.Decoder[Body], body: bytes | bytearray) -> Body:
    """Decode, taking `1.0` for the whole number that it is: JSON has one kind of number."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error) or len(body) > _LENIENT_BYTES_MAX:
            raise
        whole = make_whole(msgspec.json.decode(body))
        return msgspec.convert(whole, decoder.type, dec_hook=read_scalar)


def make_whole(value: object) -> object:
    """The same value with whole floats as integers; nested no deeper than was checked before."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _FLOAT_EXACT_MAX:
        return int(value)
    if isinstance(value, list):
        return [make_whole(each) for each in value]
    if isinstance(value, dict):
        return {name: make_whole(each) for name, each in value.items()}
    return value


def unknown_name(given: str, known: tuple[str, ...], within: str = "") -> Refused:
    """The refusal of a field or a parameter that does not exist, with the one that was meant."""
    near = nearest_name(given, known)
    shown = given[:_SHOWN_LENGTH_MAX]
    reason = "is not known" if near is None else f"is not known; did you mean `{near}`?"
    field = f"{within}.{shown}" if within else shown
    return Refused(Code.REQUEST_INVALID, field=field, reason=reason)


def refusal_of(error: Exception, kind: object = None) -> Refused:
    """What a decoder of this kind found wrong, as a refusal of the whole request."""
    if isinstance(error, RecursionError):
        return Refused(Code.REQUEST_INVALID, reason="nested too deep")
    if isinstance(error, UnicodeDecodeError):
        return Refused(Code.REQUEST_INVALID, reason="the body is not UTF-8")
    words = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return Refused(Code.REQUEST_INVALID, reason=f"the body is not JSON: {_lowered(words)}")
    place = _AT.search(words)
    field = place[1] if place is not None else ""
    reason = words[: place.start()] if place is not None else words
    unknown = _UNKNOWN.fullmatch(reason)
    if unknown is not None:
        return unknown_name(unknown[1], _names_at(kind, field), field)
    missing = _MISSING.match(reason)
    if missing is not None:
        field = f"{field}.{missing[1]}" if field else missing[1]
        reason = "is missing"
    if not field:
        return Refused(Code.REQUEST_INVALID, reason=f"the body: {_lowered(reason)}")
    return Refused(Code.REQUEST_INVALID, field=field, reason=_lowered(reason))


def _names_at(kind: object, path: str) -> tuple[str, ...]:
    """The fields of the struct at this path of a kind of bodies."""
    found = _type_info(kind)
    for name in filter(None, _INDEX.sub("", path).split(".")):
        if not isinstance(found, inspect.StructType):
            return ()
        fields = {field.encode_name: field.type for field in found.fields}
        found = _struct_in(fields[name]) if name in fields else None
    if not isinstance(found, inspect.StructType):
        return ()
    return tuple(field.encode_name for field in found.fields)


def _struct_in(found: inspect.Type) -> inspect.Type | None:
    """The struct that values of a type are, or are made of."""
    if isinstance(found, inspect.Metadata):
        return _struct_in(found.type)
    if isinstance(found, inspect.UnionType):
        return next(filter(None, map(_struct_in, found.types)), None)
    if isinstance(found, inspect.ListType):
        return _struct_in(found.item_type)
    if isinstance(found, inspect.DictType):
        return _struct_in(found.value_type)
    return found if isinstance(found, inspect.StructType) else None


@functools.cache
def _type_info(kind: object) -> inspect.Type | None:
    return None if kind is None else _struct_in(inspect.type_info(kind))


def _lowered(words: str) -> str:
    """The words as a clause; a word all in capitals stays as it is."""
    first = words if words[:2].isupper() else words[:1].lower() + words[1:]
    return first.rstrip(".")
