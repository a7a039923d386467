"""Edges of topics as the readers meet them, asked without Spark, against a real node."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess, serving

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from goqueue.spark import DataLost, OptionInvalid
from goqueue.spark.read_options import ReadOptions, read_options
from goqueue.spark.reader import TopicStreamReader
from tests.integration.spark.direct_readers import (
    EVERYTHING,
    between,
    reader,
    stream,
    texts,
    values,
)

SOME = ReadMaxRows(1 << 40)


def stream_options(node: ServerProcess, **options: str) -> ReadOptions:
    return read_options({"goqueue.servers": node.url, **options}, is_stream=True)


def test_an_empty_topic_and_one_record(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name(), 3)
    assert values(reader(node, subscribe=topic)) == []
    api.publish(topic, "only")

    assert values(reader(node, subscribe=topic)) == ["only"]
    assert values(reader(node, subscribe=topic, minPartitions="9")) == ["only"]
    assert len(reader(node, subscribe=topic, minPartitions="9").partitions()) == 1


def test_partitions_that_a_checkpoint_does_not_know_are_read_from_their_beginning(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name(), 2)
    api.publish(topic, {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    reading = stream(node, subscribe=topic, startingOffsets="latest")
    start = reading.initialOffset()
    # As it was before the second partition was added.
    del start[topic]["offsets"]["1"]

    end = reading.latestOffset(start, EVERYTHING)

    assert between(reading, start, end) == ["b"]
    assert json.dumps(reading.latestOffset(end, EVERYTHING)) == json.dumps(end)


def test_records_that_retention_takes_during_a_read_are_an_error_unless_asked_otherwise(
    mortal: ServerProcess, connect: Callable[[ServerProcess], Api]
) -> None:
    api = connect(mortal)
    topic = api.create("t", segment_bytes=65_536, retention_bytes=131_072)
    for _ in range(40):
        api.publish(topic, *["v" * 10_000] * 4)
    strict = reader(mortal, subscribe=topic)
    lenient = reader(mortal, subscribe=topic, failOnDataLoss="false")
    planned = strict.partitions()
    mortal.restart()
    api.close()
    first = earliest = planned[0].value.start
    while earliest <= first:
        api.publish(topic, "v" * 10_000)
        earliest = api.get(f"/topics/{topic}")["partition_offsets"]["0"]["earliest"]

    with pytest.raises(DataLost, match="retention was faster"):
        texts(batch for task in planned for batch in strict.read(task))
    found = texts(batch for task in planned for batch in lenient.read(task))
    # Retention continues all the while.
    assert len(found) <= max(0, 160 - earliest)
    before = json.dumps({topic: {"0": 0}})
    with pytest.raises(DataLost, match="begins at"):
        reader(mortal, subscribe=topic, startingOffsets=before).partitions()


def test_a_stream_waits_for_enough_records_but_not_for_ever(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    options = stream_options(
        node,
        subscribe=topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger="3",
        maxTriggerDelay="10s",
    )
    now = [100.0]
    reading = TopicStreamReader(options, clock=lambda: now[0])
    limit = reading.getDefaultReadLimit()
    start = reading.initialOffset()

    api.publish(topic, "one")
    first = reading.latestOffset(start, limit)
    api.publish(topic, "two")
    second = reading.latestOffset(first, limit)
    now[0] += 10
    third = reading.latestOffset(second, limit)
    api.publish(topic, "three", "four", "five")
    fourth = reading.latestOffset(third, limit)

    assert not isinstance(limit, ReadAllAvailable)
    assert between(reading, start, first) == ["one"], "the first one never waits"
    assert second == first
    assert between(reading, second, third) == ["two"]
    assert between(reading, third, fourth) == ["three", "four", "five"]
    api.publish(topic, "six")
    reading.prepareForTriggerAvailableNow()
    assert between(reading, fourth, reading.latestOffset(fourth, limit)) == ["six"]


def test_each_partition_may_have_a_limit(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name(), 2)
    api.publish(topic, *({"value": str(number), "partition": 0} for number in range(5)))
    api.publish(topic, {"value": "b", "partition": 1})
    reading = stream(node, subscribe=topic, startingOffsets="earliest", maxOffsetsPerPartition="2")
    start = reading.initialOffset()

    end = reading.latestOffset(start, reading.getDefaultReadLimit())

    assert between(reading, start, end) == ["0", "1", "b"]


def test_a_pattern_finds_topics_later_and_misses_those_that_are_gone(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    stem = name()
    pattern = {"subscribePattern": rf"{stem}\..*", "startingOffsets": "latest"}
    strict, lenient = stream(node, **pattern), stream(node, **pattern, failOnDataLoss="false")
    nothing = strict.initialOffset()
    topic = api.create(f"{stem}.a")
    api.publish(topic, "v")

    end = strict.latestOffset(nothing, EVERYTHING)
    assert between(strict, nothing, end) == ["v"]
    api.do("DELETE", f"/topics/{topic}")

    with pytest.raises(DataLost, match="was deleted"):
        strict.latestOffset(end, EVERYTHING)
    assert lenient.latestOffset(end, EVERYTHING) == {}


def test_a_checkpoint_of_a_topic_that_a_pattern_does_not_match_is_refused(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    start = stream(node, subscribe=topic).initialOffset()

    with pytest.raises(OptionInvalid, match=r"`subscribePattern`.*the checkpoint is of topic"):
        stream(node, subscribePattern="other.*").latestOffset(start, EVERYTHING)


def test_a_topic_that_is_deleted_under_a_stream_is_named(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    reading = stream(node, subscribe=topic)
    start = reading.initialOffset()
    api.do("DELETE", f"/topics/{topic}")

    with pytest.raises(OptionInvalid, match=r"`subscribe`.*there is no topic"):
        reading.latestOffset(start, EVERYTHING)


def test_values_of_sixteen_mebibytes_are_read_among_small_ones(
    tmp_path: Path, connect: Callable[[ServerProcess], Api]
) -> None:
    size = 16 << 20
    with serving(tmp_path / "data", "--http-publish-body-limit", "40MiB") as node:
        topic = connect(node).create("large", max_message_bytes=size)
        connect(node).publish(topic, "a", "x" * size, "b")

        found = values(reader(node, subscribe=topic))

    assert [len(value) for value in found] == [1, size, 1]
    assert found[1] == "x" * size
