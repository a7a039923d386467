"""Frames between brokers: what is sent arrives, and nothing else does."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from goqueue.runtime.peers.frames import (
    ATTACHMENTS_MAX,
    FRAME_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    Frame,
    FrameDecoder,
    FrameInvalid,
    decode_message,
    encode_frame,
    kind_of,
)

frames = st.lists(
    st.tuples(
        st.integers(0, 65_535),
        st.binary(max_size=200),
        st.lists(st.binary(max_size=300), max_size=4).map(tuple),
    ),
    max_size=6,
)


def _bytes_of(kind: int, header: bytes, data: tuple[bytes, ...] = ()) -> bytes:
    buffers, size = encode_frame(kind, header, data)
    encoded = b"".join(bytes(each) for each in buffers)
    assert len(encoded) == size
    return encoded


def _plain(frame: Frame) -> tuple[int, bytes, tuple[bytes, ...]]:
    return frame.kind, bytes(frame.header), tuple(bytes(each) for each in frame.data)


@given(frames, st.lists(st.integers(1, 400), max_size=40))
def test_frames_arrive_whole_and_in_order_however_the_bytes_are_cut(
    sent: list[tuple[int, bytes, tuple[bytes, ...]]], cuts: list[int]
) -> None:
    stream = b"".join(_bytes_of(*each) for each in sent)
    decoder = FrameDecoder()
    received: list[tuple[int, bytes, tuple[bytes, ...]]] = []
    while stream:
        size = cuts.pop() if cuts else len(stream)
        received += map(_plain, decoder.feed(stream[:size]))
        stream = stream[size:]

    assert received == sent
    assert decoder.is_between_frames


@given(
    st.binary(max_size=100),
    st.lists(st.binary(max_size=50), max_size=3).map(tuple),
    st.data(),
)
def test_a_frame_with_any_bit_flipped_is_never_taken_for_a_frame(
    header: bytes, data: tuple[bytes, ...], draw: st.DataObject
) -> None:
    encoded = bytearray(_bytes_of(16, header, data))
    bit = draw.draw(st.integers(0, 8 * len(encoded) - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    decoder = FrameDecoder()

    try:
        received = list(decoder.feed(bytes(encoded)))
    except FrameInvalid:
        return
    # A larger length waits for bytes that never come.
    assert received == []
    assert not decoder.is_between_frames


@given(st.lists(st.binary(max_size=500), max_size=8))
def test_random_bytes_are_refused_or_awaited_but_never_kept_beyond_the_bound(
    pieces: list[bytes],
) -> None:
    decoder = FrameDecoder()
    for piece in pieces:
        try:
            list(decoder.feed(piece))
        except FrameInvalid:
            return
        assert decoder.bytes_kept <= HANDSHAKE_BYTES_MAX + 4


@pytest.mark.parametrize("length", [0, 1, 9, HANDSHAKE_BYTES_MAX + 1, 2**31 - 1, 2**32 - 1])
def test_a_length_outside_the_bounds_is_refused_before_a_byte_of_its_frame_came(
    length: int,
) -> None:
    with pytest.raises(FrameInvalid):
        list(FrameDecoder().feed(struct.pack(">I", length)))


def test_a_frame_that_comes_byte_by_byte_costs_no_more_than_its_bytes() -> None:
    decoder = FrameDecoder()
    encoded = _bytes_of(16, b"h" * 50_000)
    for index in range(len(encoded) - 1):
        assert list(decoder.feed(encoded[index : index + 1])) == []
    assert decoder.bytes_kept == len(encoded) - 1
    assert [each.kind for each in decoder.feed(encoded[-1:])] == [16]


def test_the_bound_may_be_raised_between_two_frames_of_one_piece() -> None:
    large = b"a" * (HANDSHAKE_BYTES_MAX * 2)
    stream = _bytes_of(3, b"") + _bytes_of(64, b"", (large,))
    decoder = FrameDecoder()
    arriving = decoder.feed(stream)

    assert next(arriving).kind == 3
    decoder.bytes_max = FRAME_BYTES_MAX
    assert bytes(next(arriving).data[0]) == large


@pytest.mark.parametrize(
    "rest",
    [
        struct.pack(">HI", 16, 5) + b"abc",
        struct.pack(">HI", 16, 2**32 - 1) + b"abc",
        struct.pack(">HI", 16, 0) + b"\0",
        struct.pack(">HI", 16, 0) + struct.pack(">I", 2) + b"a",
        struct.pack(">HI", 16, 0) + struct.pack(">I", 0) * (ATTACHMENTS_MAX + 1),
    ],
    ids=["header cut", "header bomb", "size cut", "attachment cut", "too many attachments"],
)
def test_sizes_that_lie_are_refused_although_the_checksum_is_right(rest: bytes) -> None:
    crc = struct.unpack(">I", _bytes_of(16, b"")[4:8])
    assert crc

    forged = struct.pack(">II", len(rest) + 4, crc32c(rest)) + rest

    with pytest.raises(FrameInvalid):
        list(FrameDecoder().feed(forged))


def test_a_small_attachment_does_not_keep_the_received_bytes_in_memory() -> None:
    stream = _bytes_of(64, b"", (b"small", b"l" * 100_000))
    decoder = FrameDecoder(FRAME_BYTES_MAX)

    (frame,) = decoder.feed(stream)

    small, large = frame.data
    assert isinstance(small, bytes)
    assert isinstance(large, memoryview)
    assert large.readonly


@given(st.sampled_from([1, 2, 3, 4, 5, 16]), st.binary(max_size=300))
def test_a_header_of_random_bytes_is_a_message_or_refused(kind: int, header: bytes) -> None:
    try:
        message = decode_message(Frame(kind, memoryview(header), ()))
    except FrameInvalid:
        return
    assert kind_of(message) == kind


@pytest.mark.parametrize("kind", [0, 6, 15, 17, 65_535])
def test_a_kind_that_no_message_has_is_refused(kind: int) -> None:
    with pytest.raises(FrameInvalid):
        decode_message(Frame(kind, memoryview(b"\x91\x10"), ()))


@pytest.mark.parametrize(
    "header",
    [
        b"\xdd\x7f\xff\xff\xff",
        b"\x91" * 100_000,
        b"\xdb\xff\xff\xff\xff",
        b"\x95\x01\x92\x01\x01\x01\x01\xdf\xff\xff\xff\xff",
        b"\x95\x01\x92\x01\x01\x01\x01\xc9\xff\xff\xff\xff\x01",
    ],
    ids=["array", "nested", "text", "map", "extension"],
)
def test_a_header_that_claims_more_than_it_has_costs_nothing(header: bytes) -> None:
    for kind in (1, 2, 4, 16):
        with pytest.raises(FrameInvalid):
            decode_message(Frame(kind, memoryview(header), ()))
