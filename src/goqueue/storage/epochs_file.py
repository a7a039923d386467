"""A copy of a log's leader-epoch history beside the log.

Of epochs that began below the start of the log it is the only trace: their records are deleted.
"""

from collections.abc import Iterator

import msgspec

from goqueue.log import LogState, epoch_of
from goqueue.records import Corrupt, Flag, crc32c, decode
from goqueue.storage.filesystem import EntryKind, FileSystem, atomic_write
from goqueue.storage.layout import EPOCHS_FILE, segment_name
from goqueue.storage.segment import chunks

__all__ = ["History", "load_epochs", "save_epochs", "scan_epochs"]

History = tuple[tuple[int, int], ...]

_BYTES_MAX = 4 * 1024 * 1024


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file; the checksum is over the JSON of the history."""

    crc: int
    epochs: History


def save_epochs(
    files: FileSystem, directory: str, epochs: History, *, is_durable: bool = True
) -> None:
    """Save a copy of the history; if that raises OSError, the copy before it is there.

    The first copy of a new log need not be durable: without it the records are scanned. Where a
    directory has the name of the copy, there is none: it is not ours to remove.
    """
    saved = msgspec.json.encode(_Saved(crc=_sum(epochs), epochs=epochs))
    path = f"{directory}/{EPOCHS_FILE}"
    try:
        if is_durable:
            atomic_write(files, directory, EPOCHS_FILE, saved)
        else:
            _write_new(files, path, saved)
    except OSError:
        if files.kind(path) is not EntryKind.DIRECTORY:
            raise


def _write_new(files: FileSystem, path: str, data: bytes) -> None:
    file = files.create(path)
    try:
        file.write_at(0, data)
    finally:
        file.close()


def load_epochs(files: FileSystem, directory: str) -> History | None:
    """The saved history; None if there is none that can be trusted."""
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


def scan_epochs(files: FileSystem, directory: str, state: LogState) -> Iterator[tuple[int, int]]:
    """The history from the epoch records of a log."""
    for facts in state.segments:
        file = files.open(f"{directory}/{segment_name(facts.base)}")
        try:
            for chunk in chunks(file, 0, facts.size):
                for index, flags in enumerate(chunk.columns.flags):
                    if flags & Flag.CONTROL:
                        record = decode(chunk.data, chunk.columns.positions[index])
                        epoch = epoch_of(record)
                        if epoch is not None:
                            yield epoch, record.offset
        except Corrupt:
            # Damage below the recovery point is reported on read.
            continue
        finally:
            file.close()


def _sum(epochs: History) -> int:
    return crc32c(msgspec.json.encode(epochs))
