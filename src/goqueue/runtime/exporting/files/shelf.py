"""The old files of a span file: their names, their compression, and how many are kept.

A file that is full is renamed to one with the next number, and compressed from there:

    spans.jsonl  ->  spans-00000007.jsonl  ->  spans-00000007.jsonl.gz

Each step is a rename, so a file has its name with all of its content or not at all. What a crash
left in between is finished at the next start. Names that begin with a dot are unfinished.
"""

import os
import re
import zlib
from contextlib import suppress

from goqueue.runtime.os_files import OsFileSystem
from goqueue.storage import remove_if_there, rename_for_good

__all__ = ["Shelf"]

_PIECE_BYTES = 1 << 20
_LEVEL = 4
_GZIP = 31


class Shelf:
    """The files that were written before; `kept` of them stay."""

    def __init__(self, path: str, kept: int) -> None:
        self._folder = os.path.dirname(path) or "."
        self._files = OsFileSystem(self._folder)
        self._name = os.path.basename(path)
        self._stem, self._ending = os.path.splitext(self._name)
        self._kept = kept
        numbered = rf"{re.escape(self._stem)}-([0-9]{{8,}}){re.escape(self._ending)}"
        self._plain = re.compile(numbered)
        self._packed = re.compile(rf"{numbered}\.gz")
        self._packing: _Packing | None = None
        # Looked at again after every rotation, and once at the start.
        self._is_tidy = False

    def put_aside(self) -> None:
        """Make room for a new file: the present one is full."""
        numbers = [*self._numbers(self._plain), *self._numbers(self._packed)]
        number = max(numbers, default=0) + 1
        rename_for_good(self._files, ".", self._name, self._numbered(number))
        self._is_tidy = False

    def tidy(self) -> bool:
        """Remove what is too old and compress a piece of the rest; whether there is more to do."""
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
            # No room, perhaps. It stays as it is until the next rotation tries again.
            self.close()
            self._is_tidy = True
            raise
        return not self._is_tidy

    def close(self) -> None:
        """Leave what is half done to the next start."""
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

    def _next_packing(self) -> "_Packing | None":
        packed = self._numbers(self._packed)
        for number in self._numbers(self._plain):
            if number not in packed:
                return _Packing(self._folder, self._numbered(number))
            # It was compressed, and a crash came before it could be removed.
            self._files.remove(self._numbered(number))
        return None


def _unfinished(name: str) -> str:
    return f".{name}"


class _Packing:
    """One file that is being compressed, piece by piece."""

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
