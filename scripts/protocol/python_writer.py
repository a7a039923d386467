"""What Python gets of the protocol: a module with the descriptors, its types, and a reference page.

The module carries descriptors and no code of protoc, so it works with every runtime of protobuf
that has message factories, and in a pool of its own, so it clashes with nobody's messages.
"""

import base64
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path

from google.protobuf import descriptor_pb2

from scripts.protocol.proto_parser import ProtoFile, parse_files
from scripts.protocol.typescript_writer import typescript_types

__all__ = ["BASELINE", "ROOT", "outputs", "proto_files"]

ROOT = Path(__file__).resolve().parents[2]
BASELINE = "proto/baseline.txt"
_MODULE = "src/goqueue/gateways/grpc/protocol.py"
_TYPES = "src/goqueue/gateways/grpc/protocol.pyi"
_PAGE = "docs/reference/grpc-api.md"
_TYPESCRIPT = "clients/typescript/src/messages.ts"
_LINE = 88

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    _Field.TYPE_STRING: "str",
    _Field.TYPE_BYTES: "bytes",
    _Field.TYPE_BOOL: "bool",
    _Field.TYPE_INT32: "int",
    _Field.TYPE_INT64: "int",
    _Field.TYPE_ENUM: "int",
}

_HEAD = '''"""Messages of the gRPC protocol, generated from proto/ by `make protocol`. Do not edit.

Each name is a message class or, in capitals, a value of an enum. `FILES` has the descriptors.
"""

import base64

from google.protobuf import descriptor_pool, duration_pb2, message_factory, timestamp_pb2

'''
_TAIL = """
_POOL = descriptor_pool.DescriptorPool()
for _known in (duration_pb2, timestamp_pb2):
    _POOL.AddSerializedFile(_known.DESCRIPTOR.serialized_pb)
for _serialized in FILES.values():
    _POOL.AddSerializedFile(_serialized)


def _message(name):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - see the .pyi
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


"""
_TYPES_HEAD = """# Types of the messages, generated from proto/ by `make protocol`. Do not edit.
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Literal, Self, TypeVar

_Item = TypeVar("_Item")

class _Items(list[_Item]):
    def add(self) -> _Item: ...

class _Message:
    @classmethod
    def FromString(cls, data: bytes) -> Self: ...
    def ParseFromString(self, data: bytes | memoryview) -> int: ...
    def SerializeToString(self) -> bytes: ...
    def ByteSize(self) -> int: ...
    def CopyFrom(self, other: Self) -> None: ...
    def HasField(self, name: str) -> bool: ...
    def ClearField(self, name: str) -> None: ...

class Timestamp(_Message):
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...
    seconds: int
    nanos: int

class Duration(_Message):
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...
    seconds: int
    nanos: int

FILES: dict[str, bytes]
"""


def proto_files() -> dict[str, ProtoFile]:
    """The files of the project."""
    folder = ROOT / "proto"
    found = sorted(folder.rglob("*.proto"))
    return parse_files({path.relative_to(folder).as_posix(): path.read_text() for path in found})


def outputs() -> dict[str, str]:
    """Everything that is generated, by path."""
    files = _in_order(proto_files())
    return {
        _MODULE: _formatted(_module(files), _MODULE),
        _TYPES: _formatted(_types(files), _TYPES),
        _PAGE: _page(files),
        _TYPESCRIPT: typescript_types(files),
    }


def _in_order(files: Mapping[str, ProtoFile]) -> list[ProtoFile]:
    """Every file after those that it imports."""
    ordered: dict[str, ProtoFile] = {}

    def add(name: str) -> None:
        if name in files and name not in ordered:
            for needed in files[name].descriptor.dependency:
                add(needed)
            ordered[name] = files[name]

    for name in files:
        add(name)
    return list(ordered.values())


def _formatted(text: str, path: str) -> str:
    command = [str(ROOT / ".venv/bin/ruff"), "format", "--stdin-filename", str(ROOT / path), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def _module(files: list[ProtoFile]) -> str:
    lines = [_HEAD, "FILES = {\n"]
    for file in files:
        encoded = base64.b64encode(file.descriptor.SerializeToString()).decode()
        lines.append(f'    "{file.descriptor.name}": base64.b64decode(\n')
        lines += [f'        "{piece}"\n' for piece in textwrap.wrap(encoded, _LINE)]
        lines.append("    ),\n")
    lines += ["}\n", _TAIL]
    lines.append('Timestamp = _message("google.protobuf.Timestamp")\n')
    lines.append('Duration = _message("google.protobuf.Duration")\n')
    for file in files:
        package = file.descriptor.package
        lines += [
            f'{message.name} = _message("{package}.{message.name}")\n'
            for message in file.descriptor.message_type
        ]
        lines += [
            f"{value.name} = {value.number}\n"
            for enum in file.descriptor.enum_type
            for value in enum.value
        ]
    return "".join(lines)


def _types(files: list[ProtoFile]) -> str:
    lines = [_TYPES_HEAD]
    for file in files:
        lines += [_class(message) for message in file.descriptor.message_type]
        lines += [
            f"{value.name}: Literal[{value.number}]\n"
            for enum in file.descriptor.enum_type
            for value in enum.value
        ]
    return "".join(lines)


def _class(message: descriptor_pb2.DescriptorProto) -> str:
    entries = {entry.name: entry for entry in message.nested_type}
    given, read = [], []
    for field in message.field:
        short = field.type_name.rpartition(".")[2]
        if short in entries:
            key, value = (_kind(part) for part in entries[short].field)
            given.append(f"{field.name}: Mapping[{key}, {value}] | None = ...")
            read.append(f"{field.name}: MutableMapping[{key}, {value}]")
        elif field.label == _Field.LABEL_REPEATED:
            given.append(f"{field.name}: Iterable[{_kind(field)}] | None = ...")
            container = "_Items" if field.type == _Field.TYPE_MESSAGE else "MutableSequence"
            read.append(f"{field.name}: {container}[{_kind(field)}]")
        else:
            given.append(f"{field.name}: {_kind(field)} | None = ...")
            read.append(f"{field.name}: {_kind(field)}")
    arguments = f", *, {', '.join(given)}" if given else ""
    lines = [f"\nclass {message.name}(_Message):\n    def __init__(self{arguments}) -> None: ...\n"]
    lines += [f"    {each}\n" for each in read]
    names = [each.name for each in message.oneof_decl if not each.name.startswith("_")]
    if names:
        lines.append("    def WhichOneof(self, name: str) -> str | None: ...\n")
    return "".join(lines)


def _kind(field: descriptor_pb2.FieldDescriptorProto) -> str:
    if field.type == _Field.TYPE_MESSAGE:
        return str(field.type_name.rpartition(".")[2])
    return _SCALARS[field.type]


# ---- the reference -------------------------------------------------------------------------

_PAGE_HEAD = """# gRPC reference

Generated from `proto/` by `make protocol`; the [guide](../guides/grpc.md) explains it. Package
`goqueue.v1`, so a method is `/goqueue.v1.PublishService/Publish`. Field numbers never change.
"""


def _page(files: list[ProtoFile]) -> str:
    lines = [_PAGE_HEAD]
    public = [file for file in files if file.descriptor.package == "goqueue.v1"]
    for file in public:
        lines += [_service(file, service) for service in file.descriptor.service]
    lines.append("\n## Messages\n")
    for file in public:
        lines += [_message_rows(file, message) for message in file.descriptor.message_type]
    lines.append("\n## Enums\n")
    for file in public:
        for enum in file.descriptor.enum_type:
            lines.append(f"\n### {enum.name}\n{_comment(file, enum.name)}")
            lines.append("\n| value | number | |\n|---|---|---|\n")
            lines += [
                f"| `{value.name}` | {value.number} | "
                f"{file.comments.get(f'{enum.name}.{value.name}', '')} |\n"
                for value in enum.value
            ]
    return "".join(lines).replace("|  |", "| |")


def _comment(file: ProtoFile, name: str) -> str:
    return f"{file.comments[name]}\n" if name in file.comments else ""


def _service(file: ProtoFile, service: descriptor_pb2.ServiceDescriptorProto) -> str:
    lines = [f"\n## {service.name}\n{_comment(file, service.name)}"]
    lines.append("\n| method | request | response | |\n|---|---|---|---|\n")
    for method in service.method:
        sides = [
            f"{'stream ' * is_streamed}`{name.rpartition('.')[2]}`"
            for name, is_streamed in (
                (method.input_type, method.client_streaming),
                (method.output_type, method.server_streaming),
            )
        ]
        told = file.comments.get(f"{service.name}.{method.name}", "")
        lines.append(f"| {method.name} | {' | '.join(sides)} | {told} |\n")
    return "".join(lines)


def _message_rows(file: ProtoFile, message: descriptor_pb2.DescriptorProto) -> str:
    lines = [f"\n### {message.name}\n{_comment(file, message.name)}"]
    if not message.field:
        return "".join((*lines, "\nNo fields.\n"))
    lines.append("\n| field | number | type | |\n|---|---|---|---|\n")
    entries = {entry.name: entry for entry in message.nested_type}
    for field in message.field:
        kind = field.type_name.rpartition(".")[2] or _Field.Type.Name(field.type)[5:].lower()
        if kind in entries:
            parts = (_Field.Type.Name(part.type)[5:].lower() for part in entries[kind].field)
            kind = f"map of {' to '.join(parts)}"
        elif field.label == _Field.LABEL_REPEATED:
            kind = f"repeated {kind}"
        elif field.proto3_optional:
            kind = f"optional {kind}"
        told = file.comments.get(f"{message.name}.{field.name}", "")
        lines.append(f"| {field.name} | {field.number} | {kind} | {told} |\n")
    return "".join(lines)
