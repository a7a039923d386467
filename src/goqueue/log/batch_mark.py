"""The mark of a producer's batch: the header `gq.batch` on its first record.

Identifies the producer and the transaction of a batch, so that all producer state can be derived
from the log. The mark is the first header of its record: it is found without decoding, and no
header of a producer can be mistaken for it.
"""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from goqueue.model import BATCH_HEADER
from goqueue.records import BATCH_HEADER_START, HEADER_SIZE, Buffer, Columns, decode, encode

__all__ = ["BatchMark", "label", "last_mark_in", "marks_in", "parse_mark"]

_COUNT_SIZE = 2
_LENGTH_SIZE = 2


class BatchMark(msgspec.Struct, frozen=True, kw_only=True):
    """Producer, time and transaction of a batch.

    `sequence` is that of the first record, -1 for none; `transaction` is 0 for none. `at` is the
    broker's wall time: timestamps of records may come from the producer.
    """

    producer: int
    epoch: int
    sequence: int
    count: int
    transaction: int
    at: int

    def encode(self) -> bytes:
        return b"%d,%d,%d,%d,%d,%d" % (
            self.producer,
            self.epoch,
            self.sequence,
            self.count,
            self.transaction,
            self.at,
        )


def parse_mark(value: bytes) -> BatchMark | None:
    """Parse a mark; None if the bytes are not one."""
    fields = value.split(b",")
    try:
        producer, epoch, sequence, count, transaction, at = map(int, fields)
    except ValueError:
        return None
    return BatchMark(
        producer=producer,
        epoch=epoch,
        sequence=sequence,
        count=count,
        transaction=transaction,
        at=at,
    )


def label(batch: bytearray, mark: BatchMark) -> None:
    """Put a mark on the first record of a batch, in place: a second buffer would cost as much as
    all the rest. Raises Refused, before any change, when its headers leave no room.
    """
    first = decode(batch)
    end = len(encode(first))
    headers = ((BATCH_HEADER, mark.encode()), *first.headers)
    batch[:end] = encode(msgspec.structs.replace(first, headers=headers))


def headed_count(columns: Columns) -> int:
    """How many records there are up to the last one that has headers."""
    # Two bytes each.
    return (len(columns.header_lengths.tobytes().rstrip(b"\0")) + 1) // 2


def marks_in(data: Buffer, columns: Columns) -> Iterator[tuple[int, BatchMark]]:
    """Each mark among stored records, with the index of its record."""
    count = headed_count(columns)
    if not count:
        return
    is_last = count == len(columns.positions)
    view = bytes(data if is_last else memoryview(data)[: columns.positions[count]])
    place = view.find(BATCH_HEADER_START)
    if place < 0:
        return
    positions = columns.positions
    index, last = 0, len(positions) - 1
    while place >= 0:
        while index < last and positions[index + 1] <= place:
            index += 1
        mark = _mark_at(view, columns, index, place)
        if mark is not None:
            yield index, mark
        place = view.find(BATCH_HEADER_START, place + 1)


def last_mark_in(data: bytes, columns: Columns) -> tuple[int, BatchMark] | None:
    """The last mark among stored records, with the index of its record; cheaper than all marks."""
    place = data.rfind(BATCH_HEADER_START)
    while place >= 0:
        index = bisect_right(columns.positions, place) - 1
        mark = _mark_at(data, columns, index, place)
        if mark is not None:
            return index, mark
        place = data.rfind(BATCH_HEADER_START, 0, place + len(BATCH_HEADER_START) - 1)
    return None


def _mark_at(view: bytes, columns: Columns, index: int, place: int) -> BatchMark | None:
    """The mark at `place`, if that is where the headers of the record begin."""
    if not columns.header_lengths[index]:
        return None
    body = columns.key_lengths[index] + columns.value_lengths[index]
    if place != columns.positions[index] + HEADER_SIZE + body + _COUNT_SIZE:
        return None
    start = place + len(BATCH_HEADER_START)
    size = int.from_bytes(view[start : start + _LENGTH_SIZE], "big")
    return parse_mark(view[start + _LENGTH_SIZE : start + _LENGTH_SIZE + size])
