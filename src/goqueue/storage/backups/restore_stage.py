"""Puts the logs of a backup back: verified, copied beside the other logs, then moved among them.

The order of a restore, and what a crash leaves
-----------------------------------------------
1. Every sum is verified before anything is written, and again while it is copied.
2. `restoring/logs/{topic}` are complete logs, each with its recovery point, and durable;
   `restoring/topics.json` names the topics. A start moves all of `restoring` to the trash.
3. `adopt` renames each topic among the logs, durably. A start that finds such logs and no topic for
   them moves them to the trash, because `topics.json` names them (`sweep_restore`).
4. One record of the journal makes the topics exist. From then on nothing is left to do with files:
   a start finds topics and logs, and moves `restoring` to the trash.

So a crash before 4 leaves nothing, and a crash after it leaves all of it.

Producers in the records of a backup are those of another time: their numbers may be given to others
on this node. A log that names any gets one more record (`restored` in `goqueue.log`), which ends
what they left open and makes every later reader forget them.
"""

import errno
import hashlib
from collections.abc import Collection, Generator, Iterator
from contextlib import suppress

import msgspec

from goqueue.log import RecoveryPoint, restored
from goqueue.model import (
    AdoptRestore,
    BackupEvent,
    LogId,
    Offset,
    RestoreAdopted,
    RestoreStaged,
    StagedLog,
    StageRestore,
)
from goqueue.storage.backups.manifest import (
    BackupUnusable,
    LogEntry,
    Manifest,
    backup_path,
    log_path,
    read_file,
    read_manifest,
    require_directory,
    segment_path,
    stamp_of,
    state_path,
)
from goqueue.storage.backups.steps import copy_bytes, missing_space, remove_tree, write_file
from goqueue.storage.epochs_file import save_epochs
from goqueue.storage.filesystem import EntryKind, FileSystem, ensure_directory
from goqueue.storage.layout import LOGS, RESTORING, TRASH, is_topic, segment_name
from goqueue.storage.log_directories import Trash
from goqueue.storage.recovery_point import RecoveryPointFile

__all__ = ["adopt", "stage", "sweep_restore"]

_TOPICS_FILE = "topics.json"
_TOPICS_BYTES_MAX = 64 * 1024 * 1024


def stage(files: FileSystem, job: StageRestore, reserve_bytes: int) -> Iterator[int | BackupEvent]:
    """The steps of a `StageRestore`; raises OSError or BackupUnusable."""
    manifest = read_manifest(files, job.backup)
    skipped = frozenset(job.skipped)
    topics = [each for each in manifest.summary.topics if each.name not in skipped]
    logs = [each for each in manifest.logs if each.topic not in skipped]
    wanted = sum(segment.size for log in logs for segment in log.segments)
    missing = missing_space(files, wanted, reserve_bytes)
    if missing:
        raise OSError(errno.ENOSPC, f"{missing} bytes are missing for the restore")
    yield from _verify(files, job.backup, manifest)
    yield from remove_tree(files, RESTORING)
    for path in (RESTORING, f"{RESTORING}/{LOGS}"):
        ensure_directory(files, path)
    for topic in topics:
        ensure_directory(files, f"{RESTORING}/{LOGS}/{topic.name}")
        for number in range(topic.partitions):
            files.make_directory(log_path(RESTORING, LogId(topic.name, number)))
        yield 0
    staged: list[StagedLog] = []
    for log in logs:
        end = yield from _stage_log(files, job.backup, manifest, log)
        staged.append(StagedLog(log=log.log, start=Offset(log.start), end=Offset(end)))
    for topic in topics:
        files.sync_directory(f"{RESTORING}/{LOGS}/{topic.name}")
        yield 0
    names = msgspec.json.encode([topic.name for topic in topics])
    write_file(files, f"{RESTORING}/{_TOPICS_FILE}", names)
    for path in (f"{RESTORING}/{LOGS}", RESTORING, ""):
        files.sync_directory(path)
    state: list[bytes] = []
    for number, entry in enumerate(manifest.state):
        path = state_path(backup_path(job.backup), number)
        state.append(_read_verified(files, path, entry.size, entry.sha256))
        yield entry.size
    yield RestoreStaged(
        backup=job.backup,
        topics=tuple(topics),
        logs=tuple(staged),
        state=tuple(state),
        created_at=stamp_of(manifest),
    )


# Verifying


def _verify(files: FileSystem, backup: str, manifest: Manifest) -> Iterator[int]:
    """Every file of the backup is there, is a file, and has its sum."""
    directory = backup_path(backup)
    # Not every tool that copies a backup copies empty directories.
    logs = [log for log in manifest.logs if log.segments]
    if logs:
        require_directory(files, f"{directory}/{LOGS}")
    for log in logs:
        require_directory(files, log_path(directory, log.log).rpartition("/")[0])
        require_directory(files, log_path(directory, log.log))
        for segment in log.segments:
            path = segment_path(directory, log.log, segment.base)
            yield from _verify_file(files, path, segment.size, segment.sha256)
    if manifest.state:
        require_directory(files, f"{directory}/state")
    for number, entry in enumerate(manifest.state):
        path = state_path(directory, number)
        yield from _verify_file(files, path, entry.size, entry.sha256)


def _verify_file(files: FileSystem, path: str, size: int, sha256: str) -> Iterator[int]:
    if files.kind(path) is not EntryKind.FILE:
        raise BackupUnusable(f"{path} is missing, or is not a file")
    digest = hashlib.sha256()
    source = files.open(path)
    try:
        # A linked segment may have grown: if a crash takes back the empty one that followed it, the
        # log goes on in it. Its first bytes stay what they were.
        if source.size() < size:
            raise BackupUnusable(f"{path} has {source.size()} bytes instead of {size}")
        yield from copy_bytes(source, size, None, digest)
    finally:
        source.close()
    if digest.hexdigest() != sha256:
        raise BackupUnusable(f"{path} is damaged: its SHA-256 is not that of the manifest")


def _read_verified(files: FileSystem, path: str, size: int, sha256: str) -> bytes:
    data = read_file(files, path, size)
    if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
        raise BackupUnusable(f"{path} was changed while it was restored")
    return data


# Copying


def _stage_log(
    files: FileSystem, backup: str, manifest: Manifest, log: LogEntry
) -> Generator[int, None, int]:
    """Copy one log; the offset after its last record."""
    directory = log_path(RESTORING, log.log)
    active, position, end = log.end, 0, log.end
    for segment in log.segments:
        source = segment_path(backup_path(backup), log.log, segment.base)
        target = f"{directory}/{segment_name(segment.base)}"
        yield from _copy_verified(files, source, target, segment.size, segment.sha256)
        active, position = segment.base, segment.size
    if log.has_producers or (log.end and not log.segments):
        closing = restored(log.end, stamp_of(manifest), manifest.committed)
        data = closing if log.has_producers else b""
        _append(files, f"{directory}/{segment_name(active)}", position, data)
        position += len(data)
        end += log.has_producers
    if end:
        point = RecoveryPoint(
            sequence=0,
            segment=Offset(active),
            position=position,
            offset=Offset(end),
            start=Offset(log.start if log.segments else log.end),
        )
        save_epochs(files, directory, log.epochs, is_durable=False)
        RecoveryPointFile(files, directory, point).save_durably(point)
    files.sync_directory(directory)
    yield 0
    return end


def _copy_verified(
    files: FileSystem, source_path: str, target_path: str, size: int, sha256: str
) -> Iterator[int]:
    digest = hashlib.sha256()
    source = files.open(source_path)
    try:
        target = files.create(target_path)
        try:
            yield from copy_bytes(source, size, target, digest)
            target.sync()
        finally:
            target.close()
    finally:
        source.close()
    if digest.hexdigest() != sha256:
        raise BackupUnusable(f"{source_path} was changed while it was restored")


def _append(files: FileSystem, path: str, position: int, data: bytes) -> None:
    file = files.open(path) if position else files.create(path)
    try:
        file.write_at(position, data)
        file.sync()
    finally:
        file.close()


# Among the other logs


def adopt(files: FileSystem, job: AdoptRestore) -> Iterator[int | BackupEvent]:
    """The steps of an `AdoptRestore`; raises OSError, and then nothing was moved."""
    ensure_directory(files, LOGS)
    moved: list[str] = []
    try:
        for topic in job.topics:
            target = f"{LOGS}/{topic}"
            if files.kind(target) is not None:
                # Deleted topics may leave an empty directory; anything else is somebody's.
                files.remove_directory(target)
            files.rename(f"{RESTORING}/{LOGS}/{topic}", target)
            moved.append(topic)
            yield 0
        # The new names first: if one of the two is lost, it should be the old one.
        files.sync_directory(LOGS)
        files.sync_directory(f"{RESTORING}/{LOGS}")
    except OSError:
        for topic in moved:
            with suppress(OSError):
                files.rename(f"{LOGS}/{topic}", f"{RESTORING}/{LOGS}/{topic}")
        raise
    yield RestoreAdopted(backup=job.backup)


def sweep_restore(files: FileSystem, claimed: Collection[str], trash: Trash) -> None:
    """At a start: remove what a restore left that was cut short; `claimed` topics exist.

    Raises OSError; the next start tries again.
    """
    if files.kind(RESTORING) is not EntryKind.DIRECTORY:
        return
    known = frozenset(claimed)
    doomed = [
        trash.take(f"{LOGS}/{name}")
        for name in _staged_topics(files)
        if name not in known and files.kind(f"{LOGS}/{name}") is EntryKind.DIRECTORY
    ]
    # Before `topics.json` goes: it says whose these logs are.
    for path in ("", *((TRASH, LOGS) if doomed else ())):
        files.sync_directory(path)
    doomed.append(trash.take(RESTORING))
    for path in ("", TRASH):
        files.sync_directory(path)
    for path in doomed:
        trash.doom(path)


def _staged_topics(files: FileSystem) -> list[str]:
    try:
        data = read_file(files, f"{RESTORING}/{_TOPICS_FILE}", _TOPICS_BYTES_MAX)
        names = msgspec.json.decode(data, type=list[str])
    except (OSError, BackupUnusable, msgspec.MsgspecError):
        # It is durable before the first log is moved: none was.
        return []
    return [name for name in names if is_topic(name)]
