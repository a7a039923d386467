"""A single record as an object, and its header block, to and from bytes.

For the edges that need objects: JSON, the SDK, compaction, tests. decode() returns a compressed
value as stored, pick() and visible() as it was before; see compression.

Invariant: encode(decode(data)) is byte for byte the record that was decoded.
"""

from collections.abc import Iterable, Sequence

import msgspec

from goqueue.model import (
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    Code,
    Header,
    Record,
    Refused,
)
from goqueue.records.compression import decompress
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

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

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
    return _read(cursor)


def _read(cursor: Cursor) -> Record:
    return Record(
        offset=cursor.offset,
        timestamp=cursor.timestamp,
        priority=cursor.priority,
        flags=cursor.flags,
        key=cursor.key(),
        value=None if cursor.flags & IS_TOMBSTONE else cursor.value(),
        headers=decode_headers(cursor.headers()) if cursor.headers_length else (),
    )


def pick(data: Buffer, offsets: Sequence[int]) -> list[Record]:
    """The records with these offsets out of whole stored ones, decompressed; others are left out.

    For bytes that were verified when they came in: sums are not checked again.
    """
    cursor = Cursor(data)
    wanted = sorted(offsets)
    picked: list[Record] = []
    count = len(wanted)
    index = 0
    position = 0
    previous = -1
    while position < cursor.size and index < count:
        reason = cursor.rise(position, previous)
        if reason != OK:
            raise cursor.corrupt(reason)
        previous = cursor.offset
        position = cursor.end
        while index < count:
            offset = wanted[index]
            if offset > previous:
                break
            index += 1
            # Wanted twice it is given once: the second is below the next record, and passed by.
            if offset == previous:
                picked.append(_show(cursor))
                break
    return picked


def visible(
    data: Buffer,
    from_offset: int,
    count_max: int,
    without: Sequence[tuple[int, int]] = (),
) -> list[Record]:
    """The first records from an offset on that readers may see, as pick() gives them.

    Control records are never seen, delayed ones not until their time, and nothing of the ranges
    `without`, each from its first offset to the one after its last, in order.
    """
    cursor = Cursor(data)
    shown: list[Record] = []
    count = 0
    position = 0
    previous = -1
    # The range that is not passed yet.
    index = 0
    first = following = OFFSET_MAX
    if index < len(without):
        first, following = without[index]
    while position < cursor.size and count < count_max:
        reason = cursor.rise(position, previous)
        if reason != OK:
            raise cursor.corrupt(reason)
        previous = cursor.offset
        position = cursor.end
        while previous >= following:
            index += 1
            first = following = OFFSET_MAX
            if index < len(without):
                first, following = without[index]
        is_left_out = previous < from_offset or previous >= first
        if not is_left_out and not cursor.flags & (IS_CONTROL | IS_DELAYED):
            shown.append(_show(cursor))
            count += 1
    return shown


def _show(cursor: Cursor) -> Record:
    """The record under the cursor with its value as it was before compression."""
    try:
        record = _read(cursor)
        return decompress(record) if cursor.flags & IS_COMPRESSED else record
    except Corrupt as corrupt:
        # It counts from elsewhere, and its traceback would keep the buffer.
        cursor.release()
        raise Corrupt(cursor.position, corrupt.reason) from None


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


def rehead(
    data: Buffer, position: int, headers: tuple[Header, ...], without: tuple[str, ...] = ()
) -> bytearray:
    """The stored record at `position` as one to be published: these headers, no place, no delay.

    A header takes the place of those with its name, or comes last; those named in `without` go.
    All else is as stored.
    """
    record = decode(data, position)
    if record.flags & IS_CONTROL:
        raise Refused(Code.MESSAGE_INVALID, part="flags", found=record.flags)
    if any(not name for name, _ in headers):
        raise Refused(Code.MESSAGE_INVALID, part="headers", found="empty name")
    anew = msgspec.structs.replace(
        record,
        offset=0,
        timestamp=0,
        flags=record.flags & ~IS_DELAYED,
        headers=_merge(
            tuple(header for header in record.headers if header[0] not in without), dict(headers)
        ),
    )
    return bytearray(encode(anew))


def _merge(headers: tuple[Header, ...], changes: dict[str, bytes]) -> tuple[Header, ...]:
    merged: dict[str, bytes] = dict(changes)
    kept: list[Header] = []
    for name, value in headers:
        if name not in changes:
            kept.append((name, value))
        elif name in merged:
            kept.append((name, merged.pop(name)))
    return (*kept, *merged.items())


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
        pieces.append(encoded)
        pieces.append(value)
    if not pieces:
        return b""
    block = bytearray(size)
    cursor = Cursor(block)
    cursor.write_headers(pieces)
    return bytes(block)


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
        name_end = _end_of_piece(block, position)
        end = _end_of_piece(block, name_end)
        try:
            name = block[position + 2 : name_end].decode("utf-8")
        except UnicodeDecodeError:
            raise Corrupt(end, "header_name") from None
        headers.append((name, block[name_end + 2 : end]))
        position = end
        left -= 1
    if position != size:
        raise Corrupt(position, "header_count")
    return tuple(headers)


def _end_of_piece(block: bytes, position: int) -> int:
    """The end of the bytes whose length stands at `position`."""
    start = position + 2
    if start > len(block):
        raise Corrupt(position, "header_count")
    end = start + (block[position] << 8 | block[position + 1])
    if end > len(block):
        raise Corrupt(position, "header_count")
    return end
