"""Protobuf files as serialized descriptors, which clients of Confluent send in base64 for text.

A descriptor becomes text, and text a descriptor. What does not change the bytes of values is left
out: services, and options other than aliases, packing and names in JSON.

Hostile input: every length is checked, depth is bounded by `DEPTH_MAX`, and each name is checked
before it becomes part of a text. Work is linear in the size, for each level.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

from goqueue.schemas.errors import DEPTH_MAX, SchemaInvalid
from goqueue.schemas.proto import ProtoEnum, ProtoField, ProtoMessage, camel_name, read_proto
from goqueue.schemas.proto_known import KNOWN_FILES
from goqueue.schemas.proto_tokens import NUMBER_MAX

__all__ = ["descriptor_files", "encode_descriptor", "proto_text"]

_TYPES = (
    *("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
    *("group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
_GROUP = 10
_LABELS = ("", "optional", "required", "repeated")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOTTED = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_FILE_NAME = re.compile(r"[^\"'\\\x00-\x1f\x7f]{1,1024}")
_VARINT_BYTES_MAX = 10


def proto_text(text: str) -> str:
    """Text as it is, or the text of a descriptor in base64; raises SchemaInvalid."""
    if not _BASE64.fullmatch(text):
        return text
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        return text
    return "\n".join(_file(_Fields(data, 0))) + "\n"


class _Fields:
    """The fields of a serialized message by number."""

    def __init__(self, data: bytes, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise SchemaInvalid("", f"deeper than {DEPTH_MAX}")
        self._depth = depth
        self._found: dict[int, list[int | bytes]] = {}
        position = 0
        while position < len(data):
            tag, position = _varint(data, position)
            value: int | bytes
            match tag & 7:
                case 0:
                    value, position = _varint(data, position)
                case 2:
                    size, position = _varint(data, position)
                    value, position = data[position : position + size], position + size
                case 1 | 5:
                    size = 8 if tag & 7 == 1 else 4
                    value, position = data[position : position + size], position + size
                case _:
                    raise SchemaInvalid("", "the descriptor has a field of an unknown kind")
            if position > len(data):
                raise SchemaInvalid("", "the descriptor ends too early")
            self._found.setdefault(tag >> 3, []).append(value)

    def number(self, field: int, default: int = 0) -> int:
        value = self._found.get(field, [default])[-1]
        if not isinstance(value, int):
            raise SchemaInvalid("", f"field {field} of a descriptor is no number")
        # Negative numbers are written with 64 bits.
        return value - (1 << 64) if value >= 1 << 63 else value

    def numbers(self, field: int) -> set[int]:
        return {each for each in self._found.get(field, ()) if isinstance(each, int)}

    def has(self, field: int) -> bool:
        return field in self._found

    def texts(self, field: int, pattern: re.Pattern[str] = _NAME) -> list[str]:
        found = [self._decode(each, field) for each in self._found.get(field, ())]
        for each in found:
            if not pattern.fullmatch(each):
                raise SchemaInvalid("", f"{each[:50]!r} is no name")
        return found

    def text(self, field: int, pattern: re.Pattern[str] = _NAME) -> str:
        found = self.texts(field, pattern)
        return found[-1] if found else ""

    def messages(self, field: int) -> "list[_Fields]":
        found: list[_Fields] = []
        for each in self._found.get(field, ()):
            if not isinstance(each, bytes):
                raise SchemaInvalid("", f"field {field} of a descriptor is no message")
            found.append(_Fields(each, self._depth + 1))
        return found

    @staticmethod
    def _decode(value: int | bytes, field: int) -> str:
        try:
            return value.decode() if isinstance(value, bytes) else ""
        except UnicodeDecodeError:
            raise SchemaInvalid("", f"field {field} of a descriptor is no text") from None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if position + index >= len(data):
            raise SchemaInvalid("", "the descriptor ends too early")
        octet = data[position + index]
        value |= (octet & 0x7F) << (7 * index)
        if octet < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + index + 1
    raise SchemaInvalid("", "a number of the descriptor is too long")


# A descriptor as text


def _file(file: _Fields) -> Iterator[str]:
    syntax = file.text(12) or "proto2"
    if syntax not in ("proto2", "proto3"):
        raise SchemaInvalid("", f"a descriptor of {syntax} is neither proto2 nor proto3")
    yield f'syntax = "{syntax}";'
    if package := file.text(2, _DOTTED):
        yield f"package {package};"
    public = file.numbers(10)
    for index, name in enumerate(file.texts(3, _FILE_NAME)):
        yield f'import {"public " if index in public else ""}"{name}";'
    for enum in file.messages(5):
        yield from _enum(enum)
    for message in file.messages(4):
        yield from _message(message, syntax)
    yield from _extensions(file.messages(7), {}, syntax)


def _enum(enum: _Fields) -> Iterator[str]:
    yield f"enum {enum.text(1)} {{"
    if any(each.number(2) for each in enum.messages(3)):
        yield "option allow_alias = true;"
    for each in enum.messages(4):
        yield f"reserved {each.number(1)} to {each.number(2)};"
    for name in enum.texts(5, _FILE_NAME):
        yield f'reserved "{name}";'
    for value in enum.messages(2):
        yield f"{value.text(1)} = {value.number(2)};"
    yield "}"


def _message(message: _Fields, syntax: str) -> Iterator[str]:
    yield f"message {message.text(1)} {{"
    yield from _body(message, syntax)
    yield "}"


def _body(message: _Fields, syntax: str) -> Iterator[str]:
    nested = {each.text(1): each for each in message.messages(3)}
    fields = message.messages(2)
    inline = {
        each.text(6, _DOTTED).rpartition(".")[2]
        for each in (*fields, *message.messages(6))
        if each.number(5) == _GROUP
    }
    for name, each in nested.items():
        if not _is_entry(each) and name not in inline:
            yield from _message(each, syntax)
    for enum in message.messages(4):
        yield from _enum(enum)
    for each in message.messages(9):
        yield f"reserved {each.number(1)} to {each.number(2) - 1};"
    for name in message.texts(10, _FILE_NAME):
        yield f'reserved "{name}";'
    for each in message.messages(5):
        last = each.number(2) - 1
        yield f"extensions {each.number(1)} to {'max' if last >= NUMBER_MAX else last};"
    in_oneofs: dict[int, list[_Fields]] = {}
    for field in fields:
        if field.has(9) and not field.number(17):
            in_oneofs.setdefault(field.number(9), []).append(field)
        else:
            yield from _field(field, nested, syntax, label=_label(field, syntax))
    names = [each.text(1) for each in message.messages(8)]
    for index, members in in_oneofs.items():
        if not 0 <= index < len(names):
            raise SchemaInvalid("", "a field of the descriptor is in an unknown oneof")
        yield f"oneof {names[index]} {{"
        for field in members:
            yield from _field(field, nested, syntax)
        yield "}"
    yield from _extensions(message.messages(6), nested, syntax)


def _extensions(fields: list[_Fields], nested: dict[str, _Fields], syntax: str) -> Iterator[str]:
    for field in fields:
        yield f"extend {field.text(2, _DOTTED)} {{"
        yield from _field(field, nested, syntax, label=_label(field, syntax))
        yield "}"


def _is_entry(message: _Fields) -> bool:
    return any(each.number(7) for each in message.messages(7))


def _label(field: _Fields, syntax: str) -> str:
    number = field.number(4, 1)
    if not 1 <= number < len(_LABELS):
        raise SchemaInvalid("", "a field of the descriptor has an unknown label")
    if number == 1 and syntax == "proto3" and not field.number(17):
        return ""
    return f"{_LABELS[number]} "


def _field(
    field: _Fields, nested: dict[str, _Fields], syntax: str, *, label: str = ""
) -> Iterator[str]:
    name, number = field.text(1), field.number(3)
    short = field.text(6, _DOTTED).rpartition(".")[2]
    inner = nested.get(short)
    if inner is not None and _is_entry(inner):
        parts = inner.messages(2)
        if len(parts) != 2:
            raise SchemaInvalid("", "an entry of a map has a key and a value")
        yield f"map<{_type(parts[0])}, {_type(parts[1])}> {name} = {number}{_options(field)};"
    elif field.number(5) == _GROUP:
        if inner is None:
            raise SchemaInvalid("", f"group {name} of the descriptor has no message")
        yield f"{label}group {inner.text(1)} = {number} {{"
        yield from _body(inner, syntax)
        yield "}"
    else:
        yield f"{label}{_type(field)} {name} = {number}{_options(field)};"


def _type(field: _Fields) -> str:
    if named := field.text(6, _DOTTED):
        return named
    number = field.number(5)
    if not 1 <= number < len(_TYPES) or number in {_GROUP, 11, 14}:
        raise SchemaInvalid("", "a field of the descriptor has an unknown type")
    return _TYPES[number]


def _options(field: _Fields) -> str:
    found: list[str] = []
    given = field.text(10, _FILE_NAME)
    if given and given != camel_name(field.text(1)):
        found.append(f'json_name = "{given}"')
    packed = [each.number(2) for each in field.messages(8) if each.has(2)]
    found += [f"packed = {'true' if each else 'false'}" for each in packed[-1:]]
    return f" [{', '.join(found)}]" if found else ""


# Text as a descriptor


def encode_descriptor(text: str) -> str:
    """The descriptor of a text, in base64; raises SchemaInvalid."""
    return base64.b64encode(_Encoder(text).encode("default")).decode()


def descriptor_files(text: str, references: Mapping[str, str]) -> list[bytes]:
    """The descriptors of a text and all that it imports, each behind those that it needs.

    `references` are texts by the names by which they are imported; raises SchemaInvalid.
    """
    texts = {**KNOWN_FILES, **references, "": text}
    encoded: dict[str, bytes | None] = {}
    ordered: list[bytes] = []
    waiting = [""]
    while waiting:
        name = waiting[-1]
        if encoded.get(name) is not None:
            waiting.pop()
            continue
        if name not in texts:
            raise SchemaInvalid("", f"imports {name[:200]!r}, which is not among the references")
        encoder = _Encoder(texts[name])
        missing = [each for each in encoder.imports if encoded.get(each) is None]
        if not missing:
            done = encoded[name] = encoder.encode(name or "default")
            ordered.append(done)
        elif name in encoded:
            raise SchemaInvalid("", f"{name[:200]!r} imports itself")
        else:
            encoded[name] = None
            waiting += missing
    return ordered


def _number(field: int, value: int) -> bytes:
    return _encode_varint(field << 3) + _encode_varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _bytes(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _encode_varint(field << 3 | 2) + _encode_varint(len(data)) + data


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


class _Encoder:
    """Writes the descriptor of one file; types of fields are left to be found by their names."""

    def __init__(self, text: str) -> None:
        self._read = read_proto(text)
        self._file = self._read.file
        # By the scope in which they stand.
        self._enums: dict[str, list[ProtoEnum]] = {}
        for enum in self._file.enums.values():
            self._enums.setdefault(enum.name.rpartition(".")[0], []).append(enum)
        self._extensions: dict[str, list[bytes]] = {}
        for each in self._read.extensions:
            self._extensions.setdefault(each.scope, []).extend(
                self._field(field, {}) + _bytes(2, each.target) for field in each.fields
            )

    @property
    def imports(self) -> list[str]:
        return self._read.imports

    def encode(self, name: str) -> bytes:
        file = self._file
        parts = [_bytes(1, name)]
        if file.package:
            parts.append(_bytes(2, file.package))
        parts += [_bytes(3, name) for name in self._read.imports]
        parts += [_bytes(4, self._message(file.messages[name])) for name in file.roots]
        parts += [_bytes(5, _encode_enum(each)) for each in self._enums.get(file.package, ())]
        parts += [_bytes(7, each) for each in self._extensions.get(file.package, ())]
        parts.append(_bytes(12, f"proto{file.syntax}"))
        return b"".join(parts)

    def _message(self, message: ProtoMessage) -> bytes:
        # Real ones come first, then one for each explicit field of proto3.
        names = dict.fromkeys(each.oneof for each in message.fields.values() if each.oneof)
        if self._file.syntax == 3:
            explicit = [each for each in message.fields.values() if each.label == "optional"]
            names |= dict.fromkeys(f"_{each.name}" for each in explicit)
        oneofs = {name: index for index, name in enumerate(names)}
        parts = [_bytes(1, message.name.rpartition(".")[2])]
        parts += [_bytes(2, self._field(each, oneofs)) for each in message.fields.values()]
        parts += [_bytes(3, self._message(self._file.messages[name])) for name in message.nested]
        parts += [_bytes(4, _encode_enum(each)) for each in self._enums.get(message.name, ())]
        parts += [
            _bytes(5, _number(1, each.start) + _number(2, each.stop))
            for each in message.open_numbers
        ]
        parts += [_bytes(6, each) for each in self._extensions.get(message.name, ())]
        if message.is_map_entry:
            parts.append(_bytes(7, _number(7, 1)))
        parts += [_bytes(8, _bytes(1, name)) for name in oneofs]
        return b"".join(parts)

    def _field(self, field: ProtoField, oneofs: dict[str, int]) -> bytes:
        parts = [_bytes(1, field.name), _number(3, field.number)]
        parts.append(_number(4, _LABELS.index(field.label or "optional")))
        if field.is_group:
            parts.append(_number(5, _GROUP))
        elif field.type in _TYPES:
            parts.append(_number(5, _TYPES.index(field.type)))
        if field.is_group or field.type not in _TYPES:
            parts.append(_bytes(6, field.type))
        if field.oneof:
            parts.append(_number(9, oneofs[field.oneof]))
        elif f"_{field.name}" in oneofs:
            parts += [_number(9, oneofs[f"_{field.name}"]), _number(17, 1)]
        if field.json_name:
            parts.append(_bytes(10, field.json_name))
        return b"".join(parts)


def _encode_enum(enum: ProtoEnum) -> bytes:
    parts = [_bytes(1, enum.name.rpartition(".")[2])]
    for name, number in enum.values.items():
        parts.append(_bytes(2, _bytes(1, name) + _number(2, number)))
    if len(set(enum.values.values())) < len(enum.values):
        parts.append(_bytes(3, _number(2, 1)))
    return b"".join(parts)
