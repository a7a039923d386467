"""Slices by offset and sparse index entries, by scans of headers."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Message
from goqueue.records import (
    HEADER_SIZE,
    OPAQUE,
    UNFRAMED,
    Codec,
    Corrupt,
    RecordFinder,
    RecordSlice,
    ValueRun,
    build,
    compress,
    decode,
    gather_records,
    index_records,
    scan_values,
    slice_records,
    stamp,
    walk,
)
from tests.unit.records.examples import FIRST_VECTOR, Forged, batches

FAR = 1 << 62
SIZE = 44

# Three records of 44 bytes with a gap, as compaction leaves them: offsets 5, 6 and 9.
GAPPED = b"".join(Forged(offset=offset, body=bytes(10)).encode() for offset in (5, 6, 9))


@pytest.mark.parametrize(
    ("from_offset", "below_offset", "max_bytes", "expected"),
    [
        (0, FAR, FAR, RecordSlice(0, 3 * SIZE, 10, False)),
        (6, FAR, FAR, RecordSlice(SIZE, 3 * SIZE, 10, False)),
        (7, FAR, FAR, RecordSlice(2 * SIZE, 3 * SIZE, 10, False)),
        (10, FAR, FAR, RecordSlice(3 * SIZE, 3 * SIZE, 10, False)),
        (5, 9, FAR, RecordSlice(0, 2 * SIZE, 7, True)),
        (5, 5, FAR, RecordSlice(0, 0, 5, True)),
        (7, 9, FAR, RecordSlice(2 * SIZE, 2 * SIZE, 7, True)),
        (5, FAR, 2 * SIZE, RecordSlice(0, 2 * SIZE, 7, True)),
        (5, FAR, 2 * SIZE - 1, RecordSlice(0, SIZE, 6, True)),
        (5, FAR, 3 * SIZE, RecordSlice(0, 3 * SIZE, 10, False)),
        (6, FAR, 0, RecordSlice(SIZE, 2 * SIZE, 7, True)),
        (9, FAR, 0, RecordSlice(2 * SIZE, 3 * SIZE, 10, False)),
    ],
)
def test_a_slice_ends_at_its_first_bound(
    from_offset: int, below_offset: int, max_bytes: int, expected: RecordSlice
) -> None:
    assert slice_records(GAPPED, from_offset, below_offset, max_bytes) == expected


def test_a_record_that_is_not_whole_is_left_out_of_a_slice() -> None:
    assert slice_records(GAPPED[:-1], 5, FAR, FAR) == RecordSlice(0, 2 * SIZE, 7, False)
    assert slice_records(GAPPED[: SIZE - 1], 5, FAR, FAR) == RecordSlice(0, 0, 5, False)
    assert slice_records(b"", 5, FAR, FAR) == RecordSlice(0, 0, 5, False)


def find_and_gather(
    pieces: tuple[memoryview, ...], offsets: list[int], size: int
) -> bytearray | None:
    return RecordFinder(pieces).gather(offsets, size)


@pytest.mark.parametrize("order", [[9, 5, 6], [6, 5, 9, 5]])
def test_records_in_no_order_are_found_if_each_is_asked_for_in_its_turn(order: list[int]) -> None:
    data = RecordFinder((GAPPED,)).gather(order, SIZE * len(order))
    assert data is not None
    again = RecordFinder((data,)).gather(order, len(data))

    assert list(walk(data).offsets) == order
    assert again == data
    with pytest.raises(Corrupt, match="offset"):
        RecordFinder((data,)).gather([7, *order], len(data))


@given(batches, st.lists(st.integers(0, 4), unique=True), st.integers(0, 5))
def test_records_are_gathered_out_of_pieces_byte_for_byte_in_any_order(
    batch: list[Message], wanted: list[int], cut: int
) -> None:
    built = build(batch)
    stamp(built, 0, 1)
    bounds = [*walk(built).positions, len(built)]
    middle = bounds[min(cut, len(batch))]
    offsets = [offset for offset in wanted if offset < len(batch)]
    expected = bytearray().join(built[bounds[offset] : bounds[offset + 1]] for offset in offsets)

    pieces = (memoryview(built)[:middle], memoryview(built)[middle:])

    for gather in (gather_records, find_and_gather):
        assert gather(pieces, offsets, len(expected)) == expected
        assert gather(pieces, offsets, len(expected) + 1) is None
        if expected:
            assert gather(pieces, offsets, len(expected) - 1) is None


@pytest.mark.parametrize(
    ("pieces", "offsets"),
    [
        ((GAPPED,), [5, 7]),
        ((GAPPED,), [9, 10]),
        ((GAPPED,), [4, 5]),
        ((GAPPED[:-1],), [5, 9]),
        ((GAPPED, GAPPED), [5, 5]),
        ((GAPPED,), [9, 9]),
        ((GAPPED,), [7, 5]),
        ((GAPPED,), [5, -1]),
        ((b"XX", GAPPED), [5, 6]),
        ((), [5, 6]),
    ],
)
def test_what_is_missing_or_no_record_is_not_gathered(
    pieces: tuple[bytes, ...], offsets: list[int]
) -> None:
    assert gather_records(pieces, offsets, 2 * SIZE) is None


@given(batches, st.integers(0, 6), st.integers(0, 6), st.integers(0, 400))
def test_a_slice_is_the_records_that_the_columns_name(
    batch: list[Message], from_offset: int, below_offset: int, max_bytes: int
) -> None:
    data = build(batch)
    stamp(data, 0, FAR)
    ends = [*walk(data).positions[1:], len(data)] if batch else []
    wanted = range(min(from_offset, len(batch)), min(below_offset, len(batch)))

    found = slice_records(data, from_offset, below_offset, max_bytes)

    start = walk(data).positions[wanted[0]] if wanted else found.start
    fitting = [index for index in wanted if ends[index] - start <= max_bytes] or wanted[:1]
    assert found.start == start
    assert found.end == (ends[fitting[-1]] if fitting else found.start)
    assert found.next_offset == (fitting[-1] + 1 if fitting else from_offset)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"XX", "magic"),
        (Forged(offset=9).encode(), "offset"),
        (Forged(offset=10, value_length=(16 << 20) + 1).encode(), "length"),
    ],
)
def test_scans_stop_at_what_is_no_record(tail: bytes, reason: str) -> None:
    for hop in (
        lambda data: slice_records(data, 0, FAR, FAR),
        lambda data: index_records(data, 0, -1, 1),
    ):
        with pytest.raises(Corrupt) as corrupt:
            hop(GAPPED + tail)
        assert (corrupt.value.position, corrupt.value.reason) == (3 * SIZE, reason)


def test_a_slice_does_not_look_past_its_bound() -> None:
    assert slice_records(GAPPED + b"XX", 5, 9, FAR) == RecordSlice(0, 2 * SIZE, 7, True)


def test_the_first_record_of_a_segment_is_always_marked() -> None:
    marks = index_records(GAPPED, 0, -1, 4096)

    assert (list(marks.offsets), list(marks.positions)) == ([5], [0])
    assert (marks.last, marks.count, marks.next_offset) == (0, 3, 10)


def test_a_record_is_marked_when_the_interval_has_passed() -> None:
    marks = index_records(GAPPED, 1_000, 1_000 - SIZE, 2 * SIZE)

    assert (list(marks.offsets), list(marks.positions)) == ([6], [1_000 + SIZE])
    assert marks.last == 1_000 + SIZE


def test_marks_carry_the_highest_timestamp_so_far() -> None:
    stamps = (50, 20, 70, 60)
    data = b"".join(
        Forged(offset=offset, timestamp=stamped).encode() for offset, stamped in enumerate(stamps)
    )

    marks = index_records(data, 0, -1, 1)

    assert list(marks.timestamps) == [50, 50, 70, 70]
    assert marks.max_timestamp == 70


def test_records_of_one_write_are_marked_alike_however_they_are_divided() -> None:
    whole = index_records(GAPPED, 0, -1, SIZE + 1)

    first = index_records(GAPPED[:SIZE], 0, -1, SIZE + 1)
    second = index_records(GAPPED[SIZE:], SIZE, first.last, SIZE + 1)

    assert first.positions + second.positions == whole.positions
    assert first.offsets + second.offsets == whole.offsets
    assert second.last == whole.last


@pytest.mark.parametrize("interval", [-1, 0, 1, HEADER_SIZE, HEADER_SIZE + 1, 10 * HEADER_SIZE])
@pytest.mark.parametrize("last", [-1, 0, 900])
def test_there_is_room_for_the_marks_of_the_smallest_records(interval: int, last: int) -> None:
    data = b"".join(Forged(offset=offset).encode() for offset in range(50))
    expected = []
    previous = last
    for position in range(1_000, 1_000 + len(data), HEADER_SIZE):
        if previous < 0 or position - previous >= interval:
            expected.append(position)
            previous = position

    marks = index_records(data, 1_000, last, interval)

    assert marks.positions == array("q", expected)
    assert len(marks.offsets) == len(marks.timestamps) == len(expected)


# Past the size from which on headers are fetched ahead, and with guesses that are wrong.
@pytest.mark.parametrize("sizes", [[1_024] * 40, [300, 5_000] * 20, [9_000, *[0] * 30, 300]])
def test_large_records_are_skipped_like_small_ones(sizes: list[int]) -> None:
    data = build([Message(value=bytes(size)) for size in sizes])
    assert stamp(data, 7, 1).count == len(sizes)
    positions = walk(data).positions

    assert slice_records(data, 0, FAR, FAR) == RecordSlice(0, len(data), 7 + len(sizes), False)
    assert index_records(data, 0, -1, 0).positions == positions
    assert index_records(data[:-1], 0, -1, 0).positions == positions[:-1]
    assert list(index_records(data, 0, -1, 0).offsets) == list(range(7, 7 + len(sizes)))


def test_only_whole_records_are_marked_and_counted() -> None:
    marks = index_records(GAPPED[:-1], 0, -1, 1)

    assert (list(marks.offsets), marks.count, marks.next_offset) == ([5, 6], 2, 7)
    assert index_records(b"", 0, -1, 1).count == 0
    assert index_records(FIRST_VECTOR, 0, -1, 1).next_offset == 1


def test_values_are_found_by_the_schema_id_that_they_begin_with() -> None:
    values = [b"\0\0\0\1\2ab", b"\0\0\0\1\2", b"{}", b"\0\0\0\1", None, b"\0\0\0\0\7x"]
    messages = [Message(key=b"k" * number, value=each) for number, each in enumerate(values)]
    data = build(messages)
    found = scan_values(data)
    assert found.runs == [
        ValueRun(258, 0, 2),
        ValueRun(UNFRAMED, 2, 4),
        ValueRun(OPAQUE, 4, 5),
        ValueRun(7, 5, 6),
    ]
    pieces = [bytes(data[start:end]) for start, end in zip(found.starts, found.ends, strict=True)]
    assert pieces[:4] == [b"ab", b"", b"{}", b"\0\0\0\1"]
    assert decode(pieces[4]).value is None
    assert pieces[5] == b"x"


def test_a_compressed_value_is_left_to_those_who_decompress_it() -> None:
    data = build([compress(Message(value=b"\0\0\0\0\1" + b"x" * 999), Codec.GZIP)])
    found = scan_values(data)
    assert found.runs == [ValueRun(OPAQUE, 0, 1)]
    assert (found.starts[0], found.ends[0]) == (0, len(data))


def test_values_of_damaged_records_are_not_looked_for() -> None:
    with pytest.raises(Corrupt):
        scan_values(build([Message(value=b"x")])[:-1])
