"""Disk space reserved for journals, in a preallocated file.

A producer that fills the disk must not prevent acks and metadata from being written. So a
preallocated file of fixed size occupies the space from the first start on. When a journal finds no
space, part of the file is released and the write is repeated. While the file is smaller than its
full size, data is refused, because it would take the released space; the file grows again as soon
as there is room for all of it.

Its size on disk is its only state, so restarts on a full disk change nothing. Losing the file loses
no data.

Free space is asked for only while part of the file is released, and at most every 100 ms. Only the
answer "too little" is remembered, so an old answer refuses data longer and never admits any.
"""

from goqueue.model import MILLISECOND
from goqueue.storage.filesystem import File, FileSystem
from goqueue.storage.layout import RESERVE_FILE

__all__ = ["JournalReserve"]

_RELEASE_BYTES = 1024 * 1024
_ASK_EVERY_NS = 100 * MILLISECOND


class JournalReserve:
    """The reserve file and its current size."""

    __slots__ = ("_asked_at", "_file", "_files", "_is_whole", "_size")

    def __init__(self, files: FileSystem, size: int) -> None:
        """A `size` of 0 reserves nothing."""
        self._files = files
        self._size = size
        self._file: File | None = None
        self._is_whole = not size
        self._asked_at: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all of the space is reserved, as far as known without asking the disk."""
        return self._is_whole

    def restore(self, now: int) -> bool:
        """Reserve all of the space if there is room for it; whether all of it is reserved."""
        if self._is_whole:
            return True
        if self._asked_at is not None and now - self._asked_at < _ASK_EVERY_NS:
            return False
        self._asked_at = now
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
        self._asked_at = None
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
