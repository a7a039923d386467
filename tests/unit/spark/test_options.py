"""Options of the data source: what they mean, and which are refused by name."""

import pytest

from goqueue.spark.options import OptionInvalid, Place, read_options, write_options

SERVER = {"goqueue.servers": "127.0.0.1:8080"}


def test_names_are_read_in_any_case_and_defaults_are_those_of_the_direction() -> None:
    batch = read_options({**SERVER, "SUBSCRIBE": "b, a"}, is_stream=False)
    stream = read_options({**SERVER, "subscribe": "a"}, is_stream=True)

    assert batch.topics == ("a", "b")
    assert batch.link.server == "http://127.0.0.1:8080"
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
        ({"subscribe": "a", "goqueue.servers": "a:1,b:2"}, "goqueue.servers"),
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
