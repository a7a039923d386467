"""JSON bodies to structs: refused with the field that is wrong.

Unknown fields are refused and `null` is the same as absent, both by the shape of the structs; so
no body nests deeper than its struct does. Never raises anything but a refusal, whatever the bytes
are.
"""

import functools
import re
from typing import TypeVar

import msgspec
from msgspec import inspect

from goqueue.gateways.http.bodies.scalars import read_scalar
from goqueue.model import Code, Refused, nearest_name

__all__ = [
    "decoder_of",
    "make_whole",
    "read_body",
    "refusal_of",
    "unknown_name",
]

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
