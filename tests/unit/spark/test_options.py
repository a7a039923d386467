"""Options of the data source: what they mean, and which are refused by name."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from goqueue.spark.option_table import OPTIONS, USES, reference
from goqueue.spark.options import Match, OptionInvalid, Place
from goqueue.spark.read_options import BASE, ORIGIN, is_for_streams, read_options
from goqueue.spark.write_options import write_options

SERVER = {"goqueue.servers": "127.0.0.1:8080"}
JSON = {"subscribe": "a", "valueFormat": "json", "valueSchema": "id BIGINT"}
AVRO = {"subscribe": "a", "valueFormat": "avro", "schemaSubject": "a-value"}
REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "spark-options.md"


def test_names_are_read_in_any_case_and_defaults_are_those_of_the_direction() -> None:
    batch = read_options({**SERVER, "SUBSCRIBE": "b, a"}, is_stream=False)
    stream = read_options({**SERVER, "subscribe": "a"}, is_stream=True)

    assert batch.topics == ("a", "b")
    assert batch.link.servers == ("http://127.0.0.1:8080",)
    assert (batch.start.word, batch.end.word, stream.start.word) == ("earliest", "latest", "latest")
    assert batch.fails_on_loss
    assert batch.isolation == "read_committed"


@pytest.mark.parametrize(
    ("option", "text", "place"),
    [
        ("startingOffsets", "latest", Place(option="startingOffsets", word="latest")),
        ("startingOffsets", "-100", Place(option="startingOffsets", back=100)),
        (
            "startingOffsets",
            '{"a":{"0":23,"1":-2}}',
            Place(option="startingOffsets", offsets={"a": {0: 23, 1: -2}}),
        ),
        ("startingTimestamp", "-15m", Place(option="startingTimestamp", ago_ms=900_000)),
        ("startingTimestamp", "1500", Place(option="startingTimestamp", time_us=1_500_000)),
        (
            "startingTimestamp",
            "1970-01-01T01:00:00.5+01:00",
            Place(option="startingTimestamp", time_us=500_000),
        ),
    ],
)
def test_a_start_is_a_word_a_count_offsets_or_a_time(option: str, text: str, place: Place) -> None:
    options = read_options({**SERVER, "subscribe": "a", option: text}, is_stream=True)

    assert options.start == place


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({}, "subscribe"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe"),
        ({"subscribe": "a b"}, "subscribe"),
        ({"subscribe": ""}, "subscribe"),
        ({"assign": '{"a":[-1]}'}, "assign"),
        ({"assign": "[]"}, "assign"),
        ({"subscribe": "a", "topic": "b"}, "topic"),
        ({"subscribe": "a", "startingOffset": "latest"}, "startingoffset"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"b":{"0":1}}'}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-3}}'}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"x":3}}'}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": "committed"}, "groupId"),
        (
            {"subscribe": "a", "startingOffsets": "latest", "startingTimestamp": "1"},
            "startingTimestamp",
        ),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"subscribe": "a", "startingTimestamp": "2026-11-15T12:00:00"}, "startingTimestamp"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets"),
        ({"subscribe": "a", "startingTimestamp": "9", "endingTimestamp": "8"}, "endingTimestamp"),
        ({"subscribe": "a", "maxRecordsPerTrigger": "5"}, "maxRecordsPerTrigger"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"subscribe": "a", "headersAs": "map"}, "headersAs"),
        ({"subscribe": "a", "includeHeaders": "true", "headersAs": "list"}, "headersAs"),
        ({"subscribe": "a", "batchRows": "0"}, "batchRows"),
        ({"subscribe": "a", "goqueue.servers": "a:1,,b:2"}, "goqueue.servers"),
    ],
)
def test_a_wrong_option_of_a_batch_read_is_named(given: dict[str, str], option: str) -> None:
    with pytest.raises(OptionInvalid, match=rf"option `{option}` of format goqueue") as invalid:
        read_options({**SERVER, **given}, is_stream=False)

    assert invalid.value.option == option


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"subscribe": "a", "endingOffsets": "latest"}, "endingOffsets"),
        ({"subscribe": "a", "maxRecordsPerTrigger": "0"}, "maxRecordsPerTrigger"),
        (
            {"subscribe": "a", "maxRecordsPerTrigger": "1", "maxOffsetsPerTrigger": "1"},
            "maxOffsetsPerTrigger",
        ),
    ],
)
def test_a_wrong_option_of_a_stream_is_named(given: dict[str, str], option: str) -> None:
    with pytest.raises(OptionInvalid) as invalid:
        read_options({**SERVER, **given}, is_stream=True)

    assert invalid.value.option == option


@pytest.mark.parametrize(
    ("given", "option", "is_stream"),
    [
        ({"topic": "no spaces"}, "topic", False),
        ({"subscribe": "a"}, "subscribe", False),
        ({"transactionalId": "a"}, "transactionalVersion", False),
        ({"transactionalVersion": "1"}, "transactionalId", False),
        ({"transactionalId": "a", "transactionalVersion": "1"}, "transactionalVersion", True),
        ({"transactionalId": "a", "exactlyOnce": "false"}, "transactionalId", True),
        ({"transactionalId": "a" * 101}, "transactionalId", True),
        ({"transactionTimeoutMs": "1"}, "transactionTimeoutMs", True),
    ],
)
def test_a_wrong_option_of_a_write_is_named(
    given: dict[str, str], option: str, is_stream: bool
) -> None:
    with pytest.raises(OptionInvalid) as invalid:
        write_options({**SERVER, **given}, is_stream=is_stream)

    assert invalid.value.option == option


def test_without_a_server_nothing_is_guessed() -> None:
    with pytest.raises(OptionInvalid, match=r"`goqueue.servers`"):
        write_options({"topic": "a"}, is_stream=True)


def test_what_spark_adds_for_itself_is_no_mistake() -> None:
    given = {**SERVER, "checkpointlocation": "/x", "queryname": "q", "topic": "a"}

    assert write_options(given, is_stream=True).topic == "a"


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"subscribe": "a", "subscribePattern": "a.*"}, "subscribe"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"assign": '{"a":[]}'}, "assign"),
        ({"subscribePattern": "a.*", "startingOffsets": '{"b":{"0":1}}'}, "startingOffsets"),
        (
            {
                "subscribe": "a",
                "startingOffsets": '{"a":{"0":5}}',
                "endingOffsets": '{"a":{"0":4}}',
            },
            "endingOffsets",
        ),
        (
            {"subscribe": "a", "startingOffsetsByTimestamp": '{"a":{"0":-5}}'},
            "startingOffsetsByTimestamp",
        ),
        (
            {
                "subscribe": "a",
                "startingTimestamp": "5",
                "startingOffsetsByTimestamp": '{"a":{"0":5}}',
            },
            "startingOffsetsByTimestamp",
        ),
        (
            {"subscribe": "a", "startingOffsetsByTimestampStrategy": "error"},
            "startingOffsetsByTimestampStrategy",
        ),
        ({"subscribe": "a", "minPartitions": "0"}, "minPartitions"),
        ({"subscribe": "a", "columns": "offset,colour"}, "columns"),
        ({"subscribe": "a", "columns": "offset,offset"}, "columns"),
        ({"subscribe": "a", "columns": "key", "includeHeaders": "true"}, "includeHeaders"),
        ({"subscribe": "a", "columns": "key", "includeOrigin": "true"}, "includeOrigin"),
        ({"subscribe": "a", "columns": "key", "headersAs": "map"}, "headersAs"),
        ({"subscribe": "a", "keyFilter": "[]"}, "keyFilter"),
        ({"subscribe": "a", "keyFilter": "[1]"}, "keyFilter"),
        ({"subscribe": "a", "headerFilter": "=x"}, "headerFilter"),
        ({"subscribe": "a", "headerFilter": "{}"}, "headerFilter"),
        ({"subscribe": "a", "valueFormat": "avro"}, "schemaSubject"),
        ({"subscribe": "a", "schemaVersion": "1"}, "schemaVersion"),
        ({**JSON, "schemaSubject": "a-value"}, "valueSchema"),
        ({**AVRO, "valueSchema": "id INT"}, "valueSchema"),
        ({**AVRO, "schemaVersion": "0"}, "schemaVersion"),
        ({**AVRO, "messageName": "Order"}, "messageName"),
        ({"subscribe": "a", "valueFormat": "xml"}, "valueFormat"),
        ({"subscribe": "a", "valueFormat": "json"}, "valueSchema"),
        ({"subscribe": "a", "valueSchema": "id INT"}, "valueSchema"),
        ({"subscribe": "a", "schemaSubject": "a-value"}, "schemaSubject"),
        ({"subscribe": "a", "mode": "FAILFAST"}, "mode"),
        ({"subscribe": "a", "dlqTopic": "b"}, "mode"),
        ({"subscribe": "a", "mode": "DLQ"}, "dlqTopic"),
        ({**JSON, "mode": "DLQ"}, "dlqTopic"),
        ({**JSON, "columns": "key"}, "valueFormat"),
        ({**JSON, "mode": "DLQ", "dlqTopic": "b", "columns": "key,value"}, "columns"),
        ({**JSON, "mode": "FAILFAST", "corruptColumn": "bad"}, "corruptColumn"),
        ({**JSON, "corruptColumn": "key"}, "corruptColumn"),
        ({**JSON, "valueSchema": "id COLOUR"}, "valueSchema"),
        ({"subscribe": "a", "goqueue.tls.caFile": "/ca.pem"}, "goqueue.tls.caFile"),
        ({"subscribe": "a", "goqueue.tls.certFile": "/c.pem"}, "goqueue.tls.certFile"),
        (
            {
                "subscribe": "a",
                "goqueue.servers": "https://h:1",
                "goqueue.tls.keyFile": "/k.pem",
            },
            "goqueue.tls.keyFile",
        ),
        ({"subscribe": "a", "goqueue.allowPlaintext": "maybe"}, "goqueue.allowPlaintext"),
        ({"subscribe": "a", "goqueue.retries": "-1"}, "goqueue.retries"),
        ({"subscribe": "a", "topicPrefix": "x."}, "topicPrefix"),
    ],
)
def test_a_read_that_contradicts_itself_is_refused_by_name(
    given: dict[str, str], option: str
) -> None:
    with pytest.raises(OptionInvalid) as invalid:
        read_options({**SERVER, **given}, is_stream=False)

    assert invalid.value.option == option


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}, "minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "5m"}, "maxTriggerDelay"),
        ({"minOffsetsPerTrigger": "10", "maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"endingOffsetsByTimestamp": '{"a":{"0":5}}'}, "endingOffsetsByTimestamp"),
        ({"schemaEvolution": "latest"}, "schemaEvolution"),
        ({**JSON, "schemaEvolution": "latest"}, "schemaEvolution"),
        ({**AVRO, "schemaEvolution": "latest", "schemaVersion": "2"}, "schemaEvolution"),
    ],
)
def test_triggers_that_contradict_each_other_are_refused_by_name(
    given: dict[str, str], option: str
) -> None:
    with pytest.raises(OptionInvalid) as invalid:
        read_options({**SERVER, "subscribe": "a", **given}, is_stream=True)

    assert invalid.value.option == option


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"topicPrefix": "no spaces"}, "topicPrefix"),
        ({"topic": "a" * 200, "topicPrefix": "b" * 100}, "topic"),
        ({"topic": "a", "dlqTopic": "a"}, "dlqTopic"),
        ({"partitioner": "random"}, "partitioner"),
        ({"includeHeaders": "true"}, "includeHeaders"),
        ({"valueFormat": "avro"}, "schemaSubject"),
        ({"schemaSubject": "a-value"}, "schemaSubject"),
        ({"registerSchema": "true"}, "registerSchema"),
        (
            {
                "valueFormat": "avro",
                "schemaSubject": "a-value",
                "schemaVersion": "1",
                "registerSchema": "true",
            },
            "schemaVersion",
        ),
    ],
)
def test_a_write_that_contradicts_itself_is_refused_by_name(
    given: dict[str, str], option: str
) -> None:
    with pytest.raises(OptionInvalid) as invalid:
        write_options({**SERVER, **given}, is_stream=True)

    assert invalid.value.option == option


def test_a_prefix_is_put_before_every_topic() -> None:
    options = write_options(
        {**SERVER, "topic": "a", "dlqTopic": "dead", "topicPrefix": "eu."}, is_stream=False
    )

    assert (options.topic, options.dlq_topic, options.topic_prefix) == ("eu.a", "eu.dead", "eu.")


def test_filters_are_equal_texts_or_prefixes() -> None:
    options = read_options(
        {**SERVER, "subscribe": "a", "keyFilter": '["one","two*"]', "headerFilter": "type=x\\*"},
        is_stream=False,
    )
    any_value = read_options(
        {**SERVER, "subscribe": "a", "headerFilter": "type"}, is_stream=False
    ).filters

    assert options.filters.keys == (Match(b"one"), Match(b"two", is_prefix=True))
    assert options.filters.headers == (("type", Match(b"x*")),)
    assert any_value.headers == (("type", Match(b"", is_prefix=True)),)


def test_times_by_partition_are_read_to_the_end_where_none_is_named() -> None:
    options = read_options(
        {
            **SERVER,
            "subscribe": "a",
            "startingOffsetsByTimestamp": '{"a":{"0":7}}',
            "startingOffsetsByTimestampStrategy": "error",
            "endingOffsetsByTimestamp": '{"a":{"0":9}}',
        },
        is_stream=False,
    )

    assert options.start.times_us == {"a": {0: 7000}}
    assert options.start.is_late_error
    assert (options.start.rest, options.end.rest) == (-2, -1)


def test_columns_are_those_asked_for_in_their_order() -> None:
    few = read_options({**SERVER, "subscribe": "a", "columns": "value, offset"}, is_stream=False)
    more = read_options({**SERVER, **JSON, "includeOrigin": "true"}, is_stream=False)

    assert few.shape.columns == ("value", "offset")
    assert more.shape.columns == (*BASE, *ORIGIN, "_corrupt")


def test_an_option_of_streams_makes_a_stream() -> None:
    assert is_for_streams({"MAXTRIGGERDELAY": "1s"})
    assert not is_for_streams({"subscribe": "a", "endingOffsets": "latest"})


def test_a_pattern_reads_what_it_matches_as_a_whole() -> None:
    options = read_options({**SERVER, "subscribePattern": "orders.*"}, is_stream=True)

    assert options.reads("orders.eu")
    assert not options.reads("old.orders")
    assert options.way == "subscribePattern"


def test_the_reference_says_what_the_rows_say() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference(), "run `make spark-options`"


def test_every_option_has_a_row_of_its_own_and_a_use() -> None:
    rows = [option for options in OPTIONS.values() for option in options]
    names = [option.name.lower() for option in rows]

    assert len(set(names)) == len(names)
    assert all(option.uses and set(option.uses) <= set(USES) and option.meaning for option in rows)


def test_a_stream_leaves_a_partition_to_one_task_unless_asked_otherwise() -> None:
    given = {**SERVER, "subscribe": "a"}
    batch = read_options(given, is_stream=False)
    stream = read_options(given, is_stream=True)
    split = read_options({**given, "maxBytesPerPartition": "2048"}, is_stream=True)

    # Two tasks that bring rows of one key to a topic would bring them in any order.
    assert stream.span.task_bytes_max > 1 << 50
    assert batch.span.task_bytes_max == 128 << 20
    assert split.span.task_bytes_max == 2048


def test_servers_without_a_scheme_have_that_of_the_one_before() -> None:
    servers = "https://a:1,b:2"
    read = read_options({"goqueue.servers": servers, "subscribe": "t"}, is_stream=False)
    assert read.link.servers == ("https://a:1", "https://b:2")
