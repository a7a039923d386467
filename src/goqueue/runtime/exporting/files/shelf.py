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

__all__ = ["Shelf"]

_PIECE_BYTES = 1 << 20
_LEVEL = 4
_GZIP = 31
_MODE = 0o640


class Shelf:
    """The files that were written before; `kept` of them stay."""

    def __init__(self, path: str, kept: int) -> None:
        self._folder = os.path.dirname(path) or "."
        self._stem, self._ending = os.path.splitext(os.path.basename(path))
        self._kept = kept
        numbered = rf"{re.escape(self._stem)}-([0-9]{{8,}}){re.escape(self._ending)}"
        self._plain = re.compile(numbered)
        self._packed = re.compile(rf"{numbered}\.gz")
        self._packing: _Packing | None = None
        # Looked at again after every rotation, and once at the start.
        self._is_tidy = False

    def put(self, path: str) -> None:
        """Put a full file aside."""
        numbers = [*self._numbers(self._plain), *self._numbers(self._packed)]
        number = max(numbers, default=0) + 1
        os.rename(path, self._path(number))
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

    def _path(self, number: int, ending: str = "") -> str:
        name = f"{self._stem}-{number:08}{self._ending}{ending}"
        return os.path.join(self._folder, name)

    def _remove_old(self) -> None:
        plain, packed = self._numbers(self._plain), self._numbers(self._packed)
        for number in sorted({*plain, *packed}, reverse=True)[self._kept :]:
            for ending in ("", ".gz"):
                with suppress(FileNotFoundError):
                    os.unlink(self._path(number, ending))

    def _next_packing(self) -> "_Packing | None":
        packed = self._numbers(self._packed)
        for number in self._numbers(self._plain):
            if number not in packed:
                unfinished = os.path.join(self._folder, f".{self._stem}{self._ending}.gz")
                return _Packing(self._path(number), unfinished, self._path(number, ".gz"))
            # It was compressed, and a crash came before it could be removed.
            os.unlink(self._path(number))
        return None


class _Packing:
    """One file that is being compressed, piece by piece."""

    def __init__(self, source: str, unfinished: str, target: str) -> None:
        self._source, self._unfinished, self._target = source, unfinished, target
        self._reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._writing = os.open(unfinished, flags, _MODE)
        except BaseException:
            os.close(self._reading)
            raise
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    def step(self) -> bool:
        """Compress a piece; whether it was the last."""
        piece = os.read(self._reading, _PIECE_BYTES)
        self._write(self._compressor.compress(piece) if piece else self._compressor.flush())
        if piece:
            return False
        os.fsync(self._writing)
        os.rename(self._unfinished, self._target)
        os.unlink(self._source)
        self._close()
        return True

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._writing, left) :]

    def give_up(self) -> None:
        self._close()
        with suppress(OSError):
            os.unlink(self._unfinished)

    def _close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)
