"""What options make of topics, in a real Spark: columns, filters, values, dead letters, edges."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.http_api import Api, Json
from tests.integration.server_process import ServerProcess
from tests.integration.transactional import Producer

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from goqueue.spark import split_bad

SCHEMA = {"valueFormat": "json", "valueSchema": "id BIGINT, name STRING"}


@pytest.fixture
def load(spark: SparkSession, node: ServerProcess) -> Callable[..., DataFrame]:
    """A batch read with these options."""

    def rows(**options: str) -> DataFrame:
        reader = spark.read.format("goqueue").option("goqueue.servers", node.url)
        return reader.options(**options).load()

    return rows


@pytest.fixture
def write(node: ServerProcess) -> Callable[..., None]:
    def save(rows: DataFrame, **options: str) -> None:
        writer = rows.write.format("goqueue").option("goqueue.servers", node.url)
        writer.options(**options).mode("append").save()

    return save


def everything(api: Api, topic: str) -> list[Json]:
    partitions = api.get(f"/topics/{topic}")["partitions"]
    return [message for number in range(partitions) for message in api.read(topic, number)]


def values(rows: list[Row]) -> list[str]:
    return sorted(bytes(row.value).decode() for row in rows)


def test_only_the_columns_asked_for_are_there(
    api: Api, name: Callable[[], str], load: Callable[..., DataFrame]
) -> None:
    topic = api.create(name())
    api.publish(topic, {"key": "k", "value": "v", "headers": {"a": "1"}})

    few = load(subscribe=topic, columns="offset,key")
    headers = load(subscribe=topic, columns="headers,partition")

    assert few.columns == ["offset", "key"]
    assert few.collect() == [Row(offset=0, key=bytearray(b"k"))]
    assert headers.collect() == [Row(headers={"a": bytearray(b"1")}, partition=0)]


def test_filters_leave_rows_out_before_spark_sees_them(
    api: Api, name: Callable[[], str], load: Callable[..., DataFrame]
) -> None:
    topic = api.create(name(), 2)
    api.publish(
        topic,
        {"key": "user-1", "value": "a", "headers": {"type": "order.new"}},
        {"key": "user-2", "value": "b", "headers": {"type": "invoice"}},
        {"key": "admin", "value": "c", "headers": {"type": "order.old"}},
        {"value": "d"},
    )

    by_key = load(subscribe=topic, keyFilter="user-*")
    by_header = load(subscribe=topic, headerFilter="type=order.*", columns="value")
    by_both = load(subscribe=topic, keyFilter='["user-1","admin"]', headerFilter="type=order.old")
    of_nobody = load(subscribe=topic, keyFilter="nobody")

    assert values(by_key.collect()) == ["a", "b"]
    assert values(by_header.collect()) == ["a", "c"]
    assert values(by_both.collect()) == ["c"]
    assert of_nobody.collect() == []


def test_topics_are_found_by_a_pattern_and_a_pattern_of_none_is_refused(
    api: Api, name: Callable[[], str], load: Callable[..., DataFrame]
) -> None:
    stem = name().replace("[", "-")
    for part in ("one", "two"):
        api.publish(api.create(f"{stem}.{part}"), part)

    assert values(load(subscribePattern=rf"{stem}\..*").collect()) == ["one", "two"]
    with pytest.raises(PySparkException, match=r"`subscribePattern`.* there is no topic"):
        load(subscribePattern="nothing-like-it.*").collect()


def test_json_is_decoded_and_what_is_none_is_kept_apart(
    api: Api, name: Callable[[], str], load: Callable[..., DataFrame]
) -> None:
    topic = api.create(name())
    api.publish(topic, '{"id":1,"name":"a"}', '{"id":"x"}', {"value": None}, "no json")

    found = load(subscribe=topic, **SCHEMA, corruptColumn="bad").orderBy("offset").collect()

    assert [row.value and (row.value.id, row.value.name) for row in found] == [
        (1, "a"),
        None,
        None,
        None,
    ]
    assert [row.bad and bytes(row.bad) for row in found] == [
        None,
        b'{"id":"x"}',
        None,
        b"no json",
    ]
    with pytest.raises(PySparkException, match="offset 1 is not as its schema says"):
        load(subscribe=topic, **SCHEMA, mode="FAILFAST").collect()


def test_bad_values_become_dead_letters_in_the_transaction_of_the_good_ones(
    spark: SparkSession, node: ServerProcess, api: Api, name: Callable[[], str], tmp_path: Path
) -> None:
    source, sink, dead = (api.create(name()) for _ in range(3))
    api.publish(
        source,
        {"key": "k", "value": '{"id":1}'},
        {"key": "l", "value": "broken", "headers": {"a": "1"}, "priority": "high"},
    )
    reader = spark.readStream.format("goqueue").option("goqueue.servers", node.url)
    rows = reader.options(
        subscribe=source, startingOffsets="earliest", mode="DLQ", dlqTopic=dead, **SCHEMA
    ).load()
    good, bad = split_bad(rows)
    results = good.selectExpr(f"'{sink}' topic", "key", "to_json(value) value")

    writer = results.unionByName(bad, allowMissingColumns=True).writeStream.format("goqueue")
    writer = writer.option("goqueue.servers", node.url)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()

    assert [message["value"] for message in everything(api, sink)] == ['{"id":1}']
    (letter,) = everything(api, dead)
    assert (letter["key"], letter["value"], letter["priority"]) == ("l", "broken", "high")
    assert letter["headers"]["a"] == "1"
    assert letter["headers"]["goqueue.dlq.topic"] == source
    assert letter["headers"]["goqueue.dlq.offset"] == "1"
    assert "malformed" in letter["headers"]["goqueue.dlq.reason"]


@pytest.mark.parametrize("headers_as", ["map", "array", None])
def test_rows_that_sql_calls_bad_become_dead_letters_with_their_origin(
    api: Api,
    name: Callable[[], str],
    load: Callable[..., DataFrame],
    write: Callable[..., None],
    headers_as: str | None,
) -> None:
    source, dead = api.create(name()), api.create(name())
    api.publish(source, {"value": "good"}, {"value": "bad", "headers": {"a": "1"}}, {"value": None})
    shape = {} if headers_as is None else {"includeHeaders": "true", "headersAs": headers_as}

    good, bad = split_bad(
        load(subscribe=source, **shape),
        when="value = cast('bad' as binary)",
        dlq_topic=dead,
        reason="it says so",
        group="checker",
    )
    write(bad)

    assert [row.offset for row in good.orderBy("offset").collect()] == [0, 2]
    (row,) = load(subscribe=dead, includeOrigin="true", includeHeaders="true").collect()
    assert (row.origin_topic, row.origin_partition, row.origin_offset) == (source, 0, 1)
    assert (row.origin_group, row.cause, row.reason) == ("checker", "rejected", "it says so")
    assert row.died_at is not None
    assert bytes(row.headers.get("a", b"")) == (b"" if headers_as is None else b"1")


def test_dead_letters_of_the_broker_tell_their_origin(
    api: Api, name: Callable[[], str], load: Callable[..., DataFrame]
) -> None:
    dead = api.create(name())
    topic, group = api.create(name(), dead_letter_topic=dead), name()
    api.publish(topic, "poison")
    (message,) = api.join(group, topic).take(1)
    receipt = message["receipt_handle"]
    api.post("/messages/reject", {"receipt_handle": receipt, "reason": "no good"})

    (row,) = load(subscribe=dead, includeOrigin="true").collect()

    assert (row.origin_topic, row.origin_offset, row.origin_group) == (topic, 0, group)
    assert (row.cause, row.reason, row.deliveries) == ("rejected", "no good", 1)


def test_rows_that_no_topic_takes_are_written_as_dead_letters(
    spark: SparkSession,
    api: Api,
    name: Callable[[], str],
    load: Callable[..., DataFrame],
    write: Callable[..., None],
) -> None:
    topic, dead = api.create(name(), 2, max_message_bytes=1000), api.create(name())
    rows = spark.sql(
        "select repeat(cast(id as string), case when id = 7 then 2000 else 1 end) value,"
        " case when id = 3 then 9 else 2 end priority,"
        " case when id = 5 then 7 end partition from range(8)"
    )

    write(rows, topic=topic, dlqTopic=dead)

    assert sorted(message["value"] for message in everything(api, topic)) == list("01246")
    letters = load(subscribe=dead, includeOrigin="true").orderBy("value").collect()
    assert values(letters) == ["3", "5", "7" * 2000]
    assert "priority" in letters[0].reason
    assert "partition_not_found" in letters[1].reason
    assert "message_too_large" in letters[2].reason
    assert {row.origin_topic for row in letters} == {topic}
    with pytest.raises(PySparkException, match=r"column `(priority|partition|message)`"):
        write(rows, topic=topic)


def test_a_row_for_a_topic_that_is_not_there_is_a_dead_letter(
    spark: SparkSession, api: Api, name: Callable[[], str], write: Callable[..., None]
) -> None:
    dead = api.create(name())
    rows = spark.sql("select 'no-such-topic' topic, 'v' value union all select null, 'w'")

    write(rows, dlqTopic=dead)

    assert sorted(message["value"] for message in everything(api, dead)) == ["v", "w"]
    for option in ("topic", "dlqTopic"):
        with pytest.raises(PySparkException, match=f"option `{option}`.*there is no topic"):
            write(rows.select("value"), **{"topic": dead, option: "no-such-topic"})


def test_a_prefix_turns_and_delays_are_heeded(
    spark: SparkSession, api: Api, name: Callable[[], str], write: Callable[..., None]
) -> None:
    topic = api.create(f"eu.{name()}", 3)
    rows = spark.sql("select 'k' key, cast(id as string) value from range(0, 9, 1, 1)")

    write(rows, topic=topic.removeprefix("eu."), topicPrefix="eu.", partitioner="round-robin")
    write(rows.selectExpr("value", "interval 1 hour delay"), topic=topic)
    write(rows.selectExpr("value", "3600 delay"), topic=topic)

    assert [len(api.read(topic, number)) for number in range(3)] == [3, 3, 3]
    assert api.get(f"/topics/{topic}/delayed")["count"] == 18


def test_gaps_of_transactions_are_no_records_and_no_loss(
    api: Api, name: Callable[[], str], load: Callable[..., DataFrame]
) -> None:
    topic = api.create(name())
    producer = Producer(api, name().replace("[", "-"))
    for number in range(6):
        producer.begin()
        producer.publish(topic, f"v{number}")
        if number % 2:
            producer.abort()
        else:
            producer.commit()

    found = load(subscribe=topic, maxRecordsPerPartition="1").collect()
    last = load(subscribe=topic, startingOffsets="-3").collect()

    assert values(found) == ["v0", "v2", "v4"]
    assert set(values(last)) <= {"v2", "v4"}


def test_one_large_value_among_small_ones_is_read_and_written(
    api: Api, name: Callable[[], str], load: Callable[..., DataFrame], write: Callable[..., None]
) -> None:
    limit = 12 << 20
    topic, sink = name(), name()
    for each in (topic, sink):
        api.do("POST", "/topics", {"name": each, "num_partitions": 1, "max_message_bytes": limit})
    api.publish(topic, "small", "x" * (8 << 20), "small")

    found = load(subscribe=topic, **{"goqueue.fetch.maxBytes": "1024", "batchBytes": "1024"})
    write(found.select("value"), topic=sink)

    assert [len(message["value"]) for message in everything(api, sink)] == [5, 8 << 20, 5]


def test_a_stream_reads_topics_that_were_added(
    spark: SparkSession, node: ServerProcess, api: Api, name: Callable[[], str], tmp_path: Path
) -> None:
    stem = name().replace("[", "-")
    first = api.create(f"{stem}.a")
    api.publish(first, "one")

    def drain() -> list[str]:
        reader = spark.readStream.format("goqueue").option("goqueue.servers", node.url)
        rows = reader.options(subscribePattern=rf"{stem}\..*", startingOffsets="earliest").load()
        writer = rows.selectExpr("cast(value as string) value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start()
        query.awaitTermination()
        return sorted(row.value for row in spark.read.parquet(str(tmp_path / "rows")).collect())

    assert drain() == ["one"]
    api.publish(first, "two")
    api.publish(api.create(f"{stem}.b"), "three")
    assert drain() == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "x", "columns": "colour"}, "option `columns`"),
        ({"subscribe": "x", "valueFormat": "avro"}, "option `schemaSubject`"),
        ({"subscribe": "x", "valueFormat": "json"}, "option `valueSchema`"),
        ({"subscribe": "x", "mode": "DLQ"}, "option `dlqTopic`"),
        ({"subscribe": "x", "maxTriggerDelay": "1s", "endingOffsets": "latest"}, "`endingOffsets`"),
    ],
)
def test_contradicting_options_are_named_before_any_job_starts(
    load: Callable[..., DataFrame], options: dict[str, str], words: str
) -> None:
    with pytest.raises(PySparkException) as refused:
        load(**options)

    assert words in str(refused.value)


def test_a_schema_of_ones_own_is_refused(
    spark: SparkSession, node: ServerProcess, api: Api, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    reader = spark.read.format("goqueue").option("goqueue.servers", node.url)

    with pytest.raises(PySparkException, match="option `schema`"):
        reader.option("subscribe", topic).schema("id INT").load().collect()


def test_the_second_server_is_used_if_the_first_is_not_there(
    spark: SparkSession, node: ServerProcess, api: Api, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    api.publish(topic, "v")
    reader = spark.read.format("goqueue").option("goqueue.servers", f"127.0.0.1:1,{node.url}")

    assert values(reader.option("subscribe", topic).load().collect()) == ["v"]


def test_times_by_partition_bound_a_read(
    api: Api, name: Callable[[], str], load: Callable[..., DataFrame]
) -> None:
    topic = api.create(name())
    api.publish(topic, "v")
    late = json.dumps({topic: {"0": 7_000_000_000_000}})
    early = json.dumps({topic: {"0": 1}})

    assert values(load(subscribe=topic, startingOffsetsByTimestamp=early).collect()) == ["v"]
    assert load(subscribe=topic, startingOffsetsByTimestamp=late).collect() == []
    assert load(subscribe=topic, endingOffsetsByTimestamp=early).collect() == []
    with pytest.raises(PySparkException, match="has no record that is as late"):
        load(
            subscribe=topic,
            startingOffsetsByTimestamp=late,
            startingOffsetsByTimestampStrategy="error",
        ).collect()
