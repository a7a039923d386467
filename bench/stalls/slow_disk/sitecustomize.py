"""Python imports this by itself when it starts: files sync as slowly as on a disk of 100 MB/s."""

import contextlib
import os
import time

_BYTES_PER_S = 100e6
_synced: dict[tuple[int, int], int] = {}
_sync = os.fdatasync


def _slow(descriptor: int) -> None:
    found = os.fstat(descriptor)
    key = (found.st_dev, found.st_ino)
    before = min(_synced.get(key, 0), found.st_size)
    _synced[key] = found.st_size
    time.sleep((found.st_size - before) / _BYTES_PER_S)
    _sync(descriptor)


os.fdatasync = _slow  # type: ignore[assignment]  # ours only ever gives descriptors

# The compiled calls do not ask the module os; their twin does. An older tree has neither.
with contextlib.suppress(ImportError):
    from goqueue.runtime import commit_calls, os_files

    os_files.commit_files = commit_calls.commit_all
