"""What the readers tell Spark, asked without Spark, against a real node."""

import json
from collections.abc import Callable

import pytest

from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pyspark.sql.streaming.datasource import (
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from goqueue.spark import DataLost, OptionInvalid
from tests.integration.spark.direct_readers import EVERYTHING, between, reader, stream, values


def publish(api: Api, topic: str, count: int) -> list[str]:
    """Publish v0, v1, … to the first partition; the times of all."""
    placed = api.publish(
        topic, *({"value": f"v{number}", "partition": 0} for number in range(count))
    )
    return [str(each["timestamp"]) for each in placed]


def test_a_read_begins_where_a_group_stands(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic, group = api.create(name()), name()
    publish(api, topic, 5)
    api.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 3}}})

    found = values(reader(node, subscribe=topic, startingOffsets="committed", groupId=group))
    of_nobody = reader(node, subscribe=topic, startingOffsets="committed", groupId="nobody")

    assert found == ["v3", "v4"]
    assert len(values(of_nobody)) == 5


def test_times_bound_a_read(api: Api, node: ServerProcess, name: Callable[[], str]) -> None:
    topic = api.create(name())
    publish(api, topic, 2)
    (later,) = publish(api, topic, 1)
    # To the microsecond, as Python writes it: nothing else was published within that one.
    moment = later.rstrip("Z").ljust(26, "0")[:26] + "Z" if "." in later else later

    assert values(reader(node, subscribe=topic, startingTimestamp="-1h")) == ["v0", "v1", "v0"]
    assert values(reader(node, subscribe=topic, startingTimestamp=moment)) == ["v0"]
    assert values(reader(node, subscribe=topic, endingTimestamp=moment)) == ["v0", "v1"]
    assert values(reader(node, subscribe=topic, endingTimestamp="2001-01-01T00:00:00Z")) == []
    assert values(reader(node, subscribe=topic, startingTimestamp="2200-01-01T00:00:00Z")) == []


def test_large_ranges_are_read_by_several_tasks(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    publish(api, topic, 10)
    reading = reader(node, subscribe=topic, maxRecordsPerPartition="4")

    assert len(reading.partitions()) == 3
    assert values(reading) == [f"v{number}" for number in range(10)]


def test_offsets_past_the_end_are_refused_by_name(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    offsets = json.dumps({topic: {"0": 7}})

    with pytest.raises(OptionInvalid, match="`startingOffsets`"):
        reader(node, subscribe=topic, startingOffsets=offsets).partitions()


def test_a_stream_goes_on_by_its_limit_and_stands_still_at_the_end(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    publish(api, topic, 5)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxRecordsPerTrigger": "3"}
    reading = stream(node, **options)
    limit = reading.getDefaultReadLimit()

    first = reading.initialOffset()
    second = reading.latestOffset(first, limit)
    third = reading.latestOffset(json.loads(json.dumps(second)), limit)

    assert limit == ReadMaxRows(3)
    assert between(reading, first, second) == ["v0", "v1", "v2"]
    assert between(reading, second, third) == ["v3", "v4"]
    assert json.dumps(reading.latestOffset(third, limit)) == json.dumps(third)
    assert reading.reportLatestOffset() == third
    assert between(reading, first, reading.latestOffset(first, EVERYTHING)) == [
        f"v{number}" for number in range(5)
    ]


def test_what_is_available_now_does_not_grow(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    publish(api, topic, 2)
    reading = stream(node, subscribe=topic, startingOffsets="earliest")
    assert isinstance(reading, SupportsTriggerAvailableNow)

    reading.prepareForTriggerAvailableNow()
    publish(api, topic, 3)
    start = reading.initialOffset()
    end = reading.latestOffset(start, EVERYTHING)

    assert between(reading, start, end) == ["v0", "v1"]


def test_a_range_is_read_again_by_another_reader_without_a_word_before(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    publish(api, topic, 4)
    before = stream(node, subscribe=topic, startingOffsets="earliest")
    start = before.initialOffset()
    end = before.latestOffset(start, EVERYTHING)
    publish(api, topic, 4)

    assert len(between(stream(node, subscribe=topic), start, end)) == 4


def test_a_checkpoint_of_another_topic_is_refused(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    one, other = api.create(name()), api.create(name())
    start = stream(node, subscribe=one).initialOffset()

    with pytest.raises(OptionInvalid, match="the checkpoint is of topic"):
        stream(node, subscribe=other).latestOffset(start, EVERYTHING)


def test_records_that_are_gone_since_the_plan_are_an_error_unless_asked_otherwise(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    publish(api, topic, 4)
    strict = reader(node, subscribe=topic)
    lenient = reader(node, subscribe=topic, failOnDataLoss="false")
    planned = strict.partitions()
    api.do("DELETE", f"/topics/{topic}")
    api.create(topic)

    with pytest.raises(DataLost, match="failOnDataLoss=false"):
        list(strict.read(planned[0]))
    assert list(lenient.read(planned[0])) == []


def test_a_topic_made_anew_is_read_from_its_beginning_if_that_is_wanted(
    api: Api, node: ServerProcess, name: Callable[[], str]
) -> None:
    topic = api.create(name())
    publish(api, topic, 4)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    reading = stream(node, **options, failOnDataLoss="false")
    start = reading.latestOffset(reading.initialOffset(), EVERYTHING)
    api.do("DELETE", f"/topics/{topic}")
    api.create(topic)
    publish(api, topic, 2)

    with pytest.raises(DataLost, match="made anew"):
        stream(node, **options).latestOffset(start, EVERYTHING)
    assert between(reading, start, reading.latestOffset(start, EVERYTHING)) == ["v0", "v1"]
