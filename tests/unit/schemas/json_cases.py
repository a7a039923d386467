"""Evolutions of JSON Schemas, with the answer that follows from what the schemas accept.

Written by hand and by rules of thumb that do not look at the code: a schema reads another if it
accepts all of its values. `readable` has B if the new schema reads values of the old one, F if the
old one reads values of the new one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

__all__ = ["JSON_CASES", "JsonCase", "Schema"]

Schema = dict[str, Any] | bool


class JsonCase(msgspec.Struct, frozen=True):
    """One evolution: what was, what comes, who reads whom, and why not."""

    name: str
    old: Schema
    new: Schema
    readable: str
    reason: str = ""


def _object(properties: Mapping[str, Schema] | None = None, **more: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties or {}, **more}


_INT: dict[str, Any] = {"type": "integer"}
_TEXT: dict[str, Any] = {"type": "string"}
_CLOSED = {"additionalProperties": False}


def _types() -> Iterator[JsonCase]:
    names = ("null", "boolean", "integer", "number", "string", "array", "object")
    for old in names:
        for new in names:
            readable = "BF" if old == new else ""
            if (old, new) == ("integer", "number"):
                readable = "B"
            if (old, new) == ("number", "integer"):
                readable = "F"
            reason = "" if readable == "BF" else "does not accept the writer's type"
            yield JsonCase(f"{old} becomes {new}", {"type": old}, {"type": new}, readable, reason)
        yield JsonCase(f"{old} becomes anything", {"type": old}, True, "B", "accept")
        yield JsonCase(
            f"{old} gets a second type",
            {"type": old},
            {"type": [old, "null" if old != "null" else "string"]},
            "B",
            "writer's type",
        )


# A keyword that is a lower limit, or an upper one, and the type that it is about.
_LIMITS = (
    ("minimum", "number", "low"),
    ("maximum", "number", "high"),
    ("exclusiveMinimum", "number", "low"),
    ("exclusiveMaximum", "number", "high"),
    ("minLength", "string", "low"),
    ("maxLength", "string", "high"),
    ("minItems", "array", "low"),
    ("maxItems", "array", "high"),
    ("minProperties", "object", "low"),
    ("maxProperties", "object", "high"),
)


def _limits() -> Iterator[JsonCase]:
    for keyword, kind, side in _LIMITS:
        lower, higher = ({"type": kind, keyword: value} for value in (3, 5))
        none = {"type": kind}
        stricter, wider = (higher, lower) if side == "low" else (lower, higher)
        yield JsonCase(f"{keyword} becomes wider", stricter, wider, "B", keyword)
        yield JsonCase(f"{keyword} becomes stricter", wider, stricter, "F", keyword)
        yield JsonCase(f"{keyword} is added", none, lower, "F", keyword)
        yield JsonCase(f"{keyword} is removed", lower, none, "B", keyword)
        yield JsonCase(f"{keyword} stays", lower, dict(lower), "BF")


def _numbers() -> Iterator[JsonCase]:
    yield JsonCase(
        "an inclusive limit becomes exclusive",
        {"type": "number", "minimum": 3},
        {"type": "number", "exclusiveMinimum": 3},
        "F",
        "exclusiveMinimum",
    )
    yield JsonCase(
        "an exclusive limit of draft 4 becomes inclusive",
        {"type": "number", "maximum": 3, "exclusiveMaximum": True, "$schema": _DRAFTS[0]},
        {"type": "number", "maximum": 3, "$schema": _DRAFTS[0]},
        "B",
        "exclusiveMaximum",
    )
    yield JsonCase(
        "multiples of 6 become multiples of 3",
        {"type": "integer", "multipleOf": 6},
        {"type": "integer", "multipleOf": 3},
        "B",
        "multiples",
    )
    yield JsonCase(
        "multiples of 4 become multiples of 6",
        {"type": "integer", "multipleOf": 4},
        {"type": "integer", "multipleOf": 6},
        "",
        "multiples",
    )
    yield JsonCase(
        "integers become numbers that are multiples of 1",
        {"type": "integer"},
        {"type": "number", "multipleOf": 1},
        "B",
        "writer's type",
    )
    yield JsonCase(
        "tenths become hundredths",
        {"type": "number", "multipleOf": 0.5},
        {"type": "number", "multipleOf": 0.25},
        "B",
        "multiples",
    )


_DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)


def _drafts() -> Iterator[JsonCase]:
    for draft in _DRAFTS:
        name = draft.rstrip("#").removesuffix("/schema").rpartition("/")[2]
        said = {"$schema": draft}
        yield JsonCase(
            f"{name}: a required member is added",
            {**said, **_object({"a": _INT}, **_CLOSED)},
            {**said, **_object({"a": _INT, "b": _INT}, required=["b"], **_CLOSED)},
            "",
            "requires 'b'",
        )
        yield JsonCase(
            f"{name}: an optional member is added to a closed model",
            {**said, **_object({"a": _INT}, **_CLOSED)},
            {**said, **_object({"a": _INT, "b": _INT}, **_CLOSED)},
            "B",
            "forbids",
        )
        yield JsonCase(
            f"{name}: nothing but words changes",
            {**said, **_object({"a": _INT}, title="old")},
            {**said, **_object({"a": {**_INT, "description": "new"}}, title="new")},
            "BF",
        )
        where = "$defs" if "20" in draft else "definitions"
        yield JsonCase(
            f"{name}: a referenced type becomes wider",
            {**said, **_object({"a": {"$ref": f"#/{where}/x"}}), where: {"x": _INT}},
            {**said, **_object({"a": {"$ref": f"#/{where}/x"}}), where: {"x": {"type": "number"}}},
            "B",
            "writer's type number",
        )


def _members() -> Iterator[JsonCase]:
    one, two = {"a": _INT}, {"a": _INT, "b": _TEXT}
    yield JsonCase("open: a member is added", _object(one), _object(two), "F", "open content")
    yield JsonCase("open: a member is removed", _object(two), _object(one), "B", "open content")
    yield JsonCase(
        "open: an untyped member is added", _object(one), _object({**one, "b": {}}), "BF"
    )
    yield JsonCase(
        "closed: a member is added", _object(one, **_CLOSED), _object(two, **_CLOSED), "B", "/b"
    )
    yield JsonCase(
        "closed: a member is removed", _object(two, **_CLOSED), _object(one, **_CLOSED), "F", "/b"
    )
    yield JsonCase("closed becomes open", _object(one, **_CLOSED), _object(one), "B", "open")
    yield JsonCase("open becomes closed", _object(one), _object(one, **_CLOSED), "F", "open")


def _rest_of_members() -> Iterator[JsonCase]:
    one, two = {"a": _INT}, {"a": _INT, "b": _TEXT}
    yield JsonCase(
        "typed rest: a member of that type is added",
        _object(one, additionalProperties=_TEXT),
        _object(two, additionalProperties=_TEXT),
        "BF",
    )
    yield JsonCase(
        "typed rest: a member of another type is added",
        _object(one, additionalProperties=_INT),
        _object(two, additionalProperties=_INT),
        "",
        "writer's type",
    )
    yield JsonCase(
        "the rest gets a wider type",
        _object(one, additionalProperties=_INT),
        _object(one, additionalProperties={"type": "number"}),
        "B",
        "writer's type number",
    )
    yield JsonCase(
        "a member becomes required", _object(one), _object(one, required=["a"]), "F", "requires"
    )
    yield JsonCase(
        "a member becomes optional", _object(one, required=["a"]), _object(one), "B", "requires"
    )
    yield JsonCase(
        "a required member with a default is added: defaults are not filled in",
        _object(one, **_CLOSED),
        _object({**one, "b": {**_INT, "default": 0}}, required=["b"], **_CLOSED),
        "",
        "requires 'b'",
    )
    yield JsonCase(
        "a member changes its type", _object(one), _object({"a": _TEXT}), "", "writer's type"
    )
    yield JsonCase(
        "a member gets a wider type",
        _object(one),
        _object({"a": {"type": ["integer", "null"]}}),
        "B",
        "null",
    )
    yield JsonCase(
        "a member of a member changes",
        _object({"in": _object(one, **_CLOSED)}),
        _object({"in": _object(two, **_CLOSED)}),
        "B",
        "/properties/in",
    )
    yield JsonCase("a member is forbidden", _object(one), _object({"a": False}), "F", "forbids")


def _patterns() -> Iterator[JsonCase]:
    one = {"a": _INT}
    yield JsonCase(
        "a pattern names the members that are added",
        _object({}, patternProperties={"^b": _TEXT}, **_CLOSED),
        _object({"b1": _TEXT}, patternProperties={"^b": _TEXT}, **_CLOSED),
        "BF",
    )
    yield JsonCase(
        "a pattern gets another type",
        _object({}, patternProperties={"^b": _TEXT}, **_CLOSED),
        _object({}, patternProperties={"^b": _INT}, **_CLOSED),
        "",
        "patternProperties",
    )
    yield JsonCase(
        "a pattern is added to an open model",
        _object({}),
        _object({}, patternProperties={"^b": _INT}),
        "F",
        "patternProperties",
    )
    yield JsonCase(
        "names get a pattern",
        _object({}),
        _object({}, propertyNames={"pattern": "^a"}),
        "F",
        "propertyNames",
    )
    yield JsonCase(
        "a dependency is added",
        _object(one),
        _object(one, dependencies={"a": ["b"]}),
        "F",
        "dependencies",
    )


def _arrays() -> Iterator[JsonCase]:
    def items(schema: object, **more: object) -> dict[str, Any]:
        return {"type": "array", "items": schema, **more}

    yield JsonCase("items get a wider type", items(_INT), items({"type": "number"}), "B", "items")
    yield JsonCase("items change their type", items(_INT), items(_TEXT), "", "items")
    yield JsonCase("items get a type", {"type": "array"}, items(_INT), "F", "items")
    yield JsonCase("items lose their type", items(_INT), {"type": "array"}, "B", "items")
    yield JsonCase("items become unique", items(_INT), items(_INT, uniqueItems=True), "F", "repeat")
    yield JsonCase("items may repeat", items(_INT, uniqueItems=True), items(_INT), "B", "repeat")
    yield JsonCase(
        "a closed tuple becomes longer",
        items([_INT], additionalItems=False),
        items([_INT, _TEXT], additionalItems=False),
        "B",
        "items/1",
    )
    yield JsonCase(
        "an open tuple becomes longer", items([_INT]), items([_INT, _TEXT]), "F", "items/1"
    )
    yield JsonCase(
        "a tuple becomes a list",
        items([_INT, _INT], additionalItems=False),
        items(_INT),
        "B",
        "items",
    )
    yield JsonCase(
        "2020-12: a closed tuple becomes longer",
        {"$schema": _DRAFTS[4], "type": "array", "prefixItems": [_INT], "items": False},
        {"$schema": _DRAFTS[4], "type": "array", "prefixItems": [_INT, _TEXT], "items": False},
        "B",
        "items/1",
    )
    yield JsonCase(
        "something must be contained",
        {"type": "array"},
        {"type": "array", "contains": _INT},
        "F",
        "contains",
    )
    yield JsonCase(
        "a tuple that never is so long gets another end",
        items([_INT, _INT], maxItems=1),
        items([_INT, _TEXT], maxItems=1),
        "BF",
    )


def _values() -> Iterator[JsonCase]:
    few, more = {"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}
    yield JsonCase("a value is added to an enum", few, more, "B", 'value "c"')
    yield JsonCase("a value is removed from an enum", more, few, "F", 'value "c"')
    yield JsonCase("an enum becomes a type", few, _TEXT, "B", "lists values")
    yield JsonCase("a type becomes an enum", _TEXT, few, "F", "lists values")
    yield JsonCase("an enum of text becomes a number", few, _INT, "", 'value "a"')
    yield JsonCase("an enum becomes a constant", few, {"const": "a"}, "F", 'value "b"')
    yield JsonCase("a constant becomes an enum", {"const": "a"}, few, "B", 'value "b"')
    yield JsonCase("a constant changes", {"const": 1}, {"const": 2}, "", "value 1")
    yield JsonCase("1 and 1.0 are the same constant", {"const": 1}, {"const": 1.0}, "BF")
    yield JsonCase("1 and true are different constants", {"const": 1}, {"const": True}, "", "value")
    yield JsonCase(
        "an enum of short text gets a length", few, {"type": "string", "maxLength": 1}, "B", "lists"
    )
    yield JsonCase("enums in another order", few, {"enum": ["b", "a"]}, "BF")
    yield JsonCase("a pattern is added", _TEXT, {"type": "string", "pattern": "^a"}, "F", "pattern")
    yield JsonCase(
        "a pattern changes",
        {"type": "string", "pattern": "^a"},
        {"type": "string", "pattern": "^b"},
        "",
        "pattern",
    )
    yield JsonCase(
        "a format is added: formats are annotations",
        _TEXT,
        {"type": "string", "format": "email"},
        "BF",
    )


def _combinations() -> Iterator[JsonCase]:
    any_two = {"anyOf": [_INT, _TEXT]}
    any_three = {"anyOf": [_INT, _TEXT, {"type": "null"}]}
    one_two = {"oneOf": [_INT, _TEXT]}
    one_three = {"oneOf": [_INT, _TEXT, {"type": "null"}]}
    yield JsonCase("anyOf gets a branch", any_two, any_three, "B", "no branch")
    yield JsonCase("anyOf loses a branch", any_three, any_two, "F", "no branch")
    yield JsonCase("oneOf gets a branch of another type", one_two, one_three, "B", "no branch")
    yield JsonCase("oneOf loses a branch", one_three, one_two, "F", "no branch")
    yield JsonCase("oneOf in another order", one_two, {"oneOf": [_TEXT, _INT]}, "BF")
    yield JsonCase("a type becomes anyOf", _INT, any_two, "B", "writer's type string")
    yield JsonCase("anyOf becomes a list of types", any_two, {"type": ["integer", "string"]}, "BF")
    yield JsonCase(
        "oneOf gets a branch that overlaps",
        {"oneOf": [_INT]},
        {"oneOf": [_INT, {"type": "number"}]},
        "",
        "",
    )
    yield JsonCase(
        "allOf gets another condition",
        {"allOf": [{"type": "integer"}]},
        {"allOf": [{"type": "integer"}, {"minimum": 0}]},
        "F",
        "minimum",
    )
    yield JsonCase(
        "allOf becomes one schema",
        {"allOf": [{"type": "integer"}, {"minimum": 0}]},
        {"type": "integer", "minimum": 0},
        "BF",
    )
    yield JsonCase("not is added", _INT, {"type": "integer", "not": {"const": 1}}, "F", "not")
    yield JsonCase(
        "not stays",
        {"type": "integer", "not": {"const": 1}},
        {"type": "number", "not": {"const": 1}},
        "B",
        "writer's type number",
    )
    yield JsonCase(
        "a condition is added",
        _object({}),
        _object({}, **{"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
        "F",
        "/if",
    )
    yield JsonCase("everything becomes nothing", True, False, "F", "forbids")
    yield JsonCase("nothing becomes everything", False, True, "B", "forbids")
    yield JsonCase(
        "branches told apart by a member",
        {"oneOf": [_tagged("x")]},
        {"oneOf": [_tagged("x"), _tagged("y")]},
        "B",
        "branch",
    )


def _tagged(kind: str) -> dict[str, Any]:
    return _object({"kind": {"const": kind}}, required=["kind"])


def _references() -> Iterator[JsonCase]:
    def tree(kind: Schema) -> dict[str, Any]:
        node = _object(
            {"value": kind, "next": {"$ref": "#/definitions/node"}}, additionalProperties=False
        )
        return {"$ref": "#/definitions/node", "definitions": {"node": node}}

    yield JsonCase("a recursive schema stays", tree(_INT), tree(_INT), "BF")
    yield JsonCase("a recursive schema becomes wider", tree(_INT), tree({}), "B", "type")
    yield JsonCase("a recursive schema changes", tree(_INT), tree(_TEXT), "", "writer's type")
    yield JsonCase(
        "a definition is written out",
        _object({"a": {"$ref": "#/definitions/x"}}, definitions={"x": _INT}),
        _object({"a": _INT}),
        "BF",
    )


JSON_CASES = tuple(
    case
    for family in (
        _types,
        _limits,
        _numbers,
        _drafts,
        _members,
        _rest_of_members,
        _patterns,
        _arrays,
        _values,
        _combinations,
        _references,
    )
    for case in family()
)
