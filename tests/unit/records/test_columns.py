"""Columns of records: walked, scanned, and handed to numpy and pyarrow without a copy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Message
from goqueue.records import Columns, Corrupt, build, decode, scan, stamp, walk
from tests.unit.records.examples import FIRST_VECTOR, SECOND_VECTOR, Forged, batches, read

WITHOUT_SPARK = "the extra `spark` is not installed"
COLUMNS = (
    "offsets",
    "timestamps",
    "priorities",
    "flags",
    "positions",
    "key_lengths",
    "value_lengths",
    "header_lengths",
)


def stored(batch: list[Message], first_offset: int = 0) -> bytearray:
    built = build(batch)
    stamp(built, first_offset, (1 << 63) - 1)
    return built


@given(batches)
def test_columns_hold_what_decoding_each_record_gives(batch: list[Message]) -> None:
    data = stored(batch)

    columns = walk(data)

    assert len(columns) == len(batch)
    for index, position in enumerate(columns.positions):
        record = decode(data, position)
        value_length = 0 if record.value is None else len(record.value)
        assert columns.offsets[index] == record.offset
        assert columns.timestamps[index] == record.timestamp
        assert columns.priorities[index] == record.priority
        assert columns.flags[index] == record.flags
        assert columns.key_lengths[index] == len(record.key)
        assert columns.value_lengths[index] == value_length
        assert (columns.header_lengths[index] > 0) == bool(record.headers)


def test_walking_needs_no_offsets_but_scanning_does() -> None:
    draft = build([Message(value=b"a"), Message(value=b"b")])

    assert list(walk(draft).offsets) == [0, 0]
    assert scan(draft).reason == "offset"


@given(batches, st.binary(max_size=80))
def test_scanning_takes_what_is_good_and_tells_what_comes_after(
    batch: list[Message], tail: bytes
) -> None:
    data = bytes(stored(batch)) + tail

    found = scan(data)

    expected = read(data, -1)
    assert list(found.columns.positions) == expected.positions
    assert (found.end, found.reason, found.needs) == (
        expected.end,
        expected.reason,
        expected.needs,
    )


@given(batches, st.integers(-1, 3), st.integers(0, 3), st.data())
def test_scanning_damaged_records_equals_the_obvious_reader(
    batch: list[Message], expected_offset: int, first_offset: int, data: st.DataObject
) -> None:
    damaged = stored(batch, first_offset)
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    found = scan(damaged, expected_offset)

    expected = read(bytes(damaged), expected_offset)
    assert list(found.columns.positions) == expected.positions
    assert (found.end, found.reason, found.needs) == (
        expected.end,
        expected.reason,
        expected.needs,
    )
    assert all(len(getattr(found.columns, name)) == len(found.columns) for name in COLUMNS)


def test_a_gap_is_fine_unless_the_offsets_are_expected() -> None:
    data = Forged(offset=3).encode() + Forged(offset=5).encode()

    assert scan(data).reason is None
    assert scan(data, 3).reason == "offset"
    assert scan(data, 3).end == 34
    assert scan(data, 2).end == 0


@pytest.mark.parametrize("second", [3, 2])
def test_an_offset_that_does_not_rise_ends_the_scan(second: int) -> None:
    found = scan(Forged(offset=3).encode() + Forged(offset=second).encode())

    assert (len(found.columns), found.end, found.reason) == (1, 34, "offset")


def test_a_truncated_record_tells_how_many_bytes_it_needs() -> None:
    assert scan(FIRST_VECTOR + SECOND_VECTOR[:-1]).needs == len(SECOND_VECTOR)
    assert scan(FIRST_VECTOR + SECOND_VECTOR[:33]).needs == 34
    assert scan(FIRST_VECTOR + SECOND_VECTOR[:1]).needs == 34
    assert scan(FIRST_VECTOR + SECOND_VECTOR).needs == 0
    assert scan(b"").needs == 0


def test_the_start_of_something_else_is_not_called_truncated() -> None:
    assert scan(FIRST_VECTOR + bytes(10)).reason == "magic"
    assert scan(FIRST_VECTOR + b"GX").reason == "magic"
    assert scan(FIRST_VECTOR + b"GQ\x02").reason == "version"


def test_walking_tells_where_the_first_bad_record_begins() -> None:
    data = bytearray(FIRST_VECTOR + SECOND_VECTOR)
    data[-1] ^= 1

    with pytest.raises(Corrupt) as corrupt:
        walk(data)
    assert (corrupt.value.position, corrupt.value.reason) == (len(FIRST_VECTOR), "crc")


@pytest.fixture
def columns() -> Columns:
    return walk(stored([Message(value=b"v" * size, key=b"k") for size in range(5)], 100))


@pytest.mark.parametrize("name", COLUMNS)
def test_numpy_and_pyarrow_wrap_every_column_without_a_copy(columns: Columns, name: str) -> None:
    np = pytest.importorskip("numpy", reason=WITHOUT_SPARK)
    pa = pytest.importorskip("pyarrow", reason=WITHOUT_SPARK)
    column = getattr(columns, name)
    address = column.buffer_info()[0]

    wrapped = np.frombuffer(column, dtype=column.typecode)
    buffer = pa.py_buffer(column)

    assert wrapped.tolist() == column.tolist()
    assert wrapped.__array_interface__["data"][0] == address
    assert buffer.address == address
    assert buffer.size == len(column) * column.itemsize


def test_an_arrow_array_is_made_of_a_column(columns: Columns) -> None:
    pa = pytest.importorskip("pyarrow", reason=WITHOUT_SPARK)
    buffers = [None, pa.py_buffer(columns.offsets)]

    array = pa.Array.from_buffers(pa.int64(), len(columns), buffers)

    assert array.to_pylist() == [100, 101, 102, 103, 104]
