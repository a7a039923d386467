"""Avro values as columns: types of a schema in Spark, values read into it and written with it.

`fastavro`, of the extra `avro`, reads each value with the schema of its writer into that of the
reader, and writes. It sees schemas without logical types, so dates, times and decimals are numbers
and bytes there; they are converted in whole columns. This also makes the meaning of a value depend
on the reader's schema alone.

| Avro | Spark |
|---|---|
| boolean, int, long, float, double, string, bytes | BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, … |
| record, array, map | STRUCT, ARRAY, MAP<STRING, …> |
| enum | STRING |
| fixed, duration, uuid of 16 bytes, big-decimal | BINARY |
| union with null | the other type |
| union of int and long, of float and double | BIGINT, DOUBLE |
| any other union | STRUCT<member0, member1, …>, all null but one |
| decimal of at most 38 digits | DECIMAL |
| date | DATE |
| timestamp-millis, timestamp-micros | TIMESTAMP |
| local-timestamp-millis, local-timestamp-micros | TIMESTAMP_NTZ |
| time-millis, time-micros, timestamps of nanoseconds | INT, BIGINT: the number as it is |

Hostile input: recursive types are refused, so depth is that of the schema. So are lists of values
without bytes, because a few bytes of data could announce any number of them.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType, DecimalType

from goqueue.client.schemas import SchemaSet
from goqueue.model import ways_to_install
from goqueue.schemas import AvroSchema, SchemaInvalid, parse_avro
from goqueue.spark.value_forms import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Form,
    FormBudget,
    Unmappable,
    leaf,
    list_form,
    map_form,
    struct_form,
)

__all__ = ["AvroValues"]

# A schema as JSON has it, with full names.
Node = Any
Convert = Callable[[Any], Any]

_PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
)
_SCALARS: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BinaryType(),
}
_MICROSECONDS = {"timestamp-micros": TIMESTAMP, "local-timestamp-micros": TIMESTAMP_NTZ}
_MILLISECONDS = {"timestamp-millis": TIMESTAMP, "local-timestamp-millis": TIMESTAMP_NTZ}
# What the values of a type are in Python: two branches of a union that are the same are told apart
# by their names alone.
_PYTHON: dict[str, type] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "enum": str,
    "bytes": bytes,
    "fixed": bytes,
    "array": list,
    "map": dict,
    "record": dict,
}


class AvroValues:
    """Values of one schema."""

    def __init__(self, schema: SchemaSet) -> None:
        self._library = _fastavro()
        parsed = _parse(schema)
        self._plain = _Plain(parsed)
        self._compiled = self._compile(self._plain)
        self._has_names = _needs_names(self._plain.tree, {})
        mapping = _FormBuilder(parsed, has_names=self._has_names)
        self.form, self._tidy, self._untidy = mapping.root()

    def reader(self, writer: SchemaSet) -> Callable[[bytes], object]:
        """Reads values that were written with a schema."""
        plain = _Plain(_parse(writer))
        written = self._compile(plain)
        # Values of the same schema are read as they are, in half the time.
        wanted = None if plain.tree == self._plain.tree else self._compiled
        read, has_names, tidy = self._library.schemaless_reader, self._has_names, self._tidy

        def decode(payload: bytes) -> object:
            buffer = io.BytesIO(payload)
            value = read(buffer, written, wanted, return_named_type=has_names)
            if buffer.read(1):
                raise ValueError("bytes follow the value")
            return value if tidy is None else tidy(value)

        return decode

    def column(self, rows: Sequence[object]) -> pa.Array:
        """What Spark sees of values that were read."""
        return self.form.finished(pa.array(rows, self.form.plain))

    def encode(self, column: pa.Array) -> Iterator[bytes]:
        """The values of a column without nulls."""
        write, compiled, untidy = self._library.schemaless_writer, self._compiled, self._untidy
        for row in self.form.prepare(column).to_pylist():
            buffer = io.BytesIO()
            write(buffer, compiled, row if untidy is None else untidy(row))
            yield buffer.getvalue()

    def _compile(self, plain: "_Plain") -> object:
        # The library changes what it parses.
        compiled: object = self._library.parse_schema(json.loads(json.dumps(plain.tree)))
        _give_bytes(compiled)
        return compiled


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError:
        words = f"needs the extra `avro`: {ways_to_install('avro')}"
        raise Unmappable("", words) from None
    return fastavro


def _parse(schema: SchemaSet) -> AvroSchema:
    if schema.schema_type != "AVRO":
        raise Unmappable("", f"{schema.id} is {schema.schema_type}, not AVRO")
    known: list[AvroSchema] = []
    try:
        for _, text in schema.references:
            known.append(parse_avro(text, known))
        return parse_avro(schema.text, known)
    except SchemaInvalid as error:
        raise Unmappable("", f"{schema.id} cannot be parsed: {error}") from error


def _definition(schema: AvroSchema, name: str) -> Node:
    return json.loads(AvroSchema(schema.named[name], schema.named).canonical())


class _Plain:
    """A schema as the library gets it: whole, and without logical types."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._open: list[str] = []
        self._done: set[str] = set()
        self.tree = self._node(json.loads(schema.canonical()), "")

    def _node(self, node: Node, path: str) -> Node:
        if isinstance(node, list):
            return [self._node(each, path) for each in node]
        if isinstance(node, str):
            if node in self._open:
                raise Unmappable(path, f"is recursive by {node}, and Spark has no such types")
            if node in _PRIMITIVES or node in self._done:
                return node
            return self._node(_definition(self._schema, node), path)
        kind = node["type"]
        if kind in {"array", "map"}:
            part = "items" if kind == "array" else "values"
            inner = self._node(node[part], f"{path}/*")
            if kind == "array" and self._is_empty(node[part]):
                raise Unmappable(path, "is a list of values that have no bytes")
            return {"type": kind, part: inner}
        if kind in _PRIMITIVES:
            return kind
        return self._named(kind, node, path)

    def _named(self, kind: str, node: Node, path: str) -> Node:
        name = node["name"]
        kept = {key: node[key] for key in ("name", "aliases", "symbols", "size") if key in node}
        if kind == "enum" and "default" in node:
            kept["default"] = node["default"]
        if kind not in {"record", "error"}:
            self._done.add(name)
            return {"type": kind, **kept}
        self._open.append(name)
        fields = []
        for field in node["fields"]:
            shown = {key: field[key] for key in ("name", "aliases", "default") if key in field}
            inner = self._node(field["type"], f"{path}/{field['name']}")
            fields.append({**shown, "type": inner})
        self._open.pop()
        self._done.add(name)
        return {"type": "record", **kept, "fields": fields}

    def _is_empty(self, node: Node) -> bool:
        """Whether a value of the type may have no bytes at all."""
        if isinstance(node, str) and node not in _PRIMITIVES:
            node = _definition(self._schema, node)
        if isinstance(node, list):
            return False
        if isinstance(node, str):
            return node == "null"
        if node["type"] in {"record", "error"}:
            return all(self._is_empty(field["type"]) for field in node["fields"])
        return bool(node["type"] == "null" or node.get("size") == 0)


def _give_bytes(node: Node) -> None:
    """Defaults of bytes are texts with a character for each byte: make them what readers get."""
    if isinstance(node, list):
        for each in node:
            _give_bytes(each)
    if not isinstance(node, dict):
        return
    for field in node.get("fields", ()):
        kind = field["type"]
        first = kind[0] if isinstance(kind, list) else kind
        is_bytes = first == "bytes" or (isinstance(first, dict) and first["type"] == "fixed")
        if is_bytes and isinstance(field.get("default"), str):
            field["default"] = field["default"].encode("latin-1")
        _give_bytes(kind)
    for part in ("items", "values"):
        _give_bytes(node.get(part))


class _FormBuilder:
    """Builds the forms of a schema, and the steps in Python that unions and maps need."""

    def __init__(self, schema: AvroSchema, *, has_names: bool) -> None:
        self._schema = schema
        self._budget = FormBudget()
        self.has_names = has_names

    def root(self) -> tuple[Form, Convert | None, Convert | None]:
        return self._form(json.loads(self._schema.canonical()), "")

    def _form(self, node: Node, path: str) -> tuple[Form, Convert | None, Convert | None]:
        self._budget.spend(path)
        if isinstance(node, str) and node not in _PRIMITIVES:
            node = _definition(self._schema, node)
        if isinstance(node, list):
            return self._union(node, path)
        kind = node if isinstance(node, str) else node["type"]
        if kind == "null":
            raise Unmappable(path, "is always null")
        if kind in {"record", "error"}:
            return self._record(node, path)
        if kind == "array":
            items, tidy, untidy = self._form(node["items"], f"{path}/*")
            return list_form(items, path), _each(tidy), _each(untidy)
        if kind == "map":
            values, tidy, untidy = self._form(node["values"], f"{path}/*")
            return map_form(leaf(STRING), values, path), _values(tidy), _pairs(untidy)
        if kind == "enum":
            return leaf(STRING), None, None
        return _scalar(kind, node if isinstance(node, dict) else {}, path), None, None

    def _record(self, node: Node, path: str) -> tuple[Form, Convert | None, Convert | None]:
        forms: dict[str, Form] = {}
        tidies: dict[str, Convert] = {}
        untidies: dict[str, Convert] = {}
        for field in node["fields"]:
            name = field["name"]
            forms[name], tidy, untidy = self._form(field["type"], f"{path}/{name}")
            if tidy is not None:
                tidies[name] = tidy
            if untidy is not None:
                untidies[name] = untidy
        optional = frozenset(field["name"] for field in node["fields"] if "default" in field)
        return struct_form(forms, optional, path), _members(tidies), _members(untidies)

    def _union(self, node: Node, path: str) -> tuple[Form, Convert | None, Convert | None]:
        others = [each for each in node if each != "null"]
        is_nullable = len(others) < len(node)
        if not others:
            raise Unmappable(path, "is always null")
        for narrow, wide in (("int", "long"), ("float", "double")):
            if narrow in others and wide in others:
                others.remove(narrow)
        if len(others) > 1:
            form, tidy, untidy = self._branches(others, path)
        else:
            form, tidy, untidy = self._form(others[0], path)
            if self.has_names:
                tidy = _without_name(tidy)
        if not is_nullable:
            return form, tidy, untidy
        return form.nullable(), _unless_null(tidy), _unless_null(untidy)

    def _branches(
        self, branches: list[Node], path: str
    ) -> tuple[Form, Convert | None, Convert | None]:
        """A struct with a member for each branch, of which one is not null."""
        forms: dict[str, Form] = {}
        tidies: dict[str, Convert | None] = {}
        untidies: dict[str, Convert | None] = {}
        names: dict[str, str] = {}
        by_type: dict[type, str] = {}
        for index, branch in enumerate(branches):
            member = f"member{index}"
            form, tidies[member], untidies[member] = self._form(branch, f"{path}/{member}")
            forms[member] = form.nullable()
            name, python = self._identity(branch)
            names[name] = member
            # A value without a name is of the branch that has none, or of the only one.
            if name in _PYTHON or not self.has_names:
                by_type[python] = member
        members = {member: name for name, member in names.items()}

        def tidy(value: object) -> dict[str, object]:
            if isinstance(value, tuple):
                member = names.get(value[0])
                value = value[1]
            else:
                member = by_type.get(type(value))
            if member is None:
                raise ValueError(f"{path} has a value whose branch of the union is not certain")
            convert = tidies[member]
            return {member: value if convert is None else convert(value)}

        def untidy(given: Mapping[str, object]) -> object:
            found = [name for name, value in given.items() if value is not None]
            if len(found) != 1:
                raise ValueError(f"{path} has {len(found)} members that are not null, not one")
            member = found[0]
            convert = untidies[member]
            value = given[member]
            return members[member], value if convert is None else convert(value)

        return struct_form(forms, frozenset(forms), path), tidy, untidy

    def _identity(self, branch: Node) -> tuple[str, type]:
        """How the library calls a branch, and what its values are in Python."""
        if isinstance(branch, str) and branch not in _PRIMITIVES:
            branch = _definition(self._schema, branch)
        if isinstance(branch, str):
            return branch, _PYTHON[branch]
        kind = "record" if branch["type"] == "error" else branch["type"]
        return branch.get("name", kind), _PYTHON[kind]


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [convert(each) for each in values]


def _values(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: {key: convert(each) for key, each in values.items()}


def _pairs(convert: Convert | None) -> Convert:
    """A map as Arrow has it in Python, for the library."""
    if convert is None:
        return dict
    return lambda pairs: {key: convert(each) for key, each in pairs}


def _members(converts: Mapping[str, Convert]) -> Convert | None:
    if not converts:
        return None

    def convert(given: Mapping[str, object]) -> dict[str, object]:
        # A copy: the default of a field is one object for all rows.
        record = dict(given)
        for name, each in converts.items():
            if name in record:
                record[name] = each(record[name])
        return record

    return convert


def _unless_null(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _without_name(convert: Convert | None) -> Convert:
    def unwrap(value: object) -> object:
        plain = value[1] if isinstance(value, tuple) else value
        return plain if convert is None else convert(plain)

    return unwrap


def _needs_names(node: Node, kinds: dict[str, str]) -> bool:
    """Whether a union has two branches that only their names tell apart; `kinds` are by name."""
    if isinstance(node, list):
        found: list[type] = []
        for each in node:
            kind = each if isinstance(each, str) else each["type"]
            kind = kinds.get(kind, kind)
            if kind not in {"null", "int", "float"}:
                found.append(_PYTHON[kind])
        is_ambiguous = len(set(found)) < len(found)
        return any([is_ambiguous, *(_needs_names(each, kinds) for each in node)])
    if isinstance(node, str):
        return False
    if "name" in node:
        kinds[node["name"]] = node["type"]
    parts = [field["type"] for field in node.get("fields", ())]
    parts += [node[part] for part in ("items", "values") if part in node]
    # All of them: later parts refer to names of earlier ones.
    answers = [_needs_names(each, kinds) for each in parts]
    return any(answers)


def _scalar(kind: str, node: Mapping[str, Any], path: str) -> Form:
    logical = node.get("logicalType")
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        return _decimal(node, path)
    if kind == "fixed":
        return _fixed(int(node["size"]))
    if (kind, logical) == ("int", "date"):
        return leaf(DATE, pa.int32())
    if kind == "long" and logical in _MICROSECONDS:
        return leaf(_MICROSECONDS[logical], pa.int64())
    if kind == "long" and logical in _MILLISECONDS:
        return _millis(_MILLISECONDS[logical])
    return leaf(_SCALARS[kind])


def _millis(kind: DataType) -> Form:
    micros = leaf(kind, pa.int64())

    def finish(column: pa.Array) -> pa.Array:
        return micros.finished(pc.multiply_checked(column, 1000))

    def prepare(column: pa.Array) -> pa.Array:
        whole = pc.floor_temporal(column, unit="millisecond")
        return pc.divide(micros.prepare(whole), 1000)

    return Form(kind, pa.int64(), finish, prepare)


def _fixed(size: int) -> Form:
    def prepare(column: pa.Array) -> pa.Array:
        column = column.cast(pa.binary())
        if pc.any(pc.not_equal(pc.binary_length(column), size)).as_py():
            raise ValueError(f"a value does not have {size} bytes")
        return column

    return Form(BinaryType(), pa.binary(), None, prepare)


def _decimal(node: Mapping[str, Any], path: str) -> Form:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not isinstance(precision, int) or not 1 <= precision <= 38:
        raise Unmappable(path, f"is a decimal of {precision} digits, and Spark has at most 38")
    if not isinstance(scale, int) or not 0 <= scale <= precision:
        raise Unmappable(path, f"is a decimal of scale {scale}")
    size = node.get("size")
    shown = pa.decimal128(precision, scale)
    most = 10**precision

    def finish(column: pa.Array) -> pa.Array:
        words: list[bytes | None] = []
        for each in column.to_pylist():
            if each is None:
                words.append(None)
                continue
            number = int.from_bytes(each, signed=True)
            if not -most < number < most:
                raise ValueError(f"{path} has more than {precision} digits")
            words.append(number.to_bytes(16, "little", signed=True))
        made = pa.array(words, pa.binary(16))
        return pa.Array.from_buffers(shown, len(made), made.buffers())

    def prepare(column: pa.Array) -> pa.Array:
        column = column.cast(shown)
        made = pa.Array.from_buffers(
            pa.binary(16), len(column), column.buffers(), offset=column.offset
        )
        return pa.array([_big_endian(each, size) for each in made.to_pylist()], pa.binary())

    return Form(DecimalType(precision, scale), pa.binary(), finish, prepare)


def _big_endian(word: bytes | None, size: int | None) -> bytes | None:
    if word is None:
        return None
    number = int.from_bytes(word, "little", signed=True)
    try:
        return number.to_bytes(size or (number.bit_length() // 8 + 1), signed=True)
    except OverflowError:
        raise ValueError(f"{number} does not fit into {size} bytes") from None
