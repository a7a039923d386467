"""Work on the files of backups: what the core asks for, and what it hears of it.

`HoldSegments` is carried out by the disk thread, in order with the changes of the logs that it
names. Everything else is a job (`RunBackupJob`): one at a time, in steps, by a thread that no log
waits for.
"""

import msgspec

from goqueue.model.errors import Code
from goqueue.model.ids import LogId, Offset, Timestamp
from goqueue.model.requests import BackupSummary, SavedTopic

__all__ = [
    "AdoptRestore",
    "BackedUpLog",
    "BackupEvent",
    "BackupJob",
    "BackupJobFailed",
    "BackupProgressed",
    "BackupRemoved",
    "BackupStarted",
    "BackupWritten",
    "BackupsFound",
    "DiscardRestore",
    "FindBackups",
    "FoundBackup",
    "HeldLog",
    "HeldSegment",
    "HoldSegments",
    "LogExtent",
    "RemoveBackup",
    "RestoreAdopted",
    "RestoreDiscarded",
    "RestoreStaged",
    "RunBackupJob",
    "SegmentsHeld",
    "StageRestore",
    "StagedLog",
    "WriteBackup",
]


class LogExtent(msgspec.Struct, frozen=True, kw_only=True):
    """The committed part of a log: it ends within the segment `tail`, behind `tail_bytes`."""

    log: LogId
    end: Offset
    tail: Offset
    tail_bytes: int


class HoldSegments(msgspec.Struct, frozen=True, kw_only=True):
    """Link the segments of these logs into a backup, so that nothing can remove them from it.

    Answered by `SegmentsHeld`, or by `BackupJobFailed`.
    """

    backup: str
    logs: tuple[LogExtent, ...]


class HeldSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A linked segment: its first bytes belong to the backup. If it is whole, that is all of it."""

    base: Offset
    size: int
    is_whole: bool


class HeldLog(msgspec.Struct, frozen=True, kw_only=True):
    """The segments that are held of a log, in order; none if nothing of it is left."""

    log: LogId
    segments: tuple[HeldSegment, ...]


class BackedUpLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log in a backup, with the offsets of [start, end)."""

    log: LogId
    start: Offset
    end: Offset
    segments: tuple[HeldSegment, ...]
    epochs: tuple[tuple[int, int], ...] = ()
    # Whether its records name producers, which mean others on the node that restores it.
    has_producers: bool = False


# Jobs


class FindBackups(msgspec.Struct, frozen=True, kw_only=True, tag="find"):
    """Remove what was not completed, and list the others; answered by `BackupsFound`."""


class WriteBackup(msgspec.Struct, frozen=True, kw_only=True, tag="write"):
    """Complete a backup whose segments are held.

    Answered by `BackupStarted` when there is space for it, and by `BackupWritten`. `committed` are
    producers and transactions that were decided before the moment of the backup, and whose markers
    may not be in the logs. `state` is for the core alone.
    """

    summary: BackupSummary
    logs: tuple[BackedUpLog, ...]
    committed: tuple[tuple[int, int], ...]
    state: tuple[bytes, ...]
    # How long it took until now.
    elapsed_ns: int


class RemoveBackup(msgspec.Struct, frozen=True, kw_only=True, tag="remove"):
    """Remove a backup, or what there is of one that failed; answered by `BackupRemoved`."""

    backup: str


class StageRestore(msgspec.Struct, frozen=True, kw_only=True, tag="stage"):
    """Verify a backup and copy its logs beside the others; answered by `RestoreStaged`."""

    backup: str
    skipped: tuple[str, ...]


class AdoptRestore(msgspec.Struct, frozen=True, kw_only=True, tag="adopt"):
    """Move staged logs among the others, durably; answered by `RestoreAdopted`."""

    backup: str
    topics: tuple[str, ...]


class DiscardRestore(msgspec.Struct, frozen=True, kw_only=True, tag="discard"):
    """Remove what was staged; answered by `RestoreDiscarded`."""

    backup: str


BackupJob = FindBackups | WriteBackup | RemoveBackup | StageRestore | AdoptRestore | DiscardRestore


class RunBackupJob(msgspec.Struct, frozen=True, kw_only=True):
    """Run a job behind all that were asked for before it."""

    job: BackupJob


# Events


class SegmentsHeld(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing can remove these segments from the backup; logs that are gone are left out."""

    backup: str
    logs: tuple[HeldLog, ...]


class FoundBackup(msgspec.Struct, frozen=True, kw_only=True):
    """A backup of an earlier time; one that cannot be used says why."""

    id: str
    summary: BackupSummary | None
    error: str | None = None


class BackupsFound(msgspec.Struct, frozen=True, kw_only=True):
    """Every backup that there is."""

    backups: tuple[FoundBackup, ...]


class BackupStarted(msgspec.Struct, frozen=True, kw_only=True):
    """There is space for the backup."""

    backup: str


class BackupProgressed(msgspec.Struct, frozen=True, kw_only=True):
    """So many bytes of a backup, or of a restore, were handled."""

    backup: str
    bytes: int


class BackupWritten(msgspec.Struct, frozen=True, kw_only=True):
    """A backup is complete and durable."""

    summary: BackupSummary


class BackupRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """A backup is gone, or why not."""

    backup: str
    failure: str | None = None


class StagedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log that was copied: its offsets are [start, end)."""

    log: LogId
    start: Offset
    end: Offset


class RestoreStaged(msgspec.Struct, frozen=True, kw_only=True):
    """A backup is whole, and the logs of these topics are copied and durable."""

    backup: str
    topics: tuple[SavedTopic, ...]
    logs: tuple[StagedLog, ...]
    state: tuple[bytes, ...]
    created_at: Timestamp = Timestamp(0)


class RestoreAdopted(msgspec.Struct, frozen=True, kw_only=True):
    """The logs are where logs of topics are."""

    backup: str


class RestoreDiscarded(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is staged any more, or the next start removes it."""

    backup: str


class BackupJobFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A hold or a job was given up; what it wrote is removed, or will be by the next start."""

    backup: str
    code: Code
    reason: str


BackupEvent = (
    SegmentsHeld
    | BackupsFound
    | BackupStarted
    | BackupProgressed
    | BackupWritten
    | BackupRemoved
    | RestoreStaged
    | RestoreAdopted
    | RestoreDiscarded
    | BackupJobFailed
)
