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
_WAIT_TEXT = (
    "^([0-9]{1,9}([.][0-9]{1,9})?(ns|us|\u00b5s|\u03bcs|ms|s)|[0-9]{1,5}([.][0-9]{1,3})?(m|h)"
    "|[0-9]{1,3}([.][0-9]{1,3})?(d|w)){1,4}$"
)
TIME_PATTERN = (
    "^(19[7-9][0-9]|20[0-9]{2}|21[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)


# The largest number of each smaller unit behind a unit keeps the whole below its next number.
_PATTERN_UNITS = (
    ("w", 7 * 24 * HOUR, "([0-6]d)?"),
    ("d", 24 * HOUR, "((1?[0-9]|2[0-3])h)?"),
    ("h", HOUR, "([1-5]?[0-9]m)?"),
    ("m", 60 * SECOND, "([1-5]?[0-9]s)?"),
    ("s", SECOND, "([0-9]{1,3}ms)?"),
    ("ms", MILLISECOND, ""),
    ("(us|\u00b5s|\u03bcs)", 1_000, ""),
    ("ns", 1, ""),
)
_PATTERN_NUMBER_MAX = 999_999_999
_FRACTION_DIGITS = 3
_FRACTION = f"[.][0-9]{{1,{_FRACTION_DIGITS}}}"


def duration_pattern(minimum_ns: int, maximum_ns: int, *, has_seconds: bool = False) -> str:
    """A pattern of durations that are within the limits: `90s`, `1.5h`, `0.25d`, `1h30m`, `7d`.

    A pattern cannot add, so it matches a number with its unit, and smaller units behind it where
    all of them together stay below the next number. With `has_seconds` a number without a unit
    counts seconds.
    """
    matched: list[str] = []
    behind = ""
    for name, unit, smaller in reversed(_PATTERN_UNITS):
        behind = smaller + behind
        matched += _unit_patterns(name, behind, unit, minimum_ns, maximum_ns)
    if has_seconds:
        matched += _unit_patterns("", "", SECOND, minimum_ns, maximum_ns)
    if minimum_ns <= 0:
        names = [name for name, _, _ in _PATTERN_UNITS]
        matched.append(f"0({'|'.join(names)}){'?' if has_seconds else ''}")
    return f"^({'|'.join(matched)})$"


def _unit_patterns(
    name: str, behind: str, unit: int, minimum_ns: int, maximum_ns: int
) -> Iterator[str]:
    """Patterns of the durations within the limits whose largest unit is this one."""
    low = max(-(-minimum_ns // unit), 1)
    high = maximum_ns // unit
    numbers = _number_pattern(low, min(high - 1, _PATTERN_NUMBER_MAX))
    if numbers and behind:
        yield f"({numbers})({_FRACTION}{name}|{name}{behind})"
    elif numbers:
        yield f"({numbers})({_FRACTION})?{name}"
    if low <= high <= _PATTERN_NUMBER_MAX:
        yield f"{high}{name}"
    if unit == 1:
        return
    fractions = []
    for digits in range(1, _FRACTION_DIGITS + 1):
        scale = 10**digits
        first = max(-(-minimum_ns * scale // unit), 1)
        last = min(maximum_ns * scale // unit, scale - 1)
        for width in range(1, digits + 1):
            pattern = _number_pattern(max(first, 10 ** (width - 1)), min(last, 10**width - 1))
            if pattern:
                fractions.append(f"{'0' * (digits - width)}({pattern})")
    if fractions:
        yield f"0?[.]({'|'.join(fractions)}){name}"


def _number_pattern(low: int, high: int) -> str:
    """A pattern of the numbers from `low`, which is positive, to `high`; empty if there is none."""
    # Beginnings of numbers, and how many digits may follow each.
    blocks: dict[str, list[int]] = {}
    while low <= high:
        # A block is all numbers that begin alike: 20 to 29, 300 to 399.
        block, digits = 1, 0
        while low % (10 * block) == 0 and low + 10 * block - 1 <= high:
            block, digits = 10 * block, digits + 1
        before, first = divmod(low // block, 10)
        last = min(first + (high - low + 1) // block - 1, 9)
        digit = f"[{first}-{last}]" if last > first else str(first)
        blocks.setdefault(f"{before or ''}{digit}", []).append(digits)
        low += (last - first + 1) * block
    return "|".join(head + _digits(counts[0], counts[-1]) for head, counts in blocks.items())


def _digits(low: int, high: int) -> str:
    if low == high:
        return "[0-9]" * low if low <= 1 else f"[0-9]{{{low}}}"
    return f"[0-9]{{{low},{high}}}"


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
        raise ValueError("must not be negative")
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
        return {"description": "a duration such as `90s`, `1h30m` or `7d`, or a number of seconds"}
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
_CHOICE = re.compile(r"Invalid enum value (.{1,100})", re.DOTALL)
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
    reason = "is not known"
    if near is not None:
        reason = f"{reason}; did you mean `{near}`?"
    elif 0 < len(known) <= _NAMED_MAX:
        reason = f"{reason}; known are {', '.join(f'`{each}`' for each in known)}"
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
    choice = _CHOICE.fullmatch(reason)
    if choice is not None and (choices := _choices_at(kind, field)):
        reason = f"must be {' or '.join(choices)}, not {choice[1]}"
    else:
        reason = _plain(reason)
    if not field:
        return Refused(Code.REQUEST_INVALID, reason=f"the body {reason}")
    return Refused(Code.REQUEST_INVALID, field=field, reason=reason)


# So many names are listed to who used another one.
_NAMED_MAX = 8
_BOUND = re.compile(r"Expected `(?:int|float)(?: \| null)?` (>=|<=|>|<) ([-0-9.e+]+)")
_LENGTH = re.compile(r"Expected `(str|array|object)(?: \| null)?` of length (>=|<=) ([0-9]+)")
_OTHER_TYPE = re.compile(r"Expected `([a-z |]+)`, got `([a-z]+)`")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_COUNTED = {"str": "characters", "array": "elements", "object": "fields"}
_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "text",
}


def _plain(reason: str) -> str:
    """What the decoder says of a value, in words that need no knowledge of Python."""
    if bound := _BOUND.fullmatch(reason):
        return f"must be {_BOUNDS[bound[1]]} {bound[2]}"
    if length := _LENGTH.fullmatch(reason):
        counted = _COUNTED[length[1]] if length[3] != "1" else _COUNTED[length[1]][:-1]
        return f"must have {_BOUNDS[length[2]]} {length[3]} {counted}"
    if other := _OTHER_TYPE.fullmatch(reason):
        wanted = [each for each in other[1].split(" | ") if each != "null"]
        if all(each in _KINDS for each in (*wanted, other[2])):
            # A number that is not whole has only its fraction against it.
            is_fraction = other[2] == "float" and "int" in wanted
            given = "a fraction" if is_fraction else _KINDS[other[2]]
            return f"must be {' or '.join(_KINDS[each] for each in wanted)}, not {given}"
    if "matching regex" in reason:
        # The patterns of texts for people exclude what cannot be printed, and nothing else.
        is_text = "u0000" in reason
        return "must not have control characters" if is_text else "has characters it may not have"
    return _lowered(reason)


def _names_at(kind: object, path: str) -> tuple[str, ...]:
    """The fields of the struct at this path of a kind of bodies."""
    found = _struct_at(kind, tuple(filter(None, _INDEX.sub("", path).split("."))))
    return () if found is None else tuple(field.encode_name for field in found.fields)


def _choices_at(kind: object, path: str) -> tuple[str, ...]:
    """The values that are allowed at this path of a kind of bodies; none if there are too many."""
    *parents, name = _INDEX.sub("", path).split(".")
    within = _struct_at(kind, tuple(parents))
    fields = () if within is None else within.fields
    found = next((_choices_in(field.type) for field in fields if field.encode_name == name), ())
    return tuple(f"`{each}`" for each in found) if len(found) <= _NAMED_MAX else ()


def _choices_in(found: inspect.Type) -> tuple[object, ...]:
    if isinstance(found, inspect.Metadata):
        return _choices_in(found.type)
    if isinstance(found, inspect.UnionType):
        return next(filter(None, map(_choices_in, found.types)), ())
    if isinstance(found, inspect.ListType):
        return _choices_in(found.item_type)
    if isinstance(found, inspect.EnumType):
        return tuple(each.value for each in found.cls)
    return tuple(found.values) if isinstance(found, inspect.LiteralType) else ()


def _struct_at(kind: object, names: tuple[str, ...]) -> inspect.StructType | None:
    found = _type_info(kind)
    for name in names:
        if not isinstance(found, inspect.StructType):
            return None
        fields = {field.encode_name: field.type for field in found.fields}
        found = _struct_in(fields[name]) if name in fields else None
    return found if isinstance(found, inspect.StructType) else None


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
