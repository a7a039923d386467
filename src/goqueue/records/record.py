"""A single record as an object, and its header block, to and from bytes.

For the edges that need objects: JSON, the SDK, compaction, tests. A compressed value is
returned as stored; see compression.

Invariant: encode(decode(data)) is byte for byte the record that was decoded.
"""

from collections.abc import Iterable

import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode

from goqueue.model import (
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    Code,
    Header,
    Record,
    Refused,
)
from goqueue.records.cursor import Cursor
from goqueue.records.layout import (
    CODEC_HEADER,
    CONTROL_PREFIX,
    DELIVER_HEADER,
    OFFSET_MAX,
    PRIORITY_MAX,
    Buffer,
    Corrupt,
)

if not cython.compiled:
    from goqueue.records.layout import (
        HAS_HEADERS,
        HEADER_SIZE,
        IS_COMMIT,
        IS_COMPRESSED,
        IS_CONTROL,
        IS_DELAYED,
        IS_TOMBSTONE,
        OK,
        PROVEN_BITS,
        RESERVED_BITS,
    )


def decode(data: Buffer, position: int = 0) -> Record:
    """The record that begins at `position`, its sum checked."""
    if position < 0:
        raise Corrupt(position, "truncated")
    cursor = Cursor(data)
    reason = cursor.hop(position)
    if reason == OK:
        reason = cursor.check()
    if reason != OK:
        raise cursor.corrupt(reason)
    return Record(
        offset=cursor.offset,
        timestamp=cursor.timestamp,
        priority=cursor.priority,
        flags=cursor.flags,
        key=cursor.key(),
        value=None if cursor.flags & IS_TOMBSTONE else cursor.value(),
        headers=decode_headers(cursor.headers()) if cursor.headers_length else (),
    )


def encode(record: Record) -> bytes:
    """The bytes of a record. Its headers and value decide about flag bits 1 and 2."""
    value = b"" if record.value is None else record.value
    block = encode_headers(record.headers)
    size = weigh(record.key, value, block)
    flags = record.flags & ~(HAS_HEADERS | IS_TOMBSTONE)
    if flags & ~0xFF or flags & RESERVED_BITS or (flags & IS_COMMIT and not flags & IS_CONTROL):
        raise Refused(Code.MESSAGE_INVALID, part="flags", found=record.flags)
    if not 0 <= record.priority <= PRIORITY_MAX:
        raise Refused(Code.MESSAGE_INVALID, part="priority", found=record.priority)
    if not 0 <= record.offset < OFFSET_MAX:
        raise Refused(Code.MESSAGE_INVALID, part="offset", found=record.offset)
    if not 0 <= record.timestamp <= OFFSET_MAX:
        raise Refused(Code.MESSAGE_INVALID, part="timestamp", found=record.timestamp)
    encoded = bytearray(size)
    cursor = Cursor(encoded)
    cursor.offset = record.offset
    cursor.timestamp = record.timestamp
    cursor.priority = record.priority
    if block:
        flags |= HAS_HEADERS
    if record.value is None:
        flags |= IS_TOMBSTONE
    cursor.flags = prove(flags, record.key, record.headers)
    cursor.write(record.key, value, block)
    return bytes(encoded)


def prove(flags: int, key: bytes, headers: tuple[Header, ...]) -> int:
    """These flags, if key and headers say the same; otherwise no reader would accept the record."""
    proven = IS_CONTROL if key.startswith(CONTROL_PREFIX) else 0
    if headers:
        for name, _ in headers:
            if name == CODEC_HEADER:
                proven |= IS_COMPRESSED
            elif name == DELIVER_HEADER:
                proven |= flags & IS_DELAYED
    if flags & PROVEN_BITS != proven:
        raise _contradiction(flags, proven)
    return flags


def _contradiction(flags: int, proven: int) -> Refused:
    wrong = flags ^ proven
    part = "key" if wrong & IS_CONTROL else "headers"
    if wrong & IS_CONTROL:
        reason = "control without reserved key" if flags & IS_CONTROL else "reserved"
    elif wrong & IS_COMPRESSED:
        is_claimed = flags & IS_COMPRESSED
        reason = "compressed without codec" if is_claimed else "codec without compression"
    else:
        reason = "delayed without delivery time"
    return Refused(Code.MESSAGE_INVALID, part=part, reason=reason)


def weigh(key: bytes, value: bytes, block: bytes) -> int:
    """The size of a record of these parts; refuses a part over its limit."""
    if len(value) > VALUE_BYTES_MAX:
        raise _too_large("value", len(value), VALUE_BYTES_MAX)
    if len(key) > KEY_BYTES_MAX:
        raise _too_large("key", len(key), KEY_BYTES_MAX)
    if len(block) > HEADERS_BYTES_MAX:
        raise _too_large("headers", len(block), HEADERS_BYTES_MAX)
    return HEADER_SIZE + len(key) + len(value) + len(block)


def _too_large(part: str, size: int, limit: int) -> Refused:
    return Refused(Code.MESSAGE_TOO_LARGE, part=part, size=size, limit=limit)


def encode_headers(headers: Iterable[Header]) -> bytes:
    """The header block; empty for no headers."""
    pieces = []
    size = 2
    for name, value in headers:
        try:
            encoded = name.encode()
        except UnicodeEncodeError:
            raise Refused(Code.MESSAGE_INVALID, part="headers", found="surrogate") from None
        size += 4 + len(encoded) + len(value)
        # Each piece fits in its two bytes of length if the whole block fits.
        if size > HEADERS_BYTES_MAX:
            raise _too_large("headers", size, HEADERS_BYTES_MAX)
        pieces.append(len(encoded).to_bytes(2, "big"))
        pieces.append(encoded)
        pieces.append(len(value).to_bytes(2, "big"))
        pieces.append(value)
    if not pieces:
        return b""
    return (len(pieces) // 4).to_bytes(2, "big") + b"".join(pieces)


def decode_headers(block: bytes) -> tuple[Header, ...]:
    """The headers of a block; positions in Corrupt count from its start.

    An empty name is well formed here: only `build` refuses it, so that what another writer
    stored can still be read.
    """
    size = len(block)
    if size == 0:
        return ()
    left = (block[0] << 8 | block[1]) if size >= 2 else 0
    if left == 0:
        raise Corrupt(0, "header_count")
    position = 2
    headers = []
    while left > 0:
        name, position = _piece(block, position)
        value, position = _piece(block, position)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise Corrupt(position, "header_name") from None
        left -= 1
    if position != size:
        raise Corrupt(position, "header_count")
    return tuple(headers)


def _piece(block: bytes, position: int) -> tuple[bytes, int]:
    """The length-prefixed bytes at `position` and the position after them."""
    start = position + 2
    if start > len(block):
        raise Corrupt(position, "header_count")
    end = start + (block[position] << 8 | block[position + 1])
    if end > len(block):
        raise Corrupt(position, "header_count")
    return block[start:end], end
