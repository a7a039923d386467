"""The records of a segment's file, some at a time and each one checked."""

import errno
from collections.abc import Iterator
from typing import Protocol

import msgspec

from goqueue.model import SEGMENT_BYTES
from goqueue.records import HEADER_SIZE, Columns, Corrupt, decode, scan
from goqueue.storage.filesystem import File

__all__ = ["CHUNK_BYTES", "Chunk", "RecordSearch", "chunks", "read_sectors"]

CHUNK_BYTES = 1024 * 1024
_START = b"GQ\x01"
_WINDOW_BYTES = 256 * 1024
# What may be read for the sake of starts of records that turn out to be none.
_SEARCH_BYTES_MAX = 4 * SEGMENT_BYTES


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Some whole records of a segment, checked: `data` up to `end`, at `position` in the file."""

    position: int
    data: bytes
    columns: Columns
    end: int


def chunks(
    file: File, position: int, size: int, expected: int = -1, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Chunk]:
    """Walk the records between `position` and `size`, checking every sum.

    With `expected` the offsets must go up one by one from there. Raises Corrupt, with the position
    in the file, at the first record that does not add up.
    """
    previous = -1
    window = chunk_bytes
    while position < size:
        wanted = min(window, size - position)
        data = read_sectors(file, position, wanted)
        found = scan(data, expected)
        count = len(found.columns)
        if not count:
            is_partial = found.reason == "truncated" and position + found.needs <= size
            # A read that is short tells that the file is: to read more would never end.
            if not is_partial or len(data) < wanted:
                raise Corrupt(position, found.reason or "truncated")
            window = found.needs
            continue
        window = chunk_bytes
        if found.columns.offsets[0] <= previous:
            raise Corrupt(position, "offset")
        previous = found.columns.offsets[-1]
        if expected >= 0:
            expected = previous + 1
        yield Chunk(position=position, data=data, columns=found.columns, end=found.end)
        position += found.end


class ReadableFile(Protocol):
    """As much of a file as a search needs."""

    def read_at(self, position: int, size: int) -> bytes: ...


class RecordSearch:
    """Looks for good records behind bad ones, in hostile bytes, too, within bounded time.

    Raises OSError where the disk cannot read.
    """

    def __init__(self, file: ReadableFile, size: int) -> None:
        self._file = file
        self._size = size
        self._search_bytes_left = _SEARCH_BYTES_MAX

    def first_from(self, position: int, offset: int) -> int:
        """Where the first good record at or behind `position` begins; else like `behind`."""
        return position if self._is_good(position, offset) else self.behind(position, offset)

    def behind(self, position: int, offset: int) -> int:
        """Where the next good record behind the bad one at `position` begins, at or above `offset`;
        the size if there is none.
        """
        # Mostly the length is right and the body is wrong. To look where it points first is
        # quick, and keeps a record that is the value of the damaged one from being taken for ours.
        announced = position + self._length_at(position)
        if announced > position and (announced == self._size or self._is_good(announced, offset)):
            return announced
        position += 1
        while position < self._size and self._search_bytes_left > 0:
            data = self._file.read_at(position, min(_WINDOW_BYTES, self._size - position))
            at = data.find(_START)
            while at >= 0 and self._search_bytes_left > 0:
                if self._is_good(position + at, offset):
                    return position + at
                at = data.find(_START, at + 1)
            # A start may lie across the border of two windows.
            position += max(1, len(data) - len(_START) + 1)
        return self._size

    def _length_at(self, position: int) -> int:
        """The length of the record at `position` by its own header, or 0 if that is no header."""
        found = scan(self._file.read_at(position, min(HEADER_SIZE, self._size - position)))
        self._search_bytes_left -= HEADER_SIZE
        if found.reason == "truncated" and position + found.needs <= self._size:
            return found.needs
        return found.end

    def _is_good(self, position: int, offset: int) -> bool:
        length = self._length_at(position)
        if length == 0 or self._search_bytes_left < length:
            return False
        self._search_bytes_left -= length
        try:
            return decode(self._file.read_at(position, length)).offset >= offset
        except Corrupt:
            return False


def read_sectors(file: File, position: int, size: int) -> bytes:
    """Read; a sector that the disk cannot read is damage like a sector that it reads wrongly."""
    try:
        return file.read_at(position, size)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Corrupt(position, "unreadable") from error
