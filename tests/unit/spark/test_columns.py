"""Frames as record batches, record batches as records, and which columns may be written."""

import datetime as dt

import pyarrow as pa
import pytest

from goqueue.model import Message, Record
from goqueue.records import build, decode, stamp, walk
from goqueue.records.arrow import Lift, Press

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from goqueue.spark.columns import ColumnInvalid, check_columns, row_schema, to_batch, to_sheet

NOON = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
NOON_NS = int(NOON.timestamp()) * 10**9


def lifted(*messages: Message, headers_as: str | None) -> pa.RecordBatch:
    data = build(messages)
    stamp(data, 0, NOON_NS)
    frame = Lift(data, with_headers=headers_as is not None).take(100, 1 << 20)
    assert frame is not None
    batch = to_batch(frame, "t", 3, headers_as)
    batch.validate(full=True)
    return batch


def pressed(batch: pa.RecordBatch) -> list[Record]:
    built = Press(1, 1 << 20).press(to_sheet(batch)).batches[0]
    return [decode(built, position) for position in walk(built).positions]


@pytest.mark.parametrize("headers_as", [None, "map", "array"])
def test_batches_have_exactly_the_types_that_spark_compares(headers_as: str | None) -> None:
    batch = lifted(Message(value=b"v", headers=(("a", b"1"),)), headers_as=headers_as)
    schema = row_schema(with_headers=headers_as is not None, headers_as=headers_as or "map")

    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_rows_read_as_they_were_written() -> None:
    batch = lifted(
        Message(key=b"k", value=b"v", headers=(("a", b"1"), ("b", b"")), priority=1),
        Message(value=None),
        headers_as="map",
    )

    assert batch.to_pylist() == [
        {
            "topic": "t",
            "partition": 3,
            "offset": 0,
            "timestamp": NOON,
            "key": b"k",
            "value": b"v",
            "priority": 1,
            "headers": [("a", b"1"), ("b", b"")],
        },
        {
            "topic": "t",
            "partition": 3,
            "offset": 1,
            "timestamp": NOON,
            "key": None,
            "value": None,
            "priority": 2,
            "headers": [],
        },
    ]


HEADERS = [[("x", b"0")], [("a", b"1"), ("b", b"2")], None, []]


@pytest.mark.parametrize(
    "headers",
    [
        pa.array(HEADERS, pa.map_(pa.string(), pa.binary())),
        pa.array(
            [
                None if row is None else [{"key": name, "value": value} for name, value in row]
                for row in HEADERS
            ],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    ],
    ids=["map", "array"],
)
@pytest.mark.parametrize("start", [0, 1])
def test_headers_are_written_from_maps_and_arrays_also_of_a_slice(
    headers: pa.Array, start: int
) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(["w", "x", None, "z"]),
            "headers": headers,
            "priority": pa.array([4, 0, None, 1], pa.int32()),
            "timestamp": pa.array([NOON] * 4, pa.timestamp("us", tz="UTC")),
        }
    ).slice(start)

    records = pressed(batch)

    assert [record.value for record in records] == [b"w", b"x", None, b"z"][start:]
    assert [record.headers for record in records] == [tuple(row or ()) for row in HEADERS][start:]
    assert [record.priority for record in records] == [4, 0, 2, 1][start:]
    assert {record.timestamp for record in records} == {NOON_NS}


def fields(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


TEXT = StringType()


@pytest.mark.parametrize(
    ("schema", "has_topic", "column"),
    [
        (fields(key=TEXT), True, "value"),
        (fields(value=LongType()), True, "value"),
        (fields(value=TEXT, amount=DoubleType()), True, "amount"),
        (fields(value=TEXT, topic=TEXT), True, "topic"),
        (fields(value=TEXT), False, "topic"),
        (fields(value=TEXT, headers=MapType(LongType(), TEXT)), True, "headers"),
        (fields(value=TEXT, partition=TEXT), True, "partition"),
        (fields(value=TEXT, timestamp=DateType()), True, "timestamp"),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused_by_column(
    schema: StructType, has_topic: bool, column: str
) -> None:
    with pytest.raises(ColumnInvalid, match=f"column `{column}`"):
        check_columns(schema, has_topic=has_topic)
