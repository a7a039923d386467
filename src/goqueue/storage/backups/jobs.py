"""Jobs on the files of backups: each an iterator of small steps, and of events.

A step yields how many bytes it read or wrote, so that a shell can bound the speed. Whatever goes
wrong ends a job with `BackupJobFailed`; it never concerns the logs of the node.

Invariant: what is removed has a name of its own, `{id}.removed-N`, from before the core may use its
id again. Ids are seconds: a backup may be taken under the id of one whose files are still being
removed, or of one that a crash left unfinished in the same second.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

from goqueue.model import (
    AdoptRestore,
    BackupEvent,
    BackupJob,
    BackupJobFailed,
    BackupRemoved,
    BackupsFound,
    Code,
    DiscardRestore,
    FindBackups,
    FoundBackup,
    RemoveBackup,
    RestoreDiscarded,
    StageRestore,
    WriteBackup,
)
from goqueue.storage.backups.manifest import (
    PARTIAL,
    BackupUnusable,
    backup_path,
    is_backup_id,
    partial_path,
    read_manifest,
)
from goqueue.storage.backups.restore_stage import adopt, stage
from goqueue.storage.backups.steps import failed, remove_tree
from goqueue.storage.backups.writer import write_backup
from goqueue.storage.filesystem import EntryKind, FileSystem
from goqueue.storage.layout import BACKUPS, RESTORING

__all__ = ["BackupJobs", "JobStep"]

JobStep = int | BackupEvent
_REMOVED = "removed-"


class BackupJobs:
    """Makes the steps of jobs on one data directory."""

    def __init__(
        self,
        files: FileSystem,
        *,
        version: str = "",
        reserve_bytes: int = 0,
        ticks: Callable[[], int],
    ) -> None:
        """`ticks` counts nanoseconds."""
        self._files = files
        self._version = version
        self._reserve_bytes = reserve_bytes
        self._ticks = ticks

    def steps(self, job: BackupJob) -> Iterator[JobStep]:
        """The steps of a job; the last event says what came of it."""
        match job:
            case FindBackups():
                return self._find()
            case RemoveBackup():
                return self._remove(job.backup)
            case DiscardRestore():
                return self._discard(job.backup)
            case WriteBackup():
                steps = write_backup(
                    self._files, job, self._version, self._reserve_bytes, self._ticks
                )
                return self._guarded(job.summary.id, steps)
            case StageRestore():
                return self._guarded(job.backup, stage(self._files, job, self._reserve_bytes))
            case AdoptRestore():
                return self._guarded(job.backup, adopt(self._files, job))

    def _guarded(self, backup: str, steps: Iterator[JobStep]) -> Iterator[JobStep]:
        try:
            yield from steps
        except OSError as error:
            yield failed(backup, error)
        except BackupUnusable as unusable:
            yield BackupJobFailed(backup=backup, code=Code.REQUEST_INVALID, reason=str(unusable))

    def _find(self) -> Iterator[JobStep]:
        found: list[FoundBackup] = []
        removed: list[str] = []
        with suppress(OSError):
            for entry in self._entries():
                backup, _, suffix = entry.partition(".")
                if not is_backup_id(backup):
                    continue
                if not suffix:
                    found.append(self._describe(entry))
                elif entry == f"{backup}{PARTIAL}":
                    with suppress(OSError):
                        removed.append(self._retire(backup, partial_path(backup)))
                elif suffix.startswith(_REMOVED):
                    removed.append(f"{BACKUPS}/{entry}")
                yield 0
        yield BackupsFound(backups=tuple(found))
        for path in removed:
            with suppress(OSError):
                yield from remove_tree(self._files, path)

    def _entries(self) -> list[str]:
        if self._files.kind(BACKUPS) is not EntryKind.DIRECTORY:
            return []
        return sorted(entry.name for entry in self._files.entries(BACKUPS))

    def _describe(self, backup: str) -> FoundBackup:
        try:
            return FoundBackup(id=backup, summary=read_manifest(self._files, backup).summary)
        except (BackupUnusable, OSError) as error:
            return FoundBackup(id=backup, summary=None, error=str(error))

    def _remove(self, backup: str) -> Iterator[JobStep]:
        """A renamed directory is no backup after any crash, whatever is left of it."""
        try:
            removed = [
                self._retire(backup, path)
                for path in (backup_path(backup), partial_path(backup))
                if self._files.kind(path) is not None
            ]
            if removed:
                self._files.sync_directory(BACKUPS)
        except OSError as error:
            yield BackupRemoved(backup=backup, failure=failed(backup, error).reason)
            return
        yield BackupRemoved(backup=backup)
        for path in removed:
            with suppress(OSError):
                yield from remove_tree(self._files, path)

    def _retire(self, backup: str, path: str) -> str:
        """Rename what is to be removed, so that its id can be used again; its new path."""
        number = 0
        while self._files.kind(removed := f"{backup_path(backup)}.{_REMOVED}{number}") is not None:
            number += 1
        self._files.rename(path, removed)
        return removed

    def _discard(self, backup: str) -> Iterator[JobStep]:
        with suppress(OSError):
            yield from remove_tree(self._files, RESTORING)
        yield RestoreDiscarded(backup=backup)
