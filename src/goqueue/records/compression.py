"""Values made smaller, and made whole again without trusting what they claim.

The codec is named by the record header `gq.codec`, appended last. Formats: zstd frames, lz4
frames, one raw snappy block, one gzip member. Never allocates more than a small multiple of
the limit, whatever the bytes say.
"""

import enum
import zlib

import cramjam
import msgspec

from goqueue.model import VALUE_BYTES_MAX, Code, Header, Message, Record, Refused
from goqueue.records.layout import CODEC_HEADER, HAS_HEADERS, IS_COMPRESSED, Corrupt

_GZIP_FORMAT = 31
_ZSTD_LEVEL = 3
_FIRST_GUESS = 4 * 1024

# cramjam has one error for everything; only the text tells a full buffer from bad bytes. The
# tests of this module fail if a release words it differently.
_BUFFER_FULL = "failed to write whole buffer"


class Codec(enum.StrEnum):
    """How a value was compressed. The names are stored in records and never change."""

    ZSTD = "zstd"
    LZ4 = "lz4"
    SNAPPY = "snappy"
    GZIP = "gzip"


def compress(message: Message, codec: Codec) -> Message:
    """The message with a compressed value; one without a value, or already so, as it is."""
    if message.value is None or message.is_compressed:
        return message
    if any(name == CODEC_HEADER for name, _ in message.headers):
        raise Refused(Code.MESSAGE_INVALID, part="headers", reason="codec without compression")
    return msgspec.structs.replace(
        message,
        value=_pack(message.value, codec),
        headers=(*message.headers, (CODEC_HEADER, codec.value.encode())),
        is_compressed=True,
    )


def decompress(record: Record, limit: int = VALUE_BYTES_MAX) -> Record:
    """Undo compress(): a value of at most `limit` bytes, without the flag and the header."""
    if not record.flags & IS_COMPRESSED:
        return record
    value = record.value
    if value is not None:
        value = decompress_value(value, record.headers, limit)
    # All of that name go: one that stayed would call a value compressed that no longer is.
    headers = tuple(header for header in record.headers if header[0] != CODEC_HEADER)
    flags = record.flags & ~IS_COMPRESSED
    return msgspec.structs.replace(
        record,
        value=value,
        headers=headers,
        flags=flags if headers else flags & ~HAS_HEADERS,
    )


def decompress_value(
    value: bytes, headers: tuple[Header, ...], limit: int = VALUE_BYTES_MAX
) -> bytes:
    """The value of a compressed record with these headers, as it was before."""
    return _unpack(value, _codec(headers), limit)


def _codec(headers: tuple[Header, ...]) -> Codec:
    named = [value for name, value in headers if name == CODEC_HEADER]
    if not named:
        raise _corrupt("compression")
    try:
        return Codec(named[-1].decode("ascii", "replace"))
    except ValueError:
        raise _corrupt("compression") from None


def _corrupt(reason: str) -> Corrupt:
    return Corrupt(-1, reason)


def _pack(value: bytes, codec: Codec) -> bytes:
    match codec:
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(value, level=_ZSTD_LEVEL))
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress(value))
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(value))
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(value))


def _unpack(value: bytes, codec: Codec, limit: int) -> bytes:
    match codec:
        case Codec.ZSTD | Codec.LZ4:
            return _unpack_frames(value, codec, limit)
        case Codec.SNAPPY:
            return _unpack_snappy(value, limit)
        case Codec.GZIP:
            return _unpack_gzip(value, limit)


def _unpack_frames(value: bytes, codec: Codec, limit: int) -> bytes:
    """Frames need not tell their size, so the buffer grows until they fit or `limit` is passed."""
    unpack = cramjam.zstd.decompress_into if codec is Codec.ZSTD else cramjam.lz4.decompress_into
    room = min(max(_FIRST_GUESS, 4 * len(value)), limit)
    while True:
        buffer = bytearray(room)
        try:
            size = unpack(value, buffer)
        except cramjam.DecompressionError as error:
            if str(error) != _BUFFER_FULL:
                raise _corrupt("compression") from error
            if room >= limit:
                raise _corrupt("decompressed_size") from None
            room = min(4 * room, limit)
        else:
            return bytes(memoryview(buffer)[:size])


def _unpack_snappy(value: bytes, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(value)
        if size > limit:
            raise _corrupt("decompressed_size")
        buffer = bytearray(size)
        cramjam.snappy.decompress_raw_into(value, buffer)
    except cramjam.DecompressionError as error:
        raise _corrupt("compression") from error
    return bytes(buffer)


def _unpack_gzip(value: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(_GZIP_FORMAT)
    try:
        unpacked = stream.decompress(value, limit + 1)
    except zlib.error as error:
        raise _corrupt("compression") from error
    if len(unpacked) > limit:
        raise _corrupt("decompressed_size")
    if not stream.eof or stream.unused_data:
        raise _corrupt("compression")
    return unpacked
