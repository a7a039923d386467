"""The Avro validator: takes what fastavro writes, and no bytes of anyone for long."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import SchemaSource, SchemaType
from goqueue.schemas import create_validator

_TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "value", "type": "int"},
        {"name": "left", "type": ["null", "Tree"]},
        {"name": "right", "type": ["null", "Tree"]},
    ],
}
_ALL = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "a", "type": "boolean"},
        {"name": "b", "type": "int"},
        {"name": "c", "type": "long"},
        {"name": "d", "type": "float"},
        {"name": "e", "type": "double"},
        {"name": "f", "type": "bytes"},
        {"name": "g", "type": "string"},
        {"name": "h", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "i", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "j", "type": {"type": "array", "items": "string"}},
        {"name": "k", "type": {"type": "map", "values": "long"}},
        {"name": "l", "type": ["null", "int", "string"]},
    ],
}
_VALUES = st.fixed_dictionaries(
    {
        "a": st.booleans(),
        "b": st.integers(-(2**31), 2**31 - 1),
        "c": st.integers(-(2**63), 2**63 - 1),
        "d": st.floats(width=32, allow_nan=False),
        "e": st.floats(allow_nan=False),
        "f": st.binary(max_size=20),
        "g": st.text(max_size=20),
        "h": st.sampled_from("AB"),
        "i": st.binary(min_size=3, max_size=3),
        "j": st.lists(st.text(max_size=5), max_size=5),
        "k": st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), max_size=5),
        "l": st.none() | st.integers(-5, 5) | st.text(max_size=5),
    }
)


def _validator(schema: object) -> Any:  # noqa: ANN401 - any validator
    return create_validator(SchemaSource(type=SchemaType.AVRO, text=json.dumps(schema)))


def _written(schema: Any, value: object) -> bytes:  # noqa: ANN401 - as fastavro wants it
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@given(_VALUES)
def test_whatever_fastavro_writes_is_a_value(value: dict[str, object]) -> None:
    assert _validator(_ALL).explain(_written(_ALL, value)) is None


@given(_VALUES, st.data())
def test_a_value_without_its_end_or_with_more_is_none(
    value: dict[str, object], data: st.DataObject
) -> None:
    written = _written(_ALL, value)
    validator = _validator(_ALL)
    cut = data.draw(st.integers(0, len(written) - 1))
    assert validator.explain(written[:cut]) is not None
    assert validator.explain(written + b"\0") is not None


@given(st.binary(max_size=60))
def test_what_is_accepted_of_any_bytes_decodes_to_the_last_byte(payload: bytes) -> None:
    if _validator(_ALL).explain(payload) is None:
        source = io.BytesIO(payload)
        fastavro.schemaless_reader(source, fastavro.parse_schema(_ALL), None)
        assert source.tell() == len(payload)


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        (_TREE, b"\x00\x02" * 200_000, "deeper than 64"),
        ({"type": "array", "items": "null"}, b"\x80\xa8\xd6\xb9\x07\x00", "more than 100000 items"),
        ({"type": "array", "items": "null"}, b"\x01\x01\x00", "negative size"),
        ("string", b"\x04\xff\xfe", "not UTF-8"),
        ("string", b"\x03", "beyond its end"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "beyond its end"),
        ("long", b"\xff" * 11, "more than ten bytes"),
        ("int", b"\xfe\xff\xff\xff\x7f", "more than 32 bits"),
        ("boolean", b"\x02", "no boolean"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "symbol 1, of 1"),
        ("double", b"\0" * 7, "ends too early"),
        ({"type": "map", "values": "int"}, b"\x02\x02a", "ends too early"),
    ],
)
def test_hostile_bytes_are_refused_with_a_reason(
    schema: object, payload: bytes, reason: str
) -> None:
    found = _validator(schema).explain(payload)
    assert found is not None
    assert reason in found[1]


def test_the_place_is_the_way_through_fields_and_items() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "list", "type": {"type": "array", "items": _TREE}}],
    }
    tree = {"value": 1, "left": None, "right": None}
    written = _written(schema, {"list": [tree, tree]})
    found = _validator(schema).explain(written[:-2] + b"\x06\x00")
    assert found == ("/list/1/right", "has branch 3, of 2")


_PLAIN: dict[str, Any] = {
    "type": "record",
    "name": "Plain",
    "fields": [
        {"name": "a", "type": "long"},
        {"name": "b", "type": "string"},
        {"name": "c", "type": "double"},
        {"name": "d", "type": ["null", "string"]},
        {"name": "e", "type": {"type": "fixed", "name": "F", "size": 2}},
        {
            "name": "f",
            "type": {"type": "record", "name": "In", "fields": [{"name": "g", "type": "int"}]},
        },
        {"name": "h", "type": ["null", "float"]},
    ],
}
_PLAIN_VALUES = st.fixed_dictionaries(
    {
        "a": st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70, 70),
        "b": st.text(max_size=80) | st.just("x" * 20_000),
        "c": st.just(1.5),
        "d": st.none() | st.text(max_size=5),
        "e": st.just(b"\xff\x00"),
        "f": st.fixed_dictionaries({"g": st.integers(-(1 << 31), (1 << 31) - 1)}),
        "h": st.none() | st.just(0.5),
    }
)


@given(_PLAIN_VALUES, st.data())
def test_a_record_of_plain_fields_is_judged_as_fastavro_reads_it(
    value: dict[str, object], data: st.DataObject
) -> None:
    parsed = fastavro.parse_schema(_PLAIN)
    validator = create_validator(SchemaSource(type=SchemaType.AVRO, text=json.dumps(_PLAIN)))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, value)
    written = out.getvalue()
    assert validator.explain(written) is None
    assert validator.explain(written[:-1]) is not None
    assert validator.explain(written + b"\0") is not None
    changed = bytearray(written)
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    if validator.explain(bytes(changed)) is None:
        rest = io.BytesIO(bytes(changed))
        fastavro.schemaless_reader(rest, parsed, None)
        assert not rest.read()
