"""Snapshots of core state: caches that are replaced as a whole.

A missing or unreadable snapshot costs only time, so loading never fails.
"""

import errno

from goqueue.model import check_name
from goqueue.storage.filesystem import FileSystem, atomic_write, ensure_directory
from goqueue.storage.layout import SNAPSHOTS

__all__ = ["load_snapshot", "save_snapshot"]

_BYTES_MAX = 256 * 1024 * 1024


def _file_name(name: str) -> str:
    return f"{check_name(name, 'snapshot')}.json"


def save_snapshot(files: FileSystem, name: str, data: bytes) -> None:
    """Replace the snapshot of this name; a crash leaves the old one or the new. Raises OSError."""
    if len(data) > _BYTES_MAX:
        # It could not be loaded, and the previous one may still be useful.
        raise OSError(errno.EFBIG, "larger than a snapshot may be", name)
    ensure_directory(files, SNAPSHOTS)
    atomic_write(files, SNAPSHOTS, _file_name(name), data)


def load_snapshot(files: FileSystem, name: str) -> bytes | None:
    """The snapshot of this name; None if there is no readable one."""
    try:
        file = files.open(f"{SNAPSHOTS}/{_file_name(name)}")
    except OSError:
        return None
    try:
        size = file.size()
        return file.read_at(0, size) if size <= _BYTES_MAX else None
    except OSError:
        return None
    finally:
        file.close()
