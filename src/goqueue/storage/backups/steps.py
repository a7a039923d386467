"""What jobs on backups are made of: copies with their sums, removals, and what an error means."""

import errno
import hashlib
from collections.abc import Iterator

from goqueue.model import BackupJobFailed, Code
from goqueue.storage.filesystem import EntryKind, File, FileSystem
from goqueue.storage.layout import RESERVE_FILE

__all__ = ["CHUNK_BYTES", "copy_bytes", "failed", "missing_space", "remove_tree", "write_file"]

# One step: below a millisecond of reading and of hashing.
CHUNK_BYTES = 256 * 1024
# For directories, the manifest and what the node writes meanwhile.
_SLACK_BYTES = 8 * 1024 * 1024
_DEPTH_MAX = 8
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def failed(backup: str, error: OSError) -> BackupJobFailed:
    """The event that gives up what was being done for a backup."""
    code = Code.STORAGE_FULL if error.errno in _NO_SPACE else Code.STORAGE_FAILED
    reason = error.strerror or str(error)
    if error.filename:
        reason = f"{reason}: {error.filename}"
    return BackupJobFailed(backup=backup, code=code, reason=reason)


def missing_space(files: FileSystem, wanted: int, reserve_bytes: int) -> int:
    """How many bytes are missing for `wanted` more, above what is reserved for journals."""
    reserved = 0
    try:
        reserve = files.open(RESERVE_FILE)
    except OSError:
        pass
    else:
        reserved = reserve.size()
        reserve.close()
    room = files.free_bytes() - max(0, reserve_bytes - reserved)
    return max(0, wanted + _SLACK_BYTES - room)


def write_file(files: FileSystem, path: str, data: bytes) -> None:
    """A new small file, synced."""
    file = files.create(path)
    try:
        file.write_at(0, data)
        file.sync()
    finally:
        file.close()


def copy_bytes(
    source: File, size: int, target: File | None, digest: "hashlib._Hash"
) -> Iterator[int]:
    """Read the first bytes of a file, in steps, for their sum, and write them unless linked."""
    position = 0
    while position < size:
        data = source.read_at(position, min(CHUNK_BYTES, size - position))
        if not data:
            raise OSError(errno.EIO, "a file is shorter than it was")
        digest.update(data)
        if target is not None:
            target.write_at(position, data)
        position += len(data)
        yield len(data)


def remove_tree(files: FileSystem, path: str, depth_left: int = _DEPTH_MAX) -> Iterator[int]:
    """Remove a path and all that is below it, an entry at a time; raises OSError.

    Links are removed, never followed.
    """
    kind = files.kind(path)
    if kind is EntryKind.DIRECTORY and depth_left:
        for entry in files.entries(path):
            yield from remove_tree(files, f"{path}/{entry.name}", depth_left - 1)
        files.remove_directory(path)
    elif kind is not None:
        files.remove(path)
    yield 0
