"""Completes a backup whose segments are held: sums, copies of tails, the manifest, the name.

The order makes a crash at any point harmless: everything is written below a name that no start
takes for a backup, synced, and only then renamed. The rename is durable before it is reported.

Cost: every byte is read once, for its sum; only tails and the state are written.
"""

import errno
import hashlib
from collections.abc import Callable, Generator, Iterator

import msgspec

from goqueue.model import (
    BackedUpLog,
    BackupEvent,
    BackupStarted,
    BackupWritten,
    HeldSegment,
    LogId,
    WriteBackup,
)
from goqueue.model.requests import BackupSummary
from goqueue.storage.backups.hold import tail_path
from goqueue.storage.backups.manifest import (
    FORMAT,
    MANIFEST_FILE,
    SUM_FILE,
    LogEntry,
    Manifest,
    SegmentEntry,
    StateEntry,
    backup_path,
    encode_sum,
    log_entry,
    log_path,
    partial_path,
    segment_path,
    state_path,
)
from goqueue.storage.backups.steps import copy_bytes, missing_space, write_file
from goqueue.storage.filesystem import FileSystem, ensure_directory
from goqueue.storage.layout import BACKUPS, LOGS

__all__ = ["write_backup"]


def write_backup(
    files: FileSystem,
    job: WriteBackup,
    version: str,
    reserve_bytes: int,
    ticks: Callable[[], int],
) -> Iterator[int | BackupEvent]:
    """The steps of a `WriteBackup`; raises OSError."""
    began = ticks() - job.elapsed_ns
    backup = job.summary.id
    directory = partial_path(backup)
    copied = sum(each.size for log in job.logs for each in log.segments if not each.is_whole)
    wanted = copied + sum(map(len, job.state))
    missing = missing_space(files, wanted, reserve_bytes)
    if missing:
        raise OSError(errno.ENOSPC, f"{missing} bytes are missing for the copies of the backup")
    yield BackupStarted(backup=backup)
    for path in (BACKUPS, directory, f"{directory}/{LOGS}", f"{directory}/state"):
        ensure_directory(files, path)
    entries: list[LogEntry] = []
    for log in job.logs:
        entry = yield from _write_log(files, directory, log)
        entries.append(entry)
    yield from _sync_topics(files, directory, job.logs)
    state: list[StateEntry] = []
    for number, data in enumerate(job.state):
        write_file(files, state_path(directory, number), data)
        state.append(StateEntry(size=len(data), sha256=hashlib.sha256(data).hexdigest()))
        yield len(data)
    summary = _completed(job.summary, version, ticks() - began)
    manifest = Manifest(
        format=FORMAT,
        summary=summary,
        logs=tuple(entries),
        committed=job.committed,
        state=tuple(state),
    )
    encoded = msgspec.json.encode(manifest)
    write_file(files, f"{directory}/{MANIFEST_FILE}", encoded)
    yield len(encoded)
    write_file(files, f"{directory}/{SUM_FILE}", encode_sum(encoded))
    for path in (f"{directory}/state", f"{directory}/{LOGS}", directory, ""):
        files.sync_directory(path)
    yield 0
    files.rename(directory, backup_path(backup))
    files.sync_directory(BACKUPS)
    yield BackupWritten(summary=summary)


def _write_log(
    files: FileSystem, directory: str, log: BackedUpLog
) -> Generator[int, None, LogEntry]:
    segments: list[SegmentEntry] = []
    for held in log.segments:
        write = _sum_segment if held.is_whole else _copy_tail
        digest = yield from write(files, directory, log.log, held)
        segments.append(SegmentEntry(base=held.base, size=held.size, sha256=digest))
    files.sync_directory(log_path(directory, log.log))
    yield 0
    return log_entry(log, tuple(segments))


def _sum_segment(
    files: FileSystem, directory: str, log: LogId, held: HeldSegment
) -> Generator[int, None, str]:
    """The sum of a segment that is linked: it was synced before it was sealed."""
    digest = hashlib.sha256()
    source = files.open(segment_path(directory, log, held.base))
    try:
        yield from copy_bytes(source, held.size, None, digest)
    finally:
        source.close()
    return digest.hexdigest()


def _copy_tail(
    files: FileSystem, directory: str, log: LogId, held: HeldSegment
) -> Generator[int, None, str]:
    digest = hashlib.sha256()
    tail = tail_path(directory, log, held.base)
    source = files.open(tail)
    try:
        target = files.create(segment_path(directory, log, held.base))
        try:
            yield from copy_bytes(source, held.size, target, digest)
            target.sync()
        finally:
            target.close()
    finally:
        source.close()
    files.remove(tail)
    return digest.hexdigest()


def _sync_topics(files: FileSystem, directory: str, logs: tuple[BackedUpLog, ...]) -> Iterator[int]:
    for path in dict.fromkeys(log_path(directory, each.log).rpartition("/")[0] for each in logs):
        files.sync_directory(path)
        yield 0


def _completed(summary: BackupSummary, version: str, duration_ns: int) -> BackupSummary:
    statistics = msgspec.structs.replace(summary.statistics, duration_ns=duration_ns)
    return msgspec.structs.replace(summary, version=version, statistics=statistics)
