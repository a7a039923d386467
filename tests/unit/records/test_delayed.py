"""Delayed records: drafted with their time, marked where they say it themselves, found again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, Header, Message, Refused
from goqueue.records import (
    Corrupt,
    Draft,
    Flag,
    build,
    decode,
    find_delayed,
    mark_delayed,
    stamp,
    verify,
    walk,
)
from goqueue.records.octets import digits_of, number_of
from tests.unit.records.examples import batches, headers, names

NOW = 1_790_000_000_000_000_000
LATEST = NOW + 1_000
LARGEST = (1 << 63) - 1

times = st.one_of(st.integers(0, LARGEST), st.integers(NOW - 5, LATEST + 5))
# What a careless or hostile producer may write in place of digits, and names beside it.
values = st.one_of(
    times.map(lambda due: b"%d" % due), st.binary(max_size=24), st.from_regex(rb"\A[0-9]{1,25}\Z")
)
reserved = st.tuples(
    st.sampled_from(["gq.deliver-at", "gq.deliver-at", "gq.other", "gq.", "gq.deliver-a"]), values
)

anything = reserved | st.tuples(names, st.binary(max_size=12))


def records(*of_each: tuple[Header, ...]) -> bytearray:
    return build([Message(value=b"gq.deliver-at", headers=each) for each in of_each])


def obvious(given_headers: tuple[Header, ...]) -> int:
    """What `mark_delayed` says of a record with these headers."""
    names = [header for header in given_headers if header[0].startswith("gq.")]
    if not names:
        return 0
    (name, value), *others = names
    if others or name != "gq.deliver-at" or not value.isdigit() or len(value) > 19:
        return -1
    due = int(value)
    return -1 if not 0 < due <= LATEST else due if due > NOW else 0


# ---- drafting ------------------------------------------------------------------------------


@given(times, headers, st.none() | st.binary(max_size=9), st.integers(0, 4))
def test_a_delayed_draft_is_the_message_with_its_time_as_the_last_header(
    due: int, others: tuple[Header, ...], value: bytes | None, priority: int
) -> None:
    draft = Draft()
    draft.delay(b"key", value, due, others, priority)
    expected = Message(
        value=value,
        key=b"key",
        headers=(*others, ("gq.deliver-at", b"%d" % due)),
        priority=priority,
        is_delayed=True,
    )
    assert draft.take() == build([expected])


@pytest.mark.parametrize(
    ("key", "due", "code"),
    [
        (b"gq.key", NOW, Code.MESSAGE_INVALID),
        (b"k" * 65_536, NOW, Code.MESSAGE_TOO_LARGE),
        (b"", -1, Code.MESSAGE_INVALID),
        (b"", 1 << 63, Code.MESSAGE_INVALID),
    ],
)
def test_a_refused_delayed_message_leaves_the_draft_as_it_was(
    key: bytes, due: int, code: Code
) -> None:
    draft = Draft()
    draft.delay(b"", b"before", NOW)
    with pytest.raises(Refused) as refused:
        draft.delay(key, b"value", due)
    assert refused.value.code is code
    draft.delay(b"", b"after", NOW)
    batch = draft.take()
    assert [decode(batch, at).value for at in walk(batch).positions] == [b"before", b"after"]


# ---- marking -------------------------------------------------------------------------------


@given(st.lists(st.lists(anything, max_size=3).map(tuple), max_size=5))
def test_marking_flags_exactly_the_records_that_say_one_time_and_tells_it(
    of_each: list[tuple[Header, ...]],
) -> None:
    batch = records(*of_each)
    before = bytes(batch)
    dues = mark_delayed(batch, NOW, LATEST)
    assert list(dues) == [obvious(each) for each in of_each]
    assert verify(batch) == len(of_each)
    flagged = [bool(flags & Flag.DELAYED) for flags in walk(batch).flags]
    assert flagged == [due > 0 for due in dues]
    for position in walk(batch).positions:
        batch[position + 3] &= ~Flag.DELAYED
    assert batch == before


@given(batches, st.integers(1, 40))
def test_marking_half_a_record_is_an_error(batch: list[Message], missing: int) -> None:
    built = build(batch)
    del built[max(0, len(built) - missing) :]
    try:
        walk(built)
    except Corrupt as corrupt:
        with pytest.raises(Corrupt) as found:
            mark_delayed(built, NOW, LATEST)
        assert found.value.position == corrupt.position
    else:
        assert len(mark_delayed(built, NOW, LATEST)) == len(walk(built))


# ---- finding -------------------------------------------------------------------------------


@given(batches, st.integers(0, 1 << 40))
def test_what_is_delayed_is_found_with_offset_time_and_priority(
    batch: list[Message], first: int
) -> None:
    expected = [
        (first + place, 9, message.priority)
        for place, message in enumerate(batch)
        if message.is_delayed
    ]
    fresh = build(batch)
    before_stamping = find_delayed(fresh, first)
    stamp(fresh, first, NOW)
    for found in (before_stamping, find_delayed(fresh)):
        assert len(found) == len(expected)
        columns = zip(found.offsets, found.dues, found.priorities, strict=True)
        assert list(columns) == expected


@pytest.mark.parametrize(
    ("given_headers", "due"),
    [
        ((("gq.batch", b"x"), ("gq.deliver-at", b"77")), 77),
        ((("gq.deliver-at", b"77"), ("gq.deliver-at", b"88")), 77),
        ((("gq.deliver-at", b"soon"),), 0),
        ((("gq.deliver-at", b"9" * 19),), 0),
        ((("gq.deliver-at", b"9" * 5000),), 0),
        ((("gq.deliver-at", b""),), 0),
    ],
)
def test_a_stored_time_among_others_is_found_and_one_that_is_none_is_zero(
    given_headers: tuple[Header, ...], due: int
) -> None:
    stored = build([Message(value=b"", headers=given_headers, is_delayed=True)])
    assert list(find_delayed(stored).dues) == [due]


def test_records_out_of_order_are_not_taken_for_stored_ones() -> None:
    late, early = (
        build([Message(value=b"", headers=(("gq.deliver-at", b"5"),), is_delayed=True)])
        for _ in range(2)
    )
    stamp(late, 9, NOW)
    stamp(early, 8, NOW)
    with pytest.raises(Corrupt) as corrupt:
        find_delayed(late + early)
    assert corrupt.value.reason == "offset"


# ---- digits --------------------------------------------------------------------------------


@given(st.integers(0, LARGEST))
def test_digits_that_were_written_are_read_as_the_same_number(number: int) -> None:
    digits = digits_of(number)
    assert number_of(memoryview(digits), 0, len(digits)) == number
