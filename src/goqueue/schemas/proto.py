"""Protobuf schemas: `.proto` text of syntax 2 and 3, parsed, linked and written back in one form.

A file is read in one pass over its tokens, then names of types are resolved against the file and
what it imports. Imports lead to registered references by name, or to the types that come with
Protobuf; nothing is fetched. Extensions are fields of the messages that they extend. Services and
options have no influence on data: they are kept in the canonical form only. Editions are refused.

Hostile input: at most `DEPTH_MAX` levels of braces; time is linear in the length of the text.
"""

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from goqueue.model import NamedSource
from goqueue.schemas.errors import SchemaInvalid
from goqueue.schemas.proto_known import KNOWN_FILES
from goqueue.schemas.proto_tokens import NUMBER_MAX, TokenReader

__all__ = [
    "SCALARS",
    "ProtoEnum",
    "ProtoField",
    "ProtoFile",
    "ProtoMessage",
    "ProtoRead",
    "camel_name",
    "parse_proto",
    "read_proto",
]

SCALARS = frozenset(
    (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
)
_MAP_KEYS = SCALARS - {"double", "float", "bytes"}
_LABELS = frozenset(("optional", "required", "repeated"))


class ProtoField(msgspec.Struct):
    """A field; `type` is a scalar, or after linking the full name of a message or an enum."""

    name: str
    number: int
    type: str
    label: str = ""
    oneof: str = ""
    is_group: bool = False
    json_name: str = ""
    is_extension: bool = False


class ProtoEnum(msgspec.Struct):
    """An enumeration: its values by name; a closed one, of syntax 2, has no others."""

    name: str
    values: dict[str, int]
    is_closed: bool = False


class ProtoMessage(msgspec.Struct):
    """A message by its full name, with its fields by number, and the names of nested messages."""

    name: str
    fields: dict[int, ProtoField]
    nested: list[str]
    is_map_entry: bool = False
    # Numbers that are left to extensions, in order.
    open_numbers: list[range] = msgspec.field(default_factory=list)


class ProtoExtension(msgspec.Struct, frozen=True):
    """Fields for a message that may be of another file, as written within a scope."""

    scope: str
    target: str
    fields: list[ProtoField]


class ProtoFile:
    """A file with everything that it imports."""

    def __init__(self, syntax: int, package: str, canonical: str) -> None:
        self.syntax = syntax
        self.package = package
        self._canonical = canonical
        # The messages of the file itself that stand in no other one, in their order.
        self.roots: list[str] = []
        self.messages: dict[str, ProtoMessage] = {}
        self.enums: dict[str, ProtoEnum] = {}
        # Of messages, whether their file is of syntax 3: text is checked there.
        self.is_text_checked: dict[str, bool] = {}

    def canonical(self) -> str:
        """The tokens of the text, without comments, one space apart."""
        return self._canonical

    def message_at(self, indexes: Sequence[int]) -> ProtoMessage | None:
        """The message that a value names by its place: root, then nested ones."""
        names = self.roots
        found: ProtoMessage | None = None
        for index in indexes:
            if not 0 <= index < len(names):
                return None
            found = self.messages[names[index]]
            names = [each for each in found.nested if not self.messages[each].is_map_entry]
        return found


class ProtoRead(msgspec.Struct, frozen=True):
    """A file as it is written: types have the names that stand there."""

    file: ProtoFile
    imports: list[str]
    own: list[ProtoMessage]
    extensions: list[ProtoExtension]


def read_proto(text: str) -> ProtoRead:
    """Read a file without what it imports; raises SchemaInvalid."""
    parser = _Parser(text)
    return ProtoRead(parser.parse(), parser.imports, parser.own, parser.extensions)


def parse_proto(text: str, references: Sequence[NamedSource]) -> ProtoFile:
    """Parse a file with what it refers to; raises SchemaInvalid."""
    known: dict[str, ProtoFile] = {}
    for each in references:
        known[each.name] = _parse_file(each.text, known)
    return _parse_file(text, known, needs_message=True)


def _parse_file(
    text: str, known: dict[str, ProtoFile], *, needs_message: bool = False
) -> ProtoFile:
    parser = read_proto(text)
    file = parser.file
    if needs_message and not file.roots:
        raise SchemaInvalid("", "has no message")
    for name in parser.imports:
        imported = known.get(name)
        if imported is None and name in KNOWN_FILES:
            imported = known[name] = _parse_file(KNOWN_FILES[name], known)
        if imported is None:
            raise SchemaInvalid("", f"imports {name[:200]!r}, which is not among the references")
        for message in imported.messages.values():
            if file.messages.get(message.name, message) is not message:
                raise SchemaInvalid("", f"{message.name} is defined twice")
            file.messages[message.name] = message
            file.is_text_checked[message.name] = imported.is_text_checked[message.name]
        file.enums.update(imported.enums)
    for message in parser.own:
        for field in message.fields.values():
            _link(file, field, message.name)
    for extension in parser.extensions:
        _extend(file, extension)
    return file


def _link(file: ProtoFile, field: ProtoField, scope: str) -> None:
    if field.type in SCALARS:
        return
    full = _resolve(file, field.type, scope)
    if full is None:
        raise SchemaInvalid(f"/{scope}/{field.name}", f"unknown type {field.type[:200]}")
    field.type = full


def _extend(file: ProtoFile, extension: ProtoExtension) -> None:
    message = file.messages.get(_resolve(file, extension.target, extension.scope) or "")
    if message is None:
        raise SchemaInvalid("", f"extends {extension.target[:200]}, which is no message")
    for field in extension.fields:
        where = f"/{message.name}/{field.name}"
        if not _is_in(message.open_numbers, field.number):
            raise SchemaInvalid(where, f"{field.number} is not left to extensions")
        if field.number in message.fields:
            raise SchemaInvalid(where, f"another extension has the number {field.number}")
        _link(file, field, extension.scope)
        field.is_extension = True
        message.fields[field.number] = field


def _merged(ranges: list[range]) -> list[range]:
    """The same numbers, in order and apart."""
    merged: list[range] = []
    for each in sorted(ranges, key=lambda one: one.start):
        if merged and each.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, each.stop))
        else:
            merged.append(each)
    return merged


def _is_in(merged: list[range], number: int) -> bool:
    index = bisect_right(merged, number, key=lambda each: each.start)
    return index > 0 and number in merged[index - 1]


def camel_name(name: str) -> str:
    """The name of a field in JSON."""
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _resolve(file: ProtoFile, name: str, scope: str) -> str | None:
    """The full name of a type, looked for from the innermost scope outwards."""
    if name.startswith("."):
        name, scope = name[1:], ""
    while True:
        full = f"{scope}.{name}" if scope else name
        if full in file.messages or full in file.enums:
            return full
        if not scope:
            return None
        scope = scope.rpartition(".")[0]


class _Parser:
    """Reads one file."""

    def __init__(self, text: str) -> None:
        self._in = TokenReader(text)
        self.imports: list[str] = []
        self.own: list[ProtoMessage] = []
        self.extensions: list[ProtoExtension] = []
        self._declared: set[str] = set()
        self._file = ProtoFile(2, "", self._in.canonical())

    def parse(self) -> ProtoFile:
        if self._in.peek() == "syntax":
            self._in.advance()
            self._in.expect("=")
            given = self._in.string()
            if given not in ("proto2", "proto3"):
                self._in.fail(f"syntax {given[:50]!r} is neither proto2 nor proto3")
            self._file.syntax = int(given[-1])
            self._in.expect(";")
        elif self._in.peek() == "edition":
            self._in.fail("editions are not supported")
        while self._in.token.kind != "end":
            self._statement()
        return self._file

    def _statement(self) -> None:
        word = self._in.advance()
        match word:
            case ";":
                pass
            case "import":
                if self._in.peek() in ("public", "weak"):
                    self._in.advance()
                self.imports.append(self._in.string())
                self._in.expect(";")
            case "package":
                if self._file.package:
                    self._in.fail("a second package")
                if self._file.messages or self._file.enums:
                    self._in.fail("the package stands after a type")
                self._file.package = self._in.dotted()
                self._in.expect(";")
            case "option":
                self._in.skip_option()
            case "message":
                self._file.roots.append(self._message(self._file.package))
            case "enum":
                self._enum(self._file.package)
            case "service":
                self._in.skip_block()
            case "extend":
                self._file.roots += self._extension(self._file.package)
            case _:
                self._in.fail(f"unexpected {word[:50]!r}")

    # Types

    def _message(self, scope: str, name: str = "") -> str:
        name = name or self._in.name()
        message = ProtoMessage(self._declare(scope, name), {}, [])
        self._file.messages[message.name] = message
        self._file.is_text_checked[message.name] = self._file.syntax == 3
        self.own.append(message)
        reserved: list[range] = []
        names: dict[str, None] = {}
        self._in.expect("{")
        self._in.enter()
        while not self._in.is_next("}"):
            self._member(message, reserved, names)
        self._in.leave()
        message.open_numbers = _merged(message.open_numbers)
        self._check_fields(message, _merged(reserved), names)
        return message.name

    def _check_fields(
        self, message: ProtoMessage, reserved: list[range], names: dict[str, None]
    ) -> None:
        used: set[str] = set()
        json_names: dict[str, str] = {}
        for field in message.fields.values():
            if field.name in used:
                self._in.fail(f"{message.name} has two fields {field.name}")
            used.add(field.name)
            if field.name in names or _is_in(reserved, field.number):
                self._in.fail(f"field {field.name} = {field.number} is reserved")
            if _is_in(message.open_numbers, field.number):
                self._in.fail(f"{field.name} = {field.number} is left to extensions")
            other = json_names.setdefault(field.json_name or camel_name(field.name), field.name)
            if other != field.name and self._file.syntax == 3:
                self._in.fail(f"{field.name} and {other} have one name in JSON")

    def _member(self, message: ProtoMessage, reserved: list[range], names: dict[str, None]) -> None:
        word = self._in.peek()
        # A field may be of a type with the name of a keyword: keywords are followed by a name.
        match word:
            case ";":
                self._in.advance()
            case "message":
                self._in.advance()
                message.nested.append(self._message(message.name))
            case "enum":
                self._in.advance()
                self._enum(message.name)
            case "oneof":
                self._in.advance()
                self._oneof(message)
            case "option":
                self._in.advance()
                self._in.skip_option()
            case "extend":
                self._in.advance()
                message.nested += self._extension(message.name)
            case "reserved":
                self._in.advance()
                self._reserved(reserved, names)
            case "extensions":
                self._in.advance()
                self._ranges(message.open_numbers)
                if self._in.peek() == "[":
                    self._in.skip_brackets()
                self._in.expect(";")
            case _:
                self._field(message, "")

    def _field(self, message: ProtoMessage, oneof: str, *, is_extension: bool = False) -> None:
        label = ""
        if self._in.peek() in _LABELS:
            label = self._in.advance()
            if oneof:
                self._in.fail("a field of a oneof has no label")
        if self._in.peek() == "map" and self._in.peek(1) == "<":
            if is_extension:
                self._in.fail("an extension is no map")
            self._map(message, label or oneof)
            return
        if is_extension and label == "required":
            self._in.fail("an extension is not required")
        if self._file.syntax == 3 and label == "required":
            self._in.fail("proto3 has no required fields")
        if self._file.syntax == 2 and not label and not oneof:
            self._in.fail("a field of proto2 is optional, required or repeated")
        if self._in.peek() == "group":
            self._group(message, label, oneof)
            return
        type_ = self._in.type_name()
        field = ProtoField(self._in.name(), self._in.field_number(), type_, label, oneof)
        field.json_name = self._in.field_options()
        self._in.expect(";")
        self._add(message, field)

    def _group(self, message: ProtoMessage, label: str, oneof: str) -> None:
        if self._file.syntax == 3:
            self._in.fail("proto3 has no groups")
        self._in.advance()
        name = self._in.name()
        number = self._in.field_number()
        self._in.field_options()
        message.nested.append(self._message(message.name, name))
        self._add(message, ProtoField(name.lower(), number, name, label, oneof, is_group=True))

    def _map(self, message: ProtoMessage, label: str) -> None:
        if label:
            self._in.fail("a map has no label and is in no oneof")
        self._in.advance()
        self._in.expect("<")
        key = self._in.type_name()
        if key not in _MAP_KEYS:
            self._in.fail(f"{key[:50]} cannot be the key of a map")
        self._in.expect(",")
        value = self._in.type_name()
        self._in.expect(">")
        name = self._in.name()
        entry_name = camel_name(f"_{name}") + "Entry"
        entry = ProtoMessage(
            self._declare(message.name, entry_name),
            {1: ProtoField("key", 1, key), 2: ProtoField("value", 2, value)},
            [],
            is_map_entry=True,
        )
        self._file.messages[entry.name] = entry
        self._file.is_text_checked[entry.name] = self._file.syntax == 3
        self.own.append(entry)
        message.nested.append(entry.name)
        field = ProtoField(name, self._in.field_number(), f".{entry.name}", "repeated")
        field.json_name = self._in.field_options()
        self._in.expect(";")
        self._add(message, field)

    def _oneof(self, message: ProtoMessage) -> None:
        name = self._in.name()
        self._in.expect("{")
        self._in.enter()
        count = len(message.fields)
        while not self._in.is_next("}"):
            if self._in.peek() == "option":
                self._in.advance()
                self._in.skip_option()
            elif self._in.peek() == ";":
                self._in.advance()
            else:
                self._field(message, name)
        self._in.leave()
        if len(message.fields) == count:
            self._in.fail(f"oneof {name} has no fields")

    def _extension(self, scope: str) -> list[str]:
        """Returns the messages of groups, which belong to the scope."""
        holder = ProtoMessage(scope, {}, [])
        target = self._in.type_name()
        self._in.expect("{")
        self._in.enter()
        while not self._in.is_next("}"):
            if not self._in.is_next(";"):
                self._field(holder, "", is_extension=True)
        self._in.leave()
        self.extensions.append(ProtoExtension(scope, target, list(holder.fields.values())))
        return holder.nested

    def _add(self, message: ProtoMessage, field: ProtoField) -> None:
        if field.number in message.fields:
            other = message.fields[field.number].name
            self._in.fail(f"{field.name} and {other} have the number {field.number}")
        message.fields[field.number] = field

    def _enum(self, scope: str) -> None:
        enum = ProtoEnum(self._declare(scope, self._in.name()), {}, self._file.syntax == 2)
        self._file.enums[enum.name] = enum
        is_aliased = False
        self._in.expect("{")
        while not self._in.is_next("}"):
            word = self._in.advance()
            if word == ";":
                continue
            if word == "option":
                is_aliased = is_aliased or self._in.peek() == "allow_alias"
                self._in.skip_option()
            elif word == "reserved" and self._in.peek() != "=":
                self._reserved([], {}, allows_negative=True)
            else:
                self._enum_value(scope, enum, word)
        if not enum.values:
            self._in.fail(f"enum {enum.name} has no values")
        numbers = list(enum.values.values())
        if self._file.syntax == 3 and numbers[0] != 0:
            self._in.fail(f"the first value of {enum.name} is not 0")
        if len(set(numbers)) < len(numbers) and not is_aliased:
            self._in.fail(f"two values of {enum.name} have one number")

    def _enum_value(self, scope: str, enum: ProtoEnum, name: str) -> None:
        if not name.isidentifier():
            self._in.fail(f"unexpected {name[:50]!r}")
        if name in enum.values:
            self._in.fail(f"{enum.name} has two values {name}")
        # Values stand beside their enum, not within it.
        self._declare(scope, name)
        self._in.expect("=")
        number = self._in.signed()
        if not -(1 << 31) <= number < 1 << 31:
            self._in.fail(f"{number} is no value of an enum")
        enum.values[name] = number
        if self._in.peek() == "[":
            self._in.skip_brackets()
        self._in.expect(";")

    def _reserved(
        self, ranges: list[range], names: dict[str, None], *, allows_negative: bool = False
    ) -> None:
        if self._in.token.kind == "string":
            names[self._in.string()] = None
            while self._in.is_next(","):
                names[self._in.string()] = None
        elif allows_negative:
            while self._in.token.text not in (";", "", "}"):
                self._in.advance()
        else:
            self._ranges(ranges)
        self._in.expect(";")

    def _ranges(self, ranges: list[range]) -> None:
        while True:
            first = last = self._in.integer()
            if self._in.peek() == "to":
                self._in.advance()
                if self._in.peek() == "max":
                    self._in.advance()
                    last = NUMBER_MAX
                else:
                    last = self._in.integer()
            ranges.append(range(first, last + 1))
            if not self._in.is_next(","):
                return

    def _declare(self, scope: str, name: str) -> str:
        full = f"{scope}.{name}" if scope else name
        if full in self._declared:
            self._in.fail(f"{full} is defined twice")
        self._declared.add(full)
        return full
