"""Avro schemas: what parses, what one form they have, and which evolutions are compatible."""

import json

import pytest

from goqueue.schemas import (
    DEPTH_MAX,
    CheckBudget,
    SchemaInvalid,
    TooComplex,
    avro_incompatibilities,
    parse_avro,
)
from tests.unit.schemas.avro_cases import AVRO_CASES, AvroCase


def test_the_table_has_enough_cases_with_different_names() -> None:
    assert len({case.name for case in AVRO_CASES}) == len(AVRO_CASES) >= 150


@pytest.mark.parametrize("case", AVRO_CASES, ids=lambda case: case.name)
def test_each_evolution_is_as_compatible_as_the_specification_says(case: AvroCase) -> None:
    old, new = parse_avro(json.dumps(case.old)), parse_avro(json.dumps(case.new))

    backward = [str(each) for each in avro_incompatibilities(new, old, CheckBudget())]
    forward = [str(each) for each in avro_incompatibilities(old, new, CheckBudget())]

    assert ("B" * (not backward) + "F" * (not forward)) == case.readable, (backward, forward)
    assert case.reason in (backward or forward or [""])[0]
    assert bool(case.reason) == bool(backward or forward)


_REFUSED = [
    ("{", "", "not JSON"),
    ("5", "", "a type is a name"),
    ('"text"', "", "unknown type 'text'"),
    ("{}", "", "no type"),
    ("[]", "", "a union without types"),
    ('["int", "int"]', "/1", "int twice in a union"),
    ('["null", ["int"]]', "/1", "a union directly inside a union"),
    ('{"type": "array"}', "", "array without items"),
    ('{"type": "map"}', "", "map without values"),
    ('{"type": "fixed", "name": "F"}', "/size", "a whole number"),
    ('{"type": "fixed", "name": "F", "size": true}', "/size", "a whole number"),
    ('{"type": "fixed", "name": "F", "size": -1}', "/size", "a whole number"),
    ('{"type": "enum", "name": "E"}', "", "an array of symbols"),
    ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "/symbols", "a symbol twice"),
    ('{"type": "enum", "name": "E", "symbols": ["a-b"]}', "/symbols/0", "is no name"),
    ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "/default", "not one"),
    ('{"type": "enum", "name": "E", "symbols": "A"}', "/symbols", "an array of strings"),
    ('{"type": "record", "name": "R"}', "", "an array of fields"),
    ('{"type": "record", "name": "R", "fields": [5]}', "/fields/0", "a field is an object"),
    ('{"type": "record", "name": "R", "fields": [{"name": "x"}]}', "/fields/0", "without a type"),
    ('{"type": "record", "name": "1", "fields": []}', "/name", "is no name"),
    ('{"type": "record", "fields": []}', "", "a name is needed"),
    ('{"type": "record", "name": "int", "fields": []}', "/name", "is a primitive type"),
    ('{"type": "record", "name": "R", "doc": 5, "fields": []}', "/doc", "a string"),
]


@pytest.mark.parametrize(("text", "path", "reason"), _REFUSED)
def test_a_schema_that_is_none_is_refused_with_place_and_reason(
    text: str, path: str, reason: str
) -> None:
    with pytest.raises(SchemaInvalid) as refused:
        parse_avro(text)

    assert refused.value.path == path
    assert reason in refused.value.reason


_DEFAULTS = [
    ("int", "1", False),
    ("int", True, False),
    ("int", 2**31, False),
    ("int", -(2**31), True),
    ("long", 2**63, False),
    ("long", 2**63 - 1, True),
    ("double", 1, True),
    ("double", "1", False),
    ("null", None, True),
    ("boolean", 0, False),
    ("bytes", "\u00ff", True),
    ("bytes", "\u0100", False),
    ("string", "\u0100", True),
    (["null", "int"], None, True),
    (["null", "int"], 5, True),
    (["null", "int"], "x", False),
    ({"type": "array", "items": "int"}, [1, 2], True),
    ({"type": "array", "items": "int"}, [1, "2"], False),
    ({"type": "map", "values": "int"}, {"a": 1}, True),
    ({"type": "map", "values": "int"}, {"a": None}, False),
    ({"type": "fixed", "name": "F", "size": 2}, "ab", True),
    ({"type": "fixed", "name": "F", "size": 2}, "abc", False),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", True),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", False),
    ({"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}, {"x": 1}, True),
    ({"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}, {}, False),
]


@pytest.mark.parametrize(("type_", "default", "fits"), _DEFAULTS)
def test_a_default_must_be_a_value_of_its_type(type_: object, default: object, fits: bool) -> None:
    field = {"name": "x", "type": type_, "default": default}
    text = json.dumps({"type": "record", "name": "R", "fields": [field]})

    if fits:
        assert json.loads(parse_avro(text).canonical())["fields"][0]["default"] == default
    else:
        with pytest.raises(SchemaInvalid) as refused:
            parse_avro(text)
        assert refused.value.path.startswith("/fields/0/default")


def test_a_name_is_defined_once_and_before_it_is_used() -> None:
    inner = {"type": "fixed", "name": "F", "size": 1}
    twice = [{"name": "a", "type": inner}, {"name": "b", "type": inner}]
    early = [{"name": "a", "type": "F"}, {"name": "b", "type": inner}]

    for fields, reason in ((twice, "defined twice"), (early, "unknown type 'F'")):
        with pytest.raises(SchemaInvalid, match=reason):
            parse_avro(json.dumps({"type": "record", "name": "R", "fields": fields}))


@pytest.mark.parametrize("depth", [DEPTH_MAX, DEPTH_MAX + 1, 100_000])
def test_a_schema_is_at_most_so_deep(depth: int) -> None:
    text = '{"type": "array", "items": ' * depth + '"int"' + "}" * depth

    if depth <= DEPTH_MAX:
        assert parse_avro(text).canonical().count("array") == depth
    else:
        with pytest.raises(SchemaInvalid, match="deeper than"):
            parse_avro(text)


def test_schemas_that_differ_in_form_only_have_one_canonical_form() -> None:
    one = '{"type": "record", "name": "R", "namespace": "a", "fields": [{"name":"x","type":"int"}]}'
    other = """{ "fields" : [ {"type": {"type": "int"}, "name": "x", "order": "ascending"} ],
                 "name": "a.R", "type": "record" }"""

    assert parse_avro(one).canonical() == parse_avro(other).canonical()


@pytest.mark.parametrize("case", AVRO_CASES, ids=lambda case: case.name)
def test_the_canonical_form_parses_to_itself(case: AvroCase) -> None:
    canonical = parse_avro(json.dumps(case.new)).canonical()

    assert parse_avro(canonical).canonical() == canonical


def test_named_types_of_referenced_schemas_can_be_used() -> None:
    money = parse_avro('{"type": "fixed", "name": "shop.Money", "size": 8}')
    text = '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "shop.Money"}]}'

    wide = parse_avro('{"type": "fixed", "name": "shop.Money", "size": 16}')
    found = list(
        avro_incompatibilities(parse_avro(text, [wide]), parse_avro(text, [money]), CheckBudget())
    )

    assert [each.path for each in found] == ["/fields/0/type/size"]
    with pytest.raises(SchemaInvalid, match=r"unknown type 'shop.Money'"):
        parse_avro(text)


def test_a_pair_that_was_believed_compatible_is_compared_again_when_its_outer_pair_is_not() -> None:
    """The inner record holds the outer one, which differs: no branch may accept it."""

    def schema(kind: str) -> str:
        inner = {"type": "record", "name": "In", "fields": [{"name": "o", "type": ["null", "Out"]}]}
        fields = [{"name": "i", "type": inner}, {"name": "x", "type": kind}]
        outer = {"type": "record", "name": "Out", "fields": fields}
        return json.dumps(["null", outer, {"type": "array", "items": "In"}])

    found = list(
        avro_incompatibilities(
            parse_avro(schema("string")), parse_avro(schema("int")), CheckBudget()
        )
    )

    assert len(found) == 2
    assert "record Out" in found[0].reason
    assert "array" in found[1].reason


@pytest.mark.parametrize(
    ("records", "budget"),
    [(200, CheckBudget(20_000)), pytest.param(1000, CheckBudget(), marks=pytest.mark.long)],
    ids=["short", "whole"],
)
def test_a_comparison_that_would_take_too_long_is_given_up(
    records: int, budget: CheckBudget
) -> None:
    def crowd(letter: str) -> str:
        names = (f"{letter}{number}" for number in range(records))
        return json.dumps([{"type": "record", "name": name, "fields": []} for name in names])

    with pytest.raises(TooComplex):
        list(avro_incompatibilities(parse_avro(crowd("a")), parse_avro(crowd("b")), budget))
