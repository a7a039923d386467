"""Lines as messages: what is a message, what is a value, what is skipped, what is refused."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.produce.draft import Draft, DraftInvalid, Pattern, as_json, read_draft
from goqueue.cli.produce.lines import Lines

PLAIN = Pattern()
RAW = Pattern(is_raw=True)


def test_blank_lines_and_comments_are_skipped() -> None:
    for line in (b"", b"   ", b"\t\r", b"# words", b"  #{"):
        assert read_draft(line, PLAIN) is None
        assert read_draft(line, RAW) == Draft(value=line)


@pytest.mark.parametrize(
    "line", [b"text", b'"quoted"', b"[1]", b"17", b"{broken", b"\xff{}", b"{\xff"]
)
def test_a_line_that_is_no_json_object_is_a_value(line: bytes) -> None:
    assert read_draft(line, PLAIN) == Draft(value=line)


def test_a_carriage_return_at_the_end_belongs_to_the_line_feed() -> None:
    assert read_draft(b"text\r", PLAIN) == Draft(value=b"text")
    assert read_draft(b"text\r", RAW) == Draft(value=b"text\r")


def test_an_object_is_a_message_and_outweighs_what_all_get() -> None:
    common = Draft(value=None, key=b"k", headers={"a": "1", "b": "1"}, partition=1, delay="1s")
    pattern = Pattern(common=common)
    line = b'{"value":"v","key":"own","headers":{"b":"2"},"partition":0,"deliverAt":"T"}'
    assert read_draft(line, pattern) == Draft(
        value=b"v", key=b"own", headers={"a": "1", "b": "2"}, partition=0, deliver_at="T"
    )
    assert read_draft(b"plain", pattern) == msgspec.structs.replace(common, value=b"plain")


def test_what_a_broker_said_about_a_delivery_is_not_said_again() -> None:
    line = b'{"value":"v","headers":{"gq.delayed-from":"7","a":"b"}}'
    assert read_draft(line, PLAIN) == Draft(value=b"v", headers={"a": "b"})


def test_a_key_without_value_is_a_tombstone() -> None:
    for line in (b'{"key":"k"}', b'{"key":"k","value":null}'):
        assert read_draft(line, PLAIN) == Draft(value=None, key=b"k")


def test_base64_is_decoded_where_it_is_said_to_be() -> None:
    encoded = base64.b64encode(b"\xff\x00")
    assert read_draft(encoded, Pattern(is_base64=True)) == Draft(value=b"\xff\x00")
    line = b'{"value":"' + encoded + b'","encoding":"base64"}'
    assert read_draft(line, PLAIN) == Draft(value=b"\xff\x00")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"user":"ada"}', "--raw"),
        (b"{}", "--raw"),
        (b'{"value":1}', "value"),
        (b'{"value":"x","headers":{"a":1}}', "headers"),
        (b'{"value":"x","priority":5}', "priority"),
        (b'{"value":"x","priority":"-1"}', "priority"),
        (b'{"value":"x","encoding":"hex"}', "encoding"),
        (b'{"value":"*","encoding":"base64"}', "base64"),
    ],
)
def test_an_object_that_is_no_message_is_refused_with_the_reason(line: bytes, words: str) -> None:
    with pytest.raises(DraftInvalid, match=words):
        read_draft(line, PLAIN)


@pytest.mark.parametrize("given_as", [b'"high"', b'"HIGH"', b"1", b'"1"'])
def test_a_priority_goes_by_name_or_number(given_as: bytes) -> None:
    draft = read_draft(b'{"value":"x","priority":' + given_as + b"}", PLAIN)
    assert draft is not None
    assert draft.priority == 1


@given(value=st.none() | st.binary(), key=st.binary(min_size=1), partition=st.none() | st.just(3))
def test_a_message_written_as_json_is_read_as_itself(
    value: bytes | None, key: bytes, partition: int | None
) -> None:
    draft = Draft(value=value, key=key, partition=partition, priority=4, delay="5s")
    assert read_draft(as_json(draft), PLAIN) == draft


@given(text=st.binary(), cuts=st.lists(st.integers(0, 50)))
def test_lines_are_the_same_however_they_are_cut_into_pieces(text: bytes, cuts: list[int]) -> None:
    lines = Lines()
    found = []
    rest = text
    for cut in cuts:
        found += lines.feed(rest[:cut])
        rest = rest[cut:]
    found += lines.feed(rest)
    found += lines.end()
    expected = text.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [line.text for line in found] == expected
    assert [line.number for line in found] == list(range(1, len(expected) + 1))


def test_a_line_that_is_too_long_is_noted_and_the_next_is_read() -> None:
    lines = Lines(bytes_max=4)
    found = lines.feed(b"1234\n12") + lines.feed(b"345\nok\n") + lines.feed(b"12345") + lines.end()
    assert [line.text for line in found] == [b"1234", None, b"ok", None]
