"""Disk space reserved for journals, in a preallocated file.

A producer that fills the disk must not prevent acks and metadata from being written. So a
preallocated file of fixed size occupies the space from the first start on. When a journal finds no
space, part of the file is released and the write is repeated. While the file is smaller than its
full size, data is refused, because it would take the released space; the file grows again as soon
as there is room for all of it.

Its size on disk is its only state, so restarts on a full disk change nothing. Losing the file loses
no data.
"""

from goqueue.storage.filesystem import File, FileSystem
from goqueue.storage.layout import RESERVE_FILE

__all__ = ["JournalReserve"]

_RELEASE_BYTES = 1024 * 1024


class JournalReserve:
    """The reserve file and its current size."""

    __slots__ = ("_file", "_files", "_is_whole", "_size")

    def __init__(self, files: FileSystem, size: int) -> None:
        """A `size` of 0 reserves nothing."""
        self._files = files
        self._size = size
        self._file: File | None = None
        self._is_whole = not size

    @property
    def is_whole(self) -> bool:
        """Whether all of the space is reserved, as far as known without asking the disk."""
        return self._is_whole

    def restore(self) -> bool:
        """Reserve all of the space if there is room for it; whether all of it is reserved."""
        if self._is_whole:
            return True
        try:
            file = self._open()
            missing = self._size - file.size()
            if missing < 0:
                file.truncate(self._size)
            # Do not fill a disk that lacks the space by trying.
            if missing > 0 and self._files.free_bytes() < missing:
                return False
            file.allocate(self._size)
        except OSError:
            return False
        self._is_whole = True
        return True

    def release(self, size: int) -> bool:
        """Release enough for `size` more bytes of a journal; False if nothing was left."""
        if not self._size:
            return False
        try:
            file = self._open()
            kept = file.size()
            if not kept:
                return False
            file.truncate(max(0, kept - max(2 * size, _RELEASE_BYTES)))
        except OSError:
            return False
        self._is_whole = False
        return True

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _open(self) -> File:
        if self._file is None:
            try:
                self._file = self._files.open(RESERVE_FILE)
            except FileNotFoundError:
                self._file = self._files.create(RESERVE_FILE)
        return self._file
