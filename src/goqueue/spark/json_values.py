"""JSON Schema as types of Spark, and rows written as JSON of a schema.

JSON is read by the types alone, see `value_decoder`; what a schema says beyond types is for a topic
that validates.

| JSON Schema | Spark |
|---|---|
| boolean, integer, number, string | BOOLEAN, BIGINT, DOUBLE, STRING |
| string of format `date-time`, `date` | TIMESTAMP, DATE |
| string with `contentEncoding: base64` | BINARY |
| object with `properties` | STRUCT; other members are ignored |
| object with `additionalProperties` or `patternProperties` only | MAP<STRING, …> |
| array with `items` | ARRAY |
| `enum`, `const` | the type of the values |
| a type or `null` | the type |
| `allOf` | all of them in one |
| `anyOf`, `oneOf` | the type that holds all: DOUBLE for numbers, a STRUCT with all fields |
| `$ref` | what it leads to |

Refused are recursion, whatever may be anything, tuples, and branches of different kinds.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType

from goqueue.client.schemas import SchemaSet
from goqueue.spark.value_forms import (
    BOOLEAN,
    DATE,
    DOUBLE,
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

__all__ = ["JsonText"]

Json = Any
Convert = Callable[[Any], Any]

_FORMATS: dict[str, DataType] = {"date-time": TIMESTAMP, "date": DATE}
_SCALARS: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "integer": LONG,
    "number": DOUBLE,
    "string": STRING,
}
_TEXTS = (STRING, TIMESTAMP, DATE, BinaryType())


class JsonText:
    """Values of one schema."""

    def __init__(self, schema: SchemaSet) -> None:
        if schema.schema_type != "JSON":
            raise Unmappable("", f"{schema.id} is {schema.schema_type}, not JSON")
        names = {name: json.loads(text) for name, text in schema.references}
        root = json.loads(schema.text)
        node = _NodeBuilder(names).node(root, root, "")
        if node.kind != "struct":
            raise Unmappable("", f"{schema.id} is no object with properties")
        self.form, self._untidy = _form(node, "")

    def encode(self, column: pa.Array) -> Iterator[bytes]:
        """The values of a column without nulls."""
        encode, untidy = msgspec.json.encode, self._untidy
        assert untidy is not None, "that of an object"
        for row in self.form.prepare(column).to_pylist():
            yield encode(untidy(row))


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    """What a schema says about the type of a value."""

    kind: Literal["any", "null", "scalar", "list", "map", "struct"]
    scalar: DataType = STRING
    items: "_Node | None" = None
    fields: dict[str, "_Node"] = {}
    required: frozenset[str] = frozenset()
    is_nullable: bool = False


_ANY = _Node(kind="any")
_NULL = _Node(kind="null", is_nullable=True)


class _NodeBuilder:
    """Reads the types of a schema."""

    def __init__(self, references: Mapping[str, Json]) -> None:
        self._references = references
        self._budget = FormBudget()
        self._open: list[int] = []

    def node(self, schema: Json, within: Json, path: str) -> _Node:
        self._budget.spend(path)
        if schema is False:
            raise Unmappable(path, "can have no value")
        if not isinstance(schema, dict):
            return _ANY
        if id(schema) in self._open:
            raise Unmappable(path, "is recursive, and Spark has no such types")
        self._open.append(id(schema))
        found = self._own(schema, within, path)
        for part in self._parts(schema, within, path):
            found = _both(found, part, path)
        self._open.pop()
        return found

    def _parts(self, schema: Mapping[str, Json], within: Json, path: str) -> Iterator[_Node]:
        if "$ref" in schema:
            yield self.node(*self._target(str(schema["$ref"]), within, path), path)
        for each in schema.get("allOf", ()):
            yield self.node(each, within, path)
        for keyword in ("anyOf", "oneOf"):
            branches = [self.node(each, within, path) for each in schema.get(keyword, ())]
            if branches:
                yield _either(branches, path)

    def _target(self, reference: str, within: Json, path: str) -> tuple[Json, Json]:
        """What a reference leads to, with the schema that that is in."""
        name, _, pointer = reference.partition("#")
        own = str(within.get("$id", "")) if isinstance(within, dict) else ""
        if name and name != own.rstrip("#"):
            within = self._references.get(name)
        found = within
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = dict(enumerate(found)).get(int(key)) if key.isdigit() else None
            else:
                found = found.get(key) if isinstance(found, dict) else None
        if found is None or (pointer and not pointer.startswith("/")):
            raise Unmappable(path, f"refers to {reference!r}, which is not found by its place")
        return found, within

    def _own(self, schema: Mapping[str, Json], within: Json, path: str) -> _Node:
        """What the keywords of a schema itself say."""
        types = schema.get("type")
        if types is None:
            values = schema.get("enum", [schema["const"]] if "const" in schema else None)
            if values is not None:
                return _either([_node_of_value(each) for each in values], path)
            if "properties" in schema:
                types = "object"
            elif "items" in schema:
                types = "array"
            else:
                return _ANY
        several = types if isinstance(types, list) else [types]
        return _either([self._typed(each, schema, within, path) for each in several], path)

    def _typed(self, name: str, schema: Mapping[str, Json], within: Json, path: str) -> _Node:
        if name == "null":
            return _NULL
        if name == "array":
            return self._array(schema, within, path)
        if name == "object":
            return self._object(schema, within, path)
        scalar = _SCALARS[name]
        if name == "string":
            scalar = _FORMATS.get(str(schema.get("format")), scalar)
            if schema.get("contentEncoding") == "base64":
                scalar = BinaryType()
        return _Node(kind="scalar", scalar=scalar)

    def _array(self, schema: Mapping[str, Json], within: Json, path: str) -> _Node:
        items = schema.get("items", True)
        if "prefixItems" in schema or isinstance(items, list):
            raise Unmappable(path, "is a tuple, and Spark has no such type")
        return _Node(kind="list", items=self.node(items, within, f"{path}/*"))

    def _object(self, schema: Mapping[str, Json], within: Json, path: str) -> _Node:
        fields = {
            name: self.node(each, within, f"{path}/{name}")
            for name, each in schema.get("properties", {}).items()
        }
        if fields:
            required = frozenset(schema.get("required", ())) & frozenset(fields)
            return _Node(kind="struct", fields=fields, required=required)
        others = list(schema.get("patternProperties", {}).values())
        if isinstance(schema.get("additionalProperties"), dict):
            others.append(schema["additionalProperties"])
        if not others:
            return _ANY
        items = _either([self.node(each, within, f"{path}/*") for each in others], path)
        return _Node(kind="map", items=items)


def _node_of_value(value: Json) -> _Node:
    if value is None:
        return _NULL
    for python, scalar in ((bool, BOOLEAN), (int, LONG), (float, DOUBLE), (str, STRING)):
        if isinstance(value, python):
            return _Node(kind="scalar", scalar=scalar)
    return _ANY


def _either(nodes: Sequence[_Node], path: str) -> _Node:
    """The type that holds the values of all."""
    found = nodes[0]
    for each in nodes[1:]:
        found = _wider(found, each, path)
    return found


def _wider(one: _Node, other: _Node, path: str) -> _Node:
    if "null" in (one.kind, other.kind):
        return msgspec.structs.replace(other if one.kind == "null" else one, is_nullable=True)
    if "any" in (one.kind, other.kind):
        return _ANY
    is_nullable = one.is_nullable or other.is_nullable
    if one.kind != other.kind:
        raise Unmappable(path, f"is a {one.kind} or a {other.kind}, and Spark has no such type")
    if one.kind == "scalar":
        scalar = one.scalar if one.scalar == other.scalar else None
        if {one.scalar, other.scalar} == {LONG, DOUBLE}:
            scalar = DOUBLE
        elif scalar is None and one.scalar in _TEXTS and other.scalar in _TEXTS:
            scalar = STRING
        if scalar is None:
            words = f"is {one.scalar.simpleString()} or {other.scalar.simpleString()}"
            raise Unmappable(path, f"{words}, and Spark has no such type")
        return _Node(kind="scalar", scalar=scalar, is_nullable=is_nullable)
    if one.items is not None and other.items is not None:
        items = _wider(one.items, other.items, f"{path}/*")
        return msgspec.structs.replace(one, items=items, is_nullable=is_nullable)
    fields = dict(one.fields)
    for name, field in other.fields.items():
        where = f"{path}/{name}"
        fields[name] = _wider(fields[name], field, where) if name in fields else field
    required = one.required & other.required
    return _Node(kind="struct", fields=fields, required=required, is_nullable=is_nullable)


def _both(one: _Node, other: _Node, path: str) -> _Node:
    """The type of values that are of two types."""
    if "any" in (one.kind, other.kind):
        return other if one.kind == "any" else one
    is_nullable = one.is_nullable and other.is_nullable
    if one.kind == other.kind == "struct":
        fields = dict(one.fields)
        for name, field in other.fields.items():
            where = f"{path}/{name}"
            fields[name] = _both(fields[name], field, where) if name in fields else field
        required = one.required | other.required
        return _Node(kind="struct", fields=fields, required=required, is_nullable=is_nullable)
    if one.kind == other.kind == "scalar" and {one.scalar, other.scalar} == {LONG, DOUBLE}:
        return _Node(kind="scalar", scalar=LONG, is_nullable=is_nullable)
    if one.kind != other.kind or one.scalar != other.scalar:
        raise Unmappable(path, "has two types at once")
    return msgspec.structs.replace(one, is_nullable=is_nullable)


def _form(node: _Node, path: str) -> tuple[Form, Convert | None]:
    """The form of a type, and what makes JSON of its values in Python."""
    form, untidy = _form_of_kind(node, path)
    if not node.is_nullable:
        return form, untidy
    if untidy is None:
        return form.nullable(), None
    return form.nullable(), lambda value: None if value is None else untidy(value)


def _form_of_kind(node: _Node, path: str) -> tuple[Form, Convert | None]:
    match node.kind:
        case "any":
            raise Unmappable(path, "may be anything: give its type by `valueSchema`")
        case "null":
            raise Unmappable(path, "is always null")
        case "scalar":
            return leaf(node.scalar), None
        case "struct":
            return _struct(node, path)
    assert node.items is not None
    items, untidy = _form(node.items, f"{path}/*")
    if node.kind == "map":
        return map_form(leaf(STRING), items, path), _object_of(untidy)
    if untidy is None:
        return list_form(items, path), None
    return list_form(items, path), lambda values: [untidy(each) for each in values]


def _object_of(untidy: Convert | None) -> Convert:
    if untidy is None:
        return dict
    return lambda pairs: {key: untidy(each) for key, each in pairs}


def _struct(node: _Node, path: str) -> tuple[Form, Convert]:
    forms: dict[str, Form] = {}
    untidies: dict[str, Convert] = {}
    for name, field in node.fields.items():
        form, untidy = _form(field, f"{path}/{name}")
        # A null stands for a field that is not there.
        forms[name] = form if name in node.required else form.nullable()
        if untidy is not None:
            untidies[name] = untidy
    required = node.required

    def write(row: Mapping[str, object]) -> dict[str, object]:
        kept = {name: value for name, value in row.items() if value is not None or name in required}
        for name, untidy in untidies.items():
            if kept.get(name) is not None:
                kept[name] = untidy(kept[name])
        return kept

    optional = frozenset(forms) - required
    return struct_form(forms, optional, path), write
