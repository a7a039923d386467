"""Lines as messages: what is a message, what is a value, what is skipped, what is refused."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.produce_input import (
    DraftInvalid,
    LineFormat,
    Lines,
    Pattern,
    read_draft,
)
from goqueue.client.message_drafts import MessageDraft, encode_draft

TEXT = Pattern()

JSON = Pattern(format=LineFormat.JSON)


def test_blank_lines_and_comments_are_skipped_between_objects() -> None:
    for line in (b"", b"   ", b"\t\r", b"# words", b"  #{"):
        assert read_draft(line, JSON) is None
        assert read_draft(line, TEXT) == MessageDraft(value=line)


@pytest.mark.parametrize(
    "line", [b"text", b'"quoted"', b"[1]", b'{"value":"a","amount":5}', b"\xff{}", b"text\r", b"{"]
)
def test_a_line_is_a_value_whatever_is_in_it(line: bytes) -> None:
    assert read_draft(line, TEXT) == MessageDraft(value=line)


@pytest.mark.parametrize("line", [b"text", b'"quoted"', b"[1]", b"17", b"{broken", b"\xff{}"])
def test_among_objects_any_other_line_is_refused(line: bytes) -> None:
    with pytest.raises(DraftInvalid, match=r"not a JSON object|Expected `object`"):
        read_draft(line, JSON)


def test_an_object_is_a_message_and_outweighs_what_all_get() -> None:
    common = MessageDraft(
        value=None, key=b"k", headers={"a": "1", "b": "1"}, partition=1, delay="1s"
    )
    pattern = Pattern(common=common, format=LineFormat.JSON)
    line = b'{"value":"v","key":"own","headers":{"b":"2"},"partition":0,"deliverAt":"T"}'
    assert read_draft(line, pattern) == MessageDraft(
        value=b"v", key=b"own", headers={"a": "1", "b": "2"}, partition=0, deliver_at="T"
    )
    plain = msgspec.structs.replace(common, value=b"plain")
    assert read_draft(b"plain", Pattern(common=common)) == plain


def test_what_a_broker_said_about_a_delivery_is_not_said_again() -> None:
    line = b'{"value":"v","headers":{"gq.delayed-from":"7","a":"b"}}'
    assert read_draft(line, JSON) == MessageDraft(value=b"v", headers={"a": "b"})


def test_a_tombstone_is_an_explicit_null() -> None:
    assert read_draft(b'{"key":"k","value":null}', JSON) == MessageDraft(value=None, key=b"k")
    with pytest.raises(DraftInvalid, match="`value` is missing"):
        read_draft(b'{"key":"k"}', JSON)


def test_a_message_that_was_consumed_can_be_sent_again() -> None:
    line = b"""{"topic":"t","partition":1,"offset":7,"timestamp":"T","value":"v","priority":"low",
        "trace_id":"x","receipt_handle":"r","delivery_count":1,"deadline":"T"}"""
    assert read_draft(line, JSON) == MessageDraft(value=b"v", partition=1, priority=3)


def test_both_names_of_the_time_are_read() -> None:
    for name in (b"deliverAt", b"deliver_at"):
        draft = read_draft(b'{"value":"v","' + name + b'":"T"}', JSON)
        assert draft == MessageDraft(value=b"v", deliver_at="T")
    with pytest.raises(DraftInvalid, match="same field"):
        read_draft(b'{"value":"v","deliverAt":"T","deliver_at":"T"}', JSON)


def test_base64_is_decoded_where_it_is_said_to_be() -> None:
    encoded = base64.b64encode(b"\xff\x00")
    assert read_draft(encoded, Pattern(is_base64=True)) == MessageDraft(value=b"\xff\x00")
    line = b'{"value":"' + encoded + b'","encoding":"base64"}'
    assert read_draft(line, JSON) == MessageDraft(value=b"\xff\x00")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"user":"ada"}', "`user` is not a field"),
        (b'{"value":"1","amount":5}', "`amount` is not a field"),
        (b'{"value":"1","dealy":"5s"}', "did you mean `delay`"),
        (b"{}", "`value` is missing"),
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
        read_draft(line, JSON)


@pytest.mark.parametrize("given_as", [b'"high"', b'"HIGH"', b"1", b'"1"'])
def test_a_priority_goes_by_name_or_number(given_as: bytes) -> None:
    draft = read_draft(b'{"value":"x","priority":' + given_as + b"}", JSON)
    assert draft is not None
    assert draft.priority == 1


@given(value=st.none() | st.binary(), key=st.binary(min_size=1), partition=st.none() | st.just(3))
def test_a_message_written_as_json_is_read_as_itself(
    value: bytes | None, key: bytes, partition: int | None
) -> None:
    draft = MessageDraft(value=value, key=key, partition=partition, priority=4, delay="5s")
    assert read_draft(encode_draft(draft), JSON) == draft


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
