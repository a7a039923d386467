"""Span files: appends spans as lines, and rotates and compresses full files.

A full file is renamed with the next number, and then compressed:

    spans.jsonl  ->  spans-00000007.jsonl  ->  spans-00000007.jsonl.gz

Each step is a rename, so a file has its name with all of its content or not at all. The next start
finishes what a crash interrupted. Names that begin with a dot are unfinished.

A failure of the file or the disk loses only the spans of that moment. A file that was removed or
renamed is created again; a line that a crash has torn is terminated, so that the next one is
readable.
"""

import errno
import os
import re
import stat
import zlib
from collections.abc import Sequence
from contextlib import suppress

from goqueue.runtime.exporters.exporter import NotShipped
from goqueue.runtime.exporters.span_lines import encode_line
from goqueue.runtime.os_files import OsFileSystem
from goqueue.storage import remove_if_there, rename_for_good
from goqueue.tracing import Span

__all__ = ["FileSink", "RotatedFiles"]

_PIECE_BYTES = 1 << 20
_LEVEL = 4
_GZIP = 31


class RotatedFiles:
    """The rotated files; `kept` of them stay."""

    def __init__(self, path: str, kept: int) -> None:
        self._folder = os.path.dirname(path) or "."
        self._files = OsFileSystem(self._folder)
        self._name = os.path.basename(path)
        self._stem, self._ending = os.path.splitext(self._name)
        self._kept = kept
        numbered = rf"{re.escape(self._stem)}-([0-9]{{8,}}){re.escape(self._ending)}"
        self._plain = re.compile(numbered)
        self._packed = re.compile(rf"{numbered}\.gz")
        self._packing: _GzipJob | None = None
        # Checked after every rotation, and once at the start.
        self._is_tidy = False

    def put_aside(self) -> None:
        """Rename the current file, which is full."""
        numbers = [*self._numbers(self._plain), *self._numbers(self._packed)]
        number = max(numbers, default=0) + 1
        rename_for_good(self._files, ".", self._name, self._numbered(number))
        self._is_tidy = False

    def tidy(self) -> bool:
        """Remove old files and compress a piece of the rest; whether there is more to do."""
        if self._is_tidy:
            return False
        try:
            if self._packing is None:
                self._remove_old()
                self._packing = self._next_packing()
            if self._packing is None:
                self._is_tidy = True
            elif self._packing.step():
                self._packing = None
        except OSError:
            # Perhaps there is no space. The next rotation tries again.
            self.close()
            self._is_tidy = True
            raise
        return not self._is_tidy

    def close(self) -> None:
        """Leave unfinished work to the next start."""
        if self._packing is not None:
            self._packing.give_up()
            self._packing = None

    def _numbers(self, pattern: "re.Pattern[str]") -> list[int]:
        names = os.listdir(self._folder)
        return sorted(int(found[1]) for name in names if (found := pattern.fullmatch(name)))

    def _numbered(self, number: int, ending: str = "") -> str:
        return f"{self._stem}-{number:08}{self._ending}{ending}"

    def _remove_old(self) -> None:
        plain, packed = self._numbers(self._plain), self._numbers(self._packed)
        for number in sorted({*plain, *packed}, reverse=True)[self._kept :]:
            packed_name = self._numbered(number, ".gz")
            for name in (self._numbered(number), packed_name, _unfinished(packed_name)):
                remove_if_there(self._files, name)

    def _next_packing(self) -> "_GzipJob | None":
        packed = self._numbers(self._packed)
        for number in self._numbers(self._plain):
            if number not in packed:
                return _GzipJob(self._folder, self._numbered(number))
            # It was compressed, and a crash prevented its removal.
            self._files.remove(self._numbered(number))
        return None


def _unfinished(name: str) -> str:
    return f".{name}"


class _GzipJob:
    """The compression of one file, piece by piece."""

    def __init__(self, folder: str, name: str) -> None:
        self._files = OsFileSystem(folder)
        self._name = name
        self._unfinished = _unfinished(f"{name}.gz")
        remove_if_there(self._files, self._unfinished)
        self._source = self._files.open(name)
        try:
            self._target = self._files.create(self._unfinished)
        except BaseException:
            self._source.close()
            raise
        self._read = self._written = 0
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    def step(self) -> bool:
        """Compress a piece; whether it was the last."""
        piece = self._source.read_at(self._read, _PIECE_BYTES)
        self._read += len(piece)
        packed = self._compressor.compress(piece) if piece else self._compressor.flush()
        self._target.write_at(self._written, packed)
        self._written += len(packed)
        if piece:
            return False
        self._target.sync()
        rename_for_good(self._files, ".", self._unfinished, f"{self._name}.gz")
        self._files.remove(self._name)
        self._close()
        return True

    def give_up(self) -> None:
        self._close()
        with suppress(OSError):
            self._files.remove(self._unfinished)

    def _close(self) -> None:
        self._source.close()
        self._target.close()


_BATCH_SPANS = 2048
_MODE = 0o640
_DIRECTORY_MODE = 0o750
# Without O_NONBLOCK opening a named pipe would block.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


class FileSink:
    """Appends lines to a file; keeps `count_max` files of at most `bytes_max` bytes each.

    Only a single longer line makes a file longer.
    """

    name = "file"
    batch_spans = _BATCH_SPANS

    def __init__(self, path: str, bytes_max: int, count_max: int, node_id: str) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._node_id = node_id
        self._rotated_files = RotatedFiles(path, count_max - 1)
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
            return self._file is not None and self._rotated_files.tidy()
        except OSError as error:
            raise _not_shipped(self._path, error, "old files cannot be compressed") from error

    def abort(self) -> None:
        """Does nothing: a disk write cannot be interrupted."""

    def close(self) -> None:
        self._rotated_files.close()
        self._give_back()

    def _append_all(self, lines: Sequence[bytes]) -> None:
        """Write lines, as many at a time as fit into the file."""
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
            # Remove half a line. If that fails, it is terminated later.
            with suppress(OSError):
                os.ftruncate(file, self._size)
            raise
        self._size += len(data)

    def _opened(self) -> int:
        """The file, opened again if its name no longer refers to it."""
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
        self._rotated_files.put_aside()
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
