"""Snapshots of core state: caches that are replaced as a whole.

A missing or unreadable snapshot costs only time, so loading never fails.
"""

import errno
from binascii import b2a_base64
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from goqueue.model import check_name
from goqueue.records import Buffer
from goqueue.storage.filesystem import (
    FileCommit,
    FileSystem,
    atomic_write,
    ensure_directory,
    remove_if_there,
)
from goqueue.storage.layout import SNAPSHOTS

__all__ = ["load_snapshot", "save_snapshot", "save_snapshots", "snapshot_parts"]

_BYTES_MAX = 256 * 1024 * 1024
# What is encoded at once: bytes of a column, a multiple of three, and elements of a list.
_COLUMN_BYTES = 96 * 1024
_ROWS = 500
# How many files are open at a time.
_TOGETHER_MAX = 64


def _file_name(name: str) -> str:
    return f"{check_name(name, 'snapshot')}.json"


def snapshot_parts(data: bytes | msgspec.Struct) -> list[bytes]:
    """The JSON of a snapshot, in parts that take well under a millisecond each.

    No other thread runs while one part is encoded, and a snapshot may have a hundred megabytes.
    """
    return [data] if isinstance(data, bytes) else list(_encode(data))


def _encode(value: object) -> Iterator[bytes]:
    """The same bytes as `msgspec.json.encode` would return at once."""
    if isinstance(value, msgspec.Struct) and not value.__struct_config__.array_like:
        between = b"{"
        for name in value.__struct_encode_fields__:
            yield between + msgspec.json.encode(name) + b":"
            yield from _encode(getattr(value, name))
            between = b","
        yield b"}"
    elif isinstance(value, bytes):
        yield b'"'
        for first in range(0, len(value), _COLUMN_BYTES):
            yield b2a_base64(value[first : first + _COLUMN_BYTES], newline=False)
        yield b'"'
    elif isinstance(value, tuple):
        between = b"["
        for each in value:
            yield between
            yield from _encode(each)
            between = b","
        yield b"]"
    elif isinstance(value, list) and len(value) > _ROWS:
        between = b"["
        for first in range(0, len(value), _ROWS):
            yield between + msgspec.json.encode(value[first : first + _ROWS])[1:-1]
            between = b","
        yield b"]"
    else:
        yield msgspec.json.encode(value)


def save_snapshot(files: FileSystem, name: str, parts: Sequence[bytes]) -> None:
    """Replace the snapshot of this name; a crash leaves the old one or the new. Raises OSError."""
    if sum(map(len, parts)) > _BYTES_MAX:
        # It could not be loaded, and the previous one may still be useful.
        raise OSError(errno.EFBIG, "larger than a snapshot may be", name)
    ensure_directory(files, SNAPSHOTS)
    atomic_write(files, SNAPSHOTS, _file_name(name), *parts)


def save_snapshots(
    files: FileSystem, snapshots: Mapping[str, bytes], ticks: Callable[[], int]
) -> list[str]:
    """Replace many snapshots with their syncs in common; the names of those that are not saved.

    Each is synced before its new name, and a crash leaves the old one or the new.
    """
    ensure_directory(files, SNAPSHOTS)
    failed: list[str] = []
    names = list(snapshots)
    for first in range(0, len(names), _TOGETHER_MAX):
        commits: dict[str, FileCommit] = {}
        for name in names[first : first + _TOGETHER_MAX]:
            temporary = f"{SNAPSHOTS}/{_file_name(name)}.tmp"
            try:
                remove_if_there(files, temporary)
                file = files.create(temporary)
            except OSError:
                failed.append(name)
            else:
                parts: list[Buffer] = [snapshots[name]]
                commits[name] = FileCommit(file, 0, parts, is_synced=True, ticks=ticks)
        files.commit(list(commits.values()))
        for name, commit in commits.items():
            path = f"{SNAPSHOTS}/{_file_name(name)}"
            try:
                commit.file.close()
                if commit.write_error is not None or commit.sync_error is not None:
                    files.remove(f"{path}.tmp")
                    failed.append(name)
                else:
                    files.rename(f"{path}.tmp", path)
            except OSError:
                failed.append(name)
    files.sync_directory(SNAPSHOTS)
    return failed


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
