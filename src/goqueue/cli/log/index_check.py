"""Whether the index of a segment says what the records say.

Takes the records as they are walked, and the entries of both index files. An index is a cache:
to lack entries costs time, to lie about them makes a reader look in the wrong place.
"""

import itertools
import sys
from array import array
from bisect import bisect_left

from goqueue.log import ENTRY_SIZE
from goqueue.model import INDEX_INTERVAL_BYTES
from goqueue.storage import Chunk

__all__ = ["IndexCheck"]


class IndexCheck:
    """Both files of the index of one segment, compared with its records chunk by chunk.

    What lies beyond the end of the records is a lie in a sealed segment only: the index of the
    last one may be ahead of, or behind, records that are just being written.
    """

    def __init__(self, marks: bytes, times: bytes, is_sealed: bool) -> None:
        self._is_sealed = is_sealed
        self._fault = _shape_fault(".index", marks) or _shape_fault(".timeindex", times)
        self._marks = _entries(marks)
        self._times = _entries(times)
        self._next_mark = 0
        self._next_time = 0
        self._last_start = -1
        self._newest = 0
        self._has_flaw = False
        if not self._fault and self._marks and self._marks[1] != 0:
            self._fault = ".index: the first entry is not for the first record"

    @property
    def fault(self) -> str:
        """What is wrong, or nothing."""
        return self._fault

    def skip(self) -> None:
        """Records are missing from here to the next chunk: what is said about them stays open."""
        self._has_flaw = True

    def take(self, chunk: Chunk) -> None:
        if self._fault:
            return
        self._compare_marks(chunk)
        if not self._has_flaw:
            self._compare_times(chunk)
        self._last_start = chunk.position + chunk.columns.positions[-1]

    def finish(self) -> str:
        """All records were seen: what is wrong with the index, or nothing."""
        if self._fault or not self._is_sealed or self._has_flaw or not self._marks:
            return self._fault
        if 2 * self._next_mark < len(self._marks):
            return ".index: entries for records beyond the end of the segment"
        if 2 * self._next_time < len(self._times):
            return ".timeindex: entries for records beyond the end of the segment"
        if self._times and self._times[1::2] != self._marks[0::2]:
            return ".timeindex: not made with its .index, they are for different records"
        if self._last_start - self._marks[-1] >= self._widest_step():
            return ".index: short, it ends before the segment does"
        return ""

    def _compare_marks(self, chunk: Chunk) -> None:
        end = chunk.position + chunk.end
        while 2 * self._next_mark < len(self._marks):
            offset, position = self._marks[2 * self._next_mark : 2 * self._next_mark + 2]
            if position >= end:
                return
            self._next_mark += 1
            if position < chunk.position:
                # In a flaw: nobody can tell.
                continue
            found = bisect_left(chunk.columns.positions, position - chunk.position)
            is_start = (
                found < len(chunk.columns)
                and chunk.columns.positions[found] == position - chunk.position
            )
            if not is_start or chunk.columns.offsets[found] != offset:
                self._fault = f".index: offset {offset} is not at byte {position}"
                return

    def _compare_times(self, chunk: Chunk) -> None:
        columns = chunk.columns
        seen = 0
        while 2 * self._next_time < len(self._times):
            timestamp, offset = self._times[2 * self._next_time : 2 * self._next_time + 2]
            if offset > columns.offsets[-1]:
                break
            self._next_time += 1
            found = bisect_left(columns.offsets, offset)
            if columns.offsets[found] != offset:
                self._fault = f".timeindex: there is no record with offset {offset}"
                return
            self._newest = max(self._newest, max(columns.timestamps[seen : found + 1], default=0))
            seen = found + 1
            if self._newest != timestamp:
                words = f"the newest record up to offset {offset} is not stamped {timestamp}"
                self._fault = f".timeindex: {words}, but {self._newest}"
                return
        self._newest = max(self._newest, max(columns.timestamps[seen:], default=0))

    def _widest_step(self) -> int:
        """The interval is a setting that the files do not hold: the widest step tells it."""
        positions = self._marks[1::2]
        steps = (after - before for before, after in itertools.pairwise(positions))
        return max(INDEX_INTERVAL_BYTES, max(steps, default=0))


def _shape_fault(suffix: str, data: bytes) -> str:
    """What is wrong with the entries of one file by themselves."""
    if len(data) % ENTRY_SIZE:
        return f"{suffix}: malformed, {len(data)} bytes are not whole entries"
    entries = _entries(data)
    # A time may stand for several marks; offsets and positions are each marked once.
    columns = (entries[0::2], entries[1::2])
    compare = (int.__le__ if suffix == ".timeindex" else int.__lt__, int.__lt__)
    for column, is_before in zip(columns, compare, strict=True):
        if (column and column[0] < 0) or not all(map(is_before, column, column[1:])):
            return f"{suffix}: malformed, the entries do not rise"
    return ""


def _entries(data: bytes) -> "array[int]":
    entries = array("q")
    entries.frombytes(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE])
    if sys.byteorder == "little":
        entries.byteswap()
    return entries
