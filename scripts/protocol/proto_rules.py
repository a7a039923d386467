"""What proto files must keep: names as buf's standard rules have them, and no change that breaks.

A change breaks if a client or a node of the version before would misread what it gets: a field,
value, method or message that is gone, or has another number, type, label or streaming.
"""

import re
from collections.abc import Iterator, Mapping

from google.protobuf import descriptor_pb2

from scripts.protocol.proto_parser import ProtoFile

__all__ = [
    "facts_of",
    "finds_breaking_changes",
    "finds_breaks_of_baseline",
    "finds_rule_violations",
    "read_baseline",
    "written_baseline",
]

_BASELINE_HEAD = """\
# Everything that the protocol has on the wire. `make protocol` adds what is new and refuses what
# breaks it; nothing is removed from this file.
"""

_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PASCAL = re.compile(r"([A-Z][a-z0-9]*)+")
_UPPER = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


def finds_rule_violations(files: Mapping[str, ProtoFile]) -> Iterator[str]:
    """What breaks the naming rules, one sentence each."""
    for name, parsed in files.items():
        file = parsed.descriptor
        if file.syntax != "proto3":
            yield f"{name}: the syntax is {file.syntax}"
        if name.rpartition("/")[0] != file.package.replace(".", "/"):
            yield f"{name}: is not in the folder of its package {file.package}"
        if not re.fullmatch(r".*\.v[0-9]+", file.package):
            yield f"{name}: the package {file.package} has no version"
        for message in file.message_type:
            yield from _finds_in_message(name, message)
        for enum in file.enum_type:
            yield from _finds_in_enum(name, enum)
        for service in file.service:
            yield from _finds_in_service(name, service)


def _finds_in_message(name: str, message: descriptor_pb2.DescriptorProto) -> Iterator[str]:
    if not _PASCAL.fullmatch(message.name):
        yield f"{name}: the message {message.name} is not in PascalCase"
    numbers = [field.number for field in message.field]
    if len(set(numbers)) < len(numbers):
        yield f"{name}: {message.name} uses a number twice"
    for field in message.field:
        if not _SNAKE.fullmatch(field.name):
            yield f"{name}: the field {message.name}.{field.name} is not in lower_snake_case"


def _finds_in_enum(name: str, enum: descriptor_pb2.EnumDescriptorProto) -> Iterator[str]:
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"
    if not enum.value or enum.value[0].number != 0:
        yield f"{name}: the first value of {enum.name} is not 0"
    for value in enum.value:
        if not _UPPER.fullmatch(value.name) or not value.name.startswith(prefix):
            yield f"{name}: the value {value.name} does not begin with {prefix}"


def _finds_in_service(name: str, service: descriptor_pb2.ServiceDescriptorProto) -> Iterator[str]:
    if not service.name.endswith("Service"):
        yield f"{name}: the service {service.name} does not end with Service"
    for method in service.method:
        if not _PASCAL.fullmatch(method.name):
            yield f"{name}: the method {service.name}.{method.name} is not in PascalCase"


def finds_breaking_changes(
    old: Mapping[str, ProtoFile], new: Mapping[str, ProtoFile]
) -> Iterator[str]:
    """What the new files break, one sentence each."""
    yield from finds_breaks_of_baseline(facts_of(old), new)


def finds_breaks_of_baseline(
    before: Mapping[str, str], new: Mapping[str, ProtoFile]
) -> Iterator[str]:
    """What the new files break of what is written down, one sentence each."""
    after = facts_of(new)
    for name, fact in before.items():
        if name not in after:
            yield f"{name} is gone"
        elif after[name] != fact:
            yield f"{name} was {fact} and is {after[name]}"


def read_baseline(text: str) -> dict[str, str]:
    """What is on the wire, by its full name, from the file that keeps it."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def written_baseline(facts: Mapping[str, str]) -> str:
    """The file that keeps what is on the wire."""
    return _BASELINE_HEAD + "".join(f"{name}: {fact}\n" for name, fact in sorted(facts.items()))


def facts_of(files: Mapping[str, ProtoFile]) -> dict[str, str]:
    """Everything that is on the wire, by its full name."""
    facts: dict[str, str] = {}
    for parsed in files.values():
        file = parsed.descriptor
        for message in file.message_type:
            whole = f"{file.package}.{message.name}"
            facts[whole] = "a message"
            for field in message.field:
                group = message.oneof_decl[field.oneof_index].name if _is_in_oneof(field) else ""
                kind = field.type_name or field.Type.Name(field.type)
                told = f"{kind} with label {field.label}{' in ' * bool(group)}{group}"
                if field.proto3_optional:
                    told += " and optional"
                # By number: that is what is on the wire; the name is what programs say.
                facts[f"{whole} field {field.number}"] = f"{field.name}, {told}"
        for enum in file.enum_type:
            for value in enum.value:
                facts[f"{file.package}.{enum.name} value {value.number}"] = value.name
        for service in file.service:
            for method in service.method:
                streams = f"{method.client_streaming:d}{method.server_streaming:d}"
                facts[f"{file.package}.{service.name}.{method.name}"] = (
                    f"{method.input_type} to {method.output_type}, streams {streams}"
                )
    return facts


def _is_in_oneof(field: descriptor_pb2.FieldDescriptorProto) -> bool:
    return bool(field.HasField("oneof_index")) and not field.proto3_optional
