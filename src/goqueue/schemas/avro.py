"""Avro schemas: parsed from JSON into a typed tree, and written back in one form.

Owns the syntax of the Avro specification: names and namespaces, aliases, defaults, recursion.
Never reads data: values are checked against a schema elsewhere.

Hostile input: a schema is text of a caller. It is refused with the place and the reason if it is
deeper than `DEPTH_MAX`, defines a name twice, refers to a name that is not defined before it, or
has a default that its type cannot hold. Parsing visits every node of the JSON once.

Invariant: two schemas with equal canonical forms read and write the same data with the same names,
documentation and properties.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

import msgspec

from goqueue.schemas.errors import DEPTH_MAX, SchemaInvalid

__all__ = [
    "Array",
    "AvroSchema",
    "AvroType",
    "Enumeration",
    "Field",
    "Fixed",
    "MapOf",
    "Named",
    "Primitive",
    "Record",
    "Reference",
    "Union",
    "parse_avro",
    "type_name",
]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
)
_COMPLEX = frozenset(("record", "error", "enum", "array", "map", "fixed"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS = frozenset(("ascending", "descending", "ignore"))
# What the specification gives a meaning; everything else is a property that is kept as it is.
_KNOWN = {
    "record": ("type", "name", "namespace", "doc", "aliases", "fields"),
    "enum": ("type", "name", "namespace", "doc", "aliases", "symbols", "default"),
    "fixed": ("type", "name", "namespace", "doc", "aliases", "size"),
    "array": ("type", "items"),
    "map": ("type", "values"),
    "field": ("name", "doc", "type", "default", "order", "aliases"),
}
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1


class Primitive(msgspec.Struct, frozen=True, kw_only=True):
    """One of the eight primitive types."""

    name: str
    properties: dict[str, object] = {}


class Array(msgspec.Struct, frozen=True, kw_only=True):
    items: "AvroType"
    properties: dict[str, object] = {}


class MapOf(msgspec.Struct, frozen=True, kw_only=True):
    """A map from strings."""

    values: "AvroType"
    properties: dict[str, object] = {}


class Union(msgspec.Struct, frozen=True):
    branches: "tuple[AvroType, ...]"


class Reference(msgspec.Struct, frozen=True):
    """The full name of a type that is defined elsewhere in the schema, or in a referenced one."""

    name: str


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What all types with a name share. Names and aliases are full names."""

    name: str
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: dict[str, object] = {}


class Fixed(Named, frozen=True, kw_only=True):
    size: int


class Enumeration(Named, frozen=True, kw_only=True):
    symbols: tuple[str, ...]
    default: str | None = None


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a record; without a default a reader needs it in the data."""

    name: str
    type: "AvroType"
    has_default: bool = False
    default: object = None
    aliases: tuple[str, ...] = ()
    order: str = "ascending"
    doc: str | None = None
    properties: dict[str, object] = {}


class Record(Named, frozen=True, kw_only=True):
    fields: tuple[Field, ...]
    is_error: bool = False


AvroType: TypeAlias = Primitive | Array | MapOf | Union | Reference | Fixed | Enumeration | Record


class AvroSchema(msgspec.Struct, frozen=True):
    """A schema, with every named type that it defines or refers to."""

    root: AvroType
    named: Mapping[str, Fixed | Enumeration | Record]

    def resolve(self, type: AvroType) -> AvroType:  # noqa: A002 - the specification's word
        """The definition behind a reference."""
        return self.named[type.name] if isinstance(type, Reference) else type

    def canonical(self) -> str:
        """The schema in one form: attributes in a fixed order, full names, no white space."""
        return msgspec.json.encode(_written(self.root)).decode()


def parse_avro(text: str, references: Sequence[AvroSchema] = ()) -> AvroSchema:
    """Parse a schema; `references` are schemas whose named types it may use. Raises SchemaInvalid.

    Text that is no JSON but the name of a primitive type is that type, as other registries have it.
    """
    try:
        parsed: Json = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if text.strip() in _PRIMITIVES:
            parsed = text.strip()
        else:
            raise SchemaInvalid("", f"not JSON: {error}") from error
    except RecursionError:
        raise SchemaInvalid("", f"deeper than {DEPTH_MAX}") from None
    parser = _Parser({name: each for schema in references for name, each in schema.named.items()})
    root = parser.parse(parsed, "", "", 0)
    return AvroSchema(root, parser.named)


def type_name(type: AvroType) -> str:  # noqa: A002 - the specification's word
    """How messages call a type."""
    match type:
        case Primitive(name=name) | Reference(name=name):
            return name
        case Array():
            return "array"
        case MapOf():
            return "map"
        case Union():
            return "union"
        case Fixed(name=name):
            return f"fixed {name}"
        case Enumeration(name=name):
            return f"enum {name}"
        case Record(name=name):
            return f"record {name}"


class _Parser:
    """One pass over the JSON of a schema."""

    def __init__(self, named: Mapping[str, Fixed | Enumeration | Record]) -> None:
        self.named: dict[str, Fixed | Enumeration | Record] = dict(named)
        # Records whose fields are being read: they may be referred to, and are not complete yet.
        self._open: set[str] = set()

    def parse(self, given: Json, namespace: str, path: str, depth: int) -> AvroType:
        if depth > DEPTH_MAX:
            raise SchemaInvalid(path, f"deeper than {DEPTH_MAX}")
        if isinstance(given, str):
            return self._by_name(given, namespace, path)
        if isinstance(given, list):
            return self._union(given, namespace, path, depth)
        if not isinstance(given, dict):
            raise SchemaInvalid(path, "a type is a name, an object or an array of types")
        kind = given.get("type")
        if isinstance(kind, dict | list):
            # {"type": {"type": "string"}}: a type that was wrapped once more.
            return self.parse(kind, namespace, f"{path}/type", depth + 1)
        if not isinstance(kind, str):
            raise SchemaInvalid(path, "no type")
        if kind in _COMPLEX:
            return self._complex(kind, given, namespace, path, depth)
        named = self._by_name(kind, namespace, f"{path}/type")
        if isinstance(named, Primitive):
            return Primitive(name=named.name, properties=_properties(given, ("type",)))
        return named

    def _by_name(self, name: str, namespace: str, path: str) -> Primitive | Reference:
        if name in _PRIMITIVES:
            return Primitive(name=name)
        for full in dict.fromkeys((_full(name, namespace), name)):
            if full in self.named or full in self._open:
                return Reference(full)
        raise SchemaInvalid(path, f"unknown type {name[:100]!r}")

    def _union(self, given: list[Json], namespace: str, path: str, depth: int) -> Union:
        branches: list[AvroType] = []
        seen: set[str] = set()
        for index, each in enumerate(given):
            place = f"{path}/{index}"
            branch = self.parse(each, namespace, place, depth + 1)
            if isinstance(branch, Union):
                raise SchemaInvalid(place, "a union directly inside a union")
            key = branch.name if isinstance(branch, Named | Reference) else type_name(branch)
            if key in seen:
                raise SchemaInvalid(place, f"{key} twice in a union")
            seen.add(key)
            branches.append(branch)
        if not branches:
            raise SchemaInvalid(path, "a union without types")
        return Union(tuple(branches))

    def _complex(
        self, kind: str, given: dict[str, Json], namespace: str, path: str, depth: int
    ) -> AvroType:
        if kind in {"array", "map"}:
            part = "items" if kind == "array" else "values"
            if part not in given:
                raise SchemaInvalid(path, f"{kind} without {part}")
            inner = self.parse(given[part], namespace, f"{path}/{part}", depth + 1)
            properties = _properties(given, _KNOWN[kind])
            if kind == "array":
                return Array(items=inner, properties=properties)
            return MapOf(values=inner, properties=properties)
        name = self._new_name(given, namespace, path)
        inside = name.rpartition(".")[0]
        if kind == "fixed":
            made: Fixed | Enumeration | Record = _fixed(name, given, inside, path)
        elif kind == "enum":
            made = _enumeration(name, given, inside, path)
        else:
            made = self._record(name, given, inside, path, depth)
        self.named[name] = made
        return made

    def _new_name(self, given: dict[str, Json], namespace: str, path: str) -> str:
        name, space = given.get("name"), given.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(space, str):
            raise SchemaInvalid(path, "name and namespace are strings, and a name is needed")
        full = _full(name, space)
        if not all(map(_NAME.fullmatch, full.split("."))):
            raise SchemaInvalid(f"{path}/name", f"{full[:100]!r} is no name")
        if full.rpartition(".")[2] in _PRIMITIVES and "." not in full:
            raise SchemaInvalid(f"{path}/name", f"{full!r} is a primitive type")
        if full in self.named or full in self._open:
            raise SchemaInvalid(f"{path}/name", f"{full!r} is defined twice")
        return full

    def _record(
        self, name: str, given: dict[str, Json], namespace: str, path: str, depth: int
    ) -> Record:
        listed = given.get("fields")
        if not isinstance(listed, list):
            raise SchemaInvalid(path, "a record needs an array of fields")
        self._open.add(name)
        fields: list[Field] = []
        seen: set[str] = set()
        for index, each in enumerate(listed):
            place = f"{path}/fields/{index}"
            field = self._field(each, namespace, place, depth)
            for taken in (field.name, *field.aliases):
                if taken in seen:
                    raise SchemaInvalid(place, f"{taken!r} twice in a record")
                seen.add(taken)
            fields.append(field)
        self._open.discard(name)
        record = Record(
            name=name,
            aliases=_aliases(given, namespace, path),
            doc=_doc(given, path),
            properties=_properties(given, _KNOWN["record"]),
            fields=tuple(fields),
            is_error=given["type"] == "error",
        )
        self.named[name] = record
        # Defaults are checked when every name is known, also that of the record itself.
        for index, field in enumerate(fields):
            if field.has_default:
                self._check_default(field.type, field.default, f"{path}/fields/{index}/default", 0)
        del self.named[name]
        return record

    def _field(self, given: Json, namespace: str, path: str, depth: int) -> Field:
        if not isinstance(given, dict):
            raise SchemaInvalid(path, "a field is an object")
        name = given.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SchemaInvalid(f"{path}/name", f"{str(name)[:100]!r} is no name of a field")
        if "type" not in given:
            raise SchemaInvalid(path, "a field without a type")
        order = given.get("order", "ascending")
        if not isinstance(order, str) or order not in _ORDERS:
            raise SchemaInvalid(f"{path}/order", "ascending, descending or ignore")
        return Field(
            name=name,
            type=self.parse(given["type"], namespace, f"{path}/type", depth + 1),
            has_default="default" in given,
            default=given.get("default"),
            aliases=_strings(given, "aliases", path),
            order=order,
            doc=_doc(given, path),
            properties=_properties(given, _KNOWN["field"]),
        )

    def _check_default(self, type: AvroType, value: object, path: str, depth: int) -> None:  # noqa: A002 - the specification's word
        if depth > DEPTH_MAX:
            raise SchemaInvalid(path, f"deeper than {DEPTH_MAX}")
        match type:
            case Reference(name=name):
                self._check_default(self.named[name], value, path, depth + 1)
            case Union(branches=branches):
                # Of the first branch by the specification; of any since Avro 1.12.
                if not any(self._fits(each, value, path, depth) for each in branches):
                    raise SchemaInvalid(path, "fits no type of the union")
            case Array(items=items) if isinstance(value, list):
                for index, each in enumerate(value):
                    self._check_default(items, each, f"{path}/{index}", depth + 1)
            case MapOf(values=values) if isinstance(value, dict):
                for key, each in value.items():
                    self._check_default(values, each, f"{path}/{key}", depth + 1)
            case Record(fields=fields) if isinstance(value, dict):
                self._check_fields(fields, value, path, depth)
            case Primitive() | Fixed() | Enumeration() if _is_scalar_of(type, value):
                pass
            case _:
                raise SchemaInvalid(path, f"is no {type_name(type)}")

    def _check_fields(
        self, fields: Sequence[Field], value: dict[str, object], path: str, depth: int
    ) -> None:
        for field in fields:
            if field.name in value:
                place = f"{path}/{field.name}"
                self._check_default(field.type, value[field.name], place, depth + 1)
            elif not field.has_default:
                raise SchemaInvalid(path, f"lacks the field {field.name!r}")

    def _fits(self, type: AvroType, value: object, path: str, depth: int) -> bool:  # noqa: A002 - the specification's word
        try:
            self._check_default(type, value, path, depth + 1)
        except SchemaInvalid:
            return False
        return True


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _fixed(name: str, given: dict[str, Json], namespace: str, path: str) -> Fixed:
    size = given.get("size")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _INT_MAX:
        raise SchemaInvalid(f"{path}/size", "a whole number of bytes")
    return Fixed(
        name=name,
        aliases=_aliases(given, namespace, path),
        doc=_doc(given, path),
        properties=_properties(given, _KNOWN["fixed"]),
        size=size,
    )


def _enumeration(name: str, given: dict[str, Json], namespace: str, path: str) -> Enumeration:
    symbols = _strings(given, "symbols", path)
    if "symbols" not in given:
        raise SchemaInvalid(path, "an enum needs an array of symbols")
    for index, symbol in enumerate(symbols):
        if not _NAME.fullmatch(symbol):
            raise SchemaInvalid(f"{path}/symbols/{index}", f"{symbol[:100]!r} is no name")
    if len(set(symbols)) != len(symbols):
        raise SchemaInvalid(f"{path}/symbols", "a symbol twice")
    default = given.get("default")
    if default is not None and default not in symbols:
        raise SchemaInvalid(f"{path}/default", "not one of the symbols")
    assert default is None or isinstance(default, str)
    return Enumeration(
        name=name,
        aliases=_aliases(given, namespace, path),
        doc=_doc(given, path),
        properties=_properties(given, _KNOWN["enum"]),
        symbols=symbols,
        default=default,
    )


def _aliases(given: dict[str, Json], namespace: str, path: str) -> tuple[str, ...]:
    return tuple(_full(alias, namespace) for alias in _strings(given, "aliases", path))


def _strings(given: dict[str, Json], name: str, path: str) -> tuple[str, ...]:
    listed = given.get(name, [])
    if not _are_strings(listed):
        raise SchemaInvalid(f"{path}/{name}", "an array of strings")
    return tuple(listed)


def _are_strings(listed: object) -> TypeGuard[list[str]]:
    return isinstance(listed, list) and all(isinstance(each, str) for each in listed)


def _doc(given: dict[str, Json], path: str) -> str | None:
    doc = given.get("doc")
    if doc is not None and not isinstance(doc, str):
        raise SchemaInvalid(f"{path}/doc", "a string")
    return doc


def _properties(given: dict[str, Json], known: Sequence[str]) -> dict[str, object]:
    return {key: given[key] for key in sorted(given) if key not in known}


def _is_scalar_of(type: AvroType, value: object) -> bool:  # noqa: A002 - the specification's word
    match type:
        case Fixed():
            # A string with a character for each byte.
            return isinstance(value, str) and len(value) == type.size and _is_latin(value)
        case Enumeration():
            return value in type.symbols
        case Primitive(name="null"):
            return value is None
        case Primitive(name="boolean"):
            return isinstance(value, bool)
        case Primitive(name="int"):
            return _is_whole(value, _INT_MAX)
        case Primitive(name="long"):
            return _is_whole(value, _LONG_MAX)
        case Primitive(name="float" | "double"):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Primitive(name="bytes"):
            return isinstance(value, str) and _is_latin(value)
        case _:
            return isinstance(value, str)


def _is_whole(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -most - 1 <= value <= most


def _is_latin(value: str) -> bool:
    return all(ord(each) < 256 for each in value)


# One form


def _written(type: AvroType) -> object:  # noqa: A002 - the specification's word
    match type:
        case Primitive():
            return {"type": type.name, **type.properties} if type.properties else type.name
        case Reference():
            return type.name
        case Union():
            return [_written(each) for each in type.branches]
        case Array():
            return {"type": "array", "items": _written(type.items), **type.properties}
        case MapOf():
            return {"type": "map", "values": _written(type.values), **type.properties}
        case Fixed():
            return {"type": "fixed", **dict(_head(type)), "size": type.size, **type.properties}
        case Enumeration():
            default = {} if type.default is None else {"default": type.default}
            symbols = {"symbols": type.symbols}
            return {"type": "enum", **dict(_head(type)), **symbols, **default, **type.properties}
        case Record():
            kind = "error" if type.is_error else "record"
            fields = [_written_field(each) for each in type.fields]
            return {"type": kind, **dict(_head(type)), "fields": fields, **type.properties}


def _head(named: Named) -> Iterator[tuple[str, object]]:
    yield "name", named.name
    if named.doc is not None:
        yield "doc", named.doc
    if named.aliases:
        yield "aliases", named.aliases


def _written_field(field: Field) -> dict[str, object]:
    written: dict[str, object] = {"name": field.name, "type": _written(field.type)}
    if field.doc is not None:
        written["doc"] = field.doc
    if field.has_default:
        written["default"] = field.default
    if field.order != "ascending":
        written["order"] = field.order
    if field.aliases:
        written["aliases"] = field.aliases
    return {**written, **field.properties}
