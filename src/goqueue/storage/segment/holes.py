"""Damage within a segment, and quarantined segments.

Records before and behind the damage stay readable: a segment is walked as chunks of verified
records with holes between them. The holes are saved in a small file beside the index. It is a cache
like the index: without it the damage is found again on read. A segment without a good record is
renamed, and removed when its log is truncated below it.
"""

import errno
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from goqueue.model import Damaged, LogId, Offset
from goqueue.records import HEADER_SIZE, Corrupt, crc32c
from goqueue.storage.filesystem import File, FileSystem, remove_if_there
from goqueue.storage.layout import (
    NameKind,
    classify,
    quarantine_name,
    segment_base,
    segment_name,
)
from goqueue.storage.segment.chunks import CHUNK_BYTES, Chunk, RecordSearch, chunks

__all__ = [
    "DamageFound",
    "Hole",
    "RebuildNeeded",
    "load_holes",
    "remove_set_aside",
    "save_holes",
    "set_aside",
    "stretches",
    "walk_around",
]


class DamageFound(Exception):
    """A read found damaged bytes; `event` goes to the log."""

    def __init__(self, event: Damaged) -> None:
        super().__init__(event)
        self.event = event


class RebuildNeeded(Exception):
    """A read cannot be answered before the index of a segment was rebuilt."""

    def __init__(self, log: LogId, base: Offset, reason: str) -> None:
        super().__init__(log, base, reason)
        self.log = log
        self.base = base
        self.reason = reason


def set_aside(files: FileSystem, directory: str, base: Offset) -> None:
    """Quarantine a segment: rename it so that it is neither served nor lost."""
    name = quarantine_name(base, [entry.name for entry in files.entries(directory)])
    files.rename(f"{directory}/{segment_name(base)}", f"{directory}/{name}")


def remove_set_aside(files: FileSystem, directory: str, offset: Offset) -> None:
    """Remove, durably, quarantined segments of a log that is truncated to `offset`."""
    for entry in files.entries(directory):
        is_set_aside = classify(entry.name) is NameKind.QUARANTINED
        if is_set_aside and segment_base(entry.name) >= offset:
            files.remove(f"{directory}/{entry.name}")
    files.sync_directory(directory)


_SECTOR = 4096
# A failing disk may take seconds for each unreadable sector.
_BAD_SECTORS_MAX = 64
_HOLES_MAX = 100
_FILE_BYTES_MAX = 64 * 1024
_OFFSET_AT = slice(8, 16)


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes [position, end) of a segment without a good record, formerly offsets [first, below).

    If no good record follows in the segment, `below` is unknown here and equals `first`.
    """

    position: int
    end: int
    first: Offset
    below: Offset
    reason: str


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file; the checksum is over the JSON of the holes."""

    crc: int
    holes: tuple[Hole, ...]


def walk_around(file: File, size: int, base: Offset) -> Iterator[Chunk | Hole]:
    """The verified records of a segment and the holes between them, in order."""
    search = RecordSearch(_ReadableFile(file), size)
    position, offset, holes = 0, base, 0
    chunk_bytes = CHUNK_BYTES
    while position < size:
        try:
            for chunk in _rising(chunks(file, position, size, chunk_bytes=chunk_bytes), offset):
                yield chunk
                position = chunk.position + chunk.end
                offset = Offset(chunk.columns.offsets[-1] + 1)
        except Corrupt as corrupt:
            if corrupt.reason == "unreadable" and chunk_bytes > _SECTOR:
                # One bad sector fails the whole read: find the records before it in small steps.
                chunk_bytes = _SECTOR
                continue
            holes += 1
            start = corrupt.position
            end = size if holes >= _HOLES_MAX else search.behind(start, offset + 1)
            below = offset if end == size else _offset_at(file, end)
            yield Hole(position=start, end=end, first=offset, below=below, reason=corrupt.reason)
            position, chunk_bytes = end, CHUNK_BYTES


def _rising(found: Iterator[Chunk], offset: Offset) -> Iterator[Chunk]:
    """Chunks with offsets from `offset` on: the content of another segment is damage too."""
    for chunk in found:
        if chunk.columns.offsets[0] < offset:
            raise Corrupt(chunk.position, "offset")
        yield chunk


def stretches(holes: Iterable[Hole], position: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of [position, size) outside the holes, as start and end."""
    for hole in holes:
        if hole.end <= position:
            continue
        if position < hole.position:
            yield position, hole.position
        position = hole.end
    if position < size:
        yield position, size


def save_holes(files: FileSystem, path: str, holes: tuple[Hole, ...]) -> None:
    """Save the holes, or remove the file; errors of this cache are ignored."""
    with suppress(OSError):
        remove_if_there(files, path)
        if not holes:
            return
        data = msgspec.json.encode(_Saved(crc=_sum(holes), holes=holes))
        file = files.create(path)
        try:
            file.write_at(0, data)
        finally:
            file.close()


def load_holes(files: FileSystem, path: str, size: int) -> tuple[Hole, ...]:
    """The saved holes, if they are plausible for a segment of this size; else none."""
    try:
        file = files.open(path)
    except OSError:
        return ()
    try:
        saved = msgspec.json.decode(file.read_at(0, _FILE_BYTES_MAX), type=_Saved)
    except (OSError, msgspec.DecodeError):
        return ()
    finally:
        file.close()
    if saved.crc != _sum(saved.holes) or any(hole.end > size for hole in saved.holes):
        return ()
    return saved.holes


def _sum(holes: tuple[Hole, ...]) -> int:
    return crc32c(msgspec.json.encode(holes))


def _offset_at(file: File, position: int) -> Offset:
    """The offset of the good record at `position`."""
    return Offset(int.from_bytes(file.read_at(position, HEADER_SIZE)[_OFFSET_AT], "big"))


class _ReadableFile:
    """A file whose unreadable sectors read as zeros, which are no record."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._bad_sectors = 0

    def read_at(self, position: int, size: int) -> bytes:
        try:
            return self._file.read_at(position, size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        parts: list[bytes] = []
        end = position + size
        while position < end:
            length = min(_SECTOR - position % _SECTOR, end - position)
            parts.append(self._read_sector(position, length))
            position += length
        return b"".join(parts)

    def _read_sector(self, position: int, size: int) -> bytes:
        if self._bad_sectors >= _BAD_SECTORS_MAX:
            return bytes(size)
        try:
            return self._file.read_at(position, size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._bad_sectors += 1
            return bytes(size)
