"""A copy of a log's leader-epoch history beside the log: a cache of its epoch records."""

import msgspec

from goqueue.records import crc32c
from goqueue.storage.filesystem import EntryKind, FileSystem, atomic_write
from goqueue.storage.layout import EPOCHS_FILE

__all__ = ["History", "load_epochs", "save_epochs"]

History = tuple[tuple[int, int], ...]

_BYTES_MAX = 4 * 1024 * 1024


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file; the sum is over the JSON of the history."""

    crc: int
    epochs: History


def save_epochs(files: FileSystem, directory: str, epochs: History) -> None:
    """Keep a copy of the history; where that fails, none rather than a stale one."""
    saved = msgspec.json.encode(_Saved(crc=_sum(epochs), epochs=epochs))
    try:
        atomic_write(files, directory, EPOCHS_FILE, saved)
    except OSError:
        path = f"{directory}/{EPOCHS_FILE}"
        if files.kind(path) is EntryKind.FILE:
            files.remove(path)
            files.sync_directory(directory)


def load_epochs(files: FileSystem, directory: str) -> History | None:
    """The history that was saved, or None if there is none that can be trusted."""
    try:
        file = files.open(f"{directory}/{EPOCHS_FILE}")
    except OSError:
        return None
    try:
        saved = msgspec.json.decode(file.read_at(0, _BYTES_MAX), type=_Saved)
    except (OSError, msgspec.DecodeError):
        return None
    finally:
        file.close()
    return saved.epochs if saved.crc == _sum(saved.epochs) else None


def _sum(epochs: History) -> int:
    return crc32c(msgspec.json.encode(epochs))
