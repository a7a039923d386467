"""The real file system with a record of every change, from which a power cut can be played.

Forwards all to the file system below it. A change is noted before it is made, since from then on
some of it may be on disk; a sync is noted after it was done, with where the record stood when it
began, since it vouches for nothing later.
"""

import threading
from collections.abc import Callable, Sequence

import msgspec

from goqueue.records import Buffer
from goqueue.storage import Entry, EntryKind, File, FileCommit, FileSystem, commit_in_turn


class Written(msgspec.Struct, frozen=True):
    """Bytes of a file changed; no data: it was given this size."""

    file: int
    position: int
    data: bytes | None


class Synced(msgspec.Struct, frozen=True):
    """All changes of a file before `upto` are on disk."""

    file: int
    upto: int


class Renamed(msgspec.Struct, frozen=True):
    """Names changed: `new` is this file now, and `old` is nothing. A directory has no number."""

    old: str | None
    new: str | None
    file: int | None


class NamesSynced(msgspec.Struct, frozen=True):
    """All changes before `upto` of names in a directory are on disk."""

    directory: str
    upto: int


Change = Written | Synced | Renamed | NamesSynced


class Record:
    """What happened, in order; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._files: dict[str, int] = {}
        self._next_file = 1

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def changes(self) -> tuple[Change, ...]:
        with self._lock:
            return tuple(self._changes)

    def add(self, change: Change) -> None:
        with self._lock:
            self._changes.append(change)

    def open(self, path: str, step: Callable[[], File]) -> tuple[int, File]:
        with self._lock:
            opened = step()
            return self._files[path], opened

    def make(self, path: str, step: Callable[[], File]) -> tuple[int, File]:
        with self._lock:
            made = step()
            number, self._next_file = self._next_file, self._next_file + 1
            self._files[path] = number
            self._changes.append(Renamed(None, path, number))
            return number, made

    def make_directory(self, path: str, step: Callable[[], None]) -> None:
        with self._lock:
            step()
            self._changes.append(Renamed(None, path, None))

    def rename(self, old: str, new: str | None, step: Callable[[], None]) -> None:
        with self._lock:
            step()
            assert old in self._files, "directories stay where they are in this workload"
            number = self._files.pop(old)
            if new is not None:
                self._files[new] = number
            self._changes.append(Renamed(old, new, number))


class _RecordedFile:
    """An open file whose changes are noted."""

    def __init__(self, record: Record, number: int, file: File) -> None:
        self._record = record
        self._number = number
        self._file = file

    def read_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self._record.add(Written(self._number, position, bytes(data)))
        self._file.write_at(position, data)

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self._record.add(Written(self._number, position, b"".join(parts)))
        self._file.write_all_at(position, parts)

    def truncate(self, size: int) -> None:
        self._record.add(Written(self._number, size, None))
        self._file.truncate(size)

    def allocate(self, size: int) -> None:
        if size > self._file.size():
            self._record.add(Written(self._number, size, None))
        self._file.allocate(size)

    def sync(self) -> None:
        upto = len(self._record)
        self._file.sync()
        self._record.add(Synced(self._number, upto))

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class RecordingFiles:
    """A file system with a record."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self.record = Record()

    def entries(self, directory: str) -> list[Entry]:
        return self._files.entries(directory)

    def kind(self, path: str) -> EntryKind | None:
        return self._files.kind(path)

    def open(self, path: str) -> _RecordedFile:
        number, file = self.record.open(path, lambda: self._files.open(path))
        return _RecordedFile(self.record, number, file)

    def create(self, path: str) -> _RecordedFile:
        number, file = self.record.make(path, lambda: self._files.create(path))
        return _RecordedFile(self.record, number, file)

    def make_directory(self, path: str) -> None:
        self.record.make_directory(path, lambda: self._files.make_directory(path))

    def sync_directory(self, path: str) -> None:
        upto = len(self.record)
        self._files.sync_directory(path)
        self.record.add(NamesSynced(path, upto))

    def rename(self, old: str, new: str) -> None:
        self.record.rename(old, new, lambda: self._files.rename(old, new))

    def link(self, old: str, new: str) -> None:
        raise AssertionError(f"no backup is taken in this workload: {old}, {new}")

    def remove(self, path: str) -> None:
        self.record.rename(path, None, lambda: self._files.remove(path))

    def remove_directory(self, path: str) -> None:
        raise AssertionError(f"no directory is removed in this workload: {path}")

    def free_bytes(self) -> int:
        return self._files.free_bytes()

    def commit(self, commits: Sequence[FileCommit]) -> None:
        commit_in_turn(commits)
