"""The real file system under one data directory.

The only place that opens, renames or syncs files. Links are refused, not followed: a name in the
data directory refers to a file in the data directory.
"""

import errno
import os
import resource
import stat
from collections.abc import Sequence
from contextlib import suppress

from goqueue.records import Buffer
from goqueue.runtime.file_commits import Job, commit_files
from goqueue.storage import BACKUPS, Entry, EntryKind, FileCommit

__all__ = ["OsFile", "OsFileSystem", "raise_descriptor_limit"]

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
# Without O_NONBLOCK opening a named pipe would block.
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_KINDS = {
    stat.S_IFREG: EntryKind.FILE,
    stat.S_IFDIR: EntryKind.DIRECTORY,
    stat.S_IFLNK: EntryKind.LINK,
}
_MODE = 0o640
_CANNOT_ALLOCATE = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV})
_ZEROS = 1024 * 1024
_DIRECTORY_MODE = 0o750
_PRIVATE = 0o600
_PRIVATE_DIRECTORY = 0o700


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit; the new limit.

    The soft limit is low for programs that use `select`, which this one does not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # The system may enforce a lower limit than it reports.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class OsFile:
    """An open file descriptor. Reads and writes carry their position, so threads may share it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + size - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def write_at(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written == len(data):
            return
        rest = memoryview(data)
        while written < len(rest):
            count = os.pwrite(self._descriptor, rest[written:], position + written)
            if not count:
                raise OSError(errno.EIO, "the disk took no more bytes")
            written += count

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        [(number, _, _)] = commit_files([(self._descriptor, position, [*parts], False)])
        if number:
            raise _error(number)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT_ALLOCATE:
                raise
            self._fill(size)

    def _fill(self, size: int) -> None:
        """Reserve the space by writing zeros, if the file system cannot allocate it."""
        position = self.size()
        while position < size:
            zeros = bytes(min(_ZEROS, size - position))
            self.write_at(position, zeros)
            position += len(zeros)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


class OsFileSystem:
    """Files below `root`. With `is_read_only` nothing is ever written, not even by mistake.

    What is created in the directory of backups is for the owner of the process alone.
    """

    def __init__(self, root: str, *, is_read_only: bool = False) -> None:
        self._root = root
        self._is_read_only = is_read_only
        self._access = os.O_RDONLY if is_read_only else os.O_RDWR

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _changeable(self, path: str) -> str:
        if self._is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return self._path(path)

    def entries(self, directory: str) -> list[Entry]:
        entries: list[Entry] = []
        with os.scandir(self._path(directory)) as found:
            for item in found:
                with suppress(FileNotFoundError):
                    # Another thread or process may remove the file between the two calls.
                    entries.append(_entry(item))
        return entries

    def kind(self, path: str) -> EntryKind | None:
        try:
            mode = os.lstat(self._path(path)).st_mode
        except FileNotFoundError:
            return None
        return _KINDS.get(stat.S_IFMT(mode), EntryKind.OTHER)

    def open(self, path: str) -> OsFile:
        descriptor = os.open(self._path(path), self._access | _OPEN)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", path)
        return OsFile(descriptor)

    def create(self, path: str) -> OsFile:
        return OsFile(
            os.open(self._changeable(path), _CREATE, _PRIVATE if _is_private(path) else _MODE)
        )

    def make_directory(self, path: str) -> None:
        mode = _PRIVATE_DIRECTORY if _is_private(path) else _DIRECTORY_MODE
        os.mkdir(self._changeable(path), mode)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(self._path(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._changeable(old), self._changeable(new))

    def link(self, old: str, new: str) -> None:
        os.link(self._changeable(old), self._changeable(new), follow_symlinks=False)

    def remove(self, path: str) -> None:
        os.unlink(self._changeable(path))

    def remove_directory(self, path: str) -> None:
        os.rmdir(self._changeable(path))

    def free_bytes(self) -> int:
        usage = os.statvfs(self._root)
        return usage.f_bavail * usage.f_frsize

    def commit(self, commits: Sequence[FileCommit]) -> None:
        outcomes = commit_files([_job(commit) for commit in commits])
        for commit, (write_number, sync_number, took_ns) in zip(commits, outcomes, strict=True):
            commit.write_error = _error(write_number) if write_number else None
            commit.sync_error = _error(sync_number) if sync_number else None
            commit.took_ns = took_ns

    def size_bytes(self) -> int:
        """The size of the file system of the data directory."""
        usage = os.statvfs(self._root)
        return usage.f_blocks * usage.f_frsize


def _is_private(path: str) -> bool:
    return path.partition("/")[0] == BACKUPS


def _job(commit: FileCommit) -> Job:
    assert isinstance(commit.file, OsFile), "a file of this file system"
    return commit.file.descriptor, commit.position, commit.parts, commit.is_synced


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _entry(item: "os.DirEntry[str]") -> Entry:
    status = item.stat(follow_symlinks=False)
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
    return Entry(item.name, kind, status.st_size if kind is EntryKind.FILE else 0)
