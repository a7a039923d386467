"""Reads .proto files into descriptors, without protoc.

Only what the files of this project use: proto3 messages (not nested), enums, services, maps, oneof,
optional and repeated fields, imports. Everything else is an error, so nothing is misread. A test
compares the descriptors with those of protoc where that is installed.
"""

import re
from collections.abc import Mapping

from google.protobuf import descriptor_pb2

__all__ = ["ProtoError", "ProtoFile", "parse_files"]

_Field = descriptor_pb2.FieldDescriptorProto

_TOKEN = re.compile(r'\s*(//[^\n]*|"[^"]*"|[A-Za-z_][A-Za-z0-9_.]*|-?\d+|[{}()<>=;,])')
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
}
# What the files may refer to without a file of ours.
_KNOWN = {
    "google/protobuf/duration.proto": (".google.protobuf.Duration",),
    "google/protobuf/timestamp.proto": (".google.protobuf.Timestamp",),
}


class ProtoError(Exception):
    """A file that cannot be read, or refers to what is not there."""


class ProtoFile:
    """One file: its descriptor, and the comment above each thing by its full name."""

    def __init__(self, name: str, text: str) -> None:
        self.descriptor = descriptor_pb2.FileDescriptorProto(name=name)
        self.comments: dict[str, str] = {}
        self._name = name
        self._tokens = self._split(text)
        self._comment: list[str] = []
        self._read()

    # ---- tokens ----------------------------------------------------------------------------

    def _split(self, text: str) -> list[str]:
        tokens, position = [], 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                line = text.count("\n", 0, position) + 1
                raise ProtoError(f"{self._name}:{line}: cannot read {text[position:][:20]!r}")
            tokens.append(found[1])
            position = found.end()
        return tokens[::-1]

    def _next(self) -> str:
        """The next token; comments before it are remembered."""
        while self._tokens:
            token = self._tokens.pop()
            if not token.startswith("//"):
                return token
            self._comment.append(token.removeprefix("//").strip())
        raise ProtoError(f"{self._name}: ends too early")

    def _expect(self, *tokens: str) -> None:
        for token in tokens:
            found = self._next()
            if found != token:
                raise ProtoError(f"{self._name}: expected {token!r}, found {found!r}")

    def _text(self) -> str:
        token = self._next()
        if not token.startswith('"'):
            raise ProtoError(f"{self._name}: expected a text, found {token!r}")
        return token[1:-1]

    def _describe(self, name: str) -> None:
        if self._comment:
            self.comments[name] = " ".join(self._comment)
        self._comment = []

    # ---- statements ------------------------------------------------------------------------

    def _read(self) -> None:
        file = self.descriptor
        self._expect("syntax", "=")
        file.syntax = self._text()
        self._expect(";")
        while any(not token.startswith("//") for token in self._tokens):
            word = self._next()
            if word == "package":
                file.package = self._next()
                self._expect(";")
                self._comment = []
            elif word == "import":
                file.dependency.append(self._text())
                self._expect(";")
            elif word == "option":
                self._expect("go_package", "=")
                file.options.go_package = self._text()
                self._expect(";")
            elif word == "message":
                self._read_message()
            elif word == "enum":
                self._read_enum()
            elif word == "service":
                self._read_service()
            else:
                raise ProtoError(f"{self._name}: cannot read {word!r}")

    def _read_message(self) -> None:
        message = self.descriptor.message_type.add(name=self._next())
        self._describe(message.name)
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "oneof":
                message.oneof_decl.add(name=self._next())
                self._expect("{")
                while (kind := self._next()) != "}":
                    field = self._read_field(message, kind)
                    field.oneof_index = len(message.oneof_decl) - 1
            elif word == "map":
                self._read_map(message)
            else:
                self._read_field(message, word)
        # The oneof of an optional field comes after all others.
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _read_field(
        self, message: descriptor_pb2.DescriptorProto, word: str
    ) -> descriptor_pb2.FieldDescriptorProto:
        label = _Field.LABEL_OPTIONAL
        is_optional = word == "optional"
        if word in ("optional", "repeated"):
            label = _Field.LABEL_REPEATED if word == "repeated" else label
            word = self._next()
        field = self._name_field(message, label)
        if is_optional:
            field.proto3_optional = True
        _set_type(field, word)
        return field

    def _name_field(
        self, message: descriptor_pb2.DescriptorProto, label: int
    ) -> descriptor_pb2.FieldDescriptorProto:
        name = self._next()
        self._describe(f"{message.name}.{name}")
        self._expect("=")
        number = int(self._next())
        self._expect(";")
        return message.field.add(name=name, number=number, label=label, json_name=_json_name(name))

    def _read_map(self, message: descriptor_pb2.DescriptorProto) -> None:
        self._expect("<")
        kinds = [self._next()]
        self._expect(",")
        kinds.append(self._next())
        self._expect(">")
        field = self._name_field(message, _Field.LABEL_REPEATED)
        entry = message.nested_type.add(name=f"{_pascal(field.name)}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate(zip(("key", "value"), kinds, strict=True), 1):
            part = entry.field.add(
                name=name, number=number, label=_Field.LABEL_OPTIONAL, json_name=name
            )
            _set_type(part, kind)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{self.descriptor.package}.{message.name}.{entry.name}"

    def _read_enum(self) -> None:
        enum = self.descriptor.enum_type.add(name=self._next())
        self._describe(enum.name)
        self._expect("{")
        while (name := self._next()) != "}":
            self._describe(f"{enum.name}.{name}")
            self._expect("=")
            enum.value.add(name=name, number=int(self._next()))
            self._expect(";")

    def _read_service(self) -> None:
        service = self.descriptor.service.add(name=self._next())
        self._describe(service.name)
        self._expect("{")
        while self._next_is("rpc"):
            method = service.method.add(name=self._next())
            self._describe(f"{service.name}.{method.name}")
            method.input_type, is_streamed = self._read_side()
            if is_streamed:
                method.client_streaming = True
            self._expect("returns")
            method.output_type, is_streamed = self._read_side()
            if is_streamed:
                method.server_streaming = True
            self._expect(";")

    def _next_is(self, word: str) -> bool:
        found = self._next()
        if found not in (word, "}"):
            raise ProtoError(f"{self._name}: expected {word!r}, found {found!r}")
        return found == word

    def _read_side(self) -> tuple[str, bool]:
        self._expect("(")
        word = self._next()
        is_streamed = word == "stream"
        if is_streamed:
            word = self._next()
        self._expect(")")
        return word, is_streamed


def _set_type(field: descriptor_pb2.FieldDescriptorProto, word: str) -> None:
    if word in _SCALARS:
        field.type = _SCALARS[word]
    else:
        field.type_name = word


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def parse_files(texts: Mapping[str, str]) -> dict[str, ProtoFile]:
    """The files by name, each name in them resolved; raises ProtoError."""
    files = {name: ProtoFile(name, text) for name, text in sorted(texts.items())}
    for file in files.values():
        visible: dict[str, int] = {}
        for name in (file.descriptor.name, *file.descriptor.dependency):
            visible |= _names_of(name, files)
        _resolve(file.descriptor, visible)
    return files


def _names_of(name: str, files: Mapping[str, ProtoFile]) -> dict[str, int]:
    """The full names of what a file defines, with the type of fields that refer to them."""
    if name in _KNOWN:
        return dict.fromkeys(_KNOWN[name], _Field.TYPE_MESSAGE)
    if name not in files:
        raise ProtoError(f"{name} is imported and not there")
    file = files[name].descriptor
    names = {f".{file.package}.{each.name}": _Field.TYPE_MESSAGE for each in file.message_type}
    names |= {f".{file.package}.{each.name}": _Field.TYPE_ENUM for each in file.enum_type}
    return names


def _resolve(file: descriptor_pb2.FileDescriptorProto, visible: Mapping[str, int]) -> None:
    def full(word: str) -> str:
        if word.startswith("."):
            return word
        for name in (f".{file.package}.{word}", f".{word}"):
            if name in visible:
                return name
        raise ProtoError(f"{file.name}: {word} is not defined or not imported")

    for message in file.message_type:
        for field in message.field:
            if field.type_name and not field.HasField("type"):
                field.type_name = full(field.type_name)
                field.type = visible[field.type_name]
    for service in file.service:
        for method in service.method:
            method.input_type = full(method.input_type)
            method.output_type = full(method.output_type)
