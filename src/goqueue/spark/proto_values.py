"""Protobuf values as columns: types of a message in Spark, values read into it and written with it.

The package `protobuf`, of the extra of that name, parses and writes the bytes. It knows messages by
the numbers of their fields only, so it is given a file that is made for the purpose: names are
neutral, enums are numbers, and whatever has no fixed type is bytes. Columns are built field by
field over all rows of a batch.

| Protobuf | Spark |
|---|---|
| int32, sint32, sfixed32 | INT |
| int64, sint64, sfixed64, uint32, fixed32 | BIGINT |
| uint64, fixed64 | DECIMAL(20,0) |
| float, double, bool, string, bytes | FLOAT, DOUBLE, BOOLEAN, STRING, BINARY |
| enum | STRING: the name, or the number of one that has none |
| message, group | STRUCT |
| repeated, map | ARRAY, MAP |
| oneof | its fields, all null but one |
| google.protobuf.Timestamp, Duration | TIMESTAMP, INTERVAL DAY TO SECOND |
| google.protobuf.Int64Value and the like | the type within |
| google.protobuf.Struct, Value, ListValue | STRING: JSON |

A field is null if it is not in the data, unless it is one of syntax 3 without `optional`, which has
its zero then.

Hostile input: recursive messages are refused, so depth is that of the schema.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import BinaryType, DayTimeIntervalType, DecimalType

from goqueue.client.schemas import SchemaSet
from goqueue.model import NamedSource, ways_to_install
from goqueue.schemas import ProtoField, ProtoFile, ProtoMessage, SchemaInvalid, parse_proto
from goqueue.spark.value_forms import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    Form,
    FormBudget,
    Unmappable,
    leaf,
    list_form,
    map_form,
    struct_form,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

__all__ = ["ProtoValues"]

# Messages of a class that is made at run time.
Message = Any

_KNOWN = "google.protobuf."
_WRAPPERS = frozenset(
    f"{_KNOWN}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_JSON = frozenset(f"{_KNOWN}{name}" for name in ("Struct", "Value", "ListValue"))
_TIMES = {
    f"{_KNOWN}Timestamp": leaf(TIMESTAMP, pa.int64()),
    f"{_KNOWN}Duration": leaf(DayTimeIntervalType(), pa.int64()),
}
_SCALARS: dict[str, Form] = {
    **{name: leaf(INTEGER) for name in ("int32", "sint32", "sfixed32")},
    **{name: leaf(LONG) for name in ("int64", "sint64", "sfixed64", "uint32", "fixed32")},
    **{name: leaf(DecimalType(20, 0)) for name in ("uint64", "fixed64")},
    "float": leaf(FLOAT),
    "double": leaf(DOUBLE),
    "bool": leaf(BOOLEAN),
    "string": leaf(STRING),
    "bytes": leaf(BinaryType()),
}
# Types that share a line have the same bytes.
_WIRE = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "a varint"),
    **dict.fromkeys(("sint32", "sint64"), "a zigzag varint"),
    **dict.fromkeys(("fixed32", "sfixed32"), "4 bytes"),
    **dict.fromkeys(("fixed64", "sfixed64"), "8 bytes"),
    **dict.fromkeys(("string", "bytes"), "bytes"),
    "float": "a float",
    "double": "a double",
}
_INDEXES_MAX = 32
_SECOND = 1_000_000


class ProtoValues:
    """Values of one message of a file: the named one, or the first."""

    def __init__(self, schema: SchemaSet, message: str | None = None) -> None:
        self._file = _parse(schema)
        self._root = self._file.messages[self._file.roots[0]]
        if message is not None:
            names = (message, f"{self._file.package}.{message}")
            found = [self._file.messages[name] for name in names if name in self._file.messages]
            if not found:
                raise Unmappable("", f"{schema.id} has no message {message}")
            self._root = found[0]
        self._place = _place_of(self._file, self._root)
        mapping = _FormBuilder(self._file)
        self._type = mapping.message(self._root, "")
        self._class = mapping.create_class(self._root)
        self._has_required = mapping.has_required
        self.form = self._type.form

    def reader(self, writer: SchemaSet) -> Callable[[bytes], object]:
        """Reads values that were written with a schema."""
        file = _parse(writer)
        wanted = _relative(self._file, self._root)
        parse, has_required = self._class.FromString, self._has_required
        # Messages of the writer by the bytes that name them: their length, and why not.
        known: dict[bytes, str | None] = {}

        def decode(payload: bytes) -> object:
            size = 1 if payload[:1] == b"\0" else _place_size(payload)
            place = payload[:size]
            if place not in known:
                known[place] = self._fault(file, place, wanted)
            fault = known[place]
            if fault is not None:
                raise ValueError(fault)
            message = parse(payload[size:])
            if has_required and not message.IsInitialized():
                raise ValueError("a required field is missing")
            return message

        return decode

    def column(self, rows: Sequence[object]) -> pa.Array:
        """What Spark sees of values that were read."""
        return self._type.read(rows)

    def encode(self, column: pa.Array) -> Iterator[bytes]:
        """The values of a column without nulls."""
        fill = self._type.fill
        assert fill is not None, "a message is filled"
        for row in self.form.prepare(column).to_pylist():
            message = self._class()
            fill(message, row)
            yield self._place + message.SerializeToString(deterministic=True)

    def _fault(self, file: ProtoFile, place: bytes, wanted: str) -> str | None:
        """Why a message of the writer is not read."""
        found = file.message_at(_indexes(place))
        if found is None:
            return "the schema of the writer has no message where the value says"
        if _relative(file, found) != wanted:
            return f"is {_relative(file, found)}, not {wanted}"
        return _conflict(self._file, self._root, file, found, {})


def _parse(schema: SchemaSet) -> ProtoFile:
    if schema.schema_type != "PROTOBUF":
        raise Unmappable("", f"{schema.id} is {schema.schema_type}, not PROTOBUF")
    references = [NamedSource(name=name, text=text) for name, text in schema.references]
    try:
        return parse_proto(schema.text, references)
    except SchemaInvalid as error:
        raise Unmappable("", f"{schema.id} cannot be parsed: {error}") from error


def _relative(file: ProtoFile, message: ProtoMessage) -> str:
    return message.name.removeprefix(f"{file.package}.") if file.package else message.name


def _conflict(
    file: ProtoFile,
    message: ProtoMessage,
    writers_file: ProtoFile,
    written: ProtoMessage,
    seen: dict[str, None],
) -> str | None:
    """The first field that the writer has with other bytes: it would be skipped in silence."""
    seen[written.name] = None
    for number, field in message.fields.items():
        other = written.fields.get(number)
        if other is None:
            continue
        own, theirs = _wire(file, field), _wire(writers_file, other)
        if own != theirs and (own, theirs) != ("bytes", "a message"):
            return f"{field.name} = {number} is {own}, and was written as {theirs}"
        if own == theirs == "a message" and other.type not in seen:
            inner, others = file.messages[field.type], writers_file.messages[other.type]
            found = _conflict(file, inner, writers_file, others, seen)
            if found is not None:
                return found
    return None


def _wire(file: ProtoFile, field: ProtoField) -> str:
    if field.type in file.enums:
        return "a varint"
    return _WIRE.get(field.type, "a group" if field.is_group else "a message")


# The place of a message in its file


def _place_of(file: ProtoFile, wanted: ProtoMessage) -> bytes:
    path = _path_of(file, wanted, file.roots, ())
    assert path is not None, "a message of the file"
    if path == (0,):
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(path), *path))


def _path_of(
    file: ProtoFile, wanted: ProtoMessage, names: Sequence[str], above: tuple[int, ...]
) -> tuple[int, ...] | None:
    nested = [each for each in names if not file.messages[each].is_map_entry]
    for index, name in enumerate(nested):
        if name == wanted.name:
            return (*above, index)
        found = _path_of(file, wanted, file.messages[name].nested, (*above, index))
        if found is not None:
            return found
    return None


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _numbers(payload: bytes) -> Iterator[tuple[int, int]]:
    """Zigzag varints, each with where it ends; negative ones are none that a place has."""
    value = shift = 0
    for position, octet in enumerate(payload[: 5 * (_INDEXES_MAX + 1)]):
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            yield value >> 1, position + 1
            value = shift = 0


def _place_size(payload: bytes) -> int:
    numbers = _numbers(payload)
    count, end = next(numbers, (-1, 0))
    if 0 <= count <= _INDEXES_MAX:
        for _ in range(count):
            end = next(numbers, (0, 0))[1]
        if end:
            return end
    raise ValueError("does not begin with the place of a message")


def _indexes(place: bytes) -> list[int]:
    return [number for number, _ in _numbers(place)][1:] or [0]


# Types


class _Type(msgspec.Struct, frozen=True):
    """A type of a schema: a column of its values, and how a value is put into a message.

    Messages are filled, everything else is assigned after `convert`.
    """

    form: Form
    read: Callable[[Sequence[Any]], pa.Array]
    fill: Callable[[Message, Any], None] | None = None
    convert: Callable[[Any], Any] | None = None


class _FormBuilder:
    """Builds the types of a message, and the file that the library gets."""

    def __init__(self, file: ProtoFile) -> None:
        self._file = file
        self._budget = FormBudget()
        self._open: list[str] = []
        self._used: dict[str, int] = {}
        self.has_required = False

    def message(self, message: ProtoMessage, path: str) -> _Type:
        self._budget.spend(path)
        if message.name in self._open:
            raise Unmappable(path, f"is recursive by {message.name}, and Spark has no such types")
        self._open.append(message.name)
        self._number_of(message)
        fields = [self._field(message, each, path) for each in message.fields.values()]
        self._open.pop()
        optional = frozenset(each.name for each in fields if not each.is_required)
        form = struct_form({each.name: each.form for each in fields}, optional, path)
        self.has_required = self.has_required or len(optional) < len(fields)
        return _Type(form, _columns(fields), _filler(fields, path))

    def _number_of(self, message: ProtoMessage) -> int:
        return self._used.setdefault(message.name, len(self._used))

    def _field(self, message: ProtoMessage, field: ProtoField, path: str) -> "_Field":
        where = f"{path}/{field.name}"
        entry = self._file.messages.get(field.type)
        if entry is not None and entry.is_map_entry:
            self._number_of(entry)
            keys = self._type(entry.fields[1], f"{where}/key")
            values = self._type(entry.fields[2], f"{where}/*")
            form = map_form(keys.form, values.form, where)
            shape, item = _Shape.MAP, values
        else:
            item, keys = self._type(field, where), None
            is_list = field.label == "repeated"
            form = list_form(item.form, where) if is_list else item.form
            is_set = item.fill is not None or field.type in _JSON
            is_set = is_set or bool(field.label or field.oneof)
            is_set = is_set or not self._file.is_text_checked[message.name]
            shape = _Shape.LIST if is_list else _Shape.EXPLICIT if is_set else _Shape.IMPLICIT
        is_required = field.label == "required"
        return _Field(
            name=field.name,
            attribute=f"f{field.number}",
            form=form if is_required else form.nullable(),
            shape=shape,
            item=item,
            keys=keys,
            oneof=field.oneof,
            is_required=is_required,
        )

    def _type(self, field: ProtoField, path: str) -> _Type:
        self._budget.spend(path)
        enum = self._file.enums.get(field.type)
        if enum is not None:
            return _enum(enum.values)
        if field.type in _JSON:
            return _json(field.type)
        message = self._file.messages.get(field.type)
        if message is None:
            form = _SCALARS[field.type]
            convert = int if isinstance(form.kind, DecimalType) else None
            return _Type(form, _reader(form), convert=convert)
        if field.type in _TIMES:
            self._number_of(message)
            return _time(_TIMES[field.type])
        if field.type in _WRAPPERS:
            self._number_of(message)
            return _wrapper(self._type(message.fields[1], path))
        return self.message(message, path)

    def create_class(self, root: ProtoMessage) -> Any:  # noqa: ANN401 - made at run time
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        except ImportError:
            words = f"needs the extra `protobuf`: {ways_to_install('protobuf')}"
            raise Unmappable("", words) from None
        file = descriptor_pb2.FileDescriptorProto(name="goqueue.proto", package="goqueue")
        names = dict(self._used)
        for name, number in names.items():
            message = self._file.messages[name]
            if not message.is_map_entry:
                self._describe(file, message, number)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        found = pool.FindMessageTypeByName(f"goqueue.M{names[root.name]}")
        return message_factory.GetMessageClass(found)

    def _describe(self, file: "FileDescriptorProto", message: ProtoMessage, number: int) -> None:
        described = file.message_type.add(name=f"M{number}")
        oneofs: dict[str, int] = {}
        for field in message.fields.values():
            entry = self._file.messages.get(field.type)
            if entry is None or not entry.is_map_entry:
                made = self._describe_field(described, field, message)
                if field.oneof:
                    if field.oneof not in oneofs:
                        oneofs[field.oneof] = len(oneofs)
                        described.oneof_decl.add(name=f"o{oneofs[field.oneof]}")
                    made.oneof_index = oneofs[field.oneof]
                continue
            # The library knows an entry by its place and by the name of its field.
            nested = described.nested_type.add(name=f"F{field.number}Entry")
            nested.options.map_entry = True
            for part, name in zip(entry.fields.values(), ("key", "value"), strict=True):
                self._describe_field(nested, part, entry).name = name
            made = described.field.add(name=f"f{field.number}", number=field.number, label=3)
            made.type = made.TYPE_MESSAGE
            made.type_name = f".goqueue.M{number}.F{field.number}Entry"

    def _describe_field(
        self, described: "DescriptorProto", field: ProtoField, message: ProtoMessage
    ) -> Any:  # noqa: ANN401 - of the library, whose types are not known
        made = described.field.add(name=f"f{field.number}", number=field.number)
        made.label = {"repeated": 3, "required": 2}.get(field.label, 1)
        if field.type in self._file.enums:
            made.type = made.TYPE_INT32
        elif field.type in _JSON:
            made.type = made.TYPE_BYTES
        elif field.type in self._file.messages:
            made.type = made.TYPE_GROUP if field.is_group else made.TYPE_MESSAGE
            made.type_name = f".goqueue.M{self._used[field.type]}"
        else:
            made.type = getattr(made, f"TYPE_{field.type.upper()}")
        is_packable = made.type not in (
            made.TYPE_STRING,
            made.TYPE_BYTES,
            made.TYPE_MESSAGE,
            made.TYPE_GROUP,
        )
        if made.label == 3 and is_packable and self._file.is_text_checked[message.name]:
            made.options.packed = True
        return made


class _Shape:
    """How a field holds its values."""

    IMPLICIT = "implicit"
    EXPLICIT = "explicit"
    LIST = "list"
    MAP = "map"


class _Field(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    attribute: str
    form: Form
    shape: str
    item: _Type
    keys: _Type | None
    oneof: str
    is_required: bool

    def column(self, messages: Sequence[Message]) -> pa.Array:
        get = operator.attrgetter(self.attribute)
        if self.shape == _Shape.IMPLICIT:
            return self.item.read(list(map(get, messages)))
        if self.shape == _Shape.EXPLICIT:
            name = self.attribute
            return self.item.read([get(each) if each.HasField(name) else None for each in messages])
        offsets = [0]
        keys: list[Any] = []
        values: list[Any] = []
        for each in messages:
            found = get(each)
            if self.keys is None:
                values.extend(found)
            else:
                keys.extend(found)
                values.extend(found.values())
            offsets.append(len(values))
        starts = pa.array(offsets, pa.int32())
        if self.keys is None:
            return pa.ListArray.from_arrays(starts, self.item.read(values))
        return pa.MapArray.from_arrays(starts, self.keys.read(keys), self.item.read(values))

    def put(self, message: Message, value: Any) -> None:  # noqa: ANN401 - as JSON has it
        item, name = self.item, self.attribute
        if self.shape == _Shape.MAP:
            assert self.keys is not None
            container = getattr(message, name)
            for key, each in value:
                at = key if self.keys.convert is None else self.keys.convert(key)
                if item.fill is None:
                    container[at] = each if item.convert is None else item.convert(each)
                else:
                    item.fill(container[at], each)
        elif self.shape == _Shape.LIST:
            container = getattr(message, name)
            for each in value:
                if item.fill is None:
                    container.append(each if item.convert is None else item.convert(each))
                else:
                    item.fill(container.add(), each)
        elif item.fill is None:
            setattr(message, name, value if item.convert is None else item.convert(value))
        else:
            inner = getattr(message, name)
            inner.SetInParent()
            item.fill(inner, value)


def _columns(fields: Sequence[_Field]) -> Callable[[Sequence[Message | None]], pa.Array]:
    def read(messages: Sequence[Message | None]) -> pa.Array:
        mask = None
        if None in messages:
            found = next((each for each in messages if each is not None), None)
            if found is None:
                return _nothing(fields, len(messages))
            mask = pa.array([each is None for each in messages])
            empty = type(found)()
            messages = [empty if each is None else each for each in messages]
        columns = [each.column(messages) for each in fields]
        return pa.StructArray.from_arrays(columns, names=[each.name for each in fields], mask=mask)

    return read


def _nothing(fields: Sequence[_Field], count: int) -> pa.Array:
    columns = [each.form.finished(pa.nulls(count, each.form.plain)) for each in fields]
    mask = pa.array([True] * count, pa.bool_())
    return pa.StructArray.from_arrays(columns, names=[each.name for each in fields], mask=mask)


def _filler(fields: Sequence[_Field], path: str) -> Callable[[Message, Mapping[str, Any]], None]:
    by_name = {each.name: each for each in fields}

    def fill(message: Message, row: Mapping[str, Any]) -> None:
        chosen: dict[str, str] = {}
        for name, value in row.items():
            if value is None:
                continue
            field = by_name[name]
            if field.oneof and chosen.setdefault(field.oneof, name) != name:
                other = chosen[field.oneof]
                raise ValueError(f"{path} has {other} and {name} of the oneof {field.oneof}")
            field.put(message, value)

    return fill


def _reader(form: Form) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda values: form.finished(pa.array(values, form.plain))


def _enum(numbers: Mapping[str, int]) -> _Type:
    names: dict[int, str] = {}
    for name, number in numbers.items():
        names.setdefault(number, name)

    def read(values: Sequence[int | None]) -> pa.Array:
        texts = [None if each is None else names.get(each) or str(each) for each in values]
        return pa.array(texts, pa.string())

    def convert(text: str) -> int:
        if text in numbers:
            return numbers[text]
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{text!r} is none of {', '.join(numbers)}") from None

    return _Type(leaf(STRING), read, convert=convert)


def _time(form: Form) -> _Type:
    def read(values: Sequence[Message | None]) -> pa.Array:
        numbers = [None if each is None else each.f1 * _SECOND + each.f2 // 1000 for each in values]
        return form.finished(pa.array(numbers, form.plain))

    def fill(message: Message, micros: int) -> None:
        is_negative = micros < 0 and form is not _TIMES[f"{_KNOWN}Timestamp"]
        # Both parts of a duration have the same sign; the rest of a timestamp is positive.
        seconds, rest = divmod(-micros if is_negative else micros, _SECOND)
        sign = -1 if is_negative else 1
        message.f1, message.f2 = sign * seconds, sign * rest * 1000

    return _Type(form, read, fill)


def _wrapper(inner: _Type) -> _Type:
    def read(values: Sequence[Message | None]) -> pa.Array:
        return inner.read([None if each is None else each.f1 for each in values])

    def fill(message: Message, value: Any) -> None:  # noqa: ANN401 - whatever the wrapper holds
        message.f1 = value if inner.convert is None else inner.convert(value)

    return _Type(inner.form, read, fill)


def _json(name: str) -> _Type:
    """Values without a fixed type, as JSON; the library has messages for them."""

    def read(values: Sequence[bytes | None]) -> pa.Array:
        from google.protobuf import json_format, struct_pb2

        kind = getattr(struct_pb2, name.rpartition(".")[2])
        texts = [
            None
            if each is None
            else json_format.MessageToJson(kind.FromString(each), indent=None, ensure_ascii=False)
            for each in values
        ]
        return pa.array(texts, pa.string())

    def convert(text: str) -> bytes:
        from google.protobuf import json_format, struct_pb2

        kind = getattr(struct_pb2, name.rpartition(".")[2])
        try:
            return bytes(json_format.Parse(text, kind()).SerializeToString())
        except json_format.ParseError as error:
            raise ValueError(f"is no JSON: {error}") from error

    return _Type(leaf(STRING), read, convert=convert)
