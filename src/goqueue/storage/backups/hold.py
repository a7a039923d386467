"""Holds the segments of logs for a backup: each gets a second name in its directory.

A link costs no space and a few microseconds, and keeps the bytes when retention, compaction or the
deletion of a topic removes the first name. The disk thread takes them, because only it removes and
replaces segments, so each log is linked as it is at one moment. A segment that may still grow is
linked, too, under the name of a tail: its first bytes are copied later.

Between the moment of the backup and this one the core starts no retention and no compaction. What
a caller deletes in between (records, or a topic) is not in the backup.
"""

from collections.abc import Mapping

from goqueue.model import (
    BackupJobFailed,
    HeldLog,
    HeldSegment,
    HoldSegments,
    LogExtent,
    LogId,
    Offset,
    SegmentsHeld,
)
from goqueue.records import Corrupt
from goqueue.storage.backups.manifest import log_path, partial_path, segment_path
from goqueue.storage.backups.steps import failed
from goqueue.storage.filesystem import FileSystem, ensure_directory
from goqueue.storage.layout import BACKUPS, LOGS, segment_name
from goqueue.storage.log_files import LogFiles

__all__ = ["hold_segments", "tail_path"]


def tail_path(directory: str, log: LogId, base: int) -> str:
    """The second name of a segment of which only the first bytes belong to the backup."""
    return f"{segment_path(directory, log, base)}.tail"


def hold_segments(
    files: FileSystem, wanted: HoldSegments, logs: Mapping[LogId, LogFiles]
) -> SegmentsHeld | BackupJobFailed:
    """Link what is there of these logs; `logs` are those that are open."""
    directory = partial_path(wanted.backup)
    try:
        for path in (BACKUPS, directory, f"{directory}/{LOGS}"):
            ensure_directory(files, path)
        held = [
            _hold(files, directory, extent, logs[extent.log])
            for extent in wanted.logs
            if extent.log in logs
        ]
    except OSError as error:
        return failed(wanted.backup, error)
    except Corrupt as corrupt:
        reason = f"a log is damaged where the backup would end: {corrupt}"
        return failed(wanted.backup, OSError(reason))
    return SegmentsHeld(backup=wanted.backup, logs=tuple(held))


def _hold(files: FileSystem, directory: str, extent: LogExtent, log: LogFiles) -> HeldLog:
    target = log_path(directory, extent.log)
    ensure_directory(files, target.rpartition("/")[0])
    ensure_directory(files, target)
    tail, tail_bytes = extent.tail, extent.tail_bytes
    if tail_bytes < 0:
        # The core no longer knows where the committed records of a failed log end.
        place = log.extent_below(extent.end)
        tail, tail_bytes = Offset(place.offset), place.position
    segments = [
        HeldSegment(base=facts.base, size=facts.size, is_whole=True)
        for facts in log.sealed
        if facts.base < tail and facts.size
    ]
    sealed = log.facts(tail)
    if tail_bytes and (sealed is not None or (log.active_base == tail and not log.is_bare)):
        is_whole = sealed is not None and sealed.size == tail_bytes
        segments.append(HeldSegment(base=tail, size=tail_bytes, is_whole=is_whole))
    for each in segments:
        name = segment_path if each.is_whole else tail_path
        source = f"{log.directory}/{segment_name(each.base)}"
        files.link(source, name(directory, extent.log, each.base))
    return HeldLog(log=extent.log, segments=tuple(segments))
