"""JSON Schemas made by chance: what is called compatible accepts every value of the other."""

import copy
import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from goqueue.schemas import (
    CheckBudget,
    SchemaInvalid,
    TooComplex,
    json_incompatibilities,
    parse_json_schema,
)
from goqueue.schemas.json_partition import PART_BYTES, partition

Schema = Any
_DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
_NAMES = ("a", "b", "ab")
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_SCALARS: list[Any] = [None, True, False, -1, 0, 1, 1.0, 2, 0.5, "", "a", "b", "ab", "abc"]


def _values() -> list[Any]:
    """All small values: the schemas below speak of nothing else."""
    few: list[Any] = [None, 1, 1.0, 0.5, "a", "ab"]
    inner = [*few, [], [1], ["a", 1], {}, {"a": 1}, {"b": "a"}]
    found = [*_SCALARS, [], {}]
    found += [[one] for one in inner] + [[one, two] for one in inner for two in few]
    found += [[1, one, two] for one in few for two in few]
    found += [{name: one} for name in _NAMES for one in inner]
    found += [{"a": one, "b": two} for one in inner for two in few]
    found += [{"a": one, "ab": two} for one in few for two in few]
    found += [{"a": 1, "b": one, "ab": two} for one in few for two in few]
    return found


_ALL_VALUES = _values()


def _schemas(draft: int) -> st.SearchStrategy[Schema]:
    """Schemas with at most a few keywords each, which may refer to three definitions."""
    where = "$defs" if draft >= 3 else "definitions"
    references = st.sampled_from([{"$ref": f"#/{where}/{name}"} for name in "xyz"])
    kinds = st.sampled_from(_TYPES)
    leaves: st.SearchStrategy[Schema] = (
        st.just({})
        | st.builds(lambda kind: {"type": kind}, kinds)
        | references
        | st.fixed_dictionaries({}, optional=_plain_keywords(draft))
    )
    if draft:
        leaves |= st.booleans()
    return st.recursive(leaves, lambda inner: _keywords(draft, inner), max_leaves=6)


def _plain_keywords(draft: int) -> dict[str, st.SearchStrategy[Any]]:
    small = st.integers(0, 2)
    found: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(_TYPES)
        | st.lists(st.sampled_from(_TYPES), min_size=1, unique=True),
        "enum": st.lists(st.sampled_from(_SCALARS), min_size=1, max_size=3, unique_by=repr),
        "const": st.sampled_from(_SCALARS),
        "minimum": small,
        "maximum": small,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": small,
        "maxLength": small,
        "pattern": st.sampled_from(["^a", "b$"]),
        "minItems": small,
        "maxItems": small,
        "uniqueItems": st.booleans(),
        "minProperties": small,
        "maxProperties": small,
        "required": st.lists(st.sampled_from(_NAMES), min_size=1, unique=True),
        "exclusiveMinimum": small if draft else st.booleans(),
        "exclusiveMaximum": small if draft else st.booleans(),
        "dependentRequired": st.fixed_dictionaries(
            {}, optional={name: st.lists(st.sampled_from(_NAMES), unique=True) for name in "ab"}
        ),
        "minContains": small,
        "maxContains": small,
    }
    if not draft:
        # It needs the limit beside it.
        del found["exclusiveMinimum"], found["exclusiveMaximum"]
    return found


def _keywords(draft: int, inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    whole = inner if draft else inner.filter(lambda each: isinstance(each, dict))
    listed = st.lists(whole, min_size=1, max_size=3)
    named = st.dictionaries(st.sampled_from(_NAMES), whole, max_size=2)
    names = st.lists(st.sampled_from(_NAMES), min_size=1, unique=True)
    found = {
        **_plain_keywords(draft),
        "properties": named,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), whole, max_size=2),
        "additionalProperties": st.booleans() | whole,
        "items": whole if draft == 4 else whole | listed,
        "additionalItems": st.booleans() | whole,
        "prefixItems": listed,
        "contains": whole,
        "propertyNames": whole,
        "dependencies": st.dictionaries(st.sampled_from("ab"), whole | names, max_size=1),
        "dependentSchemas": st.dictionaries(st.sampled_from("ab"), whole, max_size=1),
        "unevaluatedItems": st.booleans() | whole,
        "unevaluatedProperties": st.booleans() | whole,
        "allOf": listed,
        "anyOf": listed,
        "oneOf": listed,
        "not": whole,
        "if": whole,
        "then": whole,
        "else": whole,
    }
    keys = st.lists(st.sampled_from(sorted(found)), min_size=1, max_size=4, unique=True)
    return keys.flatmap(lambda chosen: st.fixed_dictionaries({key: found[key] for key in chosen}))


def _documents(draft: int) -> st.SearchStrategy[Schema]:
    where = "$defs" if draft >= 3 else "definitions"
    schemas = _schemas(draft).filter(lambda each: isinstance(each, dict))
    parts = st.fixed_dictionaries(dict.fromkeys("xyz", schemas))
    return st.builds(
        # Before 2019-09 a reference is alone, so the root is another part.
        lambda root, defined: {"$schema": _DRAFTS[draft], "allOf": [root], where: defined},
        schemas,
        parts,
    )


def _places(schema: Schema, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All objects in a schema, of which some are schemas."""
    if isinstance(schema, dict):
        found.append(schema)
    for each in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(each, dict | list):
            _places(each, found)
    return found


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[Schema, Schema]:
    """A schema, and what it was before some change, or another one."""
    draft = draw(st.integers(0, 4))
    old = draw(_documents(draft))
    if draw(st.integers(0, 9)) == 0:
        return draw(_documents(draw(st.integers(0, 4)))), old
    new = copy.deepcopy(old)
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(_places(new, [])))
        key = draw(st.sampled_from(sorted(place) or [""]))
        change = draw(st.integers(0, 5))
        if change == 0 and key:
            del place[key]
        elif change == 1:
            place.update(draw(_schemas(draft).filter(lambda each: isinstance(each, dict))))
        elif change == 2 and isinstance(place.get(key), dict):
            place[key] = draw(_schemas(draft))
        elif change == 3 and type(place.get(key)) is int:
            place[key] += draw(st.sampled_from([-1, 1]))
        elif change == 4:
            place.update(draw(st.fixed_dictionaries({}, optional=_plain_keywords(draft))))
        elif isinstance(place.get(key), list) and len(place[key]) > 1:
            place[key] = place[key][:-1]
    new.setdefault("$schema", _DRAFTS[draft])
    if draw(st.integers(0, 9)) == 0:
        new["$schema"] = draw(st.sampled_from(_DRAFTS))
    return (new, old) if draw(st.booleans()) else (old, new)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(pair=_pairs())
def test_a_reader_that_is_called_compatible_accepts_every_value_of_the_writer(
    pair: tuple[Schema, Schema],
) -> None:
    check_pair(*pair)


def check_pair(reader: Schema, writer: Schema) -> None:
    try:
        one, other = (parse_json_schema(json.dumps(each)) for each in (reader, writer))
        found = next(json_incompatibilities(one, other, CheckBudget(20_000)), None)
    except (SchemaInvalid, TooComplex, RecursionError):
        event("not compared")
        return
    event("incompatible" if found else "compatible")
    if found is not None:
        return
    accepts, writes = (
        jsonschema_rs.validator_for(each, validate_formats=False).is_valid
        for each in (reader, writer)
    )
    for value in _ALL_VALUES:
        assert not writes(value) or accepts(value), value


@st.composite
def _large(draw: st.DrawFn) -> Schema:
    """A schema of properties with other keywords beside them, in a schema like it."""
    draft = draw(st.integers(0, 4))
    where = "$defs" if draft >= 3 else "definitions"
    schemas = _schemas(draft).filter(lambda each: isinstance(each, dict))
    for _ in range(draw(st.integers(1, 2))):
        inner = draw(st.dictionaries(st.sampled_from(_NAMES), schemas, min_size=1))
        beside: Schema = draw(st.just({}) | _keywords(draft, _schemas(draft)))
        schemas = st.just({**beside, "properties": inner})
    document = {
        "$schema": _DRAFTS[draft],
        where: draw(st.fixed_dictionaries(dict.fromkeys("xyz", schemas))),
    }
    return {**draw(schemas), **document}


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(schema=_large(), part_bytes=st.sampled_from([1, 300, 2000]))
def test_a_value_conforms_to_a_schema_exactly_if_it_conforms_to_all_of_its_parts(
    schema: Schema, part_bytes: int
) -> None:
    parts: list[Schema] = list(partition(schema, part_bytes))
    event(f"{min(len(parts), 4)} parts")
    try:
        whole = jsonschema_rs.validator_for(schema, validate_formats=False).is_valid
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        event("not valid")
        return
    checks = [jsonschema_rs.validator_for(each, validate_formats=False).is_valid for each in parts]
    for value in _ALL_VALUES:
        assert whole(value) == all(check(value) for check in checks), value


def test_a_large_schema_is_compiled_in_parts_and_refuses_what_each_of_them_refuses() -> None:
    names = [f"f{number}" for number in range(4000)]
    schema = {"properties": {name: {"type": "integer", "minimum": 0} for name in names}}
    closed: Schema = {"type": "object", **schema, "additionalProperties": False}
    assert max(len(json.dumps(each)) for each in partition(closed)) < 2 * PART_BYTES
    validator = parse_json_schema(json.dumps(closed)).validator()
    assert validator.accepts(dict.fromkeys(names, 1))
    for name in (names[0], names[2000], names[-1]):
        assert not validator.accepts({name: -1})
        found = validator.explain({name: -1})
        assert found is not None
        assert found[0] == f"/{name}"
    assert validator.explain({"other": 1}) is not None


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({"$id": "http://example.com/a"}, id="a name of its own"),
        pytest.param({"items": {"$ref": "#"}}, id="a reference to the root"),
        pytest.param({"items": {"$ref": "#/properties/f1"}}, id="a reference to a property"),
        pytest.param({"items": {"$ref": "#/definitions/none"}}, id="a reference to nothing"),
    ],
)
def test_a_large_schema_whose_references_could_change_their_meaning_stays_whole(
    extra: Schema,
) -> None:
    inner = {"type": "integer", **extra}
    schema: Schema = {"properties": {f"f{number}": inner for number in range(99)}}
    assert partition(schema, 100) == [schema]
