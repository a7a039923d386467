"""Compressed values: whole again, or corrupt, within bounds."""

import subprocess
import sys
import zlib
from contextlib import suppress

import cramjam
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, Message, Record, Refused
from goqueue.records import Codec, Corrupt, Flag, build, compress, decode, decompress, encode

MIB = 1024 * 1024
EVERY_CODEC = pytest.mark.parametrize("codec", list(Codec))


def stored(value: bytes, codec: str) -> Record:
    return Record(
        offset=0,
        timestamp=1,
        priority=2,
        flags=Flag.COMPRESSED | Flag.HEADERS,
        key=b"",
        value=value,
        headers=(("gq.codec", codec.encode()),),
    )


def packed(value: bytes, codec: Codec) -> bytes:
    compressed = compress(Message(value=value), codec).value
    assert compressed is not None
    return compressed


@EVERY_CODEC
@given(value=st.binary(max_size=10_000))
def test_a_compressed_message_is_whole_again_after_the_log(codec: Codec, value: bytes) -> None:
    message = Message(value=value, key=b"k", headers=(("a", b"1"),))

    record = decode(build([compress(message, codec)]))

    assert record.flags & Flag.COMPRESSED
    assert record.headers == (("a", b"1"), ("gq.codec", codec.value.encode()))
    assert decompress(record) == decode(build([message]))
    assert type(decompress(record).flags) is int


@EVERY_CODEC
def test_decompressing_leaves_no_trace_on_a_message_without_headers(codec: Codec) -> None:
    record = decode(build([compress(Message(value=b"v" * 100_000), codec)]))

    assert len(record.value or b"") < 10_000
    assert decompress(record) == decode(build([Message(value=b"v" * 100_000)]))


@EVERY_CODEC
def test_what_has_no_value_or_is_compressed_is_left_alone(codec: Codec) -> None:
    tombstone = Message(value=None)
    once = compress(Message(value=b"v"), Codec.ZSTD)

    assert compress(tombstone, codec) is tombstone
    assert compress(once, codec) is once


def test_what_is_not_compressed_is_left_alone() -> None:
    record = decode(build([Message(value=b"v", headers=(("codec", b"zstd"),))]))

    assert decompress(record) is record


def test_a_header_of_that_name_that_the_producer_set_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        compress(Message(value=b"v", headers=(("gq.codec", b"mine"),)), Codec.LZ4)
    assert refused.value.code is Code.MESSAGE_INVALID
    assert refused.value.facts == {"part": "headers", "reason": "codec without compression"}


def test_of_two_codecs_the_last_one_counts_and_neither_is_left() -> None:
    record = stored(packed(b"v", Codec.LZ4), "lz4")
    twice = (("gq.codec", b"mine"), ("a", b"1"), *record.headers)

    whole = decompress(msgspec.structs.replace(record, headers=twice))

    assert (whole.value, whole.headers) == (b"v", (("a", b"1"),))
    assert decode(encode(whole)) == whole


@pytest.mark.parametrize("codec", ["", "brotli", "ZSTD", "zstd\0"])
def test_an_unknown_codec_is_corrupt(codec: str) -> None:
    with pytest.raises(Corrupt) as corrupt:
        decompress(stored(packed(b"v", Codec.ZSTD), codec))
    assert corrupt.value.reason == "compression"


def test_a_missing_codec_and_one_that_is_no_text_are_corrupt() -> None:
    record = stored(b"v", "zstd")

    for headers in ((), (("gq.codec", b"\xff\xfe"),)):
        with pytest.raises(Corrupt) as corrupt:
            decompress(msgspec.structs.replace(record, headers=headers))
        assert corrupt.value.reason == "compression"
        assert str(corrupt.value) == "a value is corrupt: compression"


@EVERY_CODEC
@pytest.mark.parametrize("size", [0, 1, 4_095, 4_096, 4_097, 100_000])
def test_a_value_of_exactly_the_limit_passes_and_one_more_byte_does_not(
    codec: Codec, size: int
) -> None:
    assert decompress(stored(packed(bytes(size), codec), codec), size).value == bytes(size)
    with pytest.raises(Corrupt) as corrupt:
        decompress(stored(packed(bytes(size + 1), codec), codec), size)
    assert corrupt.value.reason == "decompressed_size"


@EVERY_CODEC
def test_a_cut_stream_is_corrupt(codec: Codec) -> None:
    value = packed(bytes(range(256)) * 20, codec)

    for size in range(len(value)):
        with pytest.raises(Corrupt) as corrupt:
            decompress(stored(value[:size], codec))
        assert corrupt.value.reason == "compression"


@EVERY_CODEC
def test_trailing_garbage_is_corrupt(codec: Codec) -> None:
    for garbage in (b"\0", b"garbage", bytes(100)):
        with pytest.raises(Corrupt) as corrupt:
            decompress(stored(packed(b"value " * 100, codec) + garbage, codec))
        assert corrupt.value.reason == "compression"


@EVERY_CODEC
@given(value=st.binary(max_size=200))
def test_random_bytes_are_corrupt_or_a_value_within_the_limit(codec: Codec, value: bytes) -> None:
    with suppress(Corrupt):
        found = decompress(stored(value, codec), 1_000).value
        assert found is not None
        assert len(found) <= 1_000


def zstd_bomb(blocks: int) -> bytes:
    """Blocks of 128 KiB of zeros in four bytes each, in a frame that does not tell its size."""
    block = (131_072 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (131_072 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * (blocks - 1) + last


def bomb(codec: Codec) -> bytes:
    match codec:
        case Codec.ZSTD:
            return zstd_bomb(81_920)
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress(bytes(300 * MIB)))
        case Codec.SNAPPY:
            return b"\xff\xff\xff\xff\x0f" + bytes(1_000)
        case Codec.GZIP:
            stream = zlib.compressobj(wbits=31)
            return b"".join(stream.compress(bytes(MIB)) for _ in range(300)) + stream.flush()


def test_the_bomb_is_a_frame_that_a_small_one_proves_to_be_valid() -> None:
    assert decompress(stored(zstd_bomb(2), "zstd")).value == bytes(2 * 131_072)


# In a process of its own, because only there the highest memory use is its own.
MEASURE = """
import resource, sys
from goqueue.model import Record
from goqueue.records import Corrupt, decompress
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
record = Record(offset=0, timestamp=1, priority=2, flags=3, key=b"", value=sys.stdin.buffer.read(),
                headers=(("gq.codec", sys.argv[1].encode()),))
before = peak()
try:
    decompress(record)
except Corrupt as corrupt:
    print(corrupt.reason, peak() - before)
"""


@EVERY_CODEC
def test_a_bomb_is_recognised_in_bounded_memory(codec: Codec) -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, codec.value],
        input=bomb(codec),
        capture_output=True,
        check=True,
    )

    reason, grown_kib = run.stdout.split()
    assert reason == b"decompressed_size"
    assert int(grown_kib) < 64 * 1024


def test_a_frame_that_announces_ten_gigabytes_is_corrupt_at_once() -> None:
    announced = (10 << 30).to_bytes(8, "little")
    frame = b"\x28\xb5\x2f\xfd\xe0" + announced + b"\x01\x00\x00"

    with pytest.raises(Corrupt):
        decompress(stored(frame, "zstd"))
