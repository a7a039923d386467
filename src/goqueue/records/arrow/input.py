# cython: boundscheck=False, wraparound=False
"""Input of the Arrow writer: rows to publish, as the buffers of Arrow columns.

Owns the reading of Arrow's layout: a first row other than zero, validity bits, 32-bit offsets.
Never copies a buffer.

Invariant: a column answers for every row below its count; that its buffers reach so far is checked
when it is made.
"""

from typing import Literal

from goqueue.records.cursor import Cursor
from goqueue.records.layout import Buffer

__all__ = ["BinaryColumn", "HeaderColumn", "InputColumns", "IntegerColumn"]

_NOTHING = bytes(1)


def _bits(validity: Buffer | None, rows: int) -> Buffer:
    """The validity bits, or something to stand for them; refuses too few."""
    if validity is None:
        return _NOTHING
    bits = memoryview(validity).cast("B")
    if len(bits) * 8 < rows:
        raise BufferError(f"{len(bits) * 8} validity bits for {rows} rows")
    return bits


def _numbers(values: Buffer, kind: Literal["i", "q"], size: int, rows: int) -> memoryview:
    octets = memoryview(values).cast("B")
    numbers = octets[: len(octets) // size * size].cast(kind)
    if len(numbers) < rows:
        raise BufferError(f"{len(numbers)} numbers for {rows} rows")
    return numbers


class IntegerColumn:
    """A column of 64-bit integers; `start` is the row of the buffers that is the first one."""

    __slots__ = ("_has_nulls", "_numbers", "_start", "_validity", "count")

    def __init__(
        self, count: int, values: Buffer, validity: Buffer | None = None, start: int = 0
    ) -> None:
        if count < 0 or start < 0:
            raise BufferError(f"{count} rows from {start} on")
        self.count = count
        self._start = start
        self._numbers = _numbers(values, "q", 8, start + count)
        self._has_nulls = validity is not None
        self._validity = _bits(validity, start + count)

    def is_null(self, index: int) -> bool:
        if not self._has_nulls:
            return False
        row = index + self._start
        return not self._validity[row >> 3] >> (row & 7) & 1

    def at(self, index: int) -> int:
        return self._numbers[index + self._start]


class BinaryColumn:
    """A column of byte strings."""

    __slots__ = ("_ends", "_has_nulls", "_start", "_validity", "count", "data")

    def __init__(
        self,
        count: int,
        offsets: Buffer,
        data: Buffer,
        validity: Buffer | None = None,
        start: int = 0,
    ) -> None:
        if count < 0 or start < 0:
            raise BufferError(f"{count} rows from {start} on")
        self.count = count
        self._start = start
        self._ends = _numbers(offsets, "i", 4, start + count + 1)
        self._has_nulls = validity is not None
        self._validity = _bits(validity, start + count)
        self.data = Cursor(data)

    def is_null(self, index: int) -> bool:
        if not self._has_nulls:
            return False
        row = index + self._start
        return not self._validity[row >> 3] >> (row & 7) & 1

    def begin(self, index: int) -> int:
        """Where in the data the piece of a row begins."""
        return self._ends[index + self._start]

    def size(self, index: int) -> int:
        """The bytes of a row's piece: none of a null. Refuses offsets that lead elsewhere."""
        if self.is_null(index):
            return 0
        begin = self._ends[index + self._start]
        end = self._ends[index + self._start + 1]
        if begin < 0 or end < begin or end > self.data.size:
            raise BufferError(f"row {index} has bytes {begin} to {end} of {self.data.size}")
        return end - begin


class HeaderColumn:
    """A column of headers: for each row some names and as many values."""

    __slots__ = ("_ends", "_has_nulls", "_start", "_validity", "count", "names", "values")

    def __init__(
        self,
        count: int,
        offsets: Buffer,
        names: BinaryColumn,
        values: BinaryColumn,
        *,
        validity: Buffer | None = None,
        start: int = 0,
    ) -> None:
        if count < 0 or start < 0 or names.count != values.count:
            raise BufferError(f"{count} rows from {start} on, {names.count} names")
        self.count = count
        self._start = start
        self._ends = _numbers(offsets, "i", 4, start + count + 1)
        self._has_nulls = validity is not None
        self._validity = _bits(validity, start + count)
        self.names = names
        self.values = values

    def begin(self, index: int) -> int:
        return self._ends[index + self._start]

    def size(self, index: int) -> int:
        """How many headers a row has. Refuses offsets that lead elsewhere."""
        row = index + self._start
        if self._has_nulls and not self._validity[row >> 3] >> (row & 7) & 1:
            return 0
        begin = self._ends[row]
        end = self._ends[row + 1]
        if begin < 0 or end < begin or end > self.names.count:
            raise BufferError(f"row {index} has headers {begin} to {end} of {self.names.count}")
        return end - begin


class InputColumns:
    """The columns of rows to be published; one that is not there is all null.

    Timestamps and delivery times are in microseconds. A null key is no key, a null value a
    tombstone, a null partition is left to the key.
    """

    __slots__ = (
        "count",
        "dues",
        "headers",
        "keys",
        "partitions",
        "priorities",
        "timestamps",
        "values",
    )

    def __init__(
        self,
        count: int,
        *,
        keys: BinaryColumn | None = None,
        values: BinaryColumn | None = None,
        headers: HeaderColumn | None = None,
        priorities: IntegerColumn | None = None,
        partitions: IntegerColumn | None = None,
        timestamps: IntegerColumn | None = None,
        dues: IntegerColumn | None = None,
    ) -> None:
        columns = (keys, values, headers, priorities, partitions, timestamps, dues)
        if any(column is not None and column.count != count for column in columns):
            raise BufferError(f"not every column has {count} rows")
        self.count = count
        self.keys = keys
        self.values = values
        self.headers = headers
        self.priorities = priorities
        self.partitions = partitions
        self.timestamps = timestamps
        self.dues = dues
