"""A batch drafted message by message, and a stored record made ready to be published again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, Header, Message, Priority, Refused
from goqueue.records import (
    Codec,
    Corrupt,
    Draft,
    Flag,
    build,
    compress,
    decode,
    rehead,
    stamp,
    verify,
)
from tests.unit.records.examples import FIRST_VECTOR, batches, headers, messages, names

REFUSED = [
    (Message(value=bytes(16 * 1024 * 1024 + 1)), Code.MESSAGE_TOO_LARGE, "value"),
    (Message(value=b"", key=bytes(65_536)), Code.MESSAGE_TOO_LARGE, "key"),
    (Message(value=b"", headers=(("n", bytes(65_529)),)), Code.MESSAGE_TOO_LARGE, "headers"),
    (Message(value=b"", headers=(("", b"v"),)), Code.MESSAGE_INVALID, "headers"),
    (Message(value=b"", headers=(("\ud800", b""),)), Code.MESSAGE_INVALID, "headers"),
    (Message(value=b"", headers=(("gq.codec", b"zstd"),)), Code.MESSAGE_INVALID, "headers"),
    (Message(value=b"", key=b"gq.x"), Code.MESSAGE_INVALID, "key"),
    (Message(value=b"", priority=5), Code.MESSAGE_INVALID, "priority"),
    (Message(value=b"", priority=-(1 << 70)), Code.MESSAGE_INVALID, "priority"),
    (Message(value=b"", timestamp=-1), Code.MESSAGE_INVALID, "timestamp"),
    (Message(value=b"", timestamp=1 << 63), Code.MESSAGE_INVALID, "timestamp"),
]


def add(draft: Draft, message: Message) -> None:
    draft.add(
        message.key,
        message.value,
        message.headers,
        message.priority,
        timestamp=message.timestamp,
    )


def is_ordinary(message: Message) -> bool:
    return not (message.is_control or message.is_compressed or message.is_delayed)


@given(batches)
def test_a_draft_is_what_building_gives(batch: list[Message]) -> None:
    by_object, by_parts = Draft(), Draft()
    ordinary = [message for message in batch if is_ordinary(message)]
    for message in batch:
        by_object.put(message)
    for message in ordinary:
        add(by_parts, message)

    assert by_object.take() == build(batch)
    assert by_parts.take() == build(ordinary)


def test_what_is_not_given_is_as_in_a_message() -> None:
    draft = Draft()
    draft.add(b"", None)

    assert draft.take() == build([Message(value=None)])


@pytest.mark.parametrize(("message", "code", "part"), REFUSED)
def test_a_refused_message_leaves_the_others_as_they_are(
    message: Message, code: Code, part: str
) -> None:
    draft = Draft()
    draft.add(b"", b"before")

    with pytest.raises(Refused) as refused:
        add(draft, message)
    draft.add(b"", b"after")

    assert refused.value.code is code
    assert refused.value.facts["part"] == part
    assert "index" not in refused.value.facts
    assert draft.take() == build([Message(value=b"before"), Message(value=b"after")])


@given(st.lists(st.integers(0, 9_000), max_size=30))
def test_a_draft_grows_with_its_messages(sizes: list[int]) -> None:
    batch = [
        Message(value=bytes(size), priority=size % 5, timestamp=index)
        for index, size in enumerate(sizes)
    ]
    draft = Draft()
    for message in batch:
        add(draft, message)

    taken = draft.take()

    assert taken == build(batch)
    assert verify(taken) == len(batch)


def test_a_taken_draft_is_empty_and_the_batch_is_the_callers() -> None:
    draft = Draft()
    draft.add(b"", b"first")

    first = draft.take()
    assert draft.take() == b""
    draft.add(b"", b"second", (), Priority.LOW)

    assert first == build([Message(value=b"first")])
    assert draft.take() == build([Message(value=b"second", priority=Priority.LOW)])
    first.clear()


@given(messages().filter(lambda message: not message.is_control), headers, st.integers(0, 99))
def test_a_record_with_other_headers_is_otherwise_the_same_and_has_no_place(
    message: Message, given_headers: tuple[Header, ...], first_offset: int
) -> None:
    data = build([Message(value=b"first"), message])
    stamp(data, first_offset, 5)
    position = len(build([Message(value=b"first")]))

    copy = rehead(data, position, given_headers)

    assert verify(copy) == 1
    before, after = decode(data, position), decode(copy)
    assert (after.offset, after.timestamp) == (0, 0)
    assert (after.key, after.value, after.priority) == (before.key, before.value, before.priority)
    changeable = Flag.HEADERS | Flag.DELAYED
    assert after.flags & ~changeable == before.flags & ~changeable
    assert not after.flags & Flag.DELAYED
    changed = dict(given_headers)
    kept = [header for header in before.headers if header[0] not in changed]
    assert [header for header in after.headers if header[0] not in changed] == kept
    replaced = [header for header in after.headers if header[0] in changed]
    assert dict(replaced) == changed
    assert len(replaced) == len(changed)


def test_a_header_takes_the_place_of_all_with_its_name_or_comes_last() -> None:
    data = build(
        [Message(value=b"v", headers=(("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4")))]
    )

    copy = rehead(data, 0, (("new", b"5"), ("a", b"6"), ("new", b"7")))

    assert decode(copy).headers == (("a", b"6"), ("b", b"2"), ("c", b"4"), ("new", b"7"))


@given(names)
def test_reheading_without_headers_changes_the_place_only(name: str) -> None:
    message = compress(Message(value=b"v" * 50, headers=((name, b"v"),)), Codec.ZSTD)
    data = build([message])
    unplaced = bytes(data)
    stamp(data, 9, 9)

    assert rehead(data, 0, ()) == unplaced


def test_headers_that_no_longer_fit_are_refused() -> None:
    data = build([Message(value=b"", headers=(("n", bytes(65_520)),))])

    assert verify(rehead(data, 0, (("m", b"123"),))) == 1
    with pytest.raises(Refused) as refused:
        rehead(data, 0, (("m", b"1234"),))
    assert refused.value.code is Code.MESSAGE_TOO_LARGE
    assert refused.value.facts["part"] == "headers"


def test_a_header_without_name_and_a_control_record_are_refused() -> None:
    control = build([Message(value=b"", key=b"gq.x", is_control=True)])

    with pytest.raises(Refused) as refused:
        rehead(FIRST_VECTOR, 0, (("", b"v"),))
    assert (refused.value.code, refused.value.facts["part"]) == (Code.MESSAGE_INVALID, "headers")
    with pytest.raises(Refused) as refused:
        rehead(control, 0, ())
    assert (refused.value.code, refused.value.facts["part"]) == (Code.MESSAGE_INVALID, "flags")


@pytest.mark.parametrize("position", [-1, 1, len(FIRST_VECTOR)])
def test_where_no_record_begins_there_is_nothing_to_rehead(position: int) -> None:
    with pytest.raises(Corrupt):
        rehead(FIRST_VECTOR, position, ())
