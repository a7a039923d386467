"""Values that a writer accepts and a reader refuses: the reader must not be called compatible."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from goqueue.model import NamedSource
from goqueue.schemas import CheckBudget, json_incompatibilities, parse_json_schema

_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
_2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
_2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
_INT, _TEXT = {"type": "integer"}, {"type": "string"}
_ONLY_A = {**_2020, "type": "object", "properties": {"a": _INT}, "additionalProperties": False}


class Witness(msgspec.Struct, frozen=True):
    """A reader, a writer, and a value that only the writer accepts."""

    name: str
    reader: dict[str, Any]
    writer: dict[str, Any]
    value: object
    references: tuple[NamedSource, ...] = ()


def _behind(
    draft: dict[str, str], keyword: str, more: dict[str, Any], **defined: object
) -> dict[str, Any]:
    """Schemas with the same keyword, which refers to different definitions."""
    where = "$defs" if "2020" in draft["$schema"] else "definitions"
    using: Any = {"$ref": f"#/{where}/x"}
    if keyword in {"dependentSchemas", "dependencies"}:
        using = {"a": using}
    return {**draft, **more, keyword: using, where: {"x": defined}}


def _dynamic(inner: dict[str, str]) -> dict[str, Any]:
    node = {"$dynamicAnchor": "n", "type": "object", "properties": {"v": inner}}
    return {**_2020, "$defs": {"n": node}, "properties": {"c": {"$dynamicRef": "#n"}}}


def _closed_but(**more: object) -> dict[str, Any]:
    """A writer that forbids what nothing evaluates."""
    known = {**_2020, "type": "object", "properties": {"a": _INT}}
    return {**known, "unevaluatedProperties": False, **more}


_CONDITION = {"if": {"required": ["a"]}}
_EXTERNAL = NamedSource(
    "http://x/e.json",
    json.dumps(
        {
            "definitions": {"c": _TEXT, "q": {"anyOf": [{"$ref": "#/definitions/c"}]}},
            "properties": {"z": {"$ref": "#/definitions/c"}},
        }
    ),
)
_WITNESSES = (
    Witness("a type beside an enum", {"type": "string", "enum": ["a", 1]}, {"enum": [1]}, 1),
    Witness("a limit beside an enum", {"enum": [1, 2, 3], "maximum": 2}, {"enum": [3]}, 3),
    Witness(
        "not",
        _behind(_7, "not", {}, type=["string", "integer"]),
        _behind(_7, "not", {}, type="string"),
        5,
    ),
    Witness(
        "names of members",
        _behind(_7, "propertyNames", {"type": "object"}, maxLength=1),
        _behind(_7, "propertyNames", {"type": "object"}, maxLength=9),
        {"abc": 1},
    ),
    Witness(
        "then",
        _behind(_7, "then", _CONDITION, required=["b"]),
        _behind(_7, "then", _CONDITION, required=["a"]),
        {"a": 1},
    ),
    Witness(
        "dependent schemas",
        _behind(_2020, "dependentSchemas", {}, required=["q"]),
        _behind(_2020, "dependentSchemas", {}, required=["a"]),
        {"a": 1},
    ),
    Witness(
        "dependencies",
        _behind(_4, "dependencies", {}, required=["q"]),
        _behind(_4, "dependencies", {}, required=["a"]),
        {"a": 1},
    ),
    Witness(
        "contains",
        _behind(_7, "contains", {}, minimum=2),
        _behind(_7, "contains", {}, minimum=1),
        [1],
    ),
    Witness("a dynamic reference", _dynamic(_INT), _dynamic(_TEXT), {"c": {"v": "x"}}),
    Witness(
        "one contained item is the default",
        {**_2020, "type": "array", "contains": _INT},
        {**_2020, "type": "array", "contains": _INT, "minContains": 0},
        [],
    ),
    Witness(
        "unevaluated items after a shorter tuple",
        {**_2020, "type": "array", "prefixItems": [_INT], "unevaluatedItems": False},
        {**_2020, "type": "array", "prefixItems": [_INT, _TEXT], "unevaluatedItems": False},
        [1, "a"],
    ),
    Witness(
        "members that a dependency evaluates",
        _ONLY_A,
        _closed_but(dependentSchemas={"a": {"properties": {"b": _TEXT}}}),
        {"a": 1, "b": "x"},
    ),
    Witness(
        "members that a branch within allOf evaluates",
        _ONLY_A,
        _closed_but(allOf=[{"anyOf": [{"properties": {"b": _TEXT}}, {}]}]),
        {"b": "x"},
    ),
    Witness(
        "members that two branches evaluate together",
        _ONLY_A,
        _closed_but(anyOf=[{}, {"properties": {"b": _TEXT}}]),
        {"b": "x"},
    ),
    Witness(
        "members that a part of allOf evaluates all",
        _ONLY_A,
        _closed_but(allOf=[{"additionalProperties": True}]),
        {"b": "x"},
    ),
    Witness(
        "conditions of two parts of allOf",
        {**_7, **_CONDITION, "then": {}, "else": {"required": ["b"]}},
        {**_7, "allOf": [{**_CONDITION, "then": {}}, {"if": True, "else": {"required": ["b"]}}]},
        {},
    ),
    Witness(
        "a reference within another document, in allOf",
        {**_7, "properties": {"z": _INT}},
        {**_7, "definitions": {"c": _INT}, "allOf": [{"$ref": "http://x/e.json"}]},
        {"z": "s"},
        (_EXTERNAL,),
    ),
    Witness(
        "a reference within another document, for listed values",
        {
            **_7,
            "definitions": {"c": _INT},
            "properties": {"z": {"$ref": "http://x/e.json#/definitions/q"}},
        },
        {**_7, "properties": {"z": {"enum": [1]}}},
        {"z": 1},
        (_EXTERNAL,),
    ),
    Witness("1.0 is no integer of draft 4", {**_4, **_INT}, {**_7, **_INT}, 1.0),
    Witness("a listed 1 is 1.0 too", {**_4, **_INT}, {**_7, "enum": [1]}, 1.0),
    Witness("draft 4 has no const", {**_7, "const": 1}, {**_4, "const": 1}, 2),
    Witness(
        "draft 7 has no dependentRequired",
        {**_2020, "dependentRequired": {"a": ["b"]}},
        {**_7, "dependentRequired": {"a": ["b"]}},
        {"a": 1},
    ),
    Witness(
        "draft 7 has no unevaluatedProperties",
        _ONLY_A,
        {**_7, "type": "object", "properties": {"a": _INT}, "unevaluatedProperties": False},
        {"z": 1},
    ),
    Witness(
        "draft 2019-09 has no prefixItems",
        {**_2020, "prefixItems": [_INT]},
        {**_2019, "prefixItems": [_INT]},
        ["x"],
    ),
    Witness(
        "a schema that leads to itself accepts all",
        {**_7, "type": "string"},
        {**_7, "definitions": {"x": {"anyOf": [{"$ref": "#/definitions/x"}]}}}
        | {"allOf": [{"$ref": "#/definitions/x"}]},
        1,
    ),
)


@pytest.mark.parametrize("witness", _WITNESSES, ids=lambda witness: witness.name)
def test_a_reader_is_incompatible_if_it_refuses_a_value_of_the_writer(witness: Witness) -> None:
    resources = [(each.name, json.loads(each.text)) for each in witness.references]
    registry = jsonschema_rs.Registry([(name, {**_7, **each}) for name, each in resources])
    accepts, writes = (
        jsonschema_rs.validator_for({**_7, **each}, registry=registry).is_valid
        for each in (witness.reader, witness.writer)
    )
    assert writes(witness.value)
    assert not accepts(witness.value)

    reader, writer = (
        parse_json_schema(json.dumps(each), witness.references)
        for each in (witness.reader, witness.writer)
    )
    assert list(json_incompatibilities(reader, writer, CheckBudget()))


@pytest.mark.parametrize("draft", [_4, _7, _2019, _2020], ids=lambda draft: draft["$schema"])
def test_a_schema_with_references_everywhere_reads_its_own_values(draft: dict[str, str]) -> None:
    where = "$defs" if "/20" in draft["$schema"] else "definitions"
    using = {"$ref": f"#/{where}/x"}
    schema = {
        **draft,
        "type": "object",
        "properties": {"a": using, "b": {"type": "array", "items": using}, "c": {"enum": [1, "x"]}},
        "not": {"properties": {"a": {"not": using}}, "required": ["a", "b", "c", "d"]},
        "dependencies": {"a": using},
        where: {"x": {"type": ["object", "integer"], "properties": {"n": using}}},
    }
    if draft is not _4:
        schema |= {"propertyNames": {"maxLength": 9}, "if": using, "then": {"maxProperties": 9}}
    one, other = parse_json_schema(json.dumps(schema)), parse_json_schema(json.dumps(schema))
    assert list(json_incompatibilities(one, other, CheckBudget())) == []


def test_members_of_all_parts_are_evaluated_for_a_closed_writer() -> None:
    writer = _closed_but(allOf=[{"properties": {"b": _TEXT}}])
    reader = {**_ONLY_A, "properties": {"a": _INT, "b": _TEXT}}
    one, other = parse_json_schema(json.dumps(reader)), parse_json_schema(json.dumps(writer))
    assert list(json_incompatibilities(one, other, CheckBudget())) == []
