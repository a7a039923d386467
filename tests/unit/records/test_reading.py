"""Stored records as objects for readers: by offset, from an offset on, and decompressed."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import VALUE_BYTES_MAX, Message, Record
from goqueue.records import (
    Codec,
    Corrupt,
    Flag,
    build,
    compress,
    decode,
    pick,
    stamp,
    visible,
    walk,
)
from tests.unit.records.examples import FIRST_VECTOR, Forged, batches, with_headers

FAR = 1 << 62
HIDDEN = Flag.CONTROL | Flag.DELAYED

Reader = Callable[[bytes | bytearray], list[Record]]
READERS: list[Reader] = [
    lambda data: pick(data, range(100)),
    lambda data: visible(data, 0, FAR),
]

# Offsets 5, 6 and 9, as compaction leaves them.
GAPPED = b"".join(Forged(offset=offset, body=bytes(10)).encode() for offset in (5, 6, 9))

uncompressed = batches.map(
    lambda batch: [
        message if not message.is_compressed else Message(value=message.value) for message in batch
    ]
)


def stamped(batch: list[Message], first_offset: int = 0) -> bytearray:
    data = build(batch)
    stamp(data, first_offset, 1)
    return data


@given(uncompressed, st.integers(0, 9), st.lists(st.integers(0, 15), max_size=9))
def test_the_picked_records_are_those_that_decoding_gives(
    batch: list[Message], first_offset: int, offsets: list[int]
) -> None:
    data = stamped(batch, first_offset)
    decoded = [decode(data, position) for position in walk(data).positions]

    assert pick(data, offsets) == [record for record in decoded if record.offset in offsets]


@given(uncompressed, st.integers(0, 9), st.integers(0, 15), st.integers(-1, 6))
def test_the_visible_records_are_those_that_decoding_gives(
    batch: list[Message], first_offset: int, from_offset: int, count_max: int
) -> None:
    data = stamped(batch, first_offset)
    decoded = [decode(data, position) for position in walk(data).positions]

    shown = [
        record for record in decoded if record.offset >= from_offset and not record.flags & HIDDEN
    ]
    assert visible(data, from_offset, count_max) == shown[: max(count_max, 0)]


@given(
    uncompressed,
    st.integers(0, 15),
    st.integers(0, 6),
    st.lists(st.integers(0, 20), max_size=6, unique=True).map(sorted),
)
def test_nothing_of_the_ranges_that_are_left_out_is_visible(
    batch: list[Message], from_offset: int, count_max: int, bounds: list[int]
) -> None:
    data = stamped(batch, 3)
    left_out = list(zip(bounds[::2], bounds[1::2], strict=False))

    expected = [
        record
        for record in visible(data, from_offset, FAR)
        if not any(first <= record.offset < following for first, following in left_out)
    ]
    assert visible(data, from_offset, count_max, left_out) == expected[:count_max]


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ((), []),
        ((4, 7, 8, 10), []),
        ((5, 9), [5, 9]),
        ((6, 7), [6]),
        ((9, 5, 5, -1), [5, 9]),
    ],
)
def test_offsets_that_are_not_there_are_left_out(
    offsets: tuple[int, ...], found: list[int]
) -> None:
    assert [record.offset for record in pick(GAPPED, offsets)] == found


def test_bytes_behind_the_last_wanted_record_are_not_looked_at() -> None:
    damaged = GAPPED + b"XX"

    assert len(pick(damaged, (5, 9))) == 2
    assert len(visible(damaged, 0, 3)) == 3
    assert pick(b"XX", ()) == visible(b"XX", 0, 0) == []


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("codec", Codec)
def test_a_compressed_value_comes_out_as_it_went_in(read: Reader, codec: Codec) -> None:
    message = Message(value=b"value" * 100, key=b"k", headers=(("name", b"v"),))
    bare = Message(value=b"")

    shown = read(stamped([compress(message, codec), compress(bare, codec)]))

    assert shown == read(stamped([message, bare]))
    assert shown[0].value == message.value
    assert shown[1].flags == 0


@pytest.mark.parametrize("read", READERS)
def test_a_compressed_record_without_value_loses_only_its_codec(read: Reader) -> None:
    headers = (("name", b"v"), ("gq.codec", b"unheard-of"))
    data = stamped([Message(value=None, headers=headers, is_compressed=True)])

    assert [(record.value, record.headers) for record in read(data)] == [(None, (("name", b"v"),))]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("codec", "value", "reason"),
    [
        (b"zstd", b"no frame", "compression"),
        (b"unheard-of", b"", "compression"),
        (b"snappy", b"\xff\xff\xff\xff\x0f", "decompressed_size"),
    ],
)
def test_a_value_that_cannot_be_decompressed_is_corrupt_and_the_buffer_let_go(
    read: Reader, codec: bytes, value: bytes, reason: str
) -> None:
    broken = Message(value=value, headers=(("gq.codec", codec),), is_compressed=True)
    fine = Message(value=b"fine")
    data = stamped([fine, broken])

    with pytest.raises(Corrupt) as corrupt:
        read(data)
    assert (corrupt.value.position, corrupt.value.reason) == (len(build([fine])), reason)
    data.clear()


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("codec", Codec)
def test_a_bomb_is_corrupt(read: Reader, codec: Codec) -> None:
    bomb = compress(Message(value=bytes(VALUE_BYTES_MAX + 1)), codec)

    with pytest.raises(Corrupt) as corrupt:
        read(stamped([bomb]))
    assert corrupt.value.reason == "decompressed_size"


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (FIRST_VECTOR[:-1], "truncated"),
        (b"XX", "magic"),
        (Forged(offset=9).encode(), "offset"),
        (with_headers(b"\0", offset=10), "header_count"),
        (with_headers(b"\0\2\0\1n\0\1v", offset=10), "header_count"),
        (with_headers(b"\0\1\0\1\xff\0\1v", offset=10), "header_name"),
    ],
)
def test_what_does_not_follow_is_corrupt_and_the_buffer_let_go(
    read: Reader, tail: bytes, reason: str
) -> None:
    data = bytearray(GAPPED + tail)

    with pytest.raises(Corrupt) as corrupt:
        read(data)
    assert (corrupt.value.position, corrupt.value.reason) == (len(GAPPED), reason)
    del data[len(GAPPED) :]
    assert len(read(data)) == 3


def test_records_outlive_the_buffer_that_they_were_read_from() -> None:
    data = stamped([Message(value=b"value", key=b"key", headers=(("n", b"v"),))])

    (record,) = visible(data, 0, 1)
    data[:] = bytes(len(data))

    assert msgspec.structs.astuple(record)[4:] == (b"key", b"value", (("n", b"v"),))
