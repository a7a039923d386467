"""JSON Schema: what parses, and which evolutions are compatible, judged by values too."""

import json

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goqueue.model import NamedSource
from goqueue.schemas import (
    CheckBudget,
    SchemaInvalid,
    TooComplex,
    json_incompatibilities,
    parse_json_schema,
)
from tests.examples import examples
from tests.unit.schemas.json_cases import JSON_CASES, JsonCase, Schema

_RUNNING = [case for case in JSON_CASES if case.readable]


def _found(reader: object, writer: object) -> list[str]:
    one, other = parse_json_schema(json.dumps(reader)), parse_json_schema(json.dumps(writer))
    return [str(each) for each in json_incompatibilities(one, other, CheckBudget())]


def test_the_table_has_enough_cases_with_different_names() -> None:
    assert len({case.name for case in JSON_CASES}) == len(JSON_CASES) >= 150


@pytest.mark.parametrize("case", JSON_CASES, ids=lambda case: case.name)
def test_each_evolution_is_as_compatible_as_its_values_are(case: JsonCase) -> None:
    backward, forward = _found(case.new, case.old), _found(case.old, case.new)
    assert ("B" * (not backward) + "F" * (not forward)) == case.readable, (backward, forward)
    assert case.reason in "\n".join(backward or forward or [""])


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-8, 8)
    | st.sampled_from([0.5, 2.5, 3.0, "a", "b", "c", "abcd", "abcdef", "x", "y"]),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(
            st.sampled_from(["a", "b", "b1", "in", "kind", "next", "value"]), inner, max_size=6
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("case", _RUNNING, ids=lambda case: case.name)
@settings(max_examples=examples(2), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(_VALUES, min_size=5, max_size=20))
def test_what_is_called_compatible_reads_every_value_of_the_other(
    case: JsonCase, values: list[object]
) -> None:
    old, new = (
        jsonschema_rs.validator_for(_with_draft(each), validate_formats=False)
        for each in (case.old, case.new)
    )
    for value in values:
        if "B" in case.readable and old.is_valid(value):
            assert new.is_valid(value), value
        if "F" in case.readable and new.is_valid(value):
            assert old.is_valid(value), value


def _with_draft(schema: Schema) -> Schema:
    if isinstance(schema, dict):
        return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    return schema


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("{", "", "not JSON"),
        ("5", "", "a schema is an object"),
        ('{"type": "texts"}', "/type", "texts"),
        ('{"minimum": "1"}', "/minimum", '"1"'),
        ('{"$schema": "http://json-schema.org/draft-03/schema#"}', "/$schema", "no draft"),
        ('{"$ref": "http://example.com/x.json"}', "", "nothing is fetched"),
        ('{"$ref": "file:///etc/passwd"}', "", "nothing is fetched"),
        ('{"$ref": "#/definitions/none"}', "", ""),
        ('{"pattern": "("}', "/pattern", ""),
        ('{"pattern": "' + "(a{1,1000}){1,1000}" * 5 + '"}', "/pattern", ""),
        ('{"not":' * 40 + "{}" + "}" * 40, "/not" * 33, "deeper"),
        ("[" * 100_000, "", ""),
    ],
)
def test_an_invalid_schema_is_refused_with_path_and_reason(
    text: str, path: str, reason: str
) -> None:
    with pytest.raises(SchemaInvalid) as refused:
        parse_json_schema(text)
    assert refused.value.path == path
    assert reason in refused.value.reason


def test_members_in_another_order_are_the_same_content() -> None:
    one = parse_json_schema('{"type": "object", "title": "x"}')
    assert one.canonical() == parse_json_schema('{"title":"x",\n"type":"object"}').canonical()


def test_a_registered_schema_is_found_by_its_name() -> None:
    text = '{"$ref": "address.json#/definitions/city"}'
    wide = NamedSource("address.json", '{"definitions": {"city": {"type": ["string", "null"]}}}')
    slim = NamedSource("address.json", '{"definitions": {"city": {"type": "string"}}}')
    one, other = parse_json_schema(text, [wide]), parse_json_schema(text, [slim])
    assert not list(json_incompatibilities(one, other, CheckBudget()))
    assert list(json_incompatibilities(other, one, CheckBudget()))


def test_a_schema_that_refers_to_itself_alone_ends() -> None:
    schema = {"definitions": {"x": {"$ref": "#/definitions/x"}}, "allOf": [{"type": "object"}]}
    assert _found(schema, schema) == []


def test_branches_that_multiply_are_given_up() -> None:
    def deep(level: int, least: int) -> dict[str, object]:
        if not level:
            return {"type": "integer", "minimum": least}
        inner = [
            {"properties": {"a": deep(level - 1, least)}, "minProperties": n} for n in range(4)
        ]
        return {"type": "object", "anyOf": inner}

    one, other = (parse_json_schema(json.dumps(deep(5, least))) for least in (1, 2))
    with pytest.raises(TooComplex):
        list(json_incompatibilities(one, other, CheckBudget(50_000)))


def test_a_regular_expression_does_not_take_long_on_any_value() -> None:
    schema = parse_json_schema('{"type": "string", "pattern": "^(a+)+$"}')
    fancy = parse_json_schema('{"type": "string", "pattern": "^(?=(a+)+$)(a|aa)+$"}')
    for each in (schema, fancy):
        # Without a bound on its steps the second would not come back.
        assert isinstance(each.validator().accepts("a" * 50_000 + "!"), bool)
