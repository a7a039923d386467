"""`.proto` text of a message class: what is registered for it.

Generated classes carry a descriptor and not the text of their file, so the text is written from
the descriptor: messages, enums, fields, labels, oneofs, maps, reserved numbers and names. Options
that do not change the bytes of values, comments and services are left out.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
    )
    from google.protobuf.message import Message

__all__ = ["message_indexes", "proto_text"]

_GROUP = 10


def proto_text(file: "FileDescriptor") -> str:
    """The file of a message as text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    syntax = proto.syntax or "proto2"
    if syntax not in ("proto2", "proto3"):
        raise ValueError(f"a file of {syntax} has no form in proto2 or proto3")
    lines = [f'syntax = "{syntax}";']
    if proto.package:
        lines.append(f"package {proto.package};")
    lines += [f'import "{name}";' for name in proto.dependency]
    for enum in proto.enum_type:
        lines += _enum(enum)
    for message in proto.message_type:
        lines += _message(message, syntax)
    return "\n".join(lines) + "\n"


def message_indexes(message: "type[Message]") -> bytes:
    """Where a message stands in its file, as a framed value begins."""
    path: list[int] = []
    descriptor = message.DESCRIPTOR
    while descriptor.containing_type is not None:
        siblings = [
            each
            for each in descriptor.containing_type.nested_types
            if not each.GetOptions().map_entry
        ]
        path.append(siblings.index(descriptor))
        descriptor = descriptor.containing_type
    path.append(list(descriptor.file.message_types_by_name.values()).index(descriptor))
    if path == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(path), *reversed(path)))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _enum(enum: "EnumDescriptorProto") -> Iterator[str]:
    yield f"enum {enum.name} {{"
    if enum.options.allow_alias:
        yield "option allow_alias = true;"
    for value in enum.value:
        yield f"{value.name} = {value.number};"
    yield "}"


def _message(message: "DescriptorProto", syntax: str) -> Iterator[str]:
    yield f"message {message.name} {{"
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    groups = [field.type_name.rpartition(".")[2] for field in message.field if field.type == _GROUP]
    if groups:
        raise ValueError(f"{message.name} has the group {groups[0]}, which cannot be written")
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _message(nested, syntax)
    for enum in message.enum_type:
        yield from _enum(enum)
    for reserved in message.reserved_range:
        yield f"reserved {reserved.start} to {reserved.end - 1};"
    for name in message.reserved_name:
        yield f'reserved "{name}";'
    for extensions in message.extension_range:
        yield f"extensions {extensions.start} to {extensions.end - 1};"
    in_oneofs: dict[int, list[FieldDescriptorProto]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            in_oneofs.setdefault(field.oneof_index, []).append(field)
        else:
            yield f"{_label(field, syntax, entries)}{_field(field, entries)}"
    for index, fields in in_oneofs.items():
        yield f"oneof {message.oneof_decl[index].name} {{"
        for field in fields:
            yield _field(field, entries)
        yield "}"
    yield "}"


def _label(
    field: "FieldDescriptorProto", syntax: str, entries: "dict[str, DescriptorProto]"
) -> str:
    name = field.Label.Name(field.label).removeprefix("LABEL_").lower()
    if _is_map(field, entries):
        return ""
    if name == "optional" and syntax == "proto3" and not field.proto3_optional:
        return ""
    return f"{name} "


def _is_map(field: "FieldDescriptorProto", entries: "dict[str, DescriptorProto]") -> bool:
    return field.type_name.rpartition(".")[2] in entries


def _field(field: "FieldDescriptorProto", entries: "dict[str, DescriptorProto]") -> str:
    if _is_map(field, entries):
        entry = entries[field.type_name.rpartition(".")[2]]
        key, value = (_type(each) for each in entry.field)
        return f"map<{key}, {value}> {field.name} = {field.number};"
    return f"{_type(field)} {field.name} = {field.number};"


def _type(field: "FieldDescriptorProto") -> str:
    name = field.Type.Name(field.type).removeprefix("TYPE_").lower()
    return str(field.type_name if name in ("message", "enum") else name)
