"""One record of a buffer at a time: its header, read, checked, stamped and written.

Owns every access to raw bytes: the loops of the other modules only ask the cursor. Holds the
buffer while it lives, so that a bytearray cannot be resized beneath it. Never allocates by a
length that the bytes merely announce.

Invariant: after hop() answered OK, [position, end) lies within the buffer and every field was
read exactly once, so nothing that another thread writes can lead out of bounds.
"""

from goqueue.records.layout import HEADER, REASONS, Buffer, Corrupt

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import (
        BAD_CRC,
        BAD_FLAGS,
        BAD_HEADER_COUNT,
        BAD_HEADER_NAME,
        BAD_LENGTH,
        BAD_MAGIC,
        BAD_OFFSET,
        BAD_PRIORITY,
        BAD_RESERVED,
        BAD_TIMESTAMP,
        BAD_VERSION,
        CODEC_HEADER,
        CONTROL_PREFIX,
        DELIVER_HEADER,
        HAS_HEADERS,
        HEADER_SIZE,
        IS_COMMIT,
        IS_COMPRESSED,
        IS_CONTROL,
        IS_DELAYED,
        IS_TOMBSTONE,
        MAGIC,
        OFFSET_MAX,
        OK,
        PRIORITY_MAX,
        PROVEN_BITS,
        RESERVED_BITS,
        SCHEMA_FRAME_BYTES,
        TRUNCATED,
        VALUE_MAX,
        VERSION,
    )
    from goqueue.records.octets import (
        address,
        begins,
        carry,
        context_of,
        fetch_ahead,
        hash_of,
        is_text,
        is_utf8,
        load_i64,
        load_u16,
        load_u32,
        number_of,
        put,
        store_i64,
        store_u16,
        store_u32,
        sum_of,
        take,
    )

COMPILED: bool = cython.compiled

# Below this a thread switch costs more than the sums that it would let others overlap.
_GIL_BYTES = 64 * 1024


class Cursor:
    """The record under the cursor, as the fields of its header."""

    __slots__ = (
        "_base",
        "_readonly",
        "_view",
        "count",
        "crc",
        "due",
        "end",
        "flags",
        "headers_length",
        "key_length",
        "offset",
        "position",
        "priority",
        "proven",
        "size",
        "timestamp",
        "value_length",
    )

    def __init__(self, data: Buffer) -> None:
        self._view = memoryview(data)
        # Bytes are bytes already, and the cast costs as much as all the rest of this.
        if not isinstance(data, (bytes, bytearray)):
            self._view = self._view.cast("B")
        self._readonly = self._view.readonly
        self._base = address(self._view)
        self.size = len(self._view)
        self.position = self.end = self.count = 0
        self.flags = self.crc = self.offset = self.timestamp = self.priority = self.due = 0
        self.key_length = self.value_length = self.headers_length = self.proven = 0

    def hop(self, position: int) -> int:
        """Read the header at `position`; all that it can tell without the body is checked."""
        self.position = position
        if self.size - position < HEADER_SIZE:
            return self._begin(position)
        base = self._base
        if cython.compiled:
            magic = load_u16(base, position)
            version = base[position + 2]
            self.flags = base[position + 3]
            self.crc = load_u32(base, position + 4)
            self.offset = load_i64(base, position + 8)
            self.timestamp = load_i64(base, position + 16)
            self.priority = base[position + 24]
            reserved = base[position + 25]
            self.key_length = load_u16(base, position + 26)
            self.value_length = load_u32(base, position + 28)
            self.headers_length = load_u16(base, position + 32)
        else:
            (
                magic,
                version,
                self.flags,
                self.crc,
                self.offset,
                self.timestamp,
                self.priority,
                reserved,
                self.key_length,
                self.value_length,
                self.headers_length,
            ) = HEADER.unpack_from(base, position)
        if magic != MAGIC:
            return BAD_MAGIC
        if version != VERSION:
            return BAD_VERSION
        if reserved != 0:
            return BAD_RESERVED
        return self._judge()

    def skim(self, position: int) -> int:
        """hop(), for a pass that reads no bodies and so is at the next header at once."""
        reason = self.hop(position)
        if reason == OK:
            fetch_ahead(self._base, position, self.end, self.size)
        return reason

    def rise(self, position: int, previous: int) -> int:
        """skim(), for stored data: the offset must be past that of the `previous` record."""
        reason = self.skim(position)
        return BAD_OFFSET if reason == OK and self.offset <= previous else reason

    def _begin(self, position: int) -> int:
        """What a rest shorter than a header is: the start of a record, or something else."""
        base = self._base
        rest = self.size - position
        if rest > 0 and base[position] != MAGIC >> 8:
            return BAD_MAGIC
        if rest > 1 and base[position + 1] != MAGIC & 255:
            return BAD_MAGIC
        if rest > 2 and base[position + 2] != VERSION:
            return BAD_VERSION
        self.end = position + HEADER_SIZE
        return TRUNCATED

    def _judge(self) -> int:
        """Check the fields against each other, then the end of the record against the buffer."""
        flags = self.flags
        has_headers = flags & HAS_HEADERS != 0
        if flags & RESERVED_BITS or has_headers != (self.headers_length > 0):
            return BAD_FLAGS
        if flags & IS_TOMBSTONE and self.value_length > 0:
            return BAD_FLAGS
        if flags & IS_COMMIT and not flags & IS_CONTROL:
            return BAD_FLAGS
        if self.priority > PRIORITY_MAX:
            return BAD_PRIORITY
        if self.value_length > VALUE_MAX:
            return BAD_LENGTH
        if self.offset < 0 or self.offset == OFFSET_MAX:
            return BAD_OFFSET
        if self.timestamp < 0:
            return BAD_TIMESTAMP
        body = self.key_length + self.value_length + self.headers_length
        self.end = self.position + HEADER_SIZE + body
        return OK if self.end <= self.size else TRUNCATED

    def check(self) -> int:
        """The sum, the header block, then the flags, which must be as the summed bytes say.

        A wrong sum is told first: it explains the rest.
        """
        if sum_of(self._base, self.position + 8, self.end) != self.crc:
            return BAD_CRC
        proven = 0
        if self.headers_length > 0:
            reason = self.check_headers()
            if reason != OK:
                return reason
            proven = self.proven
        start = self.position + HEADER_SIZE
        if begins(self._base, start, start + self.key_length, CONTROL_PREFIX):
            proven |= IS_CONTROL
        return OK if self.flags & PROVEN_BITS == proven else BAD_FLAGS

    def check_headers(self) -> int:
        """Check the header block; note what its names prove, and the time: -1 if unclear."""
        base = self._base
        end = self.end
        position = end - self.headers_length
        self.proven = self.due = 0
        left = load_u16(base, position) if end - position >= 2 else 0
        position += 2
        # A block without headers would be a second way to write a record without any.
        if left == 0:
            return BAD_HEADER_COUNT
        while left > 0:
            if end - position < 2:
                return BAD_HEADER_COUNT
            length = load_u16(base, position)
            start = position + 2
            if end - start < length + 2:
                return BAD_HEADER_COUNT
            position = start + length
            if not is_utf8(base, start, position):
                return BAD_HEADER_NAME
            length = load_u16(base, position)
            position += 2
            if end - position < length:
                return BAD_HEADER_COUNT
            if begins(base, start, position - 2, CONTROL_PREFIX):
                if is_text(base, start, position - 2, CODEC_HEADER):
                    self.proven |= IS_COMPRESSED
                elif is_text(base, start, position - 2, DELIVER_HEADER):
                    # It proves the flag but does not demand it: the broker may set it later.
                    self.proven |= self.flags & IS_DELAYED
                    found = number_of(base, position, position + length)
                    self.due = found if found > 0 and self.due == 0 else -1
                else:
                    self.due = -1
            position += length
            left -= 1
        return OK if position == end else BAD_HEADER_COUNT

    def hop_all(self) -> int:
        """Hop from the start to the end of the buffer, or to what is in the way; counts."""
        position = 0
        self.count = 0
        while position < self.size:
            reason = self.skim(position)
            if reason != OK:
                return reason
            position = self.end
            self.count += 1
        return OK

    def check_all(self, start: int, is_stored: bool) -> int:
        """Hop and check from `start` to the end of the buffer; counts what is good.

        Offsets must rise where `is_stored`: drafts have none yet.
        """
        if self.size - start < _GIL_BYTES:
            return self._check_all(start, is_stored)
        with cython.nogil:
            return self._check_all(start, is_stored)

    def _check_all(self, start: int, is_stored: bool) -> int:
        position = start
        previous = -1
        self.count = 0
        while position < self.size:
            reason = self.hop(position)
            if reason == OK:
                reason = self.check()
            if reason == OK and is_stored and self.offset <= previous:
                reason = BAD_OFFSET
            if reason != OK:
                return reason
            previous = self.offset
            position = self.end
            self.count += 1
        return OK

    def stamp(self, offset: int, timestamp: int) -> None:
        """Give the record under the cursor its place, and sum it anew."""
        base = self._base
        position = self.position
        store_i64(base, position + 8, offset)
        store_i64(base, position + 16, timestamp)
        store_u32(base, position + 4, sum_of(base, position + 8, self.end))

    def write(self, key: bytes, value: bytes, headers: bytes) -> None:
        """Write a record of this cursor's offset, timestamp, priority and flags, and go past it.

        The caller made the buffer, large enough. This is raw memory, so it is checked again.
        """
        base = self._base
        self.open(len(key), len(value), len(headers))
        position = put(base, self.position, key)
        position = put(base, position, value)
        self.position = put(base, position, headers)
        self.seal()

    def open(self, key_length: int, value_length: int, headers_length: int) -> None:
        """Write the header of such a record; its parts are lent or appended, then it is sealed."""
        base = self._base
        start = self.position
        self.end = start + HEADER_SIZE + key_length + value_length + headers_length
        if self.end > self.size or self._readonly:
            raise BufferError("no room to write a record")
        self.key_length = key_length
        self.value_length = value_length
        self.headers_length = headers_length
        if cython.compiled:
            store_u16(base, start, MAGIC)
            base[start + 2] = VERSION
            base[start + 3] = self.flags
            store_i64(base, start + 8, self.offset)
            store_i64(base, start + 16, self.timestamp)
            base[start + 24] = self.priority
            base[start + 25] = 0
            store_u16(base, start + 26, key_length)
            store_u32(base, start + 28, value_length)
            store_u16(base, start + 32, headers_length)
        else:
            place = (self.offset, self.timestamp, self.priority, 0)
            lengths = (key_length, value_length, headers_length)
            HEADER.pack_into(base, start, MAGIC, VERSION, self.flags, 0, *place, *lengths)
        self.position = start + HEADER_SIZE

    def seal(self) -> None:
        """Sum the record that was opened. The cursor stands past it: all its parts are there."""
        body = self.key_length + self.value_length + self.headers_length
        start = self.end - HEADER_SIZE - body
        if self.position != self.end or start < 0 or self._readonly:
            raise BufferError("a record is sealed when its parts are written")
        store_u32(self._base, start + 4, sum_of(self._base, start + 8, self.end))

    def write_headers(self, pieces: list[bytes]) -> None:
        """Write a header block of these names and values, by turns, at the start of the buffer."""
        base = self._base
        if self.size < 2 or self._readonly:
            raise BufferError("no room to write headers")
        store_u16(base, 0, len(pieces) // 2)
        position = 2
        for piece in pieces:
            if len(piece) > self.size - position - 2:
                raise BufferError("no room to write headers")
            store_u16(base, position, len(piece))
            position = put(base, position + 2, piece)

    def copy(self, into: "Cursor") -> None:
        """Write the record under the cursor, as it is, where `into` stands; that goes past it."""
        self.lend(self.position, self.end, into)
        into.end = into.position

    def lend(self, start: int, end: int, into: "Cursor") -> None:
        """Copy [start, end) of this buffer to where `into` stands; that goes past it."""
        base = into._base  # noqa: SLF001 - only this class touches raw memory, its own or another's
        after = into.position + end - start
        if start < 0 or end < start or end > self.size or after > into.size or into.is_readonly():
            raise BufferError("no room to copy bytes")
        carry(self._base, start, end, base, into.position)
        into.position = after

    def append(self, piece: bytes) -> None:
        """Write bytes where the cursor stands, and go past them."""
        if len(piece) > self.size - self.position or self._readonly:
            raise BufferError("no room to append bytes")
        self.position = put(self._base, self.position, piece)

    def append_length(self, length: int) -> None:
        """Write the length of a piece of a header block, and go past it."""
        if self.size - self.position < 2 or self._readonly:
            raise BufferError("no room to append a length")
        store_u16(self._base, self.position, length)
        self.position += 2

    def length_at(self, position: int) -> int:
        """The length of the piece of a header block that begins at `position`."""
        if position < 0 or self.size - position < 2:
            raise BufferError("no length there")
        return load_u16(self._base, position)

    def hash_between(self, start: int, end: int) -> int:
        if start < 0 or end < start or end > self.size:
            raise BufferError("no bytes there to hash")
        return hash_of(self._base, start, end)

    def fingerprint(self, start: int, end: int) -> int:
        """A number of 64 bits, hardly ever 0, for [start, end), which lies within the record."""
        number = hash_of(self._base, start, end)
        return (number << 32) | sum_of(self._base, start, end)

    def between(self, start: int, end: int) -> bytes:
        if start < 0 or end < start or end > self.size:
            raise BufferError("no bytes there to take")
        return take(self._base, start, end)

    def context_between(self, start: int, end: int) -> bytes:
        """The trace context of the `traceparent` in [start, end); nothing if it is none."""
        if start < 0 or end < start or end > self.size:
            raise BufferError("no bytes there to parse")
        return context_of(self._base, start, end)

    def has_prefix(self, start: int, end: int, prefix: bytes) -> bool:
        """Whether [start, end) begins with this."""
        return start >= 0 and end <= self.size and begins(self._base, start, end, prefix)

    def key(self) -> bytes:
        start = self.position + HEADER_SIZE
        return take(self._base, start, start + self.key_length)

    def value(self) -> bytes:
        end = self.end - self.headers_length
        return take(self._base, end - self.value_length, end)

    def headers(self) -> bytes:
        return take(self._base, self.end - self.headers_length, self.end)

    def schema_id(self) -> int:
        """The id that a value in registry framing begins with: byte 0, then four bytes; or -1."""
        start = self.position + HEADER_SIZE + self.key_length
        if self.value_length < SCHEMA_FRAME_BYTES or self._base[start] != 0:
            return -1
        return load_u32(self._base, start + 1)

    def given_bytes(self) -> int:
        """The bytes of key, value, header names and header values, without the lengths between.

        -1 if the header block cannot hold as many headers as it says.
        """
        size = self.key_length + self.value_length
        if self.headers_length == 0:
            return size
        if self.headers_length < 2:
            return -1
        rest = self.headers_length - 2 - 4 * load_u16(self._base, self.end - self.headers_length)
        return size + rest if rest >= 0 else -1

    def hash_key(self) -> int:
        start = self.position + HEADER_SIZE
        return hash_of(self._base, start, start + self.key_length)

    def hash_all(self) -> int:
        return hash_of(self._base, 0, self.size)

    def sum_all(self) -> int:
        return sum_of(self._base, 0, self.size)

    def is_readonly(self) -> bool:
        return self._readonly

    def release(self) -> None:
        """Let go of the buffer: it may be resized, and nothing of it is read or written again."""
        self.size = 0
        self._view.release()

    def corrupt(self, reason: int) -> Corrupt:
        """Let go of the buffer, which a traceback would keep, and say what is wrong."""
        self.release()
        return Corrupt(self.position, REASONS[reason])
