"""The index files of a segment: marks by offset, marks by time, and holes.

They are a cache: not synced, and write errors are ignored. After a failed write everything is
written again; what cannot be read is rebuilt from the records.
"""

from contextlib import suppress

from goqueue.log import ENTRY_SIZE, SparseIndex
from goqueue.storage.filesystem import FileSystem, remove_if_there
from goqueue.storage.layout import NameKind, segment_name
from goqueue.storage.segment.holes import Hole, load_holes, save_holes

__all__ = ["IndexFiles", "remove_index"]


class IndexFiles:
    """Tracks how many marks the files hold, so that only new ones are written."""

    __slots__ = ("_base", "_directory", "_files", "_saved")

    def __init__(self, files: FileSystem, directory: str, base: int) -> None:
        self._files = files
        self._directory = directory
        self._base = base
        self._saved = 0

    def _path(self, kind: NameKind) -> str:
        return f"{self._directory}/{segment_name(self._base, kind)}"

    def save(self, index: SparseIndex) -> None:
        """Write the new marks."""
        try:
            self._extend(NameKind.INDEX, index.encode_offsets(self._saved))
            self._extend(NameKind.TIMEINDEX, index.encode_times(self._saved))
        except OSError:
            self._saved = 0
        else:
            self._saved = len(index)

    def _extend(self, kind: NameKind, entries: bytes) -> None:
        if not entries:
            return
        path = self._path(kind)
        if not self._saved:
            remove_if_there(self._files, path)
        file = self._files.open(path) if self._saved else self._files.create(path)
        try:
            file.write_at(self._saved * ENTRY_SIZE, entries)
        finally:
            file.close()

    def load(self, upto: int, entries_max: int) -> SparseIndex | None:
        """The marks below position `upto`.

        None if the files are unreadable, implausible, or hold more than `entries_max`.
        """
        try:
            offsets = self._read(NameKind.INDEX, entries_max * ENTRY_SIZE)
            times = self._read(NameKind.TIMEINDEX, entries_max * ENTRY_SIZE)
        except OSError:
            return None
        index = SparseIndex.decode(self._base, offsets, times)
        if index is None:
            return None
        count = len(index)
        index.cut(upto)
        # If marks were cut off, the files hold too much and are written again.
        self._saved = count if len(index) == count else 0
        return index

    def _read(self, kind: NameKind, bytes_max: int) -> bytes:
        file = self._files.open(self._path(kind))
        try:
            return file.read_at(0, file.size()) if file.size() <= bytes_max else b""
        finally:
            file.close()

    def save_holes(self, holes: tuple[Hole, ...]) -> None:
        save_holes(self._files, self._path(NameKind.HOLES), holes)

    def load_holes(self, upto: int) -> tuple[Hole, ...]:
        """The known holes below position `upto`."""
        return load_holes(self._files, self._path(NameKind.HOLES), upto)

    def remove(self) -> None:
        """Remove the files; leftovers of a failure are rejected when they are loaded."""
        self._saved = 0
        with suppress(OSError):
            remove_if_there(self._files, self._path(NameKind.INDEX))
            remove_if_there(self._files, self._path(NameKind.TIMEINDEX))


def remove_index(files: FileSystem, directory: str, base: int) -> None:
    """Remove the index of a segment that is removed or rewritten; raises OSError."""
    for kind in (NameKind.INDEX, NameKind.TIMEINDEX, NameKind.HOLES):
        remove_if_there(files, f"{directory}/{segment_name(base, kind)}")
