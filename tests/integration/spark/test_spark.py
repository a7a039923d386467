"""Topics as tables and streams of a real Spark, against a real node."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.http_api import Api, Json
from tests.integration.server_process import ServerProcess
from tests.integration.transactional import Producer

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.integration.spark.sessions import ROOT

CHILD_S_MAX = 240


@pytest.fixture
def read(spark: SparkSession, node: ServerProcess) -> Callable[..., list[Row]]:
    """The rows of a batch read with these options, in the order of the log."""

    def rows(**options: str) -> list[Row]:
        reader = spark.read.format("goqueue").option("goqueue.servers", node.url)
        return reader.options(**options).load().orderBy("topic", "partition", "offset").collect()

    return rows


@pytest.fixture
def write(node: ServerProcess) -> Callable[..., None]:
    def save(rows: DataFrame, source: str = "goqueue", **options: str) -> None:
        writer = rows.write.format(source).option("goqueue.servers", node.url)
        writer.options(**options).mode("append").save()

    return save


def everything(api: Api, topic: str) -> list[Json]:
    # Another connection: the node hangs up on one that was silent while Spark was slow.
    api.close()
    partitions = api.get(f"/topics/{topic}")["partitions"]
    return [message for number in range(partitions) for message in api.read(topic, number)]


def values_of(rows: list[Row]) -> list[str | None]:
    return [None if row.value is None else bytes(row.value).decode() for row in rows]


def numbered(count: int) -> list[Json | str]:
    return [{"key": f"k{number % 7}", "value": f"v{number}"} for number in range(count)]


def test_a_bounded_read_gives_just_what_lies_between(
    api: Api, name: Callable[[], str], read: Callable[..., list[Row]]
) -> None:
    topic = api.create(name(), 2)
    api.publish(topic, *({"value": f"v{number}", "partition": number % 2} for number in range(20)))

    found = read(
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":3,"1":-2}}}}',
        endingOffsets=f'{{"{topic}":{{"0":5,"1":2}}}}',
    )

    assert [(row.partition, row.offset) for row in found] == [(0, 3), (0, 4), (1, 0), (1, 1)]
    assert values_of(found) == ["v6", "v8", "v1", "v3"]
    last = read(assign=f'{{"{topic}":[1]}}', startingOffsets="-2", maxRecordsPerPartition="1")
    assert values_of(last) == ["v17", "v19"]


def test_columns_say_what_the_message_said(
    api: Api, name: Callable[[], str], read: Callable[..., list[Row]]
) -> None:
    topic = api.create(name())
    api.publish(
        topic,
        {"key": "k", "value": "v", "priority": "high", "headers": {"a": "1", "b": "é"}},
        {"value": None},
        {"key": "k", "value": ""},
    )

    full, null, empty = read(subscribe=topic, includeHeaders="true")

    assert (full.topic, full.key, full.value, full.priority) == (topic, b"k", b"v", 1)
    assert full.headers == {"a": b"1", "b": "é".encode()}
    assert (null.key, null.value, null.headers) == (None, None, {})
    assert (empty.key, empty.value) == (b"k", b"")
    (first, *_) = read(subscribe=topic, includeHeaders="true", headersAs="array")
    assert [(each.key, each.value) for each in first.headers] == [("a", b"1"), ("b", "é".encode())]


def test_what_was_aborted_delayed_or_is_undecided_is_not_there(
    api: Api, name: Callable[[], str], read: Callable[..., list[Row]]
) -> None:
    topic = api.create(name())
    producer = Producer(api, name().replace("[", "-"))
    producer.begin()
    producer.publish(topic, "aborted")
    producer.abort()
    producer.begin()
    producer.publish(topic, "committed")
    producer.commit()
    api.publish(topic, {"value": "later", "delay": "1h"}, "plain")
    producer.begin()
    producer.publish(topic, "open")
    api.publish(topic, "behind the open one")

    found = read(subscribe=topic)
    uncommitted = read(subscribe=topic, isolation="uncommitted")
    producer.abort()

    assert values_of(found) == ["committed", "plain"]
    assert set(values_of(uncommitted)) >= {"committed", "plain", "open", "behind the open one"}


def test_an_empty_topic_has_no_rows(
    api: Api, name: Callable[[], str], read: Callable[..., list[Row]]
) -> None:
    assert read(subscribe=api.create(name(), 3)) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "no-such-topic"}, "`subscribe` of format goqueue: there is no topic"),
        ({"subscribe": "x", "startingOfsets": "earliest"}, "did you mean `startingOffsets`"),
        ({"subscribe": "x", "startingOffsets": "committed"}, "`groupId`"),
    ],
)
def test_a_wrong_option_is_named_before_any_job_starts(
    read: Callable[..., list[Row]], options: dict[str, str], words: str
) -> None:
    with pytest.raises(PySparkException) as refused:
        read(**options)

    assert words in str(refused.value)


def test_rows_are_written_with_all_their_columns(
    spark: SparkSession, api: Api, name: Callable[[], str], write: Callable[..., None]
) -> None:
    topic = api.create(name(), 3)
    rows = spark.sql(
        "select cast(id as string) key, concat('v', id) value,"
        " map('a', cast(id as string)) headers, 1 priority,"
        " case when id = 5 then 2 end partition from range(10)"
    )

    write(rows, topic=topic)

    found = everything(api, topic)
    assert Counter(message["value"] for message in found) == Counter(
        f"v{number}" for number in range(10)
    )
    fifth = next(message for message in found if message["value"] == "v5")
    assert (fifth["partition"], fifth["priority"], fifth["headers"]["a"]) == (2, "high", "5")


def test_a_task_that_died_after_its_work_leaves_no_second_copy(
    spark: SparkSession, api: Api, name: Callable[[], str], write: Callable[..., None]
) -> None:
    topic = api.create(name(), 3)
    rows = spark.range(0, 2000, 1, 2).selectExpr("cast(id as string) value")

    write(rows, "dying", topic=topic)

    assert Counter(message["value"] for message in everything(api, topic)) == Counter(
        map(str, range(2000))
    )


def test_the_same_version_of_a_write_is_there_once(
    spark: SparkSession, api: Api, name: Callable[[], str], write: Callable[..., None]
) -> None:
    topic = api.create(name())
    rows = spark.range(10).selectExpr("cast(id as string) value")
    for version in ("1", "1", "2"):
        write(rows, topic=topic, transactionalId=topic[:90], transactionalVersion=version)

    assert len(everything(api, topic)) == 20


def test_without_transactions_rows_are_published_by_numbers(
    spark: SparkSession, api: Api, name: Callable[[], str], write: Callable[..., None]
) -> None:
    topic = api.create(name(), 2)

    write(spark.range(100).selectExpr("cast(id as string) value"), topic=topic, exactlyOnce="false")

    assert len(everything(api, topic)) == 100
    assert api.get("/transactions")["count"] == 0


def test_a_column_that_cannot_be_written_is_named(
    spark: SparkSession, api: Api, name: Callable[[], str], write: Callable[..., None]
) -> None:
    topic = api.create(name())
    with pytest.raises(PySparkException, match="column `amount`"):
        write(spark.sql("select 'x' value, 1.5 amount"), topic=topic)

    assert everything(api, topic) == []


def start_copy(
    spark: SparkSession,
    node: ServerProcess,
    source: str,
    sink: str,
    checkpoint: Path,
    *,
    death: str = "",
    timeout_ms: str = "30000",
) -> StreamingQuery:
    """Begin to copy what there is."""
    link = {"goqueue.servers": node.url, "goqueue.timeoutMs": timeout_ms}
    rows = (
        spark.readStream.format("goqueue")
        .options(**link)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxRecordsPerTrigger", "300")
        .load()
        .selectExpr("key", "value")
    )
    writer = rows.writeStream.format("dying").option("death", death).options(**link)
    writer = writer.option("topic", sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def copy(
    spark: SparkSession,
    node: ServerProcess,
    source: str,
    sink: str,
    checkpoint: Path,
    *,
    death: str = "",
) -> None:
    """Copy what there is, and stop."""
    start_copy(spark, node, source, sink, checkpoint, death=death).awaitTermination()


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession,
    node: ServerProcess,
    api: Api,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, sink = api.create(name(), 3), api.create(name(), 3)
    api.publish(source, *numbered(1000))
    copy(spark, node, source, sink, tmp_path / "checkpoint")
    assert len(everything(api, sink)) == 1000

    api.publish(source, *numbered(50))
    copy(spark, node, source, sink, tmp_path / "checkpoint")

    assert len(everything(api, sink)) == 1050


def test_a_batch_that_was_committed_and_not_noted_is_not_written_again(
    spark: SparkSession,
    node: ServerProcess,
    api: Api,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, sink = api.create(name()), api.create(name())
    api.publish(source, *numbered(100))
    checkpoint = tmp_path / "checkpoint"
    copy(spark, node, source, sink, checkpoint)
    noted = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    noted.unlink()
    noted.with_name(f".{noted.name}.crc").unlink()

    copy(spark, node, source, sink, checkpoint)

    assert len(everything(api, sink)) == 100
    assert api.get("/transactions")["count"] == 0


def test_a_topic_made_anew_is_told_from_the_old_one(
    spark: SparkSession,
    node: ServerProcess,
    api: Api,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, sink = api.create(name()), api.create(name())
    api.publish(source, *numbered(10))
    copy(spark, node, source, sink, tmp_path / "checkpoint")
    api.do("DELETE", f"/topics/{source}")
    api.create(source)
    api.publish(source, *numbered(20))

    with pytest.raises(PySparkException, match="deleted and made anew"):
        copy(spark, node, source, sink, tmp_path / "checkpoint")


def check_copied(api: Api, sink: str, count: int) -> None:
    """Each row once, those of a key in their order, and nothing left undecided."""
    found = everything(api, sink)
    assert Counter(message["value"] for message in found) == Counter(
        f"v{number}" for number in range(count)
    )
    for key in range(7):
        of_key = [int(each["value"][1:]) for each in found if each["key"] == f"k{key}"]
        assert of_key == sorted(of_key)
    assert api.get("/transactions")["count"] == 0


@pytest.mark.parametrize("death", ["before", "after"])
def test_a_commit_whose_process_dies_is_made_good_by_a_restart(
    spark: SparkSession,
    node: ServerProcess,
    api: Api,
    name: Callable[[], str],
    tmp_path: Path,
    death: str,
) -> None:
    source, sink = api.create(name(), 3), api.create(name(), 3)
    api.publish(source, *numbered(1000))

    with pytest.raises(PySparkException):
        copy(spark, node, source, sink, tmp_path / "checkpoint", death=death)
    copy(spark, node, source, sink, tmp_path / "checkpoint")

    check_copied(api, sink, 1000)


@pytest.mark.long
def test_a_task_of_a_stream_that_dies_after_sending_is_tried_again(
    spark: SparkSession, node: ServerProcess, api: Api, name: Callable[[], str], tmp_path: Path
) -> None:
    source, sink = api.create(name(), 3), api.create(name(), 3)
    api.publish(source, *numbered(600))

    copy(spark, node, source, sink, tmp_path / "checkpoint", death="task")

    check_copied(api, sink, 600)


@pytest.mark.long
def test_a_driver_killed_after_its_commit_leaves_each_row_once(
    node: ServerProcess,
    connect: Callable[[ServerProcess], Api],
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    api = connect(node)
    source, sink = api.create(name(), 3), api.create(name(), 3)
    api.publish(source, *numbered(1000))
    command = [sys.executable, "-m", "tests.integration.spark.faults"]
    command += [node.url, source, sink, str(tmp_path / "checkpoint")]

    killed = subprocess.run(
        [*command, "driver"], cwd=ROOT, check=False, capture_output=True, timeout=CHILD_S_MAX
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = subprocess.run(
        [*command, ""], cwd=ROOT, check=False, capture_output=True, timeout=CHILD_S_MAX
    )
    assert again.returncode == 0, again.stderr

    check_copied(connect(node), sink, 1000)


def test_two_queries_over_the_same_topics_do_not_know_each_other(
    spark: SparkSession, node: ServerProcess, api: Api, name: Callable[[], str], tmp_path: Path
) -> None:
    source, sink = api.create(name(), 2), api.create(name(), 2)
    api.publish(source, *numbered(700))

    queries = [start_copy(spark, node, source, sink, tmp_path / each) for each in ("one", "other")]
    for query in queries:
        query.awaitTermination()

    assert Counter(message["value"] for message in everything(api, sink)) == Counter(
        {f"v{number}": 2 for number in range(700)}
    )


def test_a_broker_that_is_not_there_is_told_before_any_job_starts(spark: SparkSession) -> None:
    reader = spark.read.format("goqueue").option("goqueue.servers", "127.0.0.1:1")
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1"):
        reader.option("subscribe", "x").option("goqueue.timeoutMs", "200").load().collect()


@pytest.mark.long
def test_a_stream_that_lost_its_broker_fails_and_goes_on_when_it_is_back(
    spark: SparkSession,
    mortal: ServerProcess,
    connect: Callable[[ServerProcess], Api],
    tmp_path: Path,
) -> None:
    api = connect(mortal)
    source, sink = api.create("source", 3), api.create("sink", 3)
    api.publish(source, *numbered(3000))
    checkpoint = tmp_path / "checkpoint"
    query = start_copy(spark, mortal, source, sink, checkpoint, timeout_ms="500")
    while query.lastProgress is None:
        assert not query.awaitTermination(1)
    mortal.kill()

    with pytest.raises(PySparkException, match=r"server_unreachable|refused|127\.0\.0\.1"):
        query.awaitTermination()
    mortal.start()
    copy(spark, mortal, source, sink, checkpoint)

    check_copied(connect(mortal), sink, 3000)


def test_a_stream_outlives_a_broker_that_is_killed_again_and_again(
    spark: SparkSession,
    mortal: ServerProcess,
    connect: Callable[[ServerProcess], Api],
    tmp_path: Path,
) -> None:
    api = connect(mortal)
    source, sink = api.create("source", 3), api.create("sink", 3)
    api.publish(source, *numbered(3000))
    query = start_copy(spark, mortal, source, sink, tmp_path / "checkpoint")

    kills = 0
    while not query.awaitTermination(1):
        if kills < 3 and query.lastProgress is not None:
            mortal.restart()
            kills += 1

    assert kills > 0
    check_copied(connect(mortal), sink, 3000)
