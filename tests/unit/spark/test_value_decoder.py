"""Values decoded by a schema: which schemas there are, what JSON means, what is no value."""

import datetime as dt
import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from goqueue.spark.value_decoder import (
    JsonValues,
    Origin,
    SchemaInvalid,
    letter_headers,
    schema_of,
    split_bad,
)

NOON = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)


def test_ddl_says_what_spark_reads_in_it() -> None:
    text = "id BIGINT, `a b``c`: STRING, tags ARRAY<STRING>, m MAP<STRING, DECIMAL(12,2)>, "
    text += "s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>"

    inner = ArrayType(StructType([StructField("z", IntegerType())]))
    struct = StructType([StructField("x", IntegerType()), StructField("y", inner)])
    assert schema_of(text) == StructType(
        [
            StructField("id", LongType()),
            StructField("a b`c", StringType()),
            StructField("tags", ArrayType(StringType())),
            StructField("m", MapType(StringType(), DecimalType(12, 2))),
            StructField("s", struct),
        ]
    )


def test_a_schema_may_be_sparks_json() -> None:
    schema = schema_of("id BIGINT, s STRUCT<x: INT>")

    assert schema_of(schema.json()) == schema


@pytest.mark.parametrize(
    "text",
    [
        "id",
        "id COLOUR",
        "id INT,",
        "id INT other",
        "id INT NOT NULL",
        "id INT, ID INT",
        "a ARRAY<INT",
        "a ARRAY<INT>>",
        "m MAP<INT, INT>",
        "d DECIMAL(39,0)",
        "d DECIMAL(5,6)",
        "d DECIMAL(x)",
        "a;b INT",
        ": INT",
        "a " + "ARRAY<" * 40 + "INT" + ">" * 40,
        "{",
        "{}",
        '{"type":"struct","fields":[]}',
        '{"type":"struct","fields":[{"name":"v","type":"variant","nullable":true,"metadata":{}}]}',
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaInvalid):
        schema_of(text)


@given(st.text(alphabet="ab <>,:`()INTARYSTRUCMP12", max_size=60))
def test_a_schema_is_read_or_refused_whatever_the_text(text: str) -> None:
    try:
        schema = schema_of(text)
    except SchemaInvalid:
        return
    assert schema.fields


def decoded(ddl: str, *texts: bytes | None) -> tuple[list[object], dict[int, str]]:
    found = JsonValues(schema_of(ddl)).decode(pa.array(texts, pa.binary()))
    found.column.validate(full=True)
    assert len(found.column) == len(texts)
    assert all(not found.column[row].is_valid for row in found.faults)
    return found.column.to_pylist(), found.faults


def test_values_become_structs_and_nulls_stay_null() -> None:
    rows, faults = decoded(
        "id BIGINT, tags ARRAY<STRING>, m MAP<STRING,INT>, s STRUCT<x: INT>, d DECIMAL(6,2),"
        " day DATE, at TIMESTAMP, b BINARY, f DOUBLE, ok BOOLEAN",
        b'{"id":1,"tags":["a",null],"m":{"k":2,"n":null},"s":{"x":3,"y":4},"d":1.25,'
        b'"day":"2026-11-15","at":"2026-11-15T13:00:00+01:00","b":"aGk=","f":1,"ok":true,"more":{}}',
        None,
        b" {} ",
        b'{"id":null}',
    )

    nothing = dict.fromkeys(("id", "tags", "m", "s", "d", "day", "at", "b", "f", "ok"))
    assert faults == {}
    assert rows == [
        {
            "id": 1,
            "tags": ["a", None],
            "m": [("k", 2), ("n", None)],
            "s": {"x": 3},
            "d": decimal.Decimal("1.25"),
            "day": dt.date(2026, 11, 15),
            "at": NOON,
            "b": b"hi",
            "f": 1.0,
            "ok": True,
        },
        None,
        nothing,
        nothing,
    ]


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("a INT", b""),
        ("a INT", b"null"),
        ("a INT", b"[1]"),
        ("a INT", b"1"),
        ("a INT", b'{"a":1'),
        ("a INT", b'{"a":1}{"a":2}'),
        ("a INT", b'{"a":1.5}'),
        ("a INT", b'{"a":"1"}'),
        ("a INT", b'{"a":true}'),
        ("a INT", b'{"a":2147483648}'),
        ("a TINYINT", b'{"a":128}'),
        ("a BIGINT", b'{"a":9223372036854775808}'),
        ("a DOUBLE", b'{"a":NaN}'),
        ("a STRING", b'{"a":1}'),
        ("a STRING", b'{"a":"\xff"}'),
        ("a STRING", b'{"a":"\\ud800"}'),
        ("a BOOLEAN", b'{"a":0}'),
        ("a TIMESTAMP", b'{"a":"2026-11-15T12:00:00"}'),
        ("a DATE", b'{"a":"2026-13-01"}'),
        ("a DECIMAL(4,2)", b'{"a":123.45}'),
        ("a DECIMAL(4,2)", b'{"a":1.234}'),
        ("a DECIMAL(4,2)", b'{"a":1e999999}'),
        ("a BINARY", b'{"a":"?"}'),
        ("a ARRAY<INT>", b'{"a":[1,"x"]}'),
        ("a INT", b"[" * 100_000),
        ("a INT", b'{"b":' + b"[" * 100_000),
    ],
)
def test_what_is_not_as_the_schema_says_is_a_fault_of_its_row_alone(ddl: str, text: bytes) -> None:
    rows, faults = decoded(ddl, b"{}", text, b"{}")

    assert list(faults) == [1]
    assert faults[1]
    assert rows == [{"a": None}, None, {"a": None}]


@given(st.lists(st.binary(max_size=20) | st.sampled_from([b'{"a":1}', b'{"a":"x"}']), max_size=8))
def test_no_value_depends_on_its_neighbours(texts: list[bytes]) -> None:
    together, faults = decoded("a INT", *texts)

    for index, text in enumerate(texts):
        alone, fault = decoded("a INT", text)
        assert (alone[0], bool(fault)) == (together[index], index in faults)


def test_a_dead_letter_names_its_origin_and_keeps_its_own_headers() -> None:
    origin = Origin(topic="orders", partition=2, offset=7, group="g", reason="x" * 5000)

    headers = letter_headers(
        origin,
        [("type", b"order"), ("goqueue.dlq.hops", b"2"), ("goqueue.dlq.topic", b"old")],
        NOON,
    )

    assert headers[0] == ("type", b"order")
    assert dict(headers) == {
        "type": b"order",
        "goqueue.dlq.topic": b"orders",
        "goqueue.dlq.partition": b"2",
        "goqueue.dlq.offset": b"7",
        "goqueue.dlq.group": b"g",
        "goqueue.dlq.deliveries": b"1",
        "goqueue.dlq.hops": b"3",
        "goqueue.dlq.time": b"2026-11-15T12:00:00Z",
        "goqueue.dlq.cause": b"rejected",
        "goqueue.dlq.reason": b"x" * 1000,
    }
    assert len(headers) == 10


class Rows:
    """What `split_bad` asks first."""

    columns = ("value",)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"when": "true"},
        {"when": "true", "dlq_topic": "d"},
        {"when": "true", "dlq_topic": "d", "reason": "r"},
    ],
)
def test_rows_without_what_a_dead_letter_needs_are_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"column|needs"):
        split_bad(Rows(), **arguments)  # type: ignore[arg-type]  # refused before Spark is asked


def test_json_in_registry_framing_is_read_without_it_beside_plain_and_short_texts() -> None:
    texts = [b'\0\0\0\0\1{"id":1}', b'{"id":2}', b"\0", b"x", None]

    decoded = JsonValues(schema_of("id BIGINT")).decode(pa.array(texts * 1000, pa.binary()))

    assert decoded.column.to_pylist() == [{"id": 1}, {"id": 2}, None, None, None] * 1000
    assert list(decoded.faults)[:2] == [2, 3]
