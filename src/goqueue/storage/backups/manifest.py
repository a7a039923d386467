"""The manifest of a backup: what it holds, and the size and the SHA-256 of each file.

Names of files are not in it: each path is built from a topic, a partition and an offset, and those
are checked before they are used. A manifest is somebody else's text: sums find damage, not forgery.
"""

import hashlib
import re

import msgspec

from goqueue.model import BackedUpLog, LogId, Refused, Timestamp, check_name, is_internal
from goqueue.model.requests import PARTITION_COUNT, BackupSummary
from goqueue.storage.filesystem import EntryKind, FileSystem
from goqueue.storage.layout import BACKUPS, LOGS, segment_name

__all__ = [
    "FORMAT",
    "MANIFEST_FILE",
    "PARTIAL",
    "SUM_FILE",
    "BackupUnusable",
    "LogEntry",
    "Manifest",
    "SegmentEntry",
    "StateEntry",
    "backup_path",
    "encode_sum",
    "is_backup_id",
    "log_entry",
    "log_path",
    "partial_path",
    "read_file",
    "read_manifest",
    "require_directory",
    "segment_path",
    "stamp_of",
    "state_path",
]

FORMAT = 1
MANIFEST_FILE = "manifest.json"
SUM_FILE = "manifest.json.sha256"
PARTIAL = ".partial"
_ID = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{6}", re.ASCII)
_SHA = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BYTES_MAX = 256 * 1024 * 1024
_OFFSET_MAX = 1 << 62


class BackupUnusable(Exception):
    """A backup that cannot be restored, and why."""


class SegmentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A segment: its first offset, and its file."""

    base: int
    size: int
    sha256: str


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The log of a partition, with the offsets of [start, end)."""

    topic: str
    partition: int
    start: int
    end: int
    segments: tuple[SegmentEntry, ...]
    epochs: tuple[tuple[int, int], ...] = ()
    has_producers: bool = False

    @property
    def log(self) -> LogId:
        return LogId(self.topic, self.partition)


class StateEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of what the core says; they are numbered."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A backup. Stored: fields are only added, with a default.

    Sections that a node has none of yet are absent: schemas, tenants, ACLs.
    """

    format: int
    summary: BackupSummary
    logs: tuple[LogEntry, ...] = ()
    # Producers and transactions that were committed, whether the logs say so or not.
    committed: tuple[tuple[int, int], ...] = ()
    state: tuple[StateEntry, ...] = ()


class _Format(msgspec.Struct, frozen=True):
    """What is read of a manifest first: the rest may mean something else in another format."""

    format: int


def is_backup_id(name: str) -> bool:
    """Whether a name is the id of a backup."""
    return _ID.fullmatch(name) is not None


def backup_path(backup: str) -> str:
    """The directory of a complete backup."""
    assert is_backup_id(backup), backup
    return f"{BACKUPS}/{backup}"


def partial_path(backup: str) -> str:
    """The directory of a backup that is being written."""
    return f"{backup_path(backup)}{PARTIAL}"


def log_path(directory: str, log: LogId) -> str:
    """Where a backup has the segments of a log."""
    check_name(log.topic, "topic")
    return f"{directory}/{LOGS}/{log.topic}/{int(log.partition)}"


def segment_path(directory: str, log: LogId, base: int) -> str:
    return f"{log_path(directory, log)}/{segment_name(base)}"


def state_path(directory: str, number: int) -> str:
    return f"{directory}/state/{number}.json"


def log_entry(log: BackedUpLog, segments: tuple[SegmentEntry, ...]) -> LogEntry:
    return LogEntry(
        topic=log.log.topic,
        partition=log.log.partition,
        start=log.start,
        end=log.end,
        segments=segments,
        epochs=log.epochs,
        has_producers=log.has_producers,
    )


def encode_sum(data: bytes) -> bytes:
    """The line that `sha256sum -c` reads."""
    return f"{hashlib.sha256(data).hexdigest()}  {MANIFEST_FILE}\n".encode()


def require_directory(files: FileSystem, path: str) -> None:
    """Refuse what is not a directory: a link could lead anywhere."""
    if files.kind(path) is not EntryKind.DIRECTORY:
        raise BackupUnusable(f"{path} is not a directory")


def read_file(files: FileSystem, path: str, size_max: int) -> bytes:
    """A small file, which must not be a link."""
    if files.kind(path) is not EntryKind.FILE:
        raise BackupUnusable(f"{path} is missing, or is not a file")
    file = files.open(path)
    try:
        size = file.size()
        if size > size_max:
            raise BackupUnusable(f"{path} is too large")
        return file.read_at(0, size)
    finally:
        file.close()


def read_manifest(files: FileSystem, backup: str) -> Manifest:
    """The manifest of a complete backup; raises BackupUnusable, or OSError."""
    directory = backup_path(backup)
    require_directory(files, directory)
    data = read_file(files, f"{directory}/{MANIFEST_FILE}", _BYTES_MAX)
    if read_file(files, f"{directory}/{SUM_FILE}", 1024) != encode_sum(data):
        raise BackupUnusable(f"{MANIFEST_FILE} is damaged: its SHA-256 is not that of {SUM_FILE}")
    try:
        found = msgspec.json.decode(data, type=_Format).format
        if found != FORMAT:
            raise BackupUnusable(
                f"the format of the backup is {found}; this version reads {FORMAT}"
            )
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BackupUnusable(f"{MANIFEST_FILE} cannot be read: {error}") from error
    _check(manifest, backup)
    return manifest


def _check(manifest: Manifest, backup: str) -> None:
    if manifest.summary.id != backup:
        raise BackupUnusable(f"{MANIFEST_FILE} is that of another backup")
    if not 0 <= manifest.summary.created_at < _OFFSET_MAX * 2:
        raise BackupUnusable(f"{MANIFEST_FILE} has no time")
    partitions: dict[str, int] = {}
    for topic in manifest.summary.topics:
        try:
            check_name(topic.name, "topic")
            PARTITION_COUNT.check(topic.partitions)
        except Refused as refused:
            raise BackupUnusable(f"a topic of the backup is not valid: {refused}") from refused
        if is_internal(topic.name):
            raise BackupUnusable("the backup names a topic of the broker")
        if topic.name in partitions:
            raise BackupUnusable("the backup names a topic twice")
        partitions[topic.name] = topic.partitions
    seen: set[LogId] = set()
    for entry in manifest.logs:
        if entry.log in seen or not 0 <= entry.partition < partitions.get(entry.topic, 0):
            raise BackupUnusable("the backup has a log that belongs to none of its topics")
        seen.add(entry.log)
        _check_log(entry)
    for state in manifest.state:
        if not 0 < state.size <= _BYTES_MAX or not _SHA.fullmatch(state.sha256):
            raise BackupUnusable("the backup has a state file that is not valid")


def _check_log(entry: LogEntry) -> None:
    bases = [segment.base for segment in entry.segments]
    is_valid = (
        0 <= entry.start <= entry.end <= _OFFSET_MAX
        and bases == sorted(set(bases))
        and (not bases or (bases[0] >= 0 and bases[-1] < entry.end))
        and all(each.size > 0 and _SHA.fullmatch(each.sha256) for each in entry.segments)
        and all(epoch >= 0 and first >= 0 for epoch, first in entry.epochs)
    )
    if not is_valid:
        raise BackupUnusable(f"the log {entry.log} of the backup is not valid")


def stamp_of(manifest: Manifest) -> Timestamp:
    """The moment that a backup shows."""
    return manifest.summary.created_at
