"""The progress of a log's compaction, in a small file beside the log.

A cache: without it the first pass after a restart rewrites clean segments. It is written only after
the rewritten segments are durable and removed before a truncation, so it never overstates; a
checksum protects against damage.
"""

from contextlib import suppress

from goqueue.model import Offset
from goqueue.records import crc32c
from goqueue.storage.filesystem import FileSystem, remove_if_there
from goqueue.storage.layout import CLEANED_FILE

__all__ = ["forget_cleaned", "load_cleaned", "save_cleaned"]

_DIGITS = 20
_BYTES = _DIGITS + 1 + 8 + 1


def save_cleaned(files: FileSystem, directory: str, upto: Offset) -> None:
    """Record, without waiting for the disk, that everything below `upto` is clean."""
    digits = b"%0*d" % (_DIGITS, upto)
    with suppress(OSError):
        path = f"{directory}/{CLEANED_FILE}"
        try:
            file = files.open(path)
        except FileNotFoundError:
            file = files.create(path)
        try:
            file.write_at(0, b"%s %08x\n" % (digits, crc32c(digits)))
        finally:
            file.close()


def load_cleaned(files: FileSystem, directory: str) -> Offset:
    """The offset below which the log is clean; 0 if unknown."""
    try:
        file = files.open(f"{directory}/{CLEANED_FILE}")
    except OSError:
        return Offset(0)
    try:
        digits, _, rest = file.read_at(0, _BYTES).partition(b" ")
    except OSError:
        return Offset(0)
    finally:
        file.close()
    if not digits.isdigit() or rest != b"%08x\n" % crc32c(digits):
        return Offset(0)
    return Offset(int(digits))


def forget_cleaned(files: FileSystem, directory: str) -> None:
    """Remove the file, durably, before offsets are taken back: new records are not clean."""
    if remove_if_there(files, f"{directory}/{CLEANED_FILE}"):
        files.sync_directory(directory)
