"""Records read into Arrow columns, and rows of Arrow columns written into records."""

from array import array
from collections.abc import Iterable
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

import pyarrow as pa

from goqueue.model import Code, Message, Priority, Record, Refused
from goqueue.records import Codec, Corrupt, build, compress, decode, murmur3, stamp, verify, walk
from goqueue.records.arrow import (
    ArrowReader,
    ArrowWriter,
    BinaryBuffers,
    BinaryColumn,
    HeaderColumn,
    InputColumns,
    IntegerColumn,
    OutputColumns,
)
from tests.unit.records.examples import batches

MEBIBYTE = 1 << 20
NOON = 1_800_000_000_000_000_000


def stored(*messages: Message, first_offset: int = 0) -> bytearray:
    built = build(messages)
    stamp(built, first_offset, NOON)
    return built


def texts(strings: BinaryBuffers, count: int) -> list[bytes | None]:
    """What pyarrow makes of the buffers."""
    validity = None if strings.validity is None else pa.py_buffer(strings.validity)
    buffers = [validity, pa.py_buffer(strings.offsets), pa.py_buffer(strings.data)]
    column = pa.Array.from_buffers(pa.binary(), count, buffers)
    column.validate(full=True)
    found: list[bytes | None] = column.to_pylist()
    return found


def headers_of(columns: OutputColumns) -> list[list[tuple[str, bytes]]]:
    count = columns.header_rows[-1]
    names = texts(columns.header_names, count)
    values = texts(columns.header_values, count)
    pairs = [
        ((name or b"").decode(), value or b"") for name, value in zip(names, values, strict=True)
    ]
    ends = columns.header_rows
    return [pairs[ends[row] : ends[row + 1]] for row in range(columns.count)]


def rows_of(reader: ArrowReader, rows_max: int = 1000, bytes_max: int = MEBIBYTE) -> list[Record]:
    """Every row that is read, as the record that it was."""
    rows: list[Record] = []
    while (columns := reader.read(rows_max, bytes_max)) is not None:
        assert 0 < columns.count <= rows_max
        assert columns.keys is not None
        assert columns.values is not None
        keys, values = texts(columns.keys, columns.count), texts(columns.values, columns.count)
        headers = headers_of(columns)
        rows += [
            Record(
                offset=columns.offsets[row],
                timestamp=columns.timestamps[row],
                priority=columns.priorities[row],
                flags=columns.flags[row],
                key=keys[row] or b"",
                value=values[row],
                headers=tuple(headers[row]),
            )
            for row in range(columns.count)
        ]
    return rows


@pytest.mark.parametrize("with_headers", [False, True])
def test_what_is_not_wanted_is_not_read_and_the_rest_is_the_same(with_headers: bool) -> None:
    packed = compress(Message(key=b"l", value=b"x" * 10_000, headers=(("a", b"1"),)), Codec.GZIP)
    data = stored(Message(key=b"k", value=b"v"), packed)

    keyed = ArrowReader(data, with_headers=with_headers, with_values=False)
    bare = ArrowReader(data, with_headers=with_headers, with_values=False, with_keys=False)

    keys: list[bytes | None] = []
    while (columns := keyed.read(10, MEBIBYTE)) is not None:
        assert columns.values is None
        assert columns.keys is not None
        keys += texts(columns.keys, columns.count)
        if with_headers and columns.offsets[columns.count - 1] == 1:
            assert headers_of(columns)[-1] == [("a", b"1")]
    offsets: list[int] = []
    while (columns := bare.read(10, MEBIBYTE)) is not None:
        assert columns.keys is None
        assert columns.values is None
        offsets += columns.offsets
    assert keys == [b"k", b"l"]
    assert offsets == [0, 1]


def offsets_of(reader: ArrowReader) -> list[int]:
    return [row.offset for row in rows_of(reader)]


plain_batches = batches.map(lambda batch: [each for each in batch if not each.is_compressed])


@given(plain_batches, st.integers(1, 5), st.integers(1, 2000))
def test_read_rows_are_what_decoding_each_record_gives(
    batch: list[Message], rows_max: int, bytes_max: int
) -> None:
    data = stored(*batch)
    decoded = [decode(data, position) for position in walk(data).positions]
    seen = [
        record
        for record, message in zip(decoded, batch, strict=True)
        if not message.is_control and not message.is_delayed
    ]

    rows = rows_of(ArrowReader(data, with_headers=True), rows_max, bytes_max)

    assert [(row.offset, row.key, row.value, row.headers) for row in rows] == [
        (record.offset, record.key, record.value, record.headers) for record in seen
    ]
    assert [row.timestamp for row in rows] == [record.timestamp // 1000 for record in seen]
    assert [(row.priority, row.flags) for row in rows] == [
        (record.priority, record.flags) for record in seen
    ]


def test_what_a_reader_may_not_see_is_left_out() -> None:
    data = stored(
        Message(value=b"below"),
        Message(value=b"a"),
        Message(key=b"gq.x", value=b"", is_control=True),
        Message(value=b"later", is_delayed=True, headers=(("gq.deliver-at", b"9"),)),
        Message(value=b"b"),
        Message(value=b"aborted"),
        Message(value=b"aborted, too"),
        Message(value=b"c"),
        Message(value=b"past the end"),
        first_offset=10,
    )

    rows = rows_of(ArrowReader(data, 11, 18, [(0, 3), (15, 17), (30, 40)]))

    assert [(row.offset, row.value) for row in rows] == [(11, b"a"), (14, b"b"), (17, b"c")]


def test_aborted_ranges_hold_over_outputs() -> None:
    data = stored(*(Message(value=b"%d" % number) for number in range(20)))

    rows = rows_of(ArrowReader(data, 0, 20, [(2, 5), (7, 8), (12, 19)]), rows_max=2)

    assert [row.offset for row in rows] == [0, 1, 5, 6, 8, 9, 10, 11, 19]


def test_a_tombstone_is_null_and_an_empty_value_is_not() -> None:
    data = stored(Message(key=b"k", value=None), Message(value=b""))

    first, second = rows_of(ArrowReader(data))

    assert (first.key, first.value) == (b"k", None)
    assert (second.key, second.value) == (b"", b"")


def test_the_log_s_note_about_a_batch_is_no_header_of_the_row() -> None:
    headers = (("gq.batch", b"1,0,0,1,0"), ("a", b"1"), ("gq.batched", b"2"))
    data = stored(Message(value=b"x", headers=headers), Message(value=b"y"))

    first, second = rows_of(ArrowReader(data, with_headers=True))

    assert first.headers == (("a", b"1"), ("gq.batched", b"2"))
    assert second.headers == ()


def test_headers_that_nobody_wants_are_not_read() -> None:
    (row,) = rows_of(ArrowReader(stored(Message(value=b"x", headers=(("a", b"1"),)))))

    assert row.headers == ()


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_values_come_out_whole_among_others(codec: Codec) -> None:
    large = b"spam" * 5000
    packed = compress(Message(value=large, headers=(("a", b"1"),)), codec)
    plain = Message(value=b"plain")

    rows = rows_of(ArrowReader(stored(plain, packed, packed, plain), with_headers=True))

    assert [row.value for row in rows] == [b"plain", large, large, b"plain"]
    assert [row.headers for row in rows] == [(), (("a", b"1"),), (("a", b"1"),), ()]
    assert [row.offset for row in rows] == [0, 1, 2, 3]


def test_outputs_stay_within_their_bounds_but_hold_one_row_at_least() -> None:
    data = stored(*(Message(value=bytes(100)) for _ in range(7)))
    reader = ArrowReader(data)

    counts = []
    while (columns := reader.read(3, 300)) is not None:
        counts.append(columns.count)

    assert counts == [2, 2, 2, 1]
    single = ArrowReader(data).read(3, 1)
    assert single is not None
    assert single.count == 1


def test_damage_is_told_with_its_place() -> None:
    data = stored(Message(value=b"good"), Message(value=b"bad"))
    data[-1] ^= 1

    with pytest.raises(Corrupt) as corrupt:
        ArrowReader(data).read(10, MEBIBYTE)

    assert (corrupt.value.position, corrupt.value.reason) == (38, "crc")


def test_nothing_is_read_from_nothing() -> None:
    assert ArrowReader(b"").read(1, 1) is None
    with pytest.raises(IndexError):
        ArrowReader(b"").read(0, 1)


# ---- rows to records -----------------------------------------------------------------------


def column(kind: Literal["i", "q"], numbers: Iterable[int]) -> memoryview:
    return memoryview(array(kind, numbers)).cast("B")


def pieces(values: list[bytes | None]) -> BinaryColumn:
    column = pa.array(values, pa.binary())
    validity, offsets, data = column.buffers()
    return BinaryColumn(len(values), offsets, data if data is not None else b"", validity)


def integers(values: list[int | None]) -> IntegerColumn:
    validity, numbers = pa.array(values, pa.int64()).buffers()
    return IntegerColumn(len(values), numbers, validity)


def pairs(rows: list[list[tuple[str, bytes]] | None]) -> HeaderColumn:
    column = pa.array(rows, pa.map_(pa.string(), pa.binary()))
    names, values = column.keys.to_pylist(), column.items.to_pylist()
    validity, offsets = column.buffers()[:2]
    return HeaderColumn(
        len(rows),
        offsets,
        pieces([name.encode() for name in names]),
        pieces(values),
        validity=validity,
    )


def records_of(batch: bytearray) -> list[Record]:
    return [decode(batch, position) for position in walk(batch).positions]


def written(
    rows: InputColumns, partitions: int = 1, limit: int = MEBIBYTE
) -> dict[int, list[Record]]:
    done = ArrowWriter(partitions, limit).write(rows)
    found = {target: records_of(batch) for target, batch in done.batches.items()}
    assert {target: len(records) for target, records in found.items()} == done.counts
    return found


row_keys = st.none() | st.binary(min_size=1, max_size=20).filter(lambda key: key[:3] != b"gq.")
row_headers = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=5).filter(lambda name: not name.startswith("gq.")),
        st.binary(max_size=5),
    ),
    max_size=3,
)
input_rows = st.lists(
    st.tuples(
        row_keys,
        st.none() | st.binary(max_size=50),
        st.none() | row_headers,
        st.none() | st.integers(0, 4),
        st.none() | st.integers(0, 1 << 50),
    ),
    min_size=1,
    max_size=8,
)


@given(input_rows)
def test_written_rows_are_the_records_that_messages_make(
    rows: list[
        tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None, int | None, int | None]
    ],
) -> None:
    keys, values, headers, priorities, timestamps = zip(*rows, strict=True)
    columns = InputColumns(
        len(rows),
        keys=pieces(list(keys)),
        values=pieces(list(values)),
        headers=pairs(list(headers)),
        priorities=integers(list(priorities)),
        timestamps=integers(list(timestamps)),
    )

    done = ArrowWriter(1, MEBIBYTE).write(columns)

    assert done.batches[0] == build(
        [
            Message(
                key=key or b"",
                value=value,
                headers=tuple(each or ()),
                priority=Priority.NORMAL if priority is None else priority,
                timestamp=(timestamp or 0) * 1000,
            )
            for key, value, each, priority, timestamp in rows
        ]
    )
    assert verify(done.batches[0]) == len(rows)


def test_rows_go_where_they_say_else_by_their_key_else_by_turns() -> None:
    keys: list[bytes | None] = [b"order-123", None, None, b"a", None, None]
    rows = InputColumns(
        6,
        keys=pieces(keys),
        values=pieces([b"%d" % row for row in range(6)]),
        partitions=integers([None, None, None, 2, None, 1]),
    )

    found = written(rows, 3)

    places = {record.value: target for target, each in found.items() for record in each}
    assert places[b"0"] == murmur3(b"order-123") % 3
    assert [places[b"1"], places[b"2"], places[b"4"]] == [0, 1, 2]
    assert [places[b"3"], places[b"5"]] == [2, 1]


def test_turns_continue_over_inputs_and_a_refused_input_takes_none() -> None:
    writer = ArrowWriter(3, 10)
    one = InputColumns(1, values=pieces([b"x"]))

    assert list(writer.write(one).batches) == [0]
    with pytest.raises(Refused):
        writer.write(InputColumns(2, values=pieces([b"x", bytes(11)])))
    assert list(writer.write(one).batches) == [1]


def test_a_delivery_time_becomes_a_header_that_the_broker_reads() -> None:
    rows = InputColumns(
        2,
        values=pieces([b"x", b"y"]),
        headers=pairs([[("a", b"1")], None]),
        dues=integers([NOON // 1000, NOON // 1000]),
    )

    (first, second) = written(rows)[0]

    assert first.headers == (("a", b"1"), ("gq.deliver-at", b"%d" % NOON))
    assert second.headers == (("gq.deliver-at", b"%d" % NOON),)
    assert first.flags & 32 == 0


def test_a_slice_of_columns_begins_at_its_row() -> None:
    validity, offsets, data = pa.array([b"no", None, b"yes", b"so"], pa.binary()).buffers()
    numbers = column("q", [9, 9, 3, 4])

    rows = InputColumns(
        2,
        values=BinaryColumn(2, offsets, data, validity, 1),
        priorities=IntegerColumn(2, numbers, None, 2),
    )

    assert [(record.value, record.priority) for record in written(rows)[0]] == [
        (None, 3),
        (b"yes", 4),
    ]


@pytest.mark.parametrize(
    ("rows", "code", "part"),
    [
        (InputColumns(1, keys=pieces([bytes(65_536)])), Code.MESSAGE_TOO_LARGE, "key"),
        (InputColumns(1, values=pieces([bytes(2 * MEBIBYTE)])), Code.MESSAGE_TOO_LARGE, "message"),
        (InputColumns(1, keys=pieces([b"gq.x"])), Code.MESSAGE_INVALID, "key"),
        (InputColumns(1, headers=pairs([[("", b"")]])), Code.MESSAGE_INVALID, "headers"),
        (InputColumns(1, headers=pairs([[("gq.codec", b"")]])), Code.MESSAGE_INVALID, "headers"),
        (
            InputColumns(1, headers=pairs([[("a", bytes(65_530))]])),
            Code.MESSAGE_TOO_LARGE,
            "headers",
        ),
        (InputColumns(1, priorities=integers([5])), Code.MESSAGE_INVALID, "priority"),
        (InputColumns(1, timestamps=integers([-1])), Code.MESSAGE_INVALID, "timestamp"),
        (InputColumns(1, dues=integers([5])), Code.MESSAGE_INVALID, "deliver_at"),
    ],
)
def test_a_row_that_is_no_message_is_refused_with_its_index(
    rows: InputColumns, code: Code, part: str
) -> None:
    with pytest.raises(Refused) as refused:
        ArrowWriter(2, MEBIBYTE).write(rows)

    assert refused.value.code is code
    assert refused.value.facts["index"] == 0
    assert refused.value.facts["part"] == part


@pytest.mark.parametrize("partition", [-1, 2, 1 << 40])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    with pytest.raises(Refused) as refused:
        ArrowWriter(2, MEBIBYTE).write(InputColumns(1, partitions=integers([partition])))

    assert refused.value.code is Code.PARTITION_NOT_FOUND


def test_buffers_that_are_too_short_or_lead_elsewhere_are_refused() -> None:
    with pytest.raises(BufferError):
        IntegerColumn(2, column("q", [1]))
    with pytest.raises(BufferError):
        IntegerColumn(9, column("q", range(9)), b"\xff")
    with pytest.raises(BufferError):
        BinaryColumn(2, column("i", [0, 1]), b"a")
    with pytest.raises(BufferError):
        InputColumns(2, values=pieces([b"a"]))
    for ends in ([0, 9], [2, 1], [-1, 1]):
        with pytest.raises(BufferError):
            ArrowWriter(1, 10).write(
                InputColumns(1, values=BinaryColumn(1, column("i", ends), b"abc"))
            )
    with pytest.raises(BufferError):
        ArrowWriter(1, 10).write(
            InputColumns(1, headers=HeaderColumn(1, column("i", [0, 3]), pieces([]), pieces([])))
        )
