"""Spans as lines of a file, which is put aside when it is full.

Whatever happens to the file or to the disk is a matter of the spans of that moment: the next ones
are written as soon as they can be. A file that somebody removed or renamed is made anew; a last
line that a crash has torn is ended, so that the next one stands by itself.
"""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from goqueue.runtime.exporting.exporter import NotShipped
from goqueue.runtime.exporting.files.shelf import Shelf
from goqueue.runtime.exporting.lines import encode_line
from goqueue.tracing import Span

__all__ = ["FileSink"]

_BATCH_SPANS = 2048
_MODE = 0o640
_DIRECTORY_MODE = 0o750
# Without O_NONBLOCK a named pipe would hold up whoever opens it.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


class FileSink:
    """Appends lines to a file; of `count_max` files each has `bytes_max` bytes at most.

    Only a single line that is longer makes a file longer.
    """

    name = "file"
    batch_spans = _BATCH_SPANS

    def __init__(self, path: str, bytes_max: int, count_max: int, node_id: str) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._node_id = node_id
        self._shelf = Shelf(path, count_max - 1)
        self._file: int | None = None
        self._size = 0

    def encode(self, span: Span) -> bytes:
        return encode_line(span, self._node_id)

    def ship(self, encoded: Sequence[bytes]) -> None:
        try:
            self._append_all(encoded)
        except OSError as error:
            self._give_back()
            raise _not_shipped(self._path, error) from error

    def tidy(self) -> bool:
        try:
            return self._file is not None and self._shelf.tidy()
        except OSError as error:
            raise _not_shipped(self._path, error, "old files cannot be compressed") from error

    def abort(self) -> None:
        """A disk is waited for: there is no way to tell it to stop."""

    def close(self) -> None:
        self._shelf.close()
        self._give_back()

    def _append_all(self, lines: Sequence[bytes]) -> None:
        """Write lines, as many at a time as fit into one file."""
        file = self._opened()
        fitting: list[bytes] = []
        size = self._size
        for line in lines:
            if size and size + len(line) > self._bytes_max:
                self._append(file, b"".join(fitting))
                file = self._rotated()
                fitting, size = [], 0
            fitting.append(line)
            size += len(line)
        self._append(file, b"".join(fitting))

    def _append(self, file: int, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            # Half a line helps nobody. Where it cannot be taken back, it is ended later.
            with suppress(OSError):
                os.ftruncate(file, self._size)
            raise
        self._size += len(data)

    def _opened(self) -> int:
        """The file, made anew if it is no longer the one of its name."""
        if self._file is not None and not self._is_there(self._file):
            self._give_back()
        if self._file is None:
            self._file = self._open()
        return self._file

    def _is_there(self, file: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file))
        except FileNotFoundError:
            return False

    def _open(self) -> int:
        os.makedirs(os.path.dirname(self._path) or ".", _DIRECTORY_MODE, exist_ok=True)
        file = os.open(self._path, _FLAGS, _MODE)
        try:
            self._size = _size_of(file)
            if self._size and os.pread(file, 1, self._size - 1) != b"\n":
                self._append(file, b"\n")
        except BaseException:
            os.close(file)
            raise
        return file

    def _rotated(self) -> int:
        self._give_back()
        self._shelf.put_aside()
        self._file = self._open()
        return self._file

    def _give_back(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _size_of(file: int) -> int:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return status.st_size


def _not_shipped(path: str, error: OSError, what: str = "") -> NotShipped:
    words = f"{what or 'no line can be written'}: {path}: {error.strerror or error}"
    return NotShipped(words, cause=f"{what}{error.errno}")
