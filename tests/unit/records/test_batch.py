"""Batches: built, verified, stamped; and refused or found corrupt before anything changes."""

import functools
import operator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, Message, Refused
from goqueue.records import Corrupt, Stamped, build, decode, examine, stamp, sums, verify, walk
from tests.unit.records.examples import FIRST_VECTOR, SECOND_VECTOR, Forged, batches

NOW = 1_000


@given(batches)
def test_a_built_batch_is_verified_with_its_count(batch: list[Message]) -> None:
    assert verify(build(batch)) == len(batch)


@given(batches, st.data())
def test_an_examined_batch_tells_what_all_its_records_together_hold(
    batch: list[Message], data: st.DataObject
) -> None:
    built = build(batch)
    first = data.draw(st.integers(0, 3))
    if batch and first:
        stamp(built, first, NOW)
    columns = walk(built)
    reserved = {
        name
        for position in columns.positions
        for name, _ in decode(built, position).headers
        if name.startswith("gq.") and name != "gq.codec"
    }

    examined = examine(built)

    assert examined.count == len(batch)
    assert examined.flags == functools.reduce(operator.or_, columns.flags, 0)
    assert examined.has_offset == any(columns.offsets)
    assert examined.has_reserved == bool(reserved)


@given(batches.filter(bool), st.data())
def test_what_is_examined_is_found_corrupt_as_it_is_when_verified(
    batch: list[Message], data: st.DataObject
) -> None:
    built = build(batch)
    built[data.draw(st.integers(0, len(built) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        count = verify(built)
    except Corrupt as corrupt:
        with pytest.raises(Corrupt) as found:
            examine(built)
        assert (found.value.position, found.value.reason) == (corrupt.position, corrupt.reason)
    else:
        assert examine(built).count == count


def test_a_batch_of_nothing_is_empty_and_valid() -> None:
    assert build([]) == bytearray()
    assert verify(b"") == examine(b"").count == 0
    assert stamp(bytearray(), 5, NOW).count == 0


@pytest.mark.parametrize(
    ("message", "code", "part"),
    [
        (Message(value=bytes(16 * 1024 * 1024 + 1)), Code.MESSAGE_TOO_LARGE, "value"),
        (Message(value=b"", key=bytes(65_536)), Code.MESSAGE_TOO_LARGE, "key"),
        (Message(value=b"", headers=(("n", bytes(65_529)),)), Code.MESSAGE_TOO_LARGE, "headers"),
        (Message(value=b"", headers=(("n" * 70_000, b""),)), Code.MESSAGE_TOO_LARGE, "headers"),
        (Message(value=b"", headers=(("\ud800", b""),)), Code.MESSAGE_INVALID, "headers"),
        (Message(value=b"", headers=(("", b"v"),)), Code.MESSAGE_INVALID, "headers"),
        (Message(value=b"", priority=5), Code.MESSAGE_INVALID, "priority"),
        (Message(value=b"", priority=-1), Code.MESSAGE_INVALID, "priority"),
        (Message(value=b"", priority=1 << 70), Code.MESSAGE_INVALID, "priority"),
        (Message(value=b"", timestamp=-1), Code.MESSAGE_INVALID, "timestamp"),
        (Message(value=b"", timestamp=1 << 63), Code.MESSAGE_INVALID, "timestamp"),
        (Message(value=b"", is_commit=True), Code.MESSAGE_INVALID, "flags"),
    ],
)
def test_a_message_that_does_not_fit_is_refused_by_its_index(
    message: Message, code: Code, part: str
) -> None:
    with pytest.raises(Refused) as refused:
        build([Message(value=b"fine"), message])
    assert refused.value.code is code
    assert refused.value.facts["index"] == 1
    assert refused.value.facts["part"] == part


def test_the_largest_parts_that_the_format_holds_are_built() -> None:
    largest = Message(
        value=bytes(16 * 1024 * 1024), key=bytes(65_535), headers=(("n", bytes(65_528)),)
    )

    built = build([largest])

    assert verify(built) == 1
    assert decode(built).headers == largest.headers


def test_stamping_gives_consecutive_offsets_and_keeps_past_timestamps_only() -> None:
    batch = build([Message(value=b"v", timestamp=stamped) for stamped in (0, 7, NOW, NOW + 1)])

    assert stamp(batch, 40, NOW) == Stamped(count=4, max_timestamp=NOW)

    columns = walk(batch)
    assert list(columns.offsets) == [40, 41, 42, 43]
    assert list(columns.timestamps) == [NOW, 7, NOW, NOW]


@given(batches, st.integers(0, (1 << 63) - 100), st.integers(0, (1 << 63) - 1))
def test_stamping_changes_offsets_and_timestamps_and_nothing_else(
    batch: list[Message], first_offset: int, timestamp: int
) -> None:
    before = build(batch)
    after = bytearray(before)

    stamped = stamp(after, first_offset, timestamp)

    assert stamped.count == verify(after) == len(batch)
    assert stamped.max_timestamp == max(walk(after).timestamps, default=0)
    columns = walk(before)
    assert list(walk(after).offsets) == list(range(first_offset, first_offset + len(batch)))
    for start, end in pairwise([*columns.positions, len(before)]):
        assert before[start : start + 4] == after[start : start + 4]
        assert before[start + 24 : end] == after[start + 24 : end]


def test_a_part_of_a_larger_buffer_is_stamped_in_place() -> None:
    buffer = bytearray(b"before" + FIRST_VECTOR + b"after")

    stamp(memoryview(buffer)[6:-5], 9, NOW)

    assert decode(buffer, 6).offset == 9
    assert buffer.startswith(b"before")
    assert buffer.endswith(b"after")


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (FIRST_VECTOR[:-1], "truncated"),
        (FIRST_VECTOR[:10], "truncated"),
        (b"XX", "magic"),
        (Forged(priority=5).encode(), "priority"),
    ],
)
def test_a_batch_that_does_not_fit_is_left_unstamped(tail: bytes, reason: str) -> None:
    batch = bytearray(FIRST_VECTOR + tail)

    with pytest.raises(Corrupt) as corrupt:
        stamp(batch, 9, NOW)
    assert (corrupt.value.position, corrupt.value.reason) == (len(FIRST_VECTOR), reason)
    assert batch == FIRST_VECTOR + tail


def test_a_read_only_batch_is_not_stamped() -> None:
    with pytest.raises(BufferError):
        stamp(memoryview(FIRST_VECTOR), 0, NOW)


@pytest.mark.parametrize("first_offset", [-1, (1 << 63) - 1])
def test_offsets_that_do_not_fit_are_a_bug_of_the_caller(first_offset: int) -> None:
    batch = bytearray(FIRST_VECTOR)

    with pytest.raises(IndexError):
        stamp(batch, first_offset, NOW)
    assert batch == FIRST_VECTOR


def test_a_batch_found_corrupt_can_be_resized_while_the_error_is_handled() -> None:
    batch = bytearray(FIRST_VECTOR + b"XX")

    with pytest.raises(Corrupt) as corrupt:
        verify(batch)
    del batch[corrupt.value.position :]
    assert verify(batch) == 1


@given(batches.filter(bool), st.data())
def test_any_cut_is_found_with_the_position_of_the_record_that_was_cut(
    batch: list[Message], data: st.DataObject
) -> None:
    built = build(batch)
    positions = list(walk(built).positions)
    cut = data.draw(st.integers(0, len(built) - 1))
    begun = max(position for position in positions if position <= cut)

    if begun == cut:
        assert verify(built[:cut]) == positions.index(cut)
    else:
        with pytest.raises(Corrupt) as corrupt:
            verify(built[:cut])
        assert (corrupt.value.position, corrupt.value.reason) == (begun, "truncated")


@given(batches.filter(bool), st.data())
def test_any_changed_byte_that_is_no_flags_byte_is_found(
    batch: list[Message], data: st.DataObject
) -> None:
    built = build(batch)
    positions = list(walk(built).positions)
    # The sum begins at byte 8. Magic and version are checked by value; for flags see test_flags.
    flag_places = {position + 3 for position in positions}
    place = data.draw(st.integers(0, len(built) - 1).filter(lambda at: at not in flag_places))
    built[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(Corrupt) as corrupt:
        verify(built)
    assert corrupt.value.position == max(start for start in positions if start <= place)


def test_sums_looks_only_at_the_records_between_its_bounds() -> None:
    data = b"XX" + FIRST_VECTOR + SECOND_VECTOR + b"XX"
    second = 2 + len(FIRST_VECTOR)

    sums(data, 2, len(data) - 2)
    sums(data, second, second)
    with pytest.raises(Corrupt) as corrupt:
        sums(data, 2, len(data) - 3)
    assert (corrupt.value.position, corrupt.value.reason) == (second, "truncated")
    with pytest.raises(Corrupt) as corrupt:
        sums(data, second, len(data))
    assert (corrupt.value.position, corrupt.value.reason) == (len(data) - 2, "magic")


# The second size is past the one from which on the sums are made without the interpreter's lock.
@pytest.mark.parametrize("size", [10, 40_000])
@pytest.mark.parametrize("second", [3, 2, 0])
def test_sums_finds_a_valid_record_of_another_place_and_verify_does_not_mind(
    size: int, second: int
) -> None:
    body = bytes(size)
    data = b"".join(Forged(offset=offset, body=body).encode() for offset in (3, second))

    with pytest.raises(Corrupt) as corrupt:
        sums(data, 0, len(data))
    assert (corrupt.value.position, corrupt.value.reason) == (34 + size, "offset")
    assert verify(data) == 2


def test_sums_minds_neither_gaps_nor_what_stands_before_its_bounds() -> None:
    data = b"".join(Forged(offset=offset).encode() for offset in (9, 0, 1, 5))

    sums(data, 34, len(data))

    with pytest.raises(Corrupt) as fallen:
        sums(data, 0, len(data))
    assert (fallen.value.position, fallen.value.reason) == (34, "offset")


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4), (0, 1_000), (1_000, 1_000)])
def test_sums_outside_the_data_is_a_bug_of_the_caller(start: int, end: int) -> None:
    with pytest.raises(IndexError):
        sums(FIRST_VECTOR, start, end)


def test_large_batches_are_verified_like_small_ones() -> None:
    batch = build([Message(value=bytes(1_000))] * 200)
    assert verify(batch) == 200
    batch[-1] ^= 1

    with pytest.raises(Corrupt) as corrupt:
        verify(batch)
    assert (corrupt.value.position, corrupt.value.reason) == (199 * 1_034, "crc")


def test_a_corrupt_record_says_where_and_why() -> None:
    assert str(Corrupt(17, "crc")) == "the record at byte 17 is corrupt: crc"
