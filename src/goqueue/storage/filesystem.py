"""The file system that storage needs, as protocols: a real or a simulated one is passed in.

Paths are relative to the data directory, with `/` between names. Every method may raise OSError;
`create` and `make_directory` raise FileExistsError, `open` and `remove` FileNotFoundError. `rename`
moves a file or a directory with its contents; it may replace a file only. `link` gives a file a
second name, and raises FileExistsError if that is taken. A write is complete or
raises; a read is short only at the end of the file. `write_all_at` writes buffers one behind the
other; if it raises, any part of them may be written. `allocate` extends a file to at least this
size and reserves the space, or raises.

`commit` writes and syncs several files with one call: first all of them are written, then those
that need it are synced, in any order or in parallel. It raises nothing: each `FileCommit` holds
its outcome.
"""

import enum
import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from goqueue.records import Buffer

__all__ = [
    "Entry",
    "EntryKind",
    "File",
    "FileCommit",
    "FileSystem",
    "atomic_write",
    "commit_in_turn",
    "ensure_directory",
    "remove_if_there",
    "rename_for_good",
    "sync_once",
]


class EntryKind(enum.StrEnum):
    """The kind of a directory entry. Links are never followed."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


class Entry(msgspec.Struct, frozen=True):
    """One name in a directory."""

    name: str
    kind: EntryKind
    size: int


class File(Protocol):
    """An open file, addressed by position."""

    def read_at(self, position: int, size: int) -> bytes: ...
    def write_at(self, position: int, data: Buffer) -> None: ...
    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None: ...
    def truncate(self, size: int) -> None: ...
    def allocate(self, size: int) -> None: ...
    def sync(self) -> None: ...
    def size(self) -> int: ...
    def close(self) -> None: ...


class FileCommit:
    """What one file gets in a group commit, and the outcome: `commit` of the file system fills it.

    A file whose write failed is not synced.
    """

    __slots__ = (
        "_ticks",
        "file",
        "is_synced",
        "parts",
        "position",
        "sync_error",
        "took_ns",
        "write_error",
    )

    def __init__(
        self,
        file: File,
        position: int,
        parts: list[Buffer],
        *,
        is_synced: bool,
        ticks: Callable[[], int],
    ) -> None:
        self.file = file
        self.position = position
        self.parts = parts
        self.is_synced = is_synced
        self._ticks = ticks
        self.write_error: OSError | None = None
        self.sync_error: OSError | None = None
        # How long the sync took.
        self.took_ns = 0

    def write(self) -> None:
        try:
            if self.parts:
                self.file.write_all_at(self.position, self.parts)
        except OSError as error:
            self.write_error = error

    def sync(self) -> None:
        if not self.is_synced or self.write_error is not None:
            return
        began = self._ticks()
        try:
            self.file.sync()
        except OSError as error:
            self.sync_error = error
        self.took_ns = self._ticks() - began


class FileSystem(Protocol):
    """A directory tree."""

    def entries(self, directory: str) -> list[Entry]: ...
    def kind(self, path: str) -> EntryKind | None: ...
    def open(self, path: str) -> File: ...
    def create(self, path: str) -> File: ...
    def make_directory(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def link(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_directory(self, path: str) -> None: ...
    def free_bytes(self) -> int: ...
    def commit(self, commits: Sequence[FileCommit]) -> None: ...


def commit_in_turn(commits: Sequence[FileCommit]) -> None:
    """Write, then sync, one file after the other."""
    for commit in commits:
        commit.write()
    for commit in commits:
        commit.sync()


def remove_if_there(files: FileSystem, path: str) -> bool:
    """Remove a file if it exists; whether it did."""
    try:
        files.remove(path)
    except FileNotFoundError:
        return False
    return True


def ensure_directory(files: FileSystem, path: str) -> None:
    """Create a directory unless it exists; another kind of entry is an error."""
    kind = files.kind(path)
    if kind is None:
        try:
            files.make_directory(path)
        except FileExistsError:
            # Another thread was faster; that is fine if it created a directory.
            kind = files.kind(path)
    if kind not in {None, EntryKind.DIRECTORY}:
        raise NotADirectoryError(errno.ENOTDIR, f"a {kind}, not a directory", path)


def sync_once(sync: Callable[[], None]) -> None:
    """Execute a sync whose failure is final, whatever the reason.

    A lack of space would be treated as temporary, but a second sync may report success for pages
    that the first one lost.
    """
    try:
        sync()
    except OSError as error:
        raise OSError(errno.EIO, f"a sync failed: {error}") from error


def atomic_write(files: FileSystem, directory: str, name: str, *parts: bytes) -> None:
    """Replace a file: after any crash it holds the old content or the new."""
    temporary = f"{directory}/{name}.tmp"
    remove_if_there(files, temporary)
    file = files.create(temporary)
    try:
        position = 0
        for part in parts:
            file.write_at(position, part)
            position += len(part)
        file.sync()
    except OSError:
        # Half a file is useless, and on a full disk it takes space from others.
        with suppress(OSError):
            files.remove(temporary)
        raise
    finally:
        file.close()
    rename_for_good(files, directory, f"{name}.tmp", name)


def rename_for_good(files: FileSystem, directory: str, old: str, new: str) -> None:
    """Rename a file within its directory, durably."""
    files.rename(f"{directory}/{old}", f"{directory}/{new}")
    files.sync_directory(directory)
