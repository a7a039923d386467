"""What a run of the log wrote and synced, so that raw system calls can do the same.

Only batches and the syncs that cover them are replayed. What the log writes and syncs beyond that
(index, recovery point, new segments and their directory) counts against it.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from unittest.mock import patch

from goqueue.records import Buffer
from goqueue.runtime import OsFile, OsFileSystem
from goqueue.storage import FileCommit

__all__ = ["Tape", "recording", "replay"]


class Tape:
    """The number of batches that shared each sync, in order."""

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._unsynced = 0
        self.groups: list[int] = []
        self.other_syncs = 0

    def wrote(self, size: int) -> None:
        self._unsynced += size == self._batch_bytes

    def synced(self) -> None:
        if self._unsynced:
            self.groups.append(self._unsynced)
        else:
            self.other_syncs += 1
        self._unsynced = 0


@contextmanager
def recording(batch_bytes: int) -> Iterator[Tape]:
    """Note every write and sync of the real file system; one log at a time, so no lock."""
    tape = Tape(batch_bytes)
    commit, sync = OsFileSystem.commit, OsFile.sync

    def noted_commit(files: OsFileSystem, commits: Sequence[FileCommit]) -> None:
        commit(files, commits)
        for each in commits:
            for part in each.parts:
                tape.wrote(len(part))
            if each.is_synced:
                tape.synced()

    def noted_sync(file: OsFile) -> None:
        sync(file)
        tape.synced()

    with (
        patch.object(OsFileSystem, "commit", noted_commit),
        patch.object(OsFile, "sync", noted_sync),
    ):
        yield tape


def replay(path: str, batches: Sequence[Buffer], groups: Sequence[int]) -> float:
    """Write these batches to a new file with a sync after each group; the seconds it took."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        pending = iter(batches)
        began = perf_counter()
        for group in groups:
            for _ in range(group):
                os.write(descriptor, next(pending))
            os.fdatasync(descriptor)
        return perf_counter() - began
    finally:
        os.close(descriptor)
        os.unlink(path)
