"""JSON bodies to structs: bounded in depth, and refused with the field that is wrong.

Unknown fields are refused and `null` is the same as absent, both by the shape of the structs.
Never raises anything but a refusal, whatever the bytes are.
"""

import functools
import itertools
import operator
import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import inspect

from goqueue.gateways.http.bodies.scalars import read_scalar
from goqueue.model import Code, Refused, nearest_name

__all__ = [
    "NESTING_MAX",
    "decoder_of",
    "holds_too_much",
    "make_whole",
    "nests_too_deep",
    "read_body",
    "refusal_of",
    "too_deep",
    "too_much",
    "unknown_name",
]

NESTING_MAX = 64
# 10,000 messages with every field and 64 headers each have three quarters of this.
_VALUES_MAX = 1_000_000
# Above this a float cannot tell a whole number from its neighbours.
_FLOAT_EXACT_MAX = 1 << 53

Body = TypeVar("Body")

_AT = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_INDEX = re.compile(r"\[[^]]*\]")
_SHOWN_LENGTH_MAX = 100
_PIECE_BYTES = 256 * 1024
_BRACKETS = b"{}[]"
_OTHERS = bytes(byte for byte in range(256) if byte not in _BRACKETS)
# One kind of bracket is enough to count levels: pairs that do not match are no JSON anyway.
_ALIKE = bytes.maketrans(b"{}", b"[]")


def decoder_of(kind: type[Body]) -> msgspec.json.Decoder[Body]:
    """A decoder for bodies of this kind; make it once."""
    return msgspec.json.Decoder(kind, dec_hook=read_scalar)


def read_body(decoder: msgspec.json.Decoder[Body], body: bytes | bytearray) -> Body:
    """The body as its struct, or a refusal that names the field."""
    if nests_too_deep(body):
        raise too_deep()
    try:
        return _decode_leniently(decoder, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal_of(error, decoder.type) from None


def _decode_leniently(decoder: msgspec.json.Decoder[Body], body: bytes | bytearray) -> Body:
    """Decode, taking `1.0` for the whole number that it is: JSON has one kind of number."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
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


def too_much() -> Refused:
    """The refusal of a body with more values than any request needs."""
    return Refused(Code.REQUEST_INVALID, reason=f"holds more than {_VALUES_MAX} values")


def too_deep() -> Refused:
    """The refusal of a body with brackets in brackets in brackets."""
    return Refused(Code.REQUEST_INVALID, reason=f"nested more than {NESTING_MAX} levels deep")


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
        return too_deep()
    if isinstance(error, UnicodeDecodeError):
        return Refused(Code.REQUEST_INVALID, reason="the body is not UTF-8")
    words = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return Refused(Code.REQUEST_INVALID, reason=f"the body is not JSON ({_lowered(words)})")
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


def nests_too_deep(body: bytes | bytearray) -> bool:
    """Whether brackets nest deeper than allowed, told without recursion and without decoding.

    Bodies that are no JSON may be judged either way: the decoder refuses them next.
    """
    if body.count(b"{") + body.count(b"[") <= NESTING_MAX:
        return False
    level = 0
    for plain in _outside_strings(body):
        runs = plain.translate(_ALIKE, _OTHERS).split(b"]")
        # How many brackets are open at the end of each run, the closed ones taken off.
        levels = map(operator.sub, itertools.accumulate(map(len, runs)), itertools.count())
        if level + max(levels) > NESTING_MAX:
            return True
        level += sum(map(len, runs)) - len(runs) + 1
    return False


def holds_too_much(body: bytes | bytearray) -> bool:
    """Whether a body has more values than any request needs, told without making them.

    A value takes two bytes on the wire and fifty in memory: a body of nothing but those would
    keep everybody waiting before it could be found too long.
    """
    if body.count(b",") <= _VALUES_MAX:
        return False
    return sum(plain.count(b",") for plain in _outside_strings(body)) > _VALUES_MAX


def _outside_strings(body: bytes | bytearray) -> Iterator[bytes]:
    """What stands between the strings of a JSON text, a piece at a time."""
    text = bytes(body)
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = 0
    # In pieces: a hostile body may consist of nothing but what it is taken apart by.
    for start in range(0, len(text), _PIECE_BYTES):
        parts = text[start : start + _PIECE_BYTES].split(b'"')
        # Without escapes every quote begins or ends a string: each second part is outside of one.
        yield b"".join(parts[outside::2])
        outside ^= (len(parts) - 1) & 1


def _lowered(words: str) -> str:
    return words[:1].lower() + words[1:].rstrip(".")
