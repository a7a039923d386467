"""Segment files: carries out what logs decide, over a file system that is handed in.

Synchronous and without clock, thread or `os`, so that the runtime and the simulator run the same
code down to single file operations.
"""

from goqueue.storage.filesystem import (
    Entry,
    EntryKind,
    File,
    FileSystem,
    atomic_write,
    remove_if_there,
)
from goqueue.storage.layout import (
    EPOCHS_FILE,
    LOGS,
    POINT_FILE,
    NameKind,
    check_topic,
    classify,
    find_logs,
    log_directory,
    quarantine_name,
    segment_base,
    segment_name,
)
from goqueue.storage.opening import Cut, Opened, RecoveryReport
from goqueue.storage.quarantine import DamageFound
from goqueue.storage.recovery_point import read_point
from goqueue.storage.segment import Chunk, SegmentFile, chunks
from goqueue.storage.storage import Storage

__all__ = [
    "EPOCHS_FILE",
    "LOGS",
    "POINT_FILE",
    "Chunk",
    "Cut",
    "DamageFound",
    "Entry",
    "EntryKind",
    "File",
    "FileSystem",
    "NameKind",
    "Opened",
    "RecoveryReport",
    "SegmentFile",
    "Storage",
    "atomic_write",
    "check_topic",
    "chunks",
    "classify",
    "find_logs",
    "log_directory",
    "quarantine_name",
    "read_point",
    "remove_if_there",
    "segment_base",
    "segment_name",
]
