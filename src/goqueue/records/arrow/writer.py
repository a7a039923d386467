# cython: boundscheck=False, wraparound=False
"""Arrow columns as batches of records, one batch for each partition that gets rows.

Owns the checks of a row and the choice of its partition: by the hash of its key, or round robin.
Two passes: the first refuses, routes and measures, the second writes. A row creates an object only
if it is delayed.

Invariant: input is written as a whole or refused; each row is in exactly one batch, in order.
"""

from array import array

import msgspec

from goqueue.model import (
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    Code,
    Priority,
    Refused,
)
from goqueue.records.arrow.input import InputColumns, IntegerColumn
from goqueue.records.cursor import Cursor
from goqueue.records.layout import DELIVER_HEADER

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import (
        CONTROL_PREFIX,
        HAS_HEADERS,
        HEADER_SIZE,
        IS_TOMBSTONE,
        OFFSET_MAX,
        PRIORITY_MAX,
    )
    from goqueue.records.octets import digits_of

__all__ = ["ArrowWriter", "PartitionBatches"]

_NORMAL = int(Priority.NORMAL)
_DELIVER_NAME = DELIVER_HEADER.encode()
_DELIVER_NAME_SIZE = len(_DELIVER_NAME)
# A time from 2001 to 2262 has as many digits in nanoseconds, and no other is a time of delivery.
_DUE_DIGITS = 19
_DUE_MIN = 1_000_000_000_000_000_000


class PartitionBatches(msgspec.Struct, frozen=True):
    """Batches and the number of their records, by partition."""

    batches: dict[int, bytearray]
    counts: dict[int, int]


class ArrowWriter:
    """Writes batches for one topic. Keyless rows, or all if not `is_keyed`, go round robin.

    `body_bytes_max` is what the topic takes of a message: key, value and headers.
    """

    __slots__ = (
        "_blocks",
        "_body_bytes_max",
        "_counts",
        "_is_keyed",
        "_partitions",
        "_sizes",
        "_targets",
        "_turn",
    )

    def __init__(
        self, partitions: int, body_bytes_max: int, turn: int = 0, *, is_keyed: bool = True
    ) -> None:
        if partitions < 1 or turn < 0:
            raise IndexError(f"turn {turn} of {partitions} partitions")
        self._is_keyed = is_keyed
        self._partitions = partitions
        self._body_bytes_max = body_bytes_max
        self._turn = turn % partitions
        self._sizes = array("q", bytes(8 * partitions))
        self._counts = array("q", bytes(8 * partitions))
        self._targets = array("q")
        self._blocks = array("q")

    def write(self, rows: InputColumns) -> PartitionBatches:
        """The batches of these rows; refuses with the `index` of the first invalid row."""
        zeros = bytes(8 * self._partitions)
        self._sizes = array("q", zeros)
        self._counts = array("q", zeros)
        # Where the rows go, and how large their header blocks are.
        if len(self._targets) < rows.count:
            self._targets = array("q", bytes(8 * rows.count))
            self._blocks = array("q", bytes(8 * rows.count))
        turn = self._turn
        try:
            self._measure(rows)
        except Refused:
            self._turn = turn
            raise
        batches: dict[int, bytearray] = {}
        counts: dict[int, int] = {}
        for target in range(self._partitions):
            if self._counts[target]:
                batches[target] = bytearray(self._sizes[target])
                counts[target] = self._counts[target]
        self._fill(rows, batches)
        return PartitionBatches(batches, counts)

    def _measure(self, rows: InputColumns) -> None:
        sizes = self._sizes
        counts = self._counts
        targets = self._targets
        blocks = self._blocks
        for index in range(rows.count):
            key_size = 0 if rows.keys is None else rows.keys.size(index)
            value_size = 0 if rows.values is None else rows.values.size(index)
            if key_size > KEY_BYTES_MAX:
                raise _too_large(index, "key", key_size, KEY_BYTES_MAX)
            if value_size > VALUE_BYTES_MAX:
                raise _too_large(index, "value", value_size, VALUE_BYTES_MAX)
            given = key_size + value_size
            block_size = 0
            if rows.headers is not None and rows.headers.size(index) > 0:
                block_size = self._weigh(rows, index)
                given += block_size - 2 - 4 * rows.headers.size(index)
            if given > self._body_bytes_max:
                raise _too_large(index, "message", given, self._body_bytes_max)
            if rows.dues is not None and not rows.dues.is_null(index):
                self._check_due(rows.dues, index)
                # With its own header block, if the row has no headers besides.
                block_size += 4 + _DELIVER_NAME_SIZE + _DUE_DIGITS + (0 if block_size else 2)
            if block_size > HEADERS_BYTES_MAX:
                raise _too_large(index, "headers", block_size, HEADERS_BYTES_MAX)
            self._check(rows, index, key_size)
            target = self._choose(rows, index, key_size)
            targets[index] = target
            blocks[index] = block_size
            sizes[target] += HEADER_SIZE + key_size + value_size + block_size
            counts[target] += 1

    def _weigh(self, rows: InputColumns, index: int) -> int:
        """The size of the block of a row's own headers, of which there are some."""
        headers = rows.headers
        assert headers is not None
        names = headers.names
        size = 2
        first = headers.begin(index)
        for place in range(first, first + headers.size(index)):
            length = names.size(place)
            if length == 0:
                raise _invalid(index, "headers", "empty name")
            start = names.begin(place)
            if names.data.has_prefix(start, start + length, CONTROL_PREFIX):
                raise _invalid(index, "headers", "reserved")
            size += 4 + length + headers.values.size(place)
            if size > HEADERS_BYTES_MAX:
                raise _too_large(index, "headers", size, HEADERS_BYTES_MAX)
        return size

    def _check_due(self, dues: IntegerColumn, index: int) -> None:
        due = dues.at(index)
        if due < _DUE_MIN // 1000 or due > OFFSET_MAX // 1000:
            raise _invalid(index, "deliver_at", "not a time from 2001 to 2262")

    def _check(self, rows: InputColumns, index: int, key_size: int) -> None:
        """Refuse a key that is reserved, and numbers that are none of a record."""
        if key_size > 0 and rows.keys is not None:
            start = rows.keys.begin(index)
            if rows.keys.data.has_prefix(start, start + key_size, CONTROL_PREFIX):
                raise _invalid(index, "key", "reserved")
        if rows.priorities is not None and not rows.priorities.is_null(index):
            number = rows.priorities.at(index)
            if number < 0 or number > PRIORITY_MAX:
                raise _invalid(index, "priority", "not from 0 to 4")
        if rows.timestamps is not None and not rows.timestamps.is_null(index):
            number = rows.timestamps.at(index)
            if number < 0 or number > OFFSET_MAX // 1000:
                raise _invalid(index, "timestamp", "not a time from 1970 to 2262")

    def _choose(self, rows: InputColumns, index: int, key_size: int) -> int:
        """The explicit partition, else by the key, else whose turn it is."""
        if rows.partitions is not None and not rows.partitions.is_null(index):
            target = rows.partitions.at(index)
            if target < 0 or target >= self._partitions:
                raise Refused(
                    Code.PARTITION_NOT_FOUND,
                    index=index,
                    partition=target,
                    partitions=self._partitions,
                )
            return target
        if self._is_keyed and key_size > 0 and rows.keys is not None:
            start = rows.keys.begin(index)
            return rows.keys.data.hash_between(start, start + key_size) % self._partitions
        target = self._turn
        self._turn = target + 1 if target + 1 < self._partitions else 0
        return target

    def _fill(self, rows: InputColumns, batches: dict[int, bytearray]) -> None:
        targets = self._targets
        blocks = self._blocks
        into: list[Cursor | None] = [None] * self._partitions
        for number, batch in batches.items():
            into[number] = Cursor(batch)
        for index in range(rows.count):
            record = into[targets[index]]
            assert record is not None
            key_size = 0 if rows.keys is None else rows.keys.size(index)
            value_size = 0 if rows.values is None else rows.values.size(index)
            record.flags = HAS_HEADERS if blocks[index] > 0 else 0
            if rows.values is None or rows.values.is_null(index):
                record.flags |= IS_TOMBSTONE
            record.timestamp = 0
            if rows.timestamps is not None and not rows.timestamps.is_null(index):
                record.timestamp = rows.timestamps.at(index) * 1000
            record.priority = _NORMAL
            if rows.priorities is not None and not rows.priorities.is_null(index):
                record.priority = rows.priorities.at(index)
            record.open(key_size, value_size, blocks[index])
            if key_size > 0 and rows.keys is not None:
                start = rows.keys.begin(index)
                rows.keys.data.lend(start, start + key_size, record)
            if value_size > 0 and rows.values is not None:
                start = rows.values.begin(index)
                rows.values.data.lend(start, start + value_size, record)
            if blocks[index] > 0:
                self._write_headers(rows, index, record)
            record.seal()

    def _write_headers(self, rows: InputColumns, index: int, record: Cursor) -> None:
        """The header block: the row's own headers, then the time of its delivery."""
        headers = rows.headers
        is_delayed = rows.dues is not None and not rows.dues.is_null(index)
        count = 0 if headers is None else headers.size(index)
        record.append_length(count + (1 if is_delayed else 0))
        if headers is not None:
            first = headers.begin(index)
            for place in range(first, first + count):
                length = headers.names.size(place)
                start = headers.names.begin(place)
                record.append_length(length)
                headers.names.data.lend(start, start + length, record)
                length = headers.values.size(place)
                start = headers.values.begin(place)
                record.append_length(length)
                headers.values.data.lend(start, start + length, record)
        if is_delayed:
            assert rows.dues is not None
            record.append_length(_DELIVER_NAME_SIZE)
            record.append(_DELIVER_NAME)
            record.append_length(_DUE_DIGITS)
            record.append(digits_of(rows.dues.at(index) * 1000))


def _too_large(index: int, part: str, size: int, limit: int) -> Refused:
    return Refused(Code.MESSAGE_TOO_LARGE, index=index, part=part, size=size, limit=limit)


def _invalid(index: int, part: str, reason: str) -> Refused:
    return Refused(Code.MESSAGE_INVALID, index=index, part=part, reason=reason)
