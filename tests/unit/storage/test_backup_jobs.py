"""Backups whose ids are used again: ids are seconds, and files take longer to go than names."""

from collections.abc import Iterator

import pytest

from goqueue.model import (
    BackupRemoved,
    BackupsFound,
    BackupWritten,
    FindBackups,
    RemoveBackup,
    Timestamp,
    WriteBackup,
)
from goqueue.model.requests import BackupStatistics, BackupSummary
from goqueue.storage import BackupJobs
from tests.unit.storage.memory_files import MemoryFiles

_ID = "2026-11-18-023719"
_STATE = (b"{}", b"[]", b"1")
_SUMMARY = BackupSummary(
    id=_ID,
    created_at=Timestamp(0),
    node="n",
    cluster="c",
    version="",
    statistics=BackupStatistics(topics=0, partitions=0),
)
_WRITE = WriteBackup(summary=_SUMMARY, logs=(), committed=(), state=_STATE, elapsed_ns=0)


def _jobs(files: MemoryFiles) -> BackupJobs:
    return BackupJobs(files, ticks=lambda: 0)


def _run_until(steps: Iterator[object], event: type[object]) -> object:
    return next(step for step in steps if isinstance(step, event))


def _whole_backup(files: MemoryFiles) -> None:
    """There is one backup, and it has every file of its manifest."""
    found = _run_until(_jobs(files).steps(FindBackups()), BackupsFound)
    assert isinstance(found, BackupsFound)
    assert [(each.id, each.error) for each in found.backups] == [(_ID, None)]
    for number, data in enumerate(_STATE):
        assert files.copy()[f"backups/{_ID}/state/{number}.json"] == data


@pytest.mark.parametrize("steps_between", range(6))
def test_a_backup_has_its_files_while_another_of_its_id_is_removed(steps_between: int) -> None:
    files = MemoryFiles()
    _run_until(_jobs(files).steps(_WRITE), BackupWritten)
    removal = _jobs(files).steps(RemoveBackup(backup=_ID))
    assert _run_until(removal, BackupRemoved) == BackupRemoved(backup=_ID)

    writing = _jobs(files).steps(_WRITE)
    for _ in range(steps_between):
        next(writing)
    for _ in removal:
        pass
    _run_until(writing, BackupWritten)

    _whole_backup(files)
    assert not [path for path in files.copy() if "removed" in path]


@pytest.mark.parametrize("steps_between", range(6))
def test_a_backup_has_its_files_while_an_unfinished_one_of_its_id_is_removed(
    steps_between: int,
) -> None:
    files = MemoryFiles()
    unfinished = _jobs(files).steps(_WRITE)
    for _ in range(4):
        next(unfinished)
    start = _jobs(files).steps(FindBackups())
    assert _run_until(start, BackupsFound) == BackupsFound(backups=())

    writing = _jobs(files).steps(_WRITE)
    for _ in range(steps_between):
        next(writing)
    for _ in start:
        pass
    _run_until(writing, BackupWritten)

    _whole_backup(files)


def test_a_removal_that_a_crash_cuts_short_ends_with_the_next_start() -> None:
    files = MemoryFiles()
    for _ in range(2):
        _run_until(_jobs(files).steps(_WRITE), BackupWritten)
        # As far as the answer: all files are still there.
        _run_until(_jobs(files).steps(RemoveBackup(backup=_ID)), BackupRemoved)
    assert [path for path in files.copy() if "removed-1" in path]

    for _ in _jobs(files).steps(FindBackups()):
        pass

    assert not [path for path in files.copy() if path.startswith("backups/")]
