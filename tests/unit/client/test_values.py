"""Values, keys, headers and times on their way to and from the wire."""

import math

import msgspec
import pytest

from goqueue.client.errors import ArgumentInvalid, GoQueueError, MessageTooLarge
from goqueue.client.producer import draft, weigh
from goqueue.client.values import (
    Headers,
    duration,
    encode_key,
    encode_value,
    headers,
    moment_of,
    nanoseconds,
    priority_number,
    seconds_of,
)
from goqueue.model import Priority


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


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(GoQueueError) as refused:
        encode_value(value)
    assert refused.value.code == "message_invalid"


@pytest.mark.parametrize(
    ("value", "key", "given", "what"),
    [
        ("\ud800", None, None, "the value"),
        ("", "\udcff", None, "a key"),
        ("", None, {"a": "\udcff"}, "header 'a'"),
    ],
)
def test_text_with_half_a_surrogate_pair_is_refused_as_an_error_of_the_sdk(
    value: str, key: str | None, given: Headers | None, what: str
) -> None:
    with pytest.raises(GoQueueError, match=what) as refused:
        draft(value, key, given, 2)
    assert refused.value.code == "message_invalid"


@pytest.mark.parametrize("given", [["a"], "ab", [("a", "b", "c")], [3]])
def test_headers_that_are_no_pairs_are_refused(given: object) -> None:
    with pytest.raises(TypeError, match="pairs of a name and a value"):
        headers(given)  # type: ignore[arg-type]  # what a program gets wrong


@pytest.mark.parametrize("given", [True, 1.5, None, b"high"])
def test_a_priority_is_a_name_or_a_number_and_nothing_like_one(given: object) -> None:
    with pytest.raises(TypeError, match="a name or a number"):
        priority_number(given)  # type: ignore[arg-type]  # what a program gets wrong


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (-5, "at least 0 seconds, not -5"),
        (math.nan, "at least 0 seconds, not nan"),
        ("soon", "must be a duration such as 250ms, 30s, 1h30m or 7d, not 'soon'"),
        (object(), "a number of seconds, a timedelta or text such as '10m'"),
    ],
)
def test_what_is_no_delay_is_refused_with_what_would_be_one(given: object, words: str) -> None:
    with pytest.raises(ArgumentInvalid, match=words):
        seconds_of(given)  # type: ignore[arg-type]  # what a program gets wrong


@pytest.mark.parametrize("given", ["tomorrow", "2030-01-01", 1893456000])
def test_what_is_no_time_to_deliver_at_is_refused_with_what_would_be_one(given: object) -> None:
    with pytest.raises(ArgumentInvalid, match=r"deliver_at is a datetime with a time zone.*2030"):
        moment_of("deliver_at", given)  # type: ignore[arg-type]  # what a program gets wrong


def test_what_is_too_large_for_a_record_is_told_in_words() -> None:
    with pytest.raises(MessageTooLarge) as refused:
        draft("", "k" * 70_000, None, 2)
    assert refused.value.sentence == "the key of the message: 70000 bytes, at most 65535"


def test_keys_are_text_or_bytes_or_absent() -> None:
    assert encode_key(None) == b""
    assert encode_key("é") == b"\xc3\xa9"
    assert encode_key(b"\xff") == b"\xff"


@pytest.mark.parametrize("key", [5, 0, True, 1.5, ("a",), object()])
def test_a_key_that_is_no_text_is_refused_and_never_made_of_zero_bytes(key: object) -> None:
    with pytest.raises(TypeError, match="a key is str or bytes, not"):
        draft("value", key, None, 2)  # type: ignore[arg-type]  # what a program gets wrong


@pytest.mark.parametrize("given", [{"a": 5}, [("a", 0)], {"a": None}])
def test_a_header_value_that_is_no_text_is_refused_by_name(given: Headers) -> None:
    with pytest.raises(TypeError, match="the value of header 'a' is str or bytes, not"):
        draft("value", None, given, 2)


def test_a_header_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="the name of a header is str, not int"):
        headers({5: "a"})  # type: ignore[arg-type]  # what a program gets wrong


@pytest.mark.parametrize(
    ("given", "number"), [("high", 1), ("CRITICAL", 0), (Priority.LOW, 3), (4, 4), ("Normal", 2)]
)
def test_priorities_are_names_in_any_case_or_numbers(given: int | str, number: int) -> None:
    assert priority_number(given) == number
    assert draft("value", None, None, given).priority == number


def test_an_unknown_priority_names_those_that_there_are() -> None:
    with pytest.raises(GoQueueError, match="critical, high, normal, low, background") as refused:
        draft("value", None, None, "urgent")
    assert refused.value.code == "message_invalid"
    with pytest.raises(TypeError, match="not float"):
        draft("value", None, None, 1.5)  # type: ignore[arg-type]  # what a program gets wrong


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
