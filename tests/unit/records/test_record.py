"""Single records and header blocks, to and from bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, Message, Record, Refused
from goqueue.records import (
    HEADER_SIZE,
    Corrupt,
    Flag,
    build,
    decode,
    decode_headers,
    encode,
    encode_headers,
    stamp,
)
from tests.unit.records.examples import (
    FIRST_VECTOR,
    SECOND_VECTOR,
    batches,
    headers,
    judge_headers,
    with_headers,
)

PLAIN = Record(offset=0, timestamp=1, priority=2, flags=0, key=b"k", value=b"v", headers=())
TRACED = Record(
    offset=7,
    timestamp=1_700_000_000_000_000_000,
    priority=0,
    flags=2,
    key=b"",
    value=b"hello",
    headers=(("traceparent", b"00-ab"),),
)


@pytest.mark.parametrize(("record", "vector"), [(PLAIN, FIRST_VECTOR), (TRACED, SECOND_VECTOR)])
def test_the_vectors_of_the_specification_are_met_both_ways(record: Record, vector: bytes) -> None:
    assert encode(record) == vector
    assert decode(vector) == record


def test_the_vectors_are_what_building_and_stamping_gives() -> None:
    first = build([Message(key=b"k", value=b"v", timestamp=1)])
    second = build(
        [
            Message(
                value=b"hello",
                headers=TRACED.headers,
                priority=0,
                timestamp=TRACED.timestamp,
            )
        ]
    )
    stamp(second, 7, TRACED.timestamp)

    assert first == FIRST_VECTOR
    assert second == SECOND_VECTOR


def test_a_header_has_thirty_four_bytes() -> None:
    assert HEADER_SIZE == 34
    assert len(build([Message(value=b"")])) == HEADER_SIZE


@given(batches)
def test_decoding_gives_what_was_built_and_encoding_gives_the_bytes_back(
    batch: list[Message],
) -> None:
    built = build(batch)

    position = 0
    for message in batch:
        record = decode(built, position)
        again = encode(record)
        assert (record.key, record.value, record.headers) == (
            message.key,
            message.value,
            message.headers,
        )
        assert (record.offset, record.timestamp) == (0, message.timestamp)
        assert record.priority == message.priority
        assert bool(record.flags & Flag.CONTROL) == message.is_control
        assert bool(record.flags & Flag.COMMIT) == message.is_commit
        assert bool(record.flags & Flag.DELAYED) == message.is_delayed
        assert bool(record.flags & Flag.COMPRESSED) == message.is_compressed
        assert built[position : position + len(again)] == again
        position += len(again)
    assert position == len(built)


def test_an_empty_value_and_no_value_stay_different() -> None:
    assert decode(build([Message(value=b"")])).value == b""
    assert decode(build([Message(value=None)])).value is None


@pytest.mark.parametrize("position", [-1, -34, len(FIRST_VECTOR), 1 << 40])
def test_decoding_outside_the_data_finds_it_truncated(position: int) -> None:
    with pytest.raises(Corrupt) as corrupt:
        decode(FIRST_VECTOR, position)
    assert corrupt.value.reason == "truncated"
    assert corrupt.value.position == position


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"flags": 64}, "flags"),
        ({"flags": 16}, "flags"),
        ({"flags": 256}, "flags"),
        ({"flags": -1}, "flags"),
        ({"flags": Flag.CONTROL}, "key"),
        ({"flags": Flag.COMPRESSED}, "headers"),
        ({"flags": Flag.DELAYED}, "headers"),
        ({"priority": 5}, "priority"),
        ({"priority": -1}, "priority"),
        ({"offset": -1}, "offset"),
        ({"offset": (1 << 63) - 1}, "offset"),
        ({"offset": 1 << 63}, "offset"),
        ({"timestamp": 1 << 63}, "timestamp"),
    ],
)
def test_a_record_that_no_reader_would_accept_is_not_encoded(
    change: dict[str, int], part: str
) -> None:
    fields = {"offset": 0, "timestamp": 1, "priority": 2, "flags": 0} | change

    with pytest.raises(Refused) as refused:
        encode(Record(key=b"", value=b"", headers=(), **fields))
    assert refused.value.code is Code.MESSAGE_INVALID
    assert refused.value.facts["part"] == part


@given(headers)
def test_header_blocks_survive_a_round_trip(given_headers: tuple[tuple[str, bytes], ...]) -> None:
    assert decode_headers(encode_headers(given_headers)) == given_headers


@given(st.binary(max_size=24))
def test_a_header_block_is_corrupt_or_the_only_way_to_write_its_headers(block: bytes) -> None:
    expected = judge_headers(block) if block else None
    if expected is None:
        assert encode_headers(decode_headers(block)) == block
    else:
        with pytest.raises(Corrupt) as corrupt:
            decode_headers(block)
        assert corrupt.value.reason in {"header_count", "header_name"}
        assert 0 <= corrupt.value.position <= len(block)


@pytest.mark.parametrize(
    ("block", "position", "reason"),
    [
        (b"\0", 0, "header_count"),
        (b"\0\0", 0, "header_count"),
        (b"\0\1\0", 2, "header_count"),
        (b"\0\1\0\1n\0\2v", 5, "header_count"),
        (b"\0\2\0\1n\0\1v", 8, "header_count"),
        (b"\0\1\0\1n\0\1vX", 8, "header_count"),
        (b"\0\1\0\1n\0\1v\0\1n\0\1v", 8, "header_count"),
        (b"\0\1\0\1\xff\0\1v", 8, "header_name"),
    ],
)
def test_a_malformed_header_block_says_where(block: bytes, position: int, reason: str) -> None:
    with pytest.raises(Corrupt) as corrupt:
        decode_headers(block)
    assert (corrupt.value.position, corrupt.value.reason) == (position, reason)


def test_an_empty_header_name_can_be_read_and_written_again() -> None:
    data = with_headers(b"\0\1\0\0\0\1v")

    assert decode(data).headers == (("", b"v"),)
    assert encode(decode(data)) == data


@pytest.mark.parametrize("name", ["\ud800", "a\udfff"])
def test_a_header_name_without_utf8_form_is_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        encode_headers([(name, b"")])
    assert refused.value.code is Code.MESSAGE_INVALID
