"""Frames, header blocks, messages: read back as they were written, however cut, and bounded."""

import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.gateways.grpc.http2.frames import (
    FRAME_BYTES_MAX,
    ConnectionFault,
    ErrorCode,
    FrameReader,
    FrameType,
    write_frame,
)
from goqueue.gateways.grpc.http2.header_codec import (
    HEADERS_BYTES_MAX,
    TABLE_BYTES,
    HeaderDecoder,
    encode_headers,
    joined_headers,
)
from goqueue.gateways.grpc.http2.huffman import HuffmanInvalid, decode_huffman
from goqueue.gateways.grpc.message_reader import MessageReader, framed
from goqueue.model import Code, Refused

PAIRS = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.binary(max_size=60)), max_size=12)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 255), st.binary(max_size=80)), max_size=8
    ),
    st.lists(st.integers(0, 2000)),
)
def test_frames_are_the_same_however_they_are_cut(
    frames: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    written = b"".join(
        write_frame(kind, flags, 3, payload)  # type: ignore[arg-type]  # also kinds that are none
        for kind, flags, payload in frames
    )
    reader = FrameReader()
    read = [
        (frame.kind, frame.flags, bytes(frame.payload))
        for piece in pieces(written, cuts)
        for frame in reader.feed(piece)
    ]
    assert read == frames


@pytest.mark.parametrize("cut", [1, 3, 5, 9, 12])
def test_a_frame_above_the_limit_is_a_fault_before_its_payload_came(cut: int) -> None:
    head = (FRAME_BYTES_MAX + 1).to_bytes(3, "big") + bytes([FrameType.DATA, 0, 0, 0, 0, 1])
    reader = FrameReader()

    def feed() -> None:
        for piece in (head[:cut], head[cut:] + b"x"):
            list(reader.feed(piece))

    with pytest.raises(ConnectionFault) as fault:
        feed()
    assert fault.value.code is ErrorCode.FRAME_SIZE_ERROR


@given(PAIRS)
def test_headers_that_are_written_are_read_back(headers: list[tuple[bytes, bytes]]) -> None:
    assert HeaderDecoder().decode(encode_headers(headers)) == headers


# The examples of RFC 7541, C.4 and C.6: Huffman coded, with a table that fills up.
REQUESTS = [
    (
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        [(b":authority", b"www.example.com")],
    ),
    ("828684be5886a8eb10649cbf", [(b"cache-control", b"no-cache")]),
    (
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        [(b"custom-key", b"custom-value")],
    ),
]


def test_the_examples_of_the_standard_are_read() -> None:
    decoder = HeaderDecoder()
    for block, last in REQUESTS:
        headers = decoder.decode(bytes.fromhex(block))
        assert headers is not None
        assert headers[-1:] == last
    assert decoder.table_bytes == 164


@pytest.mark.parametrize(
    ("coded", "text"),
    [
        ("f1e3c2e5f23a6ba0ab90f4ff", b"www.example.com"),
        ("d07abe941054d444a8200595040b8166e082a62d1bff", b"Mon, 21 Oct 2013 20:13:21 GMT"),
        ("", b""),
    ],
)
def test_huffman_strings_are_read(coded: str, text: bytes) -> None:
    assert decode_huffman(bytes.fromhex(coded)) == text


@pytest.mark.parametrize("coded", ["ff", "1fff", "18", "ffffffff", "1c", "f1e3c2e5f23a6ba0ab90f4"])
def test_huffman_strings_that_are_none_are_refused(coded: str) -> None:
    # Padding of eight bits or of zeros, the end symbol itself, a code that is cut short.
    with pytest.raises(HuffmanInvalid):
        decode_huffman(bytes.fromhex(coded))


@given(st.binary(max_size=300))
def test_any_bytes_are_headers_or_a_fault_and_the_table_stays_bounded(block: bytes) -> None:
    decoder = HeaderDecoder()
    try:
        decoder.decode(block)
    except ConnectionFault as fault:
        assert fault.code is ErrorCode.COMPRESSION_ERROR
    assert decoder.table_bytes <= TABLE_BYTES


def test_headers_above_the_limit_are_not_kept_but_fill_the_table() -> None:
    decoder = HeaderDecoder()
    large = encode_headers([(b"x", b"v" * HEADERS_BYTES_MAX)])
    assert decoder.decode(large + b"\x40\x01a\x01b") is None
    assert decoder.decode(b"\xbe") == [(b"a", b"b")]


def test_an_entry_that_is_repeated_ten_thousand_times_is_not_kept() -> None:
    block = b"\x40\x01a\x64" + b"v" * 100 + b"\xbe" * 10_000
    with pytest.raises(ConnectionFault) as fault:
        HeaderDecoder().decode(block)
    assert fault.value.code is ErrorCode.ENHANCE_YOUR_CALM
    assert HeaderDecoder().decode(block[:-9_000]) is None


def test_a_table_that_is_resized_again_and_again_is_a_fault() -> None:
    assert HeaderDecoder().decode(b"\x20\x3f\xe1\x1f") == []
    with pytest.raises(ConnectionFault) as fault:
        HeaderDecoder().decode(b"\x20" * 3)
    assert fault.value.code is ErrorCode.COMPRESSION_ERROR


def test_a_number_of_many_empty_bytes_is_a_fault() -> None:
    with pytest.raises(ConnectionFault) as fault:
        HeaderDecoder().decode(b"\xff" + b"\x80" * 60_000 + b"\x00")
    assert fault.value.code is ErrorCode.COMPRESSION_ERROR


def test_a_number_without_end_is_a_fault() -> None:
    with pytest.raises(ConnectionFault):
        HeaderDecoder().decode(b"\x40\x01a\x7f\xff\xff\xff\xff\x0f")


@pytest.mark.parametrize(
    "headers",
    [
        [(b"a", b"1"), (b":path", b"/")],
        [(b":path", b"/"), (b":path", b"/other")],
        [(b"Upper", b"1")],
        [(b"", b"1")],
    ],
)
def test_headers_that_break_the_rules_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    assert joined_headers(headers) is None


def test_repeated_headers_are_joined_so_that_no_secret_is_among_them() -> None:
    assert joined_headers([(b"x-api-key", b"a"), (b"x-api-key", b"b")]) == {b"x-api-key": b"a, b"}


@given(st.lists(st.binary(max_size=200), max_size=8), st.lists(st.integers(0, 3000)))
def test_messages_are_the_same_however_they_are_cut(messages: list[bytes], cuts: list[int]) -> None:
    reader = MessageReader(1000, b"identity")
    for piece in pieces(framed(messages), cuts):
        reader.feed(memoryview(piece))
    assert reader.is_whole
    assert reader.queued_bytes == sum(map(len, messages))
    assert reader.take(3) == messages[:3]
    assert reader.take(1000) == messages[3:]
    assert reader.queued_bytes == 0


@pytest.mark.parametrize("cut", [1, 4, 5])
def test_a_message_above_the_limit_is_refused_by_its_head(cut: int) -> None:
    reader = MessageReader(100, b"identity")
    head = b"\x00" + (101).to_bytes(4, "big")

    def feed() -> None:
        for piece in (head[:cut], head[cut:] + b"x"):
            reader.feed(memoryview(piece))

    with pytest.raises(Refused) as refused:
        feed()
    assert refused.value.code is Code.BODY_TOO_LARGE


def test_a_compressed_message_is_decompressed_to_the_limit_and_no_further() -> None:
    def feed(text: bytes, encoding: bytes = b"gzip") -> list[bytes]:
        reader = MessageReader(1000, encoding)
        packed = gzip.compress(text)
        reader.feed(memoryview(b"\x01" + len(packed).to_bytes(4, "big") + packed))
        return reader.take(10)

    assert feed(b"a" * 1000) == [b"a" * 1000]
    with pytest.raises(Refused) as refused:
        feed(b"a" * 10_000_000)
    assert refused.value.code is Code.BODY_TOO_LARGE
    with pytest.raises(Refused) as refused:
        feed(b"a", b"snappy")
    assert refused.value.code is Code.METHOD_NOT_ALLOWED


def test_a_message_that_is_not_gzip_is_refused() -> None:
    reader = MessageReader(1000, b"gzip")
    reader.feed(memoryview(b"\x01\x00\x00\x00\x03abc"))
    with pytest.raises(Refused) as refused:
        reader.take(1)
    assert refused.value.code is Code.REQUEST_INVALID


def test_compressed_messages_wait_as_they_came_and_are_taken_a_bounded_part_at_a_time() -> None:
    mib = 1024 * 1024
    reader = MessageReader(16 * mib, b"gzip")
    packed, plain = gzip.compress(b"a" * mib), b"plain"
    for number in range(8):
        flag, message = (0, plain) if number == 3 else (1, packed)
        reader.feed(memoryview(bytes((flag,)) + len(message).to_bytes(4, "big") + message))
    assert reader.queued_bytes == 7 * len(packed) + len(plain)
    sizes = []
    while taken := reader.take(1000):
        assert sum(map(len, taken)) <= 3 * mib
        sizes += [len(each) for each in taken]
    assert sizes == [mib, mib, mib, len(plain), mib, mib, mib, mib]
    assert reader.queued_bytes == 0


@given(
    st.lists(st.tuples(st.booleans(), st.binary(max_size=50)), max_size=20),
    st.lists(st.integers(1, 5), min_size=1),
)
def test_messages_are_taken_in_order_compressed_or_not(
    given_messages: list[tuple[bool, bytes]], counts: list[int]
) -> None:
    reader = MessageReader(1000, b"gzip")
    for is_compressed, text in given_messages:
        message = gzip.compress(text) if is_compressed else text
        reader.feed(memoryview(bytes((is_compressed,)) + len(message).to_bytes(4, "big") + message))
    taken: list[bytes] = []
    while reader.messages:
        for count in counts:
            taken += reader.take(count)
    assert taken == [text for _, text in given_messages]
    assert reader.queued_bytes == 0
