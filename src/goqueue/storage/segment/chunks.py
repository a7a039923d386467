"""The verified records of a segment file, in chunks."""

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
# Bytes that may be read for candidates that turn out not to be records.
_SEARCH_BYTES_MAX = 4 * SEGMENT_BYTES


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Verified records of a segment: `data` up to `end`, at `position` in the file."""

    position: int
    data: bytes
    columns: Columns
    end: int


def chunks(
    file: File, position: int, size: int, expected: int = -1, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Chunk]:
    """Walk the records between `position` and `size`, verifying every checksum.

    With `expected` the offsets must rise by one from there. Raises Corrupt, with the position in
    the file, at the first invalid record.
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
            # A short read means a short file: reading on would never end.
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
    """The part of a file that a search needs."""

    def read_at(self, position: int, size: int) -> bytes: ...


class RecordSearch:
    """Finds good records behind bad ones within bounded time, also in hostile bytes.

    Raises OSError if the disk cannot read.
    """

    def __init__(self, file: ReadableFile, size: int) -> None:
        self._file = file
        self._size = size
        self._search_bytes_left = _SEARCH_BYTES_MAX

    def first_from(self, position: int, offset: int) -> int:
        """The position of the first good record at or behind `position`; else like `behind`."""
        return position if self._is_good(position, offset) else self.behind(position, offset)

    def behind(self, position: int, offset: int) -> int:
        """The position of the next good record behind the bad one at `position`, with at least
        `offset`; the size if there is none.
        """
        # Usually the length is right and the body is wrong. Looking there first is quick and avoids
        # mistaking a record inside the value of the damaged one for a record of the log.
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
            # A start may cross the border of two windows.
            position += max(1, len(data) - len(_START) + 1)
        return self._size

    def _length_at(self, position: int) -> int:
        """The length in the record header at `position`; 0 if there is no header."""
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
    """Read; an unreadable sector is damage like a wrong one."""
    try:
        return file.read_at(position, size)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Corrupt(position, "unreadable") from error
