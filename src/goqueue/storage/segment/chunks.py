"""The records of a segment's file, some at a time and each one checked."""

import errno
from collections.abc import Iterator

import msgspec

from goqueue.records import Columns, Corrupt, scan
from goqueue.storage.filesystem import File

__all__ = ["CHUNK_BYTES", "Chunk", "chunks", "read_sectors"]

CHUNK_BYTES = 1024 * 1024


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


def read_sectors(file: File, position: int, size: int) -> bytes:
    """Read; a sector that the disk cannot read is damage like a sector that it reads wrongly."""
    try:
        return file.read_at(position, size)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Corrupt(position, "unreadable") from error
