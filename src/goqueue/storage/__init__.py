"""Segment files: executes the effects of logs on a file system that is passed in.

Synchronous, without clock, thread or `os`, so that the runtime and the simulator run the same code
down to single file operations.
"""

from goqueue.storage.backups import FORMAT, MANIFEST_FILE, SUM_FILE, BackupJobs
from goqueue.storage.filesystem import (
    Entry,
    EntryKind,
    File,
    FileCommit,
    FileSystem,
    atomic_write,
    commit_in_turn,
    remove_if_there,
    rename_for_good,
)
from goqueue.storage.layout import (
    BACKUPS,
    EPOCHS_FILE,
    LOGS,
    POINT_FILE,
    RESTORING,
    SNAPSHOTS,
    TRASH,
    UNCLAIMED,
    NameKind,
    classify,
    find_logs,
    log_directory,
    quarantine_name,
    segment_base,
    segment_name,
)
from goqueue.storage.log_directories import Moved
from goqueue.storage.log_opener import Opened
from goqueue.storage.offline_log import OfflineLog
from goqueue.storage.recovery import Cut, RecoveryReport
from goqueue.storage.recovery_point import read_point
from goqueue.storage.segment import (
    Chunk,
    DamageFound,
    RebuildNeeded,
    RecordSearch,
    ScanNeeded,
    SegmentFile,
    chunks,
)
from goqueue.storage.staged_logs import StagedLogs
from goqueue.storage.storage import Storage

__all__ = [
    "BACKUPS",
    "EPOCHS_FILE",
    "FORMAT",
    "LOGS",
    "MANIFEST_FILE",
    "POINT_FILE",
    "RESTORING",
    "SNAPSHOTS",
    "SUM_FILE",
    "TRASH",
    "UNCLAIMED",
    "BackupJobs",
    "Chunk",
    "Cut",
    "DamageFound",
    "Entry",
    "EntryKind",
    "File",
    "FileCommit",
    "FileSystem",
    "Moved",
    "NameKind",
    "OfflineLog",
    "Opened",
    "RebuildNeeded",
    "RecordSearch",
    "RecoveryReport",
    "ScanNeeded",
    "SegmentFile",
    "StagedLogs",
    "Storage",
    "atomic_write",
    "chunks",
    "classify",
    "commit_in_turn",
    "find_logs",
    "log_directory",
    "quarantine_name",
    "read_point",
    "remove_if_there",
    "rename_for_good",
    "segment_base",
    "segment_name",
]
