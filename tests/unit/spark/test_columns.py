"""Frames as record batches, record batches as records, and which columns may be written."""

import datetime as dt
import decimal

import pytest

from goqueue.model import Message, Record, Refused
from goqueue.records import build, decode, stamp, walk
from goqueue.records.arrow import ArrowReader, ArrowWriter

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

import pyarrow as pa
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
    TimestampType,
)

from goqueue.spark.columns import Batches, ColumnInvalid, Undecodable, check_columns, row_schema
from goqueue.spark.input_columns import refused_row, to_input_columns
from goqueue.spark.options import Filters, Match
from goqueue.spark.read_options import BASE, ORIGIN, DecodingOptions, Shape
from goqueue.spark.value_decoder import schema_of

NOON = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
NOON_NS = int(NOON.timestamp()) * 10**9
NO_FILTERS = Filters()
DELIVER_HEADER = "gq.deliver-at"


def lifted(*messages: Message, headers_as: str | None) -> pa.RecordBatch:
    return shaped(shape(headers_as), *messages)


def shape(headers_as: str | None) -> Shape:
    if headers_as is None:
        return Shape()
    return Shape(columns=(*BASE, "headers"), headers_as=headers_as)


def shaped(form: Shape, *messages: Message, filters: Filters = NO_FILTERS) -> pa.RecordBatch:
    """The messages as a task would hand them to Spark."""
    data = build(messages)
    stamp(data, 0, NOON_NS)
    batches = Batches(form, filters, "t", 3, lambda: NOON)
    columns = ArrowReader(
        data,
        with_headers=batches.needs_headers,
        with_keys=batches.needs_keys,
        with_values=batches.needs_values,
    ).read(100, 1 << 20)
    assert columns is not None
    batch = batches.batch(columns)
    batch.validate(full=True)
    assert batch.schema.equals(to_arrow_schema(row_schema(form), timezone="UTC"))
    return batch


def pressed(batch: pa.RecordBatch, bytes_max: int = 1 << 20) -> list[Record]:
    built = ArrowWriter(1, bytes_max).write(to_input_columns(batch)).batches[0]
    return [decode(built, position) for position in walk(built).positions]


@pytest.mark.parametrize("headers_as", [None, "map", "array"])
def test_batches_have_exactly_the_types_that_spark_compares(headers_as: str | None) -> None:
    batch = lifted(Message(value=b"v", headers=(("a", b"1"),)), headers_as=headers_as)

    assert batch.schema.equals(to_arrow_schema(row_schema(shape(headers_as)), timezone="UTC"))


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


def test_columns_that_are_not_asked_for_are_not_lifted() -> None:
    batches = Batches(Shape(columns=("offset", "topic")), NO_FILTERS, "t", 3, lambda: NOON)

    assert [batches.needs_keys, batches.needs_values, batches.needs_headers] == [False] * 3
    assert shaped(Shape(columns=("offset", "topic")), Message(value=b"v")).to_pylist() == [
        {"offset": 0, "topic": "t"}
    ]


MIXED = (
    Message(key=b"user-1", value=b"0", headers=(("type", b"order.new"), ("tenant", b"a"))),
    Message(key=b"user-12", value=b"1", headers=(("type", b"order"),)),
    Message(value=b"2", headers=(("type", b"invoice"), ("type", b"order.old"))),
    Message(key=b"other", value=b"3"),
)


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        (Filters(keys=(Match(b"user-1"),)), [b"0"]),
        (Filters(keys=(Match(b"user-1", is_prefix=True),)), [b"0", b"1"]),
        (Filters(keys=(Match(b"other"), Match(b"user-12"))), [b"1", b"3"]),
        (Filters(keys=(Match(b"nobody"),)), []),
        (Filters(headers=(("type", Match(b"order")),)), [b"1"]),
        (Filters(headers=(("type", Match(b"order", is_prefix=True)),)), [b"0", b"1", b"2"]),
        (Filters(headers=(("tenant", Match(b"", is_prefix=True)),)), [b"0"]),
        (
            Filters(
                keys=(Match(b"user", is_prefix=True),),
                headers=(("type", Match(b"order.", is_prefix=True)),),
            ),
            [b"0"],
        ),
    ],
)
def test_filters_keep_rows_by_key_and_headers(filters: Filters, kept: list[bytes]) -> None:
    batch = shaped(Shape(columns=("value", "headers")), *MIXED, filters=filters)

    assert batch.column("value").to_pylist() == kept
    given = {message.value: list(message.headers) for message in MIXED}
    assert batch.column("headers").to_pylist() == [given[value] for value in kept]


def test_a_dead_letter_tells_its_origin_and_other_records_have_none() -> None:
    letter = {
        "topic": b"orders",
        "partition": b"2",
        "offset": b"12345678901",
        "group": b"billing",
        "deliveries": b"5",
        "cause": b"max_deliveries",
        "reason": "zu spät".encode(),
        "time": b"2026-11-15T12:00:00.123456789Z",
    }
    wrong = {"partition": b"x", "offset": b"", "time": b"yesterday", "reason": b"\xff"}
    named = [
        tuple((f"goqueue.dlq.{name}", fact) for name, fact in facts.items())
        for facts in (letter, wrong)
    ]

    rows = shaped(
        Shape(columns=("offset", *ORIGIN)),
        Message(value=b""),
        Message(value=b"", headers=named[0]),
        Message(value=b"", headers=named[1]),
    ).to_pylist()

    nothing = dict.fromkeys(ORIGIN)
    assert rows == [
        {"offset": 0, **nothing},
        {
            "offset": 1,
            "origin_topic": "orders",
            "origin_partition": 2,
            "origin_offset": 12345678901,
            "origin_group": "billing",
            "deliveries": 5,
            "cause": "max_deliveries",
            "reason": "zu spät",
            "died_at": NOON.replace(microsecond=123456),
        },
        {"offset": 2, **nothing, "reason": "\ufffd"},
    ]


BROKEN = (
    Message(key=b"k", value=b'{"id":1}'),
    Message(key=b"l", value=b'{"id":"x"}', headers=(("a", b"1"),), priority=1),
    Message(key=b"m", value=None),
)


def decoding(mode: str) -> DecodingOptions:
    """Options of one mode, with everything that any mode needs."""
    return DecodingOptions(
        schema=schema_of("id INT"),
        mode=mode,
        corrupt_column="bad" if mode == "PERMISSIVE" else None,
        dlq_topic="dead" if mode == "DLQ" else None,
        reader="g",
    )


def test_permissive_reads_keep_the_bytes_of_what_is_no_value() -> None:
    form = Shape(columns=("value", "bad"), decoding=decoding("PERMISSIVE"))

    assert shaped(form, *BROKEN).to_pylist() == [
        {"value": {"id": 1}, "bad": None},
        {"value": None, "bad": b'{"id":"x"}'},
        {"value": None, "bad": None},
    ]
    assert shaped(form, BROKEN[0]).column("bad").null_count == 1


def test_failing_fast_names_the_record() -> None:
    form = Shape(columns=("value",), decoding=decoding("FAILFAST"))

    with pytest.raises(Undecodable, match=r"t/3 offset 1 .*Expected `int"):
        shaped(form, *BROKEN)


@pytest.mark.parametrize("headers_as", ["map", "array"])
def test_dead_letters_hold_all_that_a_dead_letter_topic_wants(headers_as: str) -> None:
    form = Shape(
        columns=("value", "_letter"),
        headers_as=headers_as,
        decoding=decoding("DLQ"),
    )

    good, bad, null = shaped(form, *BROKEN).to_pylist()

    assert good == {"value": {"id": 1}, "_letter": None}
    assert null == {"value": None, "_letter": None}
    letter = bad["_letter"]
    headers = letter.pop("headers")
    pairs = headers if headers_as == "map" else [tuple(each.values()) for each in headers]
    assert letter == {"topic": "dead", "key": b"l", "value": b'{"id":"x"}', "priority": 1}
    assert pairs[0] == ("a", b"1")
    assert dict(pairs)["goqueue.dlq.offset"] == b"1"
    assert b"Expected `int" in dict(pairs)["goqueue.dlq.reason"]


@pytest.mark.parametrize(
    ("delays", "waits_us"),
    [
        (pa.array([1, 0, None], pa.int32()), [1_000_000, 0, None]),
        (pa.array([1.5, None, 0.0]), [1_500_000, None, 0]),
        (pa.array([decimal.Decimal("2.25")]), [2_250_000]),
        (pa.array([dt.timedelta(minutes=1), None], pa.duration("us")), [60_000_000, None]),
    ],
)
def test_a_delay_counts_from_now(delays: pa.Array, waits_us: list[int | None]) -> None:
    now_us = NOON_NS // 1000
    batch = pa.RecordBatch.from_pydict({"value": ["v"] * len(delays), "delay": delays})

    built = ArrowWriter(1, 1 << 20).write(to_input_columns(batch, now_us)).batches[0]

    records = [decode(built, position) for position in walk(built).positions]
    dues = [dict(record.headers).get(DELIVER_HEADER) for record in records]
    assert [due and int(due) // 1000 - now_us for due in dues] == waits_us


@pytest.mark.parametrize(
    "delay", [-1, -0.5, float("nan"), float("inf"), 1 << 62, dt.timedelta(seconds=-1)]
)
def test_a_delay_that_is_none_is_refused_by_its_row(delay: object) -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["v"], "delay": pa.array([delay])})

    with pytest.raises(Refused) as refused:
        ArrowWriter(1, 1 << 20).write(to_input_columns(batch, NOON_NS // 1000))

    assert refused.value.facts["index"] == 0


def test_turns_take_no_notice_of_keys_if_that_is_wanted() -> None:
    batch = pa.RecordBatch.from_pydict({"key": ["k"] * 6, "value": ["v"] * 6})

    assert ArrowWriter(3, 1 << 20, is_keyed=False).write(to_input_columns(batch)).counts == {
        0: 2,
        1: 2,
        2: 2,
    }
    assert len(ArrowWriter(3, 1 << 20).write(to_input_columns(batch)).counts) == 1


def test_a_refused_row_becomes_a_dead_letter_that_fits() -> None:
    row = pa.RecordBatch.from_pydict(
        {
            "key": [b"gq.reserved"],
            "value": ["x" * 100_000],
            "headers": pa.array([[("a", b"1"), ("gq.b", b"2")]], pa.map_(pa.string(), pa.binary())),
        }
    )

    letter = refused_row(row, "orders", "too large", NOON, 10_000)
    (record,) = pressed(letter, 10_000)

    facts = dict(record.headers)
    assert record.key == b""
    assert record.value == b"x" * len(record.value or b"")
    assert facts["a"] == b"1"
    assert facts["goqueue.dlq.topic"] == b"orders"
    assert facts["goqueue.dlq.reason"] == b"too large"
    assert facts["goqueue.dlq.value-bytes"] == b"100000"
    assert facts["goqueue.dlq.key-dropped"] == b"11"
    assert facts["goqueue.dlq.headers-dropped"] == b"1"
    assert "goqueue.dlq.offset" not in facts


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (fields(value=TEXT, delay=TEXT), "delay"),
        (fields(value=TEXT, delay=LongType(), deliver_at=TimestampType()), "delay"),
        (fields(value=TEXT, _letter=TEXT), "_letter"),
        (fields(value=TEXT), "partition"),
    ],
)
def test_columns_that_contradict_are_refused(schema: StructType, column: str) -> None:
    with pytest.raises(ColumnInvalid, match=f"column `{column}`"):
        check_columns(schema, has_topic=True, needs_partition=True)


def test_gaps_of_compaction_are_passed_over() -> None:
    data = bytearray()
    for offset in (3, 10, 11, 40):
        part = build([Message(value=str(offset).encode())])
        stamp(part, offset, NOON_NS)
        data += part
    batches = Batches(Shape(columns=("offset", "value")), NO_FILTERS, "t", 3, lambda: NOON)

    columns = ArrowReader(data, 5, 40).read(100, 1 << 20)

    assert columns is not None
    assert batches.batch(columns).to_pylist() == [
        {"offset": 10, "value": b"10"},
        {"offset": 11, "value": b"11"},
    ]
