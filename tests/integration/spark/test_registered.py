"""Values of the schema registry in Spark: typed columns, versions, bad rows, and writes."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import goqueue
from goqueue.client.schemas import frame
from goqueue.client.sync import SyncConnection
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from goqueue.spark import ColumnInvalid, GoQueueSource, OptionInvalid, SchemaChanged
from goqueue.spark.schema_lookup import check_written, with_derived
from goqueue.spark.value_decoder import schema_of
from goqueue.spark.write_options import WriteOptions, write_options
from goqueue.spark.writer import publish
from tests.integration.spark.direct_readers import EVERYTHING, stream

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
NOTED = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "none"}],
}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; optional string item = 2; }'
ROW = StructType([StructField("id", LongType()), StructField("item", StringType())])


@pytest.fixture
def q(node: ServerProcess) -> Iterator[SyncConnection]:
    with goqueue.connect_sync(node.url) as connection:
        yield connection


def batches(node: ServerProcess, topic: str, **options: str) -> list[dict[str, Any]]:
    """The rows of a bounded read, without Spark."""
    source = GoQueueSource({"goqueue.servers": node.url, "subscribe": topic, **options})
    reading = source.reader(source.schema())
    return rows_of(batch for task in reading.partitions() for batch in reading.read(task))


def rows_of(found: Iterable[object]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in found:
        assert isinstance(batch, pa.RecordBatch)
        rows += batch.to_pylist()
    return rows


def send_avro(q: SyncConnection, topic: str, schema: dict[str, Any], *rows: dict[str, Any]) -> None:
    serializer = goqueue.Avro(f"{topic}-value", schema)
    with q.producer(serializer=serializer) as producer:
        for row in rows:
            producer.send(topic, row, partition=0).wait()


def writing(node: ServerProcess, topic: str, kind: StructType, **options: str) -> WriteOptions:
    """The options of a write of a column `value`, as the driver hands them to tasks."""
    given = {"goqueue.servers": node.url, "topic": topic, "exactlyOnce": "false", **options}
    made = write_options({"schemaSubject": f"{topic}-value", **given}, is_stream=False)
    return check_written(made, StructType([StructField("value", kind)]))


def structs(*rows: dict[str, Any] | None) -> pa.RecordBatch:
    kind = pa.struct([("id", pa.int64()), ("item", pa.string())])
    return pa.RecordBatch.from_pydict({"value": pa.array(rows, kind)})


def test_every_version_is_read_into_one_and_what_is_none_is_kept_apart(
    node: ServerProcess, q: SyncConnection, api: Api, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    send_avro(q, topic, ORDER, {"id": 1, "item": "tea"})
    send_avro(q, topic, NOTED, {"id": 2, "item": "cup", "note": "fragile"})
    first = q.schemas.get(f"{topic}-value", 1).id
    bad = [b"no frame", frame(999_999, b"\2"), frame(first, b"\2"), frame(first, b"\2\2ab")]
    for value in (None, *bad):
        q.publish(topic, value, partition=0)
    options = {"valueFormat": "avro", "schemaSubject": f"{topic}-value"}

    found = batches(node, topic, **options)
    earlier = batches(node, topic, schemaVersion="1", columns="value", **options)

    assert [row["value"] for row in found[:3]] == [
        {"id": 1, "item": "tea", "note": "none"},
        {"id": 2, "item": "cup", "note": "fragile"},
        None,
    ]
    assert [row["_corrupt"] for row in found] == [None, None, None, *bad]
    assert earlier[1]["value"] == {"id": 2, "item": "cup"}
    with pytest.raises(ValueError, match=r"offset 3 is not as its schema says: .*framing"):
        batches(node, topic, mode="FAILFAST", **options)


def test_a_stream_keeps_its_schema_or_ends_before_rows_of_a_newer_one(
    node: ServerProcess, q: SyncConnection, api: Api, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    send_avro(q, topic, ORDER, {"id": 1, "item": "tea"})
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "valueFormat": "avro",
        "schemaSubject": f"{topic}-value",
    }
    fixed, following = stream(node, **options), stream(node, schemaEvolution="latest", **options)
    source = GoQueueSource({"goqueue.servers": node.url, **options})
    loaded = source.schema()
    start = fixed.initialOffset()
    assert following.latestOffset(start, EVERYTHING) != start

    send_avro(q, topic, NOTED, {"id": 2, "item": "cup", "note": "fragile"})

    end = fixed.latestOffset(start, EVERYTHING)
    for reading in (fixed, source.streamReader(loaded)):
        tasks = reading.partitions(start, end)
        found = rows_of(batch for task in tasks for batch in reading.read(task))
        rows = [row["value"] for row in found]
        assert rows == [{"id": 1, "item": "tea"}, {"id": 2, "item": "cup"}]
    with pytest.raises(SchemaChanged, match="restart"):
        following.latestOffset(start, EVERYTHING)


@pytest.mark.parametrize("value_format", ["avro", "json", "protobuf"])
def test_rows_are_written_with_a_schema_made_of_their_column_and_read_as_they_were(
    node: ServerProcess, q: SyncConnection, name: Callable[[], str], value_format: str
) -> None:
    topic = name()
    q.topics.create(topic, partitions=1, schema_validation=True)
    rows: list[dict[str, Any] | None] = [{"id": 1, "item": "tea"}, {"id": 2, "item": None}, None]
    given = {
        "goqueue.servers": node.url,
        "topic": topic,
        "exactlyOnce": "false",
        "schemaSubject": f"{topic}-value",
        "valueFormat": value_format,
        "registerSchema": "true",
    }
    columns = StructType([StructField("value", ROW)])
    made = with_derived(write_options(given, is_stream=False), columns)

    assert publish(check_written(made, columns), "unused", [structs(*rows)]).rows == 3

    options = {"valueFormat": value_format, "schemaSubject": f"{topic}-value"}
    assert [row["value"] for row in batches(node, topic, **options)] == rows
    assert q.schemas.versions(f"{topic}-value") == (1,)


def test_a_row_that_the_schema_does_not_allow_is_refused_or_a_dead_letter(
    node: ServerProcess, q: SyncConnection, api: Api, name: Callable[[], str]
) -> None:
    topic, dead = api.create(name()), api.create(name())
    q.schemas.register(f"{topic}-value", PROTO.replace("optional", ""), type="PROTOBUF")
    q.schemas.register(f"{topic}-avro", ORDER, type="AVRO")
    rows = structs({"id": 1, "item": "tea"}, {"id": 2, "item": None}, {"id": 3, "item": "cup"})
    options = {"valueFormat": "avro", "schemaSubject": f"{topic}-avro"}

    with pytest.raises(ColumnInvalid, match="/item is null"):
        publish(writing(node, topic, ROW, **options), "unused", [rows])
    publish(writing(node, topic, ROW, dlqTopic=dead, **options), "unused", [rows])

    assert [row["value"]["id"] for row in batches(node, topic, **options)] == [1, 3]
    (letter,) = batches(node, dead, includeOrigin="true")
    assert json.loads(letter["value"]) == {"id": 2, "item": None}
    assert "/item is null" in letter["reason"]


def test_columns_and_subjects_that_do_not_fit_are_refused_before_any_job(
    node: ServerProcess, q: SyncConnection, api: Api, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    subject = f"{topic}-value"
    q.schemas.register(subject, ORDER, type="AVRO")
    for kind, words in (
        ("id BIGINT", "value/item is missing"),
        ("id STRING, item STRING", "value/id is string"),
        ("id BIGINT, item STRING, colour STRING", "value/colour is no field"),
    ):
        with pytest.raises(ColumnInvalid, match=words):
            writing(node, topic, schema_of(kind), valueFormat="avro")
    with pytest.raises(OptionInvalid, match="there is no subject 'gone'"):
        batches(node, topic, valueFormat="avro", schemaSubject="gone")
    with pytest.raises(OptionInvalid, match="is AVRO, not protobuf"):
        batches(node, topic, valueFormat="protobuf", schemaSubject=subject)
    nested = {"type": "record", "name": "Node", "fields": [{"name": "n", "type": ["null", "Node"]}]}
    q.schemas.register("tree", nested, type="AVRO")
    with pytest.raises(OptionInvalid, match="recursive"):
        batches(node, topic, valueFormat="avro", schemaSubject="tree")


def test_spark_reads_and_writes_registered_values_and_a_stream_takes_up_a_version_by_restart(
    spark: SparkSession,
    node: ServerProcess,
    q: SyncConnection,
    api: Api,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, sink = api.create(name()), name()
    q.topics.create(sink, partitions=1, schema_validation=True)
    q.schemas.register(f"{sink}-value", PROTO, type="PROTOBUF")
    send_avro(q, source, ORDER, {"id": 1, "item": "tea"})
    avro = {"valueFormat": "avro", "schemaSubject": f"{source}-value"}

    def run() -> list[str]:
        rows = spark.readStream.format("goqueue").option("goqueue.servers", node.url)
        rows = rows.options(subscribe=source, startingOffsets="earliest", **avro)
        loaded = rows.option("schemaEvolution", "latest").load()
        written = loaded.selectExpr("named_struct('id', value.id, 'item', value.item) value")
        writer = written.writeStream.format("goqueue").option("goqueue.servers", node.url)
        writer = writer.options(topic=sink, valueFormat="protobuf", schemaSubject=f"{sink}-value")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        kind = loaded.schema["value"].dataType
        assert isinstance(kind, StructType)
        return kind.names

    assert run() == ["id", "item"]
    send_avro(q, source, NOTED, {"id": 2, "item": "cup", "note": "fragile"})
    assert run() == ["id", "item", "note"]

    proto = {"valueFormat": "protobuf", "schemaSubject": f"{sink}-value"}
    found = [row["value"] for row in batches(node, sink, **proto)]
    assert found == [{"id": 1, "item": "tea"}, {"id": 2, "item": "cup"}]
    bad = spark.createDataFrame([("no frame",)], "value string").write.format("goqueue")
    with pytest.raises(PySparkException, match="registry framing"):
        bad.option("goqueue.servers", node.url).option("topic", sink).mode("append").save()
