"""Values, keys, headers and times on their way to and from the wire."""

import msgspec
import pytest

from goqueue.client.errors import GoQueueError, MessageTooLarge
from goqueue.client.producing.draft import draft, weigh
from goqueue.client.values import Headers, duration, encode_key, encode_value, headers, nanoseconds


class Order(msgspec.Struct):
    id: int


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        ("é", b"\xc3\xa9"),
        ("", b""),
        (None, None),
        ({"id": 1}, b'{"id":1}'),
        ([1, None, True], b"[1,null,true]"),
        (7, b"7"),
        (Order(3), b'{"id":3}'),
    ],
)
def test_values_become_bytes(value: object, encoded: bytes | None) -> None:
    assert encode_value(value) == encoded


def test_a_value_that_is_not_json_is_refused() -> None:
    with pytest.raises(GoQueueError) as refused:
        encode_value(object())
    assert refused.value.code == "message_invalid"


def test_keys_are_text_or_bytes_or_absent() -> None:
    assert encode_key(None) == b""
    assert encode_key("é") == b"\xc3\xa9"
    assert encode_key(b"\xff") == b"\xff"


@pytest.mark.parametrize("given", [{"a": "1", "b": b"\xff"}, [("a", "1"), ("b", b"\xff")]])
def test_headers_are_pairs_in_their_order(given: Headers) -> None:
    assert headers(given) == (("a", b"1"), ("b", b"\xff"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("2023-11-14T22:13:20.000000001Z", 1_700_000_000_000_000_001),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000_000_000),
        ("2023-11-14T21:43:20.25-00:30", 1_700_000_000_250_000_000),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2023-11-14T22:13:20", "2023-11-14 22:13:20Z", "2023-13-14T22:13:20Z"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(GoQueueError) as refused:
        nanoseconds(text)
    assert refused.value.code == "response_invalid"


def test_durations_are_whole_milliseconds() -> None:
    assert duration(30) == "30000ms"
    assert duration(0.0015) == "2ms"


@pytest.mark.parametrize(
    ("key", "given", "priority"),
    [
        ("gq.mine", None, 2),
        (b"k" * 65_536, None, 2),
        (None, {"": "empty name"}, 2),
        (None, {"name": b"v" * 65_536}, 2),
        (None, {"gq.codec": "zstd"}, 2),
        (None, None, 5),
    ],
)
def test_a_message_that_no_record_can_hold_is_refused_before_it_joins_others(
    key: str | bytes | None, given: Headers | None, priority: int
) -> None:
    with pytest.raises(GoQueueError) as refused:
        draft(b"value", key, given, priority)
    assert refused.value.code in {"message_invalid", "message_too_large"}


def test_size_counts_key_value_and_headers_as_given() -> None:
    message = draft("123", "ab", {"é": "xyz"}, 2)
    assert weigh(message, 10) == 34 + 10
    with pytest.raises(MessageTooLarge) as refused:
        weigh(message, 9)
    assert refused.value.details == {"size": 10, "limit": 9}
