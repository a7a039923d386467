"""What TypeScript gets of the protocol: the types of messages, enums and methods.

Messages have the form in which the loader of the client returns them: names as in the files,
64-bit numbers and enum values as texts. A request may leave out what it does not set.
"""

from google.protobuf import descriptor_pb2

from scripts.protocol.proto_parser import ProtoFile

__all__ = ["typescript_types"]

_Field = descriptor_pb2.FieldDescriptorProto
_READ = {
    _Field.TYPE_STRING: "string",
    _Field.TYPE_BYTES: "Buffer",
    _Field.TYPE_BOOL: "boolean",
    _Field.TYPE_INT32: "number",
    _Field.TYPE_INT64: "string",
}
_GIVEN = {
    **_READ,
    _Field.TYPE_BYTES: "Uint8Array",
    _Field.TYPE_INT64: "string | number",
}
_HEAD = """// Types of the protocol, generated from proto/ by `make protocol`. Do not edit.

/** A moment or a length of time. */
export interface Timestamp {
  seconds: string;
  nanos: number;
}
export type Duration = Timestamp;
export interface TimestampInput {
  seconds?: string | number;
  nanos?: number;
}
export type DurationInput = TimestampInput;
"""


def typescript_types(files: list[ProtoFile]) -> str:
    """The module with the types of the public package."""
    public = [each for each in files if each.descriptor.package == "goqueue.v1"]
    requests = _request_names(public)
    lines = [_HEAD]
    for file in public:
        for enum in file.descriptor.enum_type:
            values = "".join(f'\n  | "{value.name}"' for value in enum.value)
            lines.append(f"\n{_comment(file, enum.name)}export type {enum.name} ={values};\n")
        for message in file.descriptor.message_type:
            lines.append(_interface(file, message, is_given=False))
            if message.name in requests:
                lines.append(_interface(file, message, is_given=True))
    lines.append("\n/** The unary methods of each service. */\nexport interface Methods {\n")
    streams = []
    for file in public:
        for service in file.descriptor.service:
            lines.append(f"  {service.name}: {{\n")
            for method in service.method:
                sides = f"[{_last(method.input_type)}Input, {_last(method.output_type)}]"
                if method.client_streaming or method.server_streaming:
                    streams.append((service.name, method.name, sides))
                else:
                    lines.append(f"    {method.name}: {sides};\n")
            lines.append("  };\n")
    lines.append("}\n\n/** The methods with streams, by `Service/Method`. */\n")
    lines.append("export interface Streams {\n")
    lines += [f'  "{service}/{method}": {sides};\n' for service, method, sides in streams]
    return "".join((*lines, "}\n"))


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _comment(file: ProtoFile, name: str, indent: str = "") -> str:
    found = file.comments.get(name)
    return f"{indent}/** {found} */\n" if found else ""


def _request_names(files: list[ProtoFile]) -> set[str]:
    """The messages that are, or are part of, a request."""
    messages = {each.name: each for file in files for each in file.descriptor.message_type}
    waiting = [
        _last(method.input_type)
        for file in files
        for service in file.descriptor.service
        for method in service.method
    ]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in messages and name not in found:
            found.add(name)
            waiting += [_last(field.type_name) for field in messages[name].field]
    return found


def _interface(file: ProtoFile, message: descriptor_pb2.DescriptorProto, *, is_given: bool) -> str:
    name = f"{message.name}Input" if is_given else message.name
    if not message.field:
        return f"\n{_comment(file, message.name)}export type {name} = Record<string, never>;\n"
    lines = [f"\n{_comment(file, message.name)}export interface {name} {{\n"]
    entries = {entry.name for entry in message.nested_type}
    for field in message.field:
        lines.append(_comment(file, f"{message.name}.{field.name}", "  "))
        kind = _kind(field, entries, is_given=is_given)
        is_in_oneof = field.HasField("oneof_index")
        mark = "?" if is_given or is_in_oneof else ""
        lines.append(f"  {field.name}{mark}: {kind};\n")
    if not is_given:
        for index, choice in enumerate(message.oneof_decl):
            names = [each.name for each in message.field if _is_of(each, index)]
            options = " | ".join(f'"{each}"' for each in names)
            lines.append(f"  /** Which field is set. */\n  {choice.name}?: {options};\n")
    return "".join((*lines, "}\n"))


def _is_of(field: descriptor_pb2.FieldDescriptorProto, index: int) -> bool:
    return bool(field.HasField("oneof_index")) and field.oneof_index == index


def _kind(field: descriptor_pb2.FieldDescriptorProto, entries: set[str], *, is_given: bool) -> str:
    name = _last(field.type_name)
    if name in entries:
        return "Record<string, string>"
    if field.type == _Field.TYPE_ENUM:
        kind = name
    elif field.type == _Field.TYPE_MESSAGE:
        kind = f"{name}Input" if is_given else name
    else:
        kind = (_GIVEN if is_given else _READ)[field.type]
    if field.label == _Field.LABEL_REPEATED:
        return f"({kind})[]" if " " in kind else f"{kind}[]"
    if field.type == _Field.TYPE_MESSAGE and not is_given and not field.HasField("oneof_index"):
        return f"{kind} | null"
    return kind
