"""A file system in memory, simple enough to be believed: for tests of storage.

Keeps whatever is written at once and forgets nothing; a test takes `copy()` for what a power cut
would leave. Faults are handed in as `Faults`, which see every operation before it happens.
"""

import errno
from collections.abc import Sequence

from goqueue.records import Buffer
from goqueue.storage import Entry, EntryKind, FileCommit, commit_in_turn

Content = dict[str, bytes]


class Killed(BaseException):
    """The process ends here. No handler of storage may stop it."""


class Faults:
    """What goes wrong and where; nothing unless a test sets it."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.operations_left: int | None = None
        self.broken: dict[tuple[str, str], int] = {}
        self.bad_sectors: dict[str, int] = {}
        self.open_files: list[str] = []
        self.calls: list[tuple[str, str]] = []

    def meet(self, operation: str, path: str) -> None:
        """Note the call; raise if this operation is broken for paths with this ending."""
        self.calls.append((operation, path))
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left < 0:
                raise Killed(operation, path)
        self.refuse(operation, path)

    def refuse(self, operation: str, path: str) -> None:
        for (broken, ending), number in self.broken.items():
            if broken == operation and path.endswith(ending):
                raise OSError(number, f"planted: {operation} of {path}")

    def meet_sectors(self, path: str, position: int, size: int) -> None:
        """Raise if a position that cannot be read, by the ending of its path, lies within."""
        for ending, bad in self.bad_sectors.items():
            if path.endswith(ending) and position <= bad < position + size:
                raise OSError(errno.EIO, f"planted: {path} cannot be read at {bad}")

    def count(self, operation: str, ending: str = "") -> int:
        return sum(1 for done, path in self.calls if done == operation and path.endswith(ending))


class MemoryFile:
    """An open file of a `MemoryFiles`."""

    def __init__(self, path: str, content: bytearray, faults: Faults) -> None:
        self._path = path
        self._content = content
        self._faults = faults
        self._is_open = True
        faults.open_files.append(path)

    def read_at(self, position: int, size: int) -> bytes:
        self._faults.meet("read", self._path)
        self._faults.meet_sectors(self._path, position, size)
        return bytes(self._content[position : position + size])

    def write_at(self, position: int, data: Buffer) -> None:
        self._faults.meet("write", self._path)
        growth = max(0, position + len(data) - len(self._content))
        room = self._faults.room
        if room is not None and growth > room:
            # As on a real disk, what still fits is written before the refusal.
            self._put(position, bytes(data)[: max(0, len(data) - growth + room)])
            self._faults.room = 0
            raise OSError(errno.ENOSPC, "planted: no space")
        if room is not None:
            self._faults.room = room - growth
        self._put(position, bytes(data))

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self.write_at(position, b"".join(parts))

    def _put(self, position: int, data: bytes) -> None:
        if len(self._content) < position:
            self._content.extend(bytes(position - len(self._content)))
        self._content[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        self._faults.meet("truncate", self._path)
        if self._faults.room is not None:
            self._faults.room += max(0, len(self._content) - size)
        del self._content[size:]
        self._content.extend(bytes(size - len(self._content)))

    def allocate(self, size: int) -> None:
        self._faults.meet("allocate", self._path)
        growth = max(0, size - len(self._content))
        room = self._faults.room
        if room is not None and growth > room:
            raise OSError(errno.ENOSPC, "planted: no space")
        if room is not None:
            self._faults.room = room - growth
        self._content.extend(bytes(growth))

    def sync(self) -> None:
        self._faults.meet("sync", self._path)

    def size(self) -> int:
        return len(self._content)

    def close(self) -> None:
        """Changes nothing on a disk, so it is not a place to be killed at."""
        self._faults.calls.append(("close", self._path))
        assert self._is_open, f"{self._path} closed twice"
        self._is_open = False
        self._faults.open_files.remove(self._path)
        self._faults.refuse("close", self._path)


class MemoryFiles:
    """Files by path, and the directories they are in."""

    def __init__(self, content: Content | None = None) -> None:
        self.faults = Faults()
        self._files: dict[str, bytearray] = {}
        # The names in each directory: a topic may have thousands of logs.
        self._directories: dict[str, dict[str, None]] = {"": {}}
        for path, data in (content or {}).items():
            parts = path.split("/")
            for depth in range(1, len(parts)):
                parent = "/".join(parts[:depth])
                if parent not in self._directories:
                    self._directories[parent] = {}
                    self._add_name(parent)
            self._files[path] = bytearray(data)
            self._add_name(path)

    def _add_name(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self._directories[directory][name] = None

    def _remove_name(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        del self._directories[directory][name]

    def copy(self) -> Content:
        return {path: bytes(data) for path, data in self._files.items()}

    def entries(self, directory: str) -> list[Entry]:
        if directory not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        paths = {
            name: f"{directory}/{name}" if directory else name
            for name in self._directories[directory]
        }
        files = [
            Entry(name, EntryKind.FILE, len(self._files[path]))
            for name, path in paths.items()
            if path in self._files
        ]
        directories = [
            Entry(name, EntryKind.DIRECTORY, 0)
            for name, path in paths.items()
            if path in self._directories
        ]
        return files + directories

    def kind(self, path: str) -> EntryKind | None:
        if path in self._files:
            return EntryKind.FILE
        return EntryKind.DIRECTORY if path in self._directories else None

    def open(self, path: str) -> MemoryFile:
        self.faults.meet("open", path)
        if path in self._directories:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return MemoryFile(path, self._files[path], self.faults)

    def create(self, path: str) -> MemoryFile:
        self.faults.meet("create", path)
        if path in self._files or path in self._directories:
            raise FileExistsError(errno.EEXIST, "exists", path)
        if path.rpartition("/")[0] not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self._files[path] = bytearray()
        self._add_name(path)
        return MemoryFile(path, self._files[path], self.faults)

    def make_directory(self, path: str) -> None:
        self.faults.meet("make_directory", path)
        if path in self._files or path in self._directories:
            raise FileExistsError(errno.EEXIST, "exists", path)
        if path.rpartition("/")[0] not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self._directories[path] = {}
        self._add_name(path)

    def sync_directory(self, path: str) -> None:
        self.faults.meet("sync_directory", path)

    def rename(self, old: str, new: str) -> None:
        self.faults.meet("rename", old)
        if new in self._directories:
            raise IsADirectoryError(errno.EISDIR, "is a directory", new)
        if new.rpartition("/")[0] not in self._directories or self.kind(old) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        self._remove_name(old)
        self._add_name(new)
        self._move(old, new)

    def _move(self, old: str, new: str) -> None:
        if old in self._files:
            self._files[new] = self._files.pop(old)
            return
        names = self._directories[new] = self._directories.pop(old)
        for name in names:
            self._move(f"{old}/{name}", f"{new}/{name}")

    def link(self, old: str, new: str) -> None:
        self.faults.meet("link", new)
        if old not in self._files or new.rpartition("/")[0] not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        if self.kind(new) is not None:
            raise FileExistsError(errno.EEXIST, "exists", new)
        self._files[new] = self._files[old]
        self._add_name(new)

    def remove(self, path: str) -> None:
        self.faults.meet("remove", path)
        if path in self._directories:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        del self._files[path]
        self._remove_name(path)

    def remove_directory(self, path: str) -> None:
        self.faults.meet("remove_directory", path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if self._directories[path]:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        del self._directories[path]
        self._remove_name(path)

    def free_bytes(self) -> int:
        self.faults.calls.append(("free_bytes", ""))
        return 1 << 40 if self.faults.room is None else self.faults.room

    def commit(self, commits: Sequence[FileCommit]) -> None:
        commit_in_turn(commits)
