"""An open log: its files, gathered writes, and syncs that are requested and not answered yet."""

from collections.abc import Generator

from goqueue.model import (
    Change,
    Compact,
    Compacted,
    Drop,
    Dropped,
    Offset,
    Repair,
    Repaired,
    Reset,
    Rewind,
    Roll,
    SaveEpochs,
    Sync,
    Truncate,
    Truncated,
    Write,
)
from goqueue.storage.compaction import compact
from goqueue.storage.filesystem import FileSystem
from goqueue.storage.log_files import LogFiles
from goqueue.storage.metrics import TopicMeter

__all__ = ["OpenLog"]


class OpenLog:
    """The state of one log beyond its files."""

    __slots__ = (
        "compacting_since",
        "compaction",
        "files",
        "is_failed",
        "is_full",
        "meter",
        "sync_upto",
        "writes",
        "written_upto",
    )

    def __init__(self, files: LogFiles, meter: TopicMeter) -> None:
        self.files = files
        self.meter = files.meter = meter
        self.is_failed = False
        self.is_full = False
        # Not executed yet: the next ones may join them.
        self.writes: list[Write] = []
        self.sync_upto: Offset | None = None
        self.written_upto: Offset | None = None
        self.compaction: Generator[Compacted | None, None, None] | None = None
        self.compacting_since = 0

    def note(self, sync: Sync) -> None:
        """Record a sync that is answered when the call ends."""
        if self.is_failed:
            return
        if sync.committed:
            self.files.note_committed(sync.committed)
        if sync.is_durable:
            self.sync_upto = max(sync.upto, self.sync_upto or Offset(0))
        else:
            self.written_upto = max(sync.upto, self.written_upto or Offset(0))

    def changes_files(self, change: Change) -> bool:
        """Whether this change touches segments, so that the first-write barrier applies."""
        match change:
            case SaveEpochs() | Rewind():
                return False
            case Roll():
                return not self.is_full
            case Truncate():
                return not self.files.is_bare
            case Drop(start):
                return self.files.has_below(start)
        return True

    def change(self, disk: FileSystem, change: Change) -> Truncated | Dropped | Repaired | None:
        """Execute a change of the files; raises OSError, Corrupt or DamageFound."""
        files = self.files
        match change:
            case Roll(base):
                if not self.is_full:
                    files.roll(base)
            case Rewind(offset):
                assert offset == files.end, "the log and its files disagree on the end"
                self.is_full = False
            case Truncate(offset):
                self.is_full = False
                return files.truncate(offset)
            case Reset(start):
                self.is_full = False
                return files.reset(start)
            case Drop(start):
                files.drop(start)
                return Dropped(log=files.log, start=start)
            case Repair(first, data):
                return files.repair(first, data)
            case SaveEpochs(epochs):
                files.save_epochs(epochs)
            case Compact():
                self.compaction = compact(disk, files, change)
        return None

    def forget(self) -> None:
        """Drop all unanswered syncs."""
        self.sync_upto = self.written_upto = None
