"""The report of an opening, and copies of the bytes that recovery cut off.

A copy is made only if good records follow a bad one above the recovery point: most likely a torn
write whose pages reached the disk out of order, but it may be damage, and the bytes are the only
evidence. Copies are for the operator; nothing reads them again. A log keeps few of them, and an
opening does not fail without one.
"""

import errno

import msgspec

from goqueue.log import DamagedRange
from goqueue.model import LogId, Offset
from goqueue.storage.filesystem import File, FileSystem, remove_if_there
from goqueue.storage.layout import NameKind, classify, cut_name
from goqueue.storage.segment import CHUNK_BYTES

__all__ = ["CUTS_MAX", "Cut", "RecoveryReport", "keep_cut"]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a segment that was cut off, because a record or a batch was incomplete.

    If good records follow the bad one, it may be more than a torn write: then `kept` is the path of
    a copy of the first `kept_size` bytes, or `not_kept` is the reason why there is none.
    """

    segment: Offset
    position: int
    size: int
    reason: str
    has_good_records: bool = False
    kept: str = ""
    kept_size: int = 0
    not_kept: str = ""


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an opening found and did."""

    log: LogId
    scanned_bytes: int
    cut: Cut | None
    damaged: tuple[DamagedRange, ...]
    set_aside: tuple[Offset, ...]
    rebuilt_indexes: tuple[Offset, ...]
    removed: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return self.cut is None and not self.damaged


CUTS_MAX = 4
_CUT_BYTES_MAX = 64 * 1024 * 1024


def keep_cut(files: FileSystem, directory: str, source: File, cut: Cut) -> Cut:
    """Copy, durably, what is about to be cut off; the cut with the result of the copy.

    After a crash before the cut, both are repeated under the same name.
    """
    name = cut_name(cut.segment, cut.position)
    path = f"{directory}/{name}"
    size = min(cut.size, _CUT_BYTES_MAX)
    try:
        _check_room(files, directory, name)
        _copy(files, path, source, cut.position, size)
        files.sync_directory(directory)
    except OSError as error:
        reason = error.strerror or str(error)
        return msgspec.structs.replace(cut, has_good_records=True, not_kept=reason)
    return msgspec.structs.replace(cut, has_good_records=True, kept=path, kept_size=size)


def _check_room(files: FileSystem, directory: str, name: str) -> None:
    names = [entry.name for entry in files.entries(directory)]
    others = [found for found in names if classify(found) is NameKind.CUT and found != name]
    if len(others) >= CUTS_MAX:
        raise OSError(errno.EDQUOT, f"{CUTS_MAX} are kept already")


def _copy(files: FileSystem, path: str, source: File, position: int, size: int) -> None:
    remove_if_there(files, path)
    file = files.create(path)
    try:
        done = 0
        while done < size:
            data = source.read_at(position + done, min(CHUNK_BYTES, size - done))
            if not data:
                break
            file.write_at(done, data)
            done += len(data)
        file.sync()
    finally:
        file.close()
