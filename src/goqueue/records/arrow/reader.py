# cython: boundscheck=False, wraparound=False
"""Stored records as Arrow columns: the rows that a reader may see, some at a time.

Owns which records are left out: those below or past the wanted offsets, control and delayed ones,
those of aborted transactions, and the header in which the log names the producer of a batch. Every
checksum is verified. Two passes: the first finds and measures the rows, the second copies them.

Rows with a compressed value take a slow path, one object each, and come in outputs of their own.

Invariant: outputs follow each other without a gap, and no byte is copied that was not measured.
"""

from array import array
from collections.abc import Sequence

from goqueue.records.arrow.output import BinaryBuffers, OutputColumns
from goqueue.records.compression import decompress
from goqueue.records.cursor import Cursor
from goqueue.records.layout import OFFSET_MAX, Buffer
from goqueue.records.record import decode, encode

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import (
        BATCH_HEADER,
        HEADER_SIZE,
        IS_COMPRESSED,
        IS_CONTROL,
        IS_DELAYED,
        IS_TOMBSTONE,
        OK,
    )

__all__ = ["ArrowReader"]

# What a output may hold: its offsets are 32-bit, and one record more than measured is never taken.
_BYTES_MAX = 1 << 30
_BATCH_HEADER_SIZE = 8
# What the first pass answers where the next row needs the slow way.
_PACKED = -1
_NOTHING = BinaryBuffers(0, 0, may_be_null=True)


class ArrowReader:
    """The rows of some stored records with offsets from `first` on and before `below`.

    `aborted` are ranges of offsets, in order, each from its first to the one after its last. Keys,
    values and headers that are not wanted are not copied, and values not unpacked.
    """

    __slots__ = (
        "_aborted",
        "_below",
        "_bytes",
        "_cursor",
        "_data",
        "_first",
        "_header_bytes",
        "_headers",
        "_key_bytes",
        "_name_bytes",
        "_position",
        "_positions",
        "_previous",
        "_range",
        "_rows",
        "_value_bytes",
        "_with_headers",
        "_with_keys",
        "_with_values",
    )

    def __init__(
        self,
        data: Buffer,
        first: int = 0,
        below: int = OFFSET_MAX,
        aborted: Sequence[tuple[int, int]] = (),
        *,
        with_headers: bool = False,
        with_keys: bool = True,
        with_values: bool = True,
    ) -> None:
        self._data = data
        self._cursor = Cursor(data)
        self._first = first
        self._below = below
        self._aborted = array("q", [edge for each in aborted for edge in each])
        self._with_headers = with_headers
        self._with_keys = with_keys
        self._with_values = with_values
        self._positions = array("q")
        self._position = self._range = 0
        self._previous = -1
        self._rows = self._bytes = self._key_bytes = self._value_bytes = 0
        self._headers = self._name_bytes = self._header_bytes = 0

    def read(self, rows_max: int, bytes_max: int) -> OutputColumns | None:
        """The next rows, at least one; None when there are no more."""
        if rows_max < 1:
            raise IndexError(f"{rows_max} rows")
        if len(self._positions) < rows_max:
            self._positions = array("q", bytes(8 * rows_max))
        reason = self._measure(rows_max, min(bytes_max, _BYTES_MAX))
        if reason == _PACKED:
            return self._unpack(rows_max, min(bytes_max, _BYTES_MAX))
        if reason != OK:
            raise self._cursor.corrupt(reason)
        if self._rows == 0:
            return None
        keys = values = None
        if self._with_keys:
            keys = BinaryBuffers(self._rows, self._key_bytes, may_be_null=True)
        if self._with_values:
            values = BinaryBuffers(self._rows, self._value_bytes, may_be_null=True)
        output = OutputColumns(self._rows, keys, values)
        if self._headers > 0:
            output.header_names = BinaryBuffers(self._headers, self._name_bytes, may_be_null=False)
            output.header_values = BinaryBuffers(
                self._headers, self._header_bytes, may_be_null=False
            )
        self._fill(output)
        if self._headers > 0:
            self._fill_headers(output)
        return output

    def _measure(self, rows_max: int, bytes_max: int) -> int:
        """Find rows from where the last output ended, and note where they are and how large."""
        cursor = self._cursor
        positions = self._positions
        self._rows = self._bytes = self._key_bytes = self._value_bytes = 0
        self._headers = self._name_bytes = self._header_bytes = 0
        while self._position < cursor.size and self._rows < rows_max:
            reason = cursor.rise(self._position, self._previous)
            if reason == OK:
                reason = cursor.check()
            if reason != OK:
                return reason
            if cursor.offset >= self._below:
                self._position = cursor.size
                break
            if self._is_seen(cursor):
                size = cursor.end - self._position
                # Headers of a packed record name its codec, which is gone once it is unpacked.
                is_packed = cursor.flags & IS_COMPRESSED != 0 and (
                    self._with_values or self._with_headers
                )
                if self._rows > 0 and (is_packed or self._bytes + size > bytes_max):
                    break
                if is_packed:
                    return _PACKED
                positions[self._rows] = self._position
                self._rows += 1
                self._bytes += size
                self._key_bytes += cursor.key_length
                self._value_bytes += cursor.value_length
                if self._with_headers and cursor.headers_length > 0:
                    self._measure_headers(cursor)
            self._previous = cursor.offset
            self._position = cursor.end
        return OK

    def _is_seen(self, cursor: Cursor) -> bool:
        """Whether a reader sees this record. To be asked in the order of the offsets."""
        aborted = self._aborted
        offset = cursor.offset
        if offset < self._first or cursor.flags & (IS_CONTROL | IS_DELAYED):
            return False
        edges = len(aborted)
        while self._range < edges and aborted[self._range + 1] <= offset:
            self._range += 2
        return self._range >= edges or offset < aborted[self._range]

    def _measure_headers(self, cursor: Cursor) -> None:
        position = cursor.end - cursor.headers_length
        left = cursor.length_at(position)
        position += 2
        while left > 0:
            length = cursor.length_at(position)
            start = position + 2
            position = start + length
            value_length = cursor.length_at(position)
            if not self._is_note(cursor, start, length):
                self._headers += 1
                self._name_bytes += length
                self._header_bytes += value_length
            position += 2 + value_length
            left -= 1

    def _is_note(self, cursor: Cursor, start: int, length: int) -> bool:
        """Whether the name of a header is that of the log's own note."""
        return length == _BATCH_HEADER_SIZE and cursor.has_prefix(
            start, start + length, BATCH_HEADER
        )

    def _fill(self, output: OutputColumns) -> None:
        cursor = self._cursor
        positions = self._positions
        offsets = output.offsets
        timestamps = output.timestamps
        priorities = output.priorities
        flags = output.flags
        # What is not wanted is not touched: these stand for it.
        of_keys = _NOTHING if output.keys is None else output.keys
        of_values = _NOTHING if output.values is None else output.values
        key_ends = of_keys.offsets
        key_bits = of_keys.validity
        value_ends = of_values.offsets
        value_bits = of_values.validity
        assert key_bits is not None
        assert value_bits is not None
        keys = Cursor(of_keys.data)
        values = Cursor(of_values.data)
        for index in range(self._rows):
            reason = cursor.hop(positions[index])
            # Only if someone wrote to the data since it was measured.
            if reason != OK:
                raise cursor.corrupt(reason)
            offsets[index] = cursor.offset
            timestamps[index] = cursor.timestamp // 1000
            priorities[index] = cursor.priority
            flags[index] = cursor.flags
            start = cursor.position + HEADER_SIZE
            end = start + cursor.key_length
            if self._with_keys:
                if end > start:
                    cursor.lend(start, end, keys)
                    key_bits[index >> 3] |= 1 << (index & 7)
                key_ends[index + 1] = keys.position
            if self._with_values:
                if not cursor.flags & IS_TOMBSTONE:
                    cursor.lend(end, end + cursor.value_length, values)
                    value_bits[index >> 3] |= 1 << (index & 7)
                value_ends[index + 1] = values.position

    def _fill_headers(self, output: OutputColumns) -> None:
        cursor = self._cursor
        positions = self._positions
        rows = output.header_rows
        name_ends = output.header_names.offsets
        value_ends = output.header_values.offsets
        names = Cursor(output.header_names.data)
        values = Cursor(output.header_values.data)
        count = 0
        for index in range(self._rows):
            reason = cursor.hop(positions[index])
            if reason != OK:
                raise cursor.corrupt(reason)
            position = cursor.end - cursor.headers_length
            left = cursor.length_at(position) if cursor.headers_length > 0 else 0
            position += 2
            while left > 0:
                length = cursor.length_at(position)
                start = position + 2
                position = start + length
                value_length = cursor.length_at(position)
                if not self._is_note(cursor, start, length):
                    if count >= self._headers:
                        raise BufferError("more headers than were measured")
                    cursor.lend(start, position, names)
                    cursor.lend(position + 2, position + 2 + value_length, values)
                    count += 1
                    name_ends[count] = names.position
                    value_ends[count] = values.position
                position += 2 + value_length
                left -= 1
            rows[index + 1] = count

    def _unpack(self, rows_max: int, bytes_max: int) -> OutputColumns | None:
        """The next rows by way of objects: their values as they were before compression."""
        cursor = self._cursor
        unpacked = bytearray()
        count = 0
        while self._position < cursor.size and count < rows_max and len(unpacked) < bytes_max:
            reason = cursor.rise(self._position, self._previous)
            if reason != OK:
                raise cursor.corrupt(reason)
            if cursor.offset >= self._below:
                self._position = cursor.size
                break
            if self._is_seen(cursor):
                unpacked += encode(decompress(decode(self._data, self._position)))
                count += 1
            self._previous = cursor.offset
            self._position = cursor.end
        reader = ArrowReader(
            unpacked,
            with_headers=self._with_headers,
            with_keys=self._with_keys,
            with_values=self._with_values,
        )
        return reader.read(count, _BYTES_MAX)
