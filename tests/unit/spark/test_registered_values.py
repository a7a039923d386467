"""Schemas of the registry as types of Spark, and values read and written by them, without Spark."""

import datetime as dt
import decimal
import json
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
pytest.importorskip("fastavro", reason="the extra `avro` is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client import GoQueueError
from goqueue.client.schemas import SchemaSet, frame
from goqueue.spark.derived_schemas import derive_schema
from goqueue.spark.registered_values import (
    Language,
    RegisteredValues,
    ValueEncoder,
    ValueSchema,
)
from goqueue.spark.value_decoder import Decoded, schema_of
from goqueue.spark.value_forms import Unmappable, arrow_of

NOON = dt.datetime(2026, 11, 15, 12, 0, 0, 123_456, tzinfo=dt.UTC)
MILLIS = NOON.replace(microsecond=123_000)


def schema(
    language: Language, text: object, id_: int = 1, message: str | None = None
) -> ValueSchema:
    written = text if isinstance(text, str) else json.dumps(text)
    made = SchemaSet(id=id_, schema_type=language, text=written)
    return ValueSchema(language=language, schema=made, message=message)


def record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **more}


def kind_of(made: ValueSchema) -> str:
    return made.kind().simpleString()


def encode(made: ValueSchema, *rows: object) -> Decoded:
    return ValueEncoder(made).encode(pa.array(rows, arrow_of(made.kind())))


def decode(reader: ValueSchema, values: pa.Array, *writers: ValueSchema) -> Decoded:
    known = {each.schema.id: each.schema for each in (reader, *writers)}
    return RegisteredValues(reader, known.get).decode(values)


def back(made: ValueSchema, *rows: object) -> list[object]:
    """Rows, written and read again."""
    encoded = encode(made, *rows)
    assert not encoded.faults
    decoded = decode(made, encoded.column)
    assert not decoded.faults
    found: list[object] = decoded.column.to_pylist()
    return found


AVRO_TYPES = record(
    field("flag", "boolean"),
    field("small", "int"),
    field("large", "long"),
    field("real", "float"),
    field("exact", "double"),
    field("text", "string"),
    field("octets", "bytes"),
    field("day", {"type": "int", "logicalType": "date"}),
    field("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    field("micros", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    field("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
    field("clock", {"type": "int", "logicalType": "time-millis"}),
    field("nanos", {"type": "long", "logicalType": "timestamp-nanos"}),
    field("cents", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}),
    field(
        "hundreds",
        {
            "type": "fixed",
            "name": "Cents",
            "size": 5,
            "logicalType": "decimal",
            "precision": 10,
            "scale": 2,
        },
    ),
    field("hash", {"type": "fixed", "name": "Hash", "size": 4}),
    field("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}),
    field("tags", {"type": "array", "items": ["null", "string"]}),
    field("times", {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}),
    field("named", {"type": "map", "values": record(field("x", "int"), name="Point")}),
    field("point", ["Point", "null"]),
    field("number", ["null", "int", "long"]),
    field(
        "either", ["null", "string", "long", "Colour", "Point", {"type": "map", "values": "int"}]
    ),
)
AVRO_ROW = {
    "flag": True,
    "small": -7,
    "large": 1 << 40,
    "real": 0.5,
    "exact": 0.1,
    "text": "é",
    "octets": b"\xff",
    "day": dt.date(1969, 12, 31),
    "millis": MILLIS,
    "micros": NOON,
    "local": MILLIS.replace(tzinfo=None),
    "clock": 1000,
    "nanos": 7,
    "cents": decimal.Decimal("-123456789012345678901234567890123456.78"),
    "hundreds": decimal.Decimal("99999999.99"),
    "hash": b"1234",
    "colour": "BLUE",
    "tags": ["a", None],
    "times": [MILLIS],
    "named": [("k", {"x": 1})],
    "point": None,
    "number": 1 << 40,
    "either": None,
}


def test_types_of_avro_are_types_of_spark() -> None:
    found = kind_of(schema("AVRO", AVRO_TYPES))

    assert found == (
        "struct<flag:boolean,small:int,large:bigint,real:float,exact:double,text:string,"
        "octets:binary,day:date,millis:timestamp,micros:timestamp,local:timestamp_ntz,clock:int,"
        "nanos:bigint,cents:decimal(38,2),hundreds:decimal(10,2),hash:binary,colour:string,"
        "tags:array<string>,times:array<timestamp>,named:map<string,struct<x:int>>,"
        "point:struct<x:int>,number:bigint,"
        "either:struct<member0:string,member1:bigint,member2:string,member3:struct<x:int>,"
        "member4:map<string,int>>>"
    )


@pytest.mark.parametrize(
    "either",
    [
        None,
        {"member0": "s"},
        {"member1": 5},
        {"member2": "RED"},
        {"member3": {"x": 3}},
        {"member4": [("a", 1)]},
    ],
    ids=str,
)
def test_rows_come_back_from_avro_as_they_were(either: dict[str, object] | None) -> None:
    made = schema("AVRO", AVRO_TYPES)
    row = {**AVRO_ROW, "either": either, "point": {"x": 2} if either else None}

    (found, nothing) = back(made, row, None)

    members = dict.fromkeys([f"member{number}" for number in range(5)])
    assert found == {**row, "either": either and {**members, **either}}
    assert nothing is None


def test_a_value_is_read_as_its_reader_says_whatever_its_writer_calls_it() -> None:
    old = schema("AVRO", record(field("id", "int"), field("at", "long"), field("gone", "string")))
    new = schema(
        "AVRO",
        record(
            field("number", "long", aliases=["id"]),
            field("at", {"type": "long", "logicalType": "timestamp-micros"}),
            field("key", "bytes", default="\u00ff"),
            field("day", {"type": "int", "logicalType": "date"}, default=1),
        ),
        2,
    )
    written = encode(old, {"id": 1, "at": 5, "gone": "x"}).column

    (row,) = decode(new, written, old).column.to_pylist()

    at = dt.datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC)
    assert row == {"number": 1, "at": at, "key": b"\xff", "day": dt.date(1970, 1, 2)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (record(field("next", ["null", "Order"])), "/next is recursive"),
        (record(field("n", "null")), "/n is always null"),
        (record(field("e", record(name="Empty"))), "/e has no fields"),
        (record(field("a", "int"), field("A", "int")), "differ in case"),
        (
            record(field("d", {"type": "bytes", "logicalType": "decimal", "precision": 39})),
            "at most 38",
        ),
        (record(field("l", {"type": "array", "items": "null"})), "have no bytes"),
    ],
)
def test_what_avro_has_and_spark_has_not_is_refused_with_its_place(
    text: object, words: str
) -> None:
    with pytest.raises(Unmappable, match=words):
        schema("AVRO", text).kind()


def test_types_that_unfold_without_end_are_refused() -> None:
    fields = [field("x", record(field("v", "int"), name="R0"))]
    for number in range(1, 20):
        inner = [field("a", f"R{number - 1}"), field("b", f"R{number - 1}")]
        fields.append(field(f"y{number}", record(*inner, name=f"R{number}")))

    with pytest.raises(Unmappable, match="more than 10000 types"):
        schema("AVRO", record(*fields)).kind()


PROTO_TYPES = """
syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
enum Colour { RED = 0; BLUE = 1; }
message Other { string z = 1; }
message Order {
  int64 id = 1; optional string note = 2; uint64 big = 3; uint32 half = 4; Colour colour = 5;
  repeated sint32 numbers = 6; repeated Colour colours = 7;
  map<string, Item> items = 8; map<int32, string> names = 9;
  oneof payment { string card = 10; int64 cash = 11; Item gift = 12; }
  google.protobuf.Timestamp at = 13; google.protobuf.Duration took = 14;
  google.protobuf.Int64Value maybe = 15; google.protobuf.Struct meta = 16;
  repeated Item more = 17; bytes octets = 18; double exact = 19; float real = 20; bool flag = 21;
  message Item { string sku = 1; google.protobuf.Timestamp at = 2; }
}
"""
PROTO_ROW = {
    "id": 5,
    "note": "n",
    "big": decimal.Decimal((1 << 64) - 1),
    "half": (1 << 32) - 1,
    "colour": "BLUE",
    "numbers": [-1, 2],
    "colours": ["RED", "7"],
    "items": [("a", {"sku": "s", "at": NOON})],
    "names": [(1, "x")],
    "card": None,
    "cash": 7,
    "gift": None,
    "at": NOON,
    "took": dt.timedelta(seconds=-1.5),
    "maybe": 0,
    "meta": '{"a": 1.0}',
    "more": [{"sku": "q", "at": None}],
    "octets": b"\1",
    "exact": 1.5,
    "real": 2.5,
    "flag": True,
}
PROTO_EMPTY: dict[str, object] = {
    "id": 0,
    "note": None,
    "big": decimal.Decimal(0),
    "half": 0,
    "colour": "RED",
    "numbers": [],
    "colours": [],
    "items": [],
    "names": [],
    "card": None,
    "cash": None,
    "gift": {"sku": "", "at": None},
    "at": None,
    "took": None,
    "maybe": None,
    "meta": None,
    "more": [],
    "octets": b"",
    "exact": 0.0,
    "real": 0.0,
    "flag": False,
}


def test_types_of_protobuf_are_types_of_spark() -> None:
    assert kind_of(schema("PROTOBUF", PROTO_TYPES, message="Order")) == (
        "struct<id:bigint,note:string,big:decimal(20,0),half:bigint,colour:string,"
        "numbers:array<int>,colours:array<string>,"
        "items:map<string,struct<sku:string,at:timestamp>>,names:map<int,string>,"
        "card:string,cash:bigint,gift:struct<sku:string,at:timestamp>,at:timestamp,"
        "took:interval day to second,maybe:bigint,meta:string,"
        "more:array<struct<sku:string,at:timestamp>>,octets:binary,exact:double,real:float,"
        "flag:boolean>"
    )
    assert kind_of(schema("PROTOBUF", PROTO_TYPES)) == "struct<z:string>"


def test_rows_come_back_from_protobuf_as_they_were() -> None:
    made = schema("PROTOBUF", PROTO_TYPES, message="shop.Order")

    assert back(made, PROTO_ROW, None, PROTO_EMPTY) == [PROTO_ROW, None, PROTO_EMPTY]


def test_the_bytes_of_protobuf_are_those_of_its_own_library() -> None:
    from google.protobuf.timestamp_pb2 import Timestamp

    text = 'syntax = "proto3"; message Timestamp { int64 seconds = 1; int32 nanos = 2; }'
    made = schema("PROTOBUF", text)
    value = Timestamp(seconds=5, nanos=-7).SerializeToString()

    decoded = decode(made, pa.array([frame(1, b"\0" + value)], pa.binary()))

    assert decoded.column.to_pylist() == [{"seconds": 5, "nanos": -7}]
    encoded = encode(made, {"seconds": 5, "nanos": -7}).column
    assert encoded.to_pylist() == [frame(1, b"\0" + value)]


def test_fields_of_protobuf_go_by_their_numbers_and_other_messages_are_bad_rows() -> None:
    old = schema("PROTOBUF", 'syntax = "proto3"; message A { int32 x = 1; string s = 2; }')
    new = schema("PROTOBUF", 'syntax = "proto3"; message A { int64 y = 1; bool f = 3; }', 2)
    odd = schema("PROTOBUF", 'syntax = "proto3"; message A { string x = 1; }', 3)
    two = schema(
        "PROTOBUF", 'syntax = "proto3"; message B {int32 x = 1;} message A {int32 x = 1;}', 4
    )
    values = pa.array(
        [
            *encode(old, {"x": 1, "s": "a"}).column.to_pylist(),
            *encode(odd, {"x": "1"}).column.to_pylist(),
            *encode(two, {"x": 1}).column.to_pylist(),
            frame(4, b"\2\2\x08\x05"),
            frame(1, b"\2\x08"),
            frame(1, b"\0\x08"),
            frame(1, b""),
        ],
        pa.binary(),
    )

    decoded = decode(new, values, old, odd, two)

    assert decoded.column.to_pylist() == [
        {"y": 1, "f": False},
        None,
        None,
        {"y": 5, "f": False},
        None,
        None,
        None,
    ]
    assert decoded.faults[1] == "y = 1 is a varint, and was written as bytes"
    assert decoded.faults[2] == "is B, not A"
    assert list(decoded.faults) == [1, 2, 4, 5, 6]


def test_two_fields_of_a_oneof_and_an_unknown_name_of_an_enum_are_not_written() -> None:
    made = schema("PROTOBUF", PROTO_TYPES, message="Order")

    encoded = encode(made, {**PROTO_ROW, "card": "1"}, {**PROTO_ROW, "colour": "PINK"}, PROTO_ROW)

    assert "oneof payment" in encoded.faults[0]
    assert "RED, BLUE" in encoded.faults[1]
    assert encoded.column.is_valid().to_pylist() == [False, False, True]


def test_a_required_field_is_needed_both_ways() -> None:
    made = schema("PROTOBUF", 'syntax = "proto2"; message A { required int32 x = 1; }')

    assert decode(made, pa.array([frame(1, b"\0")], pa.binary())).faults == {
        0: "a required field is missing"
    }
    assert encode(made, {"x": None}).faults == {0: "/x is null"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("message A { A next = 1; }", "/next is recursive"),
        ("message A { E e = 1; } message E {}", "/e has no fields"),
    ],
)
def test_what_protobuf_has_and_spark_has_not_is_refused(body: str, words: str) -> None:
    with pytest.raises(Unmappable, match=words):
        schema("PROTOBUF", f'syntax = "proto3"; {body}').kind()
    with pytest.raises(Unmappable, match="has no message Nobody"):
        schema("PROTOBUF", PROTO_TYPES, message="Nobody").kind()


JSON_TYPES = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "name": {"$ref": "#/$defs/Name"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "octets": {"type": "string", "contentEncoding": "base64"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "state": {"enum": ["new", "old"]},
        "either": {
            "oneOf": [
                {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}},
                {"properties": {"kind": {"const": "b"}, "x": {"type": "number"}}},
            ]
        },
        "all": {
            "allOf": [
                {"properties": {"a": {"type": "integer"}}},
                {"properties": {"b": {"type": "boolean"}}},
            ]
        },
    },
    "required": ["id", "price"],
    "$defs": {"Name": {"type": "string"}},
}


def test_types_of_json_schema_are_types_of_spark_and_rows_come_back() -> None:
    made = schema("JSON", JSON_TYPES)
    row = {
        "id": 1,
        "price": None,
        "name": "a",
        "at": NOON,
        "day": dt.date(2026, 1, 2),
        "octets": b"\0\1",
        "tags": ["a"],
        "counts": [("a", 1)],
        "state": "new",
        "either": {"kind": "b", "x": 1.5},
        "all": {"a": 1, "b": None},
    }

    assert kind_of(made) == (
        "struct<id:bigint,price:double,name:string,at:timestamp,day:date,octets:binary,"
        "tags:array<string>,counts:map<string,bigint>,state:string,"
        "either:struct<kind:string,x:double>,all:struct<a:bigint,b:boolean>>"
    )
    assert back(made, row) == [row]
    least = {**dict.fromkeys(row), "id": 2}
    (written,) = encode(made, least).column.to_pylist()
    assert written == frame(1, b'{"id":2,"price":null}')
    assert decode(made, pa.array([b'{"id":2,"price":1}'])).column[0].as_py()["price"] == 1.0


@pytest.mark.parametrize(
    ("property_", "words"),
    [
        ({"$ref": "#"}, "/p is recursive"),
        ({}, "/p may be anything"),
        ({"type": "object"}, "/p may be anything"),
        ({"type": ["string", "integer"]}, "/p is string or bigint"),
        ({"type": "array", "prefixItems": [{}]}, "/p is a tuple"),
        ({"$ref": "other.json"}, "/p refers to 'other.json'"),
        ({"oneOf": [{"type": "string"}, {"type": "array"}]}, "/p"),
        (False, "/p can have no value"),
    ],
)
def test_what_json_schema_has_and_spark_has_not_is_refused(property_: object, words: str) -> None:
    with pytest.raises(Unmappable, match=words):
        schema("JSON", {"type": "object", "properties": {"p": property_}}).kind()


DERIVED = "id BIGINT, item STRING, price DOUBLE, at TIMESTAMP, ok BOOLEAN, raw BINARY, "
DERIVED += "tags ARRAY<STRING>, parts MAP<STRING, STRUCT<n: INT>>, inner STRUCT<n: INT, m: STRING>"


@pytest.mark.parametrize("language", ["AVRO", "JSON", "PROTOBUF"])
def test_a_schema_made_of_a_column_has_the_types_of_the_column(language: Language) -> None:
    wanted = schema_of(DERIVED)
    text = derive_schema(language, wanted)
    made = schema(language, text)
    row = {
        "id": 1,
        "item": "a",
        "price": 1.5,
        "at": NOON,
        "ok": None,
        "raw": b"\1",
        "tags": ["a"],
        "parts": [("k", {"n": 1})],
        "inner": {"n": 2, "m": None},
    }

    made.check(wanted)
    assert back(made, row) == [row]
    if language != "JSON":
        assert made.kind() == wanted
    with pytest.raises(Unmappable, match="value/y is void"):
        derive_schema(language, schema_of("x INT").add("y", "void"))


def test_a_column_may_be_narrower_than_the_schema_and_leave_out_what_has_a_default() -> None:
    made = schema("AVRO", record(field("id", "long"), field("x", "double", default=1.5)))
    made.check(schema_of("id SMALLINT, x FLOAT"))
    column = pa.array([{"id": 1}], pa.struct([("id", pa.int16())]))

    encoded = ValueEncoder(made).encode(column)

    assert decode(made, encoded.column).column.to_pylist() == [{"id": 1, "x": 1.5}]


def test_a_part_of_a_column_is_written_like_the_whole() -> None:
    made = schema("AVRO", AVRO_TYPES)
    rows = [{**AVRO_ROW, "small": number} if number % 3 else None for number in range(9)]
    whole = pa.array(rows, arrow_of(made.kind()))

    encoded = ValueEncoder(made).encode(whole.slice(4, 3))

    assert decode(made, encoded.column).column.to_pylist() == [
        row and {**row, "either": None} for row in rows[4:7]
    ]


def test_a_registry_that_does_not_answer_is_no_fault_of_a_row() -> None:
    def fail(_: int) -> SchemaSet | None:
        raise GoQueueError("unavailable", "not now")

    values = RegisteredValues(schema("AVRO", record(field("id", "long"))), fail)

    with pytest.raises(GoQueueError, match="not now"):
        values.decode(pa.array([frame(1, b"\2")], pa.binary()))


def test_a_schema_is_asked_for_once() -> None:
    made = schema("AVRO", record(field("id", "long")))
    asked: list[int] = []

    def find(id_: int) -> SchemaSet | None:
        asked.append(id_)
        return made.schema if id_ == 1 else None

    values = RegisteredValues(made, find)
    column = pa.array([frame(1, b"\2"), frame(7, b"\2")] * 3, pa.binary())

    decoded = values.decode(column)

    assert asked == [1, 7]
    assert set(decoded.faults.values()) == {"schema 7 is not registered"}


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_bytes_that_are_no_value_are_faults_and_nothing_else(texts: list[bytes]) -> None:
    for made in (
        schema("AVRO", AVRO_TYPES),
        schema("PROTOBUF", PROTO_TYPES, message="Order"),
    ):
        column = pa.array([frame(1, each) for each in texts], pa.binary())

        decoded = decode(made, column)

        assert len(decoded.column) == len(texts)
        for row in decoded.faults:
            assert decoded.column[row].as_py() is None
