"""The sparse index against a plain list of marks."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import ENTRY_SIZE, IndexEntry, SparseIndex
from goqueue.records import IndexEntries

BASE = 100

rises = st.lists(
    st.tuples(st.integers(1, 5), st.integers(34, 300), st.integers(-50, 50)),
    min_size=1,
    max_size=40,
)


class PlainIndex:
    """What an index is, written down as slowly as can be: offset, position, time of each mark."""

    def __init__(self, steps: list[tuple[int, int, int]]) -> None:
        self.marks: list[tuple[int, int, int]] = []
        offset, position, timestamp = BASE, 0, 1_000
        for offset_rise, size, time_rise in steps:
            self.marks.append((offset, position, max(1, timestamp)))
            offset += offset_rise
            position += size
            timestamp += time_rise

    def floor(self, column: int, value: int) -> IndexEntry:
        before = [mark for mark in self.marks if mark[column] <= value]
        offset, position, _ = before[-1] if before else self.marks[0]
        newest = max(mark[2] for mark in self.marks if mark[1] <= position)
        return IndexEntry(offset, position, newest)


def index_of(plain: PlainIndex) -> SparseIndex:
    index = SparseIndex(BASE)
    newest = 0
    for mark in plain.marks:
        index.add(marks_of([mark]), newest)
        newest = max(newest, mark[2])
    return index


def marks_of(marks: list[tuple[int, int, int]]) -> IndexEntries:
    return IndexEntries(
        offsets=array("q", [mark[0] for mark in marks]),
        positions=array("q", [mark[1] for mark in marks]),
        timestamps=array("q", [mark[2] for mark in marks]),
        max_timestamp=max(mark[2] for mark in marks),
        last=marks[-1][1],
        count=len(marks),
        next_offset=marks[-1][0] + 1,
    )


@given(rises, st.integers(0, 400))
def test_the_floor_of_an_offset_is_the_last_mark_not_after_it(
    steps: list[tuple[int, int, int]], offset: int
) -> None:
    plain = PlainIndex(steps)
    assert index_of(plain).floor(offset) == plain.floor(0, offset)


@given(rises, st.integers(0, 9_000))
def test_the_floor_of_a_position_is_the_last_mark_not_after_it(
    steps: list[tuple[int, int, int]], position: int
) -> None:
    plain = PlainIndex(steps)
    assert index_of(plain).floor_position(position) == plain.floor(1, position)


@given(rises, st.integers(0, 3_000))
def test_before_the_floor_of_a_time_every_mark_is_earlier(
    steps: list[tuple[int, int, int]], timestamp: int
) -> None:
    plain = PlainIndex(steps)
    start = index_of(plain).floor_time(timestamp)
    skipped = [mark for mark in plain.marks if mark[1] < start.position]
    assert all(mark[2] < timestamp for mark in skipped)


@given(rises, st.integers(0, 9_000), st.integers(0, 400))
def test_a_cut_index_is_the_index_of_what_is_left(
    steps: list[tuple[int, int, int]], position: int, offset: int
) -> None:
    plain = PlainIndex(steps)
    index = index_of(plain)
    index.cut(position)
    plain.marks = [mark for mark in plain.marks if mark[1] < position]
    assert len(index) == len(plain.marks)
    if plain.marks:
        assert index.floor(offset) == plain.floor(0, offset)
    for timestamp in (1, 900, 1_000, 1_100):
        start = index.floor_time(timestamp)
        assert all(m[2] < timestamp for m in plain.marks if m[1] < start.position)


@given(rises)
def test_an_index_survives_its_files(steps: list[tuple[int, int, int]]) -> None:
    index = index_of(PlainIndex(steps))
    offsets, times = index.encode_offsets(), index.encode_times()
    assert len(offsets) == len(index) * ENTRY_SIZE
    assert offsets[:16] == BASE.to_bytes(8, "big") + bytes(8)
    decoded = SparseIndex.decode(BASE, offsets, times)
    assert decoded is not None
    assert (decoded.encode_offsets(), decoded.encode_times()) == (offsets, times)


@given(rises, st.integers(0, 40))
def test_entries_saved_in_two_parts_are_the_same_as_in_one(
    steps: list[tuple[int, int, int]], first: int
) -> None:
    index = index_of(PlainIndex(steps))
    whole = index.encode_offsets()
    assert whole[: first * ENTRY_SIZE] + index.encode_offsets(first) == whole


@given(rises, st.integers(0, 639), st.integers(1, 255))
def test_malformed_entries_are_no_index(
    steps: list[tuple[int, int, int]], position: int, change: int
) -> None:
    index = index_of(PlainIndex(steps))
    offsets, times = bytearray(index.encode_offsets()), index.encode_times()
    offsets[position % len(offsets)] ^= change
    decoded = SparseIndex.decode(BASE, offsets, times)
    if decoded is not None:
        for column in (0, 8):
            values = [
                int.from_bytes(offsets[at + column : at + column + 8], "big", signed=True)
                for at in range(0, len(offsets), ENTRY_SIZE)
            ]
            assert values == sorted(set(values))
            assert values[0] >= (BASE if column == 0 else 0)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_any_bytes_are_an_index_or_none(offsets: bytes, times: bytes) -> None:
    index = SparseIndex.decode(BASE, offsets, times)
    if index is not None:
        assert len(offsets) % ENTRY_SIZE == len(times) % ENTRY_SIZE == 0
        assert index.floor(BASE).position == 0


def test_empty_files_and_broken_entries_are_no_index() -> None:
    one = index_of(PlainIndex([(1, 34, 0)]))
    offsets, times = one.encode_offsets(), one.encode_times()
    for broken in (b"", offsets[:-1], offsets + b"x", offsets + offsets):
        assert SparseIndex.decode(BASE, broken, times) is None
    for broken in (b"", times[:-1], times + times):
        assert SparseIndex.decode(BASE, offsets, broken) is None
    assert SparseIndex.decode(BASE + 1, offsets, times) is None


def test_an_index_without_marks_starts_every_search_at_the_base() -> None:
    index = SparseIndex(BASE)
    assert index.floor(BASE + 7) == index.floor_position(99) == IndexEntry(BASE, 0)
    assert index.floor_time(5) == IndexEntry(BASE, 0)
    assert index.entry(-1) == IndexEntry(BASE, 0)
    assert index.last_position == -1


def test_a_mark_knows_of_newer_records_that_were_not_marked() -> None:
    index = SparseIndex(BASE)
    index.add(marks_of([(BASE, 0, 10)]), 0)
    # Between these two marks lies a record that is stamped later than both.
    index.add(marks_of([(BASE + 5, 500, 20)]), 90)
    assert index.floor_time(90).position == 0
    assert index.floor_time(91).position == 500


def test_a_mark_is_found_by_its_number_from_the_end() -> None:
    index = index_of(PlainIndex([(1, 50, 1)] * 3))
    assert [index.entry(-number).position for number in range(1, 5)] == [100, 50, 0, 0]
