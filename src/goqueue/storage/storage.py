"""A data directory: executes the effects of its logs and reports the results.

Synchronous, and the only caller of `LogFiles`. The runtime calls it from one thread, the simulator
from its event loop; the code in between is the same. If other threads read, a reentrant guard is
passed in: it is held for every read and while a change swaps what readers see, and never while
something waits for the disk.

Group commit: all effects of one call share one write and one sync per log, as long as no change of
its segments comes between. So both are paid once, however many batches arrived during the previous
ones. All logs are passed together to the file system, which may sync them in parallel.

Recovery points and indexes are written after that, by `save_points`: at most every 200 ms per log
and a few per call. Until then the points on disk are older ones, which still hold.

Logs are created and deleted at any time. An effect for a log that is not open does nothing: the log
was deleted or could not be created, the node was told by `Deleted` or `Failed`, and effects sent
before that may still arrive.

What a refusal of the disk means is decided here, once:
- no space for a write or for a new segment (or no descriptor, no memory): nothing of it is kept,
  the log is told (`Filled`), and queued writes are dropped until it answers with `Rewind`;
- any other error of a write, and every error of a sync: the log has failed for good. A second
  sync could report success for pages that are gone, so there is none.
"""

import errno
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice
from typing import NamedTuple

import msgspec

from goqueue.log import LogState
from goqueue.metrics import Family
from goqueue.model import (
    MILLISECOND,
    BackupJobFailed,
    Code,
    Compact,
    Compacted,
    Create,
    Created,
    Delete,
    Deleted,
    DiskEvent,
    Effect,
    Failed,
    Filled,
    HoldSegments,
    LogId,
    LogSettings,
    Refused,
    Reshape,
    Roll,
    SaveEpochs,
    SegmentsHeld,
    Slice,
    Sync,
    Synced,
    Write,
    is_internal,
)
from goqueue.records import Corrupt
from goqueue.storage.background_read import BackgroundRead
from goqueue.storage.backups import hold_segments, sweep_restore
from goqueue.storage.filesystem import FileCommit, FileSystem
from goqueue.storage.log_directories import Moved, Trash, TreeChanges, move_unclaimed
from goqueue.storage.log_files import LogFiles
from goqueue.storage.log_opener import Opened, new_log, open_log
from goqueue.storage.log_reader import LogReader
from goqueue.storage.metrics import Meters, families_of
from goqueue.storage.open_log import OpenLog
from goqueue.storage.reserve import JournalReserve
from goqueue.storage.segment import DamageFound, OpenActives, OpenSegments, Pools
from goqueue.storage.snapshots import (
    load_snapshot,
    save_snapshot,
    save_snapshots,
    snapshot_parts,
)
from goqueue.storage.time_search import TimeSearch

__all__ = ["Storage"]

# Temporary errors: a write or a new file may succeed later.
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING = _NO_SPACE | {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_POINT_DELAY_NS = 200 * MILLISECOND
# So that the next group never waits for the points of thousands of logs.
_POINTS_PER_CALL = 8
# How many recovery points are synced together at a stop: so many descriptors.
_SAVES_MAX = 64


def _describe(error: OSError) -> str:
    name = errno.errorcode.get(error.errno or 0, "error")
    return f"{name}: {error.strerror or error}"


def _stand_still() -> int:
    """A clock that stands still, for callers that do not measure."""
    return 0


class _LogCommit(NamedTuple):
    """The part of one log in a group commit."""

    entry: OpenLog
    writes: list[Write]
    file: FileCommit


class Storage:
    """The logs of one data directory."""

    def __init__(
        self,
        files: FileSystem,
        *,
        reserve_bytes: int = 0,
        open_segments_max: int = 64,
        open_actives_max: int = 512,
        guard: AbstractContextManager[object] | None = None,
        ticks: Callable[[], int] = _stand_still,
    ) -> None:
        """`ticks` is a monotonic clock in nanoseconds: it paces what may be done later."""
        self._files = files
        self._guard = guard or nullcontext()
        self._opening: dict[LogId, None] = {}
        self._reserve = JournalReserve(files, reserve_bytes)
        self._pools = Pools(
            sealed=OpenSegments(open_segments_max), actives=OpenActives(open_actives_max)
        )
        self._trash = Trash(files)
        self._changes = TreeChanges(files, self._trash)
        self._open_logs: dict[LogId, OpenLog] = {}
        self._compacting: dict[LogId, OpenLog] = {}
        # When the recovery point of each log is due, for those that are behind; soonest first.
        self._points_due: dict[LogId, int] = {}
        self._ticks = ticks
        self._meters = Meters()
        self.time_search = TimeSearch(self._guard, self._entry, ticks)
        self.reader = LogReader(self._guard, self._entry, ticks)
        self.background = BackgroundRead(self._guard, self._entry, self.read)

    def open(self, log: LogId, settings: LogSettings) -> Opened:
        """Open or create a log, recovering it first; raises OSError if that fails.

        Other threads may read, and one may execute effects of other logs, at the same time.
        """
        assert log not in self._open_logs
        with self._guard:
            self._opening[log] = None
        opened = open_log(self._files, log, settings, self._pools)
        with self._guard:
            del self._opening[log]
            self._pools.sealed.absorb(opened.sealed)
            self._open_logs[log] = self._entry_for(opened.files)
            self._open_logs[log].meter.index_rebuilds += len(opened.report.rebuilt_indexes)
        return opened

    def _entry_for(self, files: LogFiles) -> OpenLog:
        files.guard = self._guard
        return OpenLog(files, self._meters.begin(files.log.topic))

    def close(self) -> None:
        """Stop every log that has not failed cleanly; raises the first error at the end.

        A recovery point is synced for each log that was written to. Those of many logs are synced
        together: one after the other, ten thousand of them would take minutes.
        """
        errors: list[OSError] = []
        entries = list(self._open_logs.values())
        for first in range(0, len(entries), _SAVES_MAX):
            self._save(entries[first : first + _SAVES_MAX], errors)
        self._open_logs.clear()
        self._points_due.clear()
        self._reserve.close()
        if errors:
            raise errors[0]

    def _save(self, entries: Sequence[OpenLog], errors: list[OSError]) -> None:
        """Save the recovery points of logs, and close their files."""
        commits: list[FileCommit] = []
        for entry in entries:
            self._end_compaction(entry)
            try:
                file = None if entry.is_failed else entry.files.save()
            except OSError as error:
                errors.append(error)
            else:
                if file is not None:
                    commits.append(FileCommit(file, 0, [], is_synced=True, ticks=self._ticks))
        self._files.commit(commits)
        errors += [each.sync_error for each in commits if each.sync_error is not None]
        closes = [each.file.close for each in commits]
        for close in (*closes, *(each.files.release for each in entries)):
            try:
                close()
            except OSError as error:
                errors.append(error)

    def metrics(self) -> Iterator[Family]:
        """The metric families of storage; callable from any thread."""
        return families_of(self._meters)

    def restore_reserve(self) -> bool:
        """Reserve the space for journals, as far as possible; whether all of it is reserved."""
        return self._reserve.restore(self._ticks())

    # Effects

    def carry_out(self, effects: Sequence[Effect]) -> list[DiskEvent]:
        """Execute effects in order per log; each log is written and synced once, at the end."""
        events: list[DiskEvent] = []
        touched: dict[LogId, OpenLog] = {}
        for effect in effects:
            if effect.log in self._changes:
                self._finish_changes(events)
            if isinstance(effect, Reshape) and isinstance(effect.change, Create | Delete):
                touched.pop(effect.log, None)
                self._remake(effect.log, effect.change, events)
                continue
            entry = self._open_logs.get(effect.log)
            if entry is None:
                continue
            touched[effect.log] = entry
            match effect:
                case Write():
                    entry.writes.append(effect)
                case Sync():
                    entry.note(effect)
                case Reshape():
                    self._commit([entry], events, is_answered=False)
                    self._reshape(entry, effect, events)
        self._finish_changes(events)
        self._commit(touched.values(), events)
        return events

    def _commit(
        self, entries: Collection[OpenLog], events: list[DiskEvent], *, is_answered: bool = True
    ) -> None:
        """Write what was gathered and sync what is requested, with one call for all these logs.

        With `is_answered=False` nothing is synced and no request is answered.
        """
        commits: list[_LogCommit] = []
        for entry in entries:
            writes = self._admit(entry, events)
            is_synced = is_answered and entry.sync_upto is not None and entry.files.is_dirty
            if writes or is_synced:
                file = entry.files.commit(writes, is_synced=is_synced, ticks=self._ticks)
                commits.append(_LogCommit(entry, writes, file))
        self._files.commit([commit.file for commit in commits])
        errors: dict[LogId, OSError] = {}
        for commit in commits:
            self._conclude(commit, events, errors)
        if is_answered:
            for entry in entries:
                self._answer(entry, errors.get(entry.files.log), events)

    def _admit(self, entry: OpenLog, events: list[DiskEvent]) -> list[Write]:
        """The gathered batches of a log that is ready for them."""
        writes, entry.writes = entry.writes, []
        if not writes or entry.is_failed or entry.is_full:
            return []
        if not self._may_take_space(entry):
            self._fill(entry, events)
            return []
        try:
            entry.files.settle()
            entry.files.begin_write(writes)
        except OSError as error:
            self._not_written(entry, writes, error, events)
            return []
        return writes

    def _conclude(
        self, commit: "_LogCommit", events: list[DiskEvent], errors: dict[LogId, OSError]
    ) -> None:
        entry, writes, file = commit
        if file.write_error is not None:
            self._not_written(entry, writes, file.write_error, events)
            if file.is_synced and not entry.is_failed:
                self._settle(entry, events)
            return
        if writes:
            entry.files.end_write(writes)
            entry.meter.bytes_written += sum(len(write.data) for write in writes)
        if file.sync_error is not None:
            entry.meter.fsync_errors += 1
            errors[entry.files.log] = file.sync_error
        elif file.is_synced:
            entry.meter.fsync_latency.observe(file.took_ns)

    def _not_written(
        self, entry: OpenLog, writes: list[Write], error: OSError, events: list[DiskEvent]
    ) -> None:
        """Batches were not written together; if space was short, keep as many as fit."""
        try:
            # A journal of this group may have got space from the reserve since they were admitted.
            if error.errno not in _PASSING or not self._may_take_space(entry):
                raise error
            for write in writes:
                while not self._try_write(entry, write):
                    pass
        except OSError as refusal:
            self._refused(entry, refusal, events)

    def _may_take_space(self, entry: OpenLog) -> bool:
        """Whether a log may write; released space is for journals only."""
        return entry.files.settings.may_use_reserve or self._reserve.restore(self._ticks())

    def _try_write(self, entry: OpenLog, write: Write) -> bool:
        """Write a batch; False if a journal found no space and some was released."""
        try:
            entry.files.settle()
            entry.files.write([write])
        except OSError as error:
            if self._relieve(entry, error, len(write.data)):
                return False
            raise
        entry.meter.bytes_written += len(write.data)
        return True

    def _relieve(self, entry: OpenLog, error: OSError, size: int) -> bool:
        """Release reserved space to a journal that lacks it; whether there was any."""
        lacks_space = error.errno in _NO_SPACE and entry.files.settings.may_use_reserve
        return lacks_space and self._reserve.release(size)

    def _refused(self, entry: OpenLog, error: OSError, events: list[DiskEvent]) -> None:
        if error.errno not in _PASSING:
            self._fail(entry, error, events)
            return
        try:
            entry.files.trim()
        except OSError as worse:
            self._fail(entry, worse, events)
        else:
            self._fill(entry, events)

    def _fill(self, entry: OpenLog, events: list[DiskEvent]) -> None:
        # Answer earlier writes first, so that the log receives both in order.
        if not self._settle(entry, events):
            return
        entry.is_full = True
        events.append(
            Filled(log=entry.files.log, offset=entry.files.end, segment=entry.files.active_base)
        )

    def _fail(self, entry: OpenLog, error: OSError, events: list[DiskEvent]) -> None:
        entry.is_failed = True
        entry.forget()
        self._points_due.pop(entry.files.log, None)
        self._end_compaction(entry)
        with suppress(OSError):
            # At worst a descriptor of another log cannot be closed.
            entry.files.fail()
        events.append(Failed(log=entry.files.log, reason=_describe(error)))

    def _settle(self, entry: OpenLog, events: list[DiskEvent]) -> bool:
        """Answer the requested syncs; False if the log has failed."""
        self._commit([entry], events)
        return not entry.is_failed

    def _answer(self, entry: OpenLog, error: OSError | None, events: list[DiskEvent]) -> None:
        log, end = entry.files.log, entry.files.end
        written_upto, sync_upto = entry.written_upto, entry.sync_upto
        entry.forget()
        if written_upto is not None:
            events.append(Synced(log=log, upto=min(written_upto, end), is_durable=False))
        if error is not None:
            self._fail(entry, error, events)
        elif sync_upto is not None:
            entry.files.note_synced()
            if log not in self._points_due:
                self._points_due[log] = self._ticks() + _POINT_DELAY_NS
            events.append(Synced(log=log, upto=min(sync_upto, end)))

    def _reshape(self, entry: OpenLog, effect: Reshape, events: list[DiskEvent]) -> None:
        if entry.is_failed:
            return
        if isinstance(effect.change, Roll):
            # A segment is synced before it is sealed; pending syncs are answered by that.
            entry.sync_upto = entry.files.end
        elif not isinstance(effect.change, SaveEpochs | Compact):
            self._give_up_compaction(entry, events)
        if not isinstance(effect.change, SaveEpochs | Compact) and not self._settle(entry, events):
            return
        try:
            if entry.changes_files(effect.change):
                entry.files.settle()
            done = entry.change(self._files, effect.change)
            if entry.compaction is not None:
                entry.compacting_since = self._ticks()
                self._compacting[entry.files.log] = entry
            events.extend([] if done is None else [done])
        except OSError as error:
            if self._relieve(entry, error, 0):
                self._reshape(entry, effect, events)
            elif isinstance(effect.change, Roll):
                self._refused(entry, error, events)
            else:
                self._fail(entry, error, events)
        except (Corrupt, DamageFound) as damage:
            # The cut cannot be located in a damaged segment, and half a change is not allowed.
            self._fail(entry, OSError(errno.EIO, f"{effect.change}: {damage}"), events)

    # Creation and deletion

    def _remake(self, log: LogId, change: Create | Delete, events: list[DiskEvent]) -> None:
        """Start to create or delete a log; `_finish_changes` reports the result."""
        try:
            if isinstance(change, Delete):
                self._release(log)
                self._changes.throw_away(log)
            else:
                self._make(log, change.settings)
        except OSError as error:
            self._changes.forget(log)
            events.append(Failed(log=log, reason=_describe(error)))

    def _make(self, log: LogId, settings: LogSettings) -> None:
        assert log not in self._open_logs, "a log is made once"
        if self._changes.make(log):
            files = new_log(self._files, log, settings, self._pools)
            with self._guard:
                self._open_logs[log] = self._entry_for(files)
                self._open_logs[log].meter.segments_created += 1
            return
        # An earlier process crashed while it created this log.
        if self.open(log, settings).state != LogState():
            self._release(log)
            raise FileExistsError(errno.EEXIST, "a log that was not known of is there", str(log))

    def _release(self, log: LogId) -> None:
        """Close a log and everything it holds, whatever its state."""
        entry = self._open_logs.pop(log, None)
        self._points_due.pop(log, None)
        if entry is not None:
            self._end_compaction(entry)
            with self._guard, suppress(OSError):
                # The log is no longer needed, so its errors are ignored.
                self._meters.end(log.topic)
                entry.files.release()

    def _finish_changes(self, events: list[DiskEvent]) -> None:
        for change in self._changes.finish():
            if change.error is not None:
                self._release(change.log)
                events.append(Failed(log=change.log, reason=_describe(change.error)))
            elif change.is_new:
                events.append(Created(log=change.log))
            else:
                events.append(Deleted(log=change.log))

    def find_trash(self) -> int:
        """At a start: schedule the removal of what deleted logs left, in the background.

        Raises OSError; the next start tries again.
        """
        return self._trash.find_left()

    def sweep(self, topics: Collection[str]) -> tuple[Moved, ...]:
        """Move logs of other topics that are not open away; remove those of a cut-short restore."""
        with self._guard:
            known = {log.topic for log in (*self._open_logs, *self._opening)}.union(topics)
            sweep_restore(self._files, known, self._trash)
            return move_unclaimed(self._files, known)

    def hold_segments(self, wanted: HoldSegments) -> SegmentsHeld | BackupJobFailed:
        """Link segments into a backup: nothing that happens to their logs removes them there."""
        logs = {
            each.log: entry.files
            for each in wanted.logs
            if (entry := self._open_logs.get(each.log)) is not None
        }
        return hold_segments(self._files, wanted, logs)

    # Snapshots

    def save(self, name: str, data: bytes | msgspec.Struct) -> None:
        """Replace a snapshot; raises OSError, which costs only time at the next start."""
        began = self._ticks()
        parts = snapshot_parts(data)
        size = sum(map(len, parts))
        try:
            save_snapshot(self._files, name, parts)
        except OSError as error:
            # A snapshot allows its journal to be shortened, so it frees space in the end.
            is_journal = is_internal(name) and error.errno in _NO_SPACE
            if not is_journal or not self._reserve.release(size):
                raise
            save_snapshot(self._files, name, parts)
        self._meters.save(name, size, self._ticks() - began)

    def save_together(self, snapshots: Mapping[str, bytes]) -> list[str]:
        """Replace many small snapshots; the names of those that are to be saved one by one."""
        began = self._ticks()
        failed = save_snapshots(self._files, snapshots, self._ticks)
        took_ns = (self._ticks() - began) // max(len(snapshots), 1)
        for name in sorted(snapshots.keys() - failed):
            self._meters.save(name, len(snapshots[name]), took_ns)
        return failed

    def load(self, name: str) -> bytes | None:
        """A snapshot; None when there is no readable one. Callable from any thread."""
        return load_snapshot(self._files, name)

    # Recovery points

    @property
    def next_point_at(self) -> int | None:
        """When `save_points` has something to do, by the clock of this storage; None if never."""
        return next(iter(self._points_due.values()), None)

    def save_points(self) -> None:
        """Write the recovery points and indexes that are due, a few per call.

        Called after the events of `carry_out` were reported, so that nobody waits for it.
        """
        now = self._ticks()
        next_points = islice(self._points_due.items(), _POINTS_PER_CALL)
        for log in [log for log, due_at in next_points if due_at <= now]:
            del self._points_due[log]
            self._open_logs[log].files.save_point()

    # Background work

    @property
    def has_background_work(self) -> bool:
        return bool(self._compacting) or self._trash.has_work

    def work(self) -> list[DiskEvent]:
        """One small step of one compaction, in turn, and one file from the trash."""
        events: list[DiskEvent] = []
        if self._trash.has_work:
            self._trash.step()
        log = next(iter(self._compacting), None)
        if log is not None:
            entry = self._compacting.pop(log)
            self._compacting[log] = entry
            assert entry.compaction is not None
            self._step(entry, entry.compaction, events)
        return events

    def _step(
        self, entry: OpenLog, compaction: Iterator[Compacted | None], events: list[DiskEvent]
    ) -> None:
        if not self._reserve.restore(self._ticks()):
            # The space that a rewrite needs first is reserved for journals now.
            self._give_up_compaction(entry, events)
            return
        try:
            event = next(compaction)
        except StopIteration:
            self._end_compaction(entry)
        except DamageFound as found:
            self._give_up_compaction(entry, events)
            events.append(found.event)
        except OSError as error:
            self._give_up_compaction(entry, events)
            if error.errno not in _PASSING:
                self._fail(entry, error, events)
        else:
            if event is not None:
                events.append(event)
                if event.is_last:
                    entry.meter.compaction_latency.observe(self._ticks() - entry.compacting_since)

    def _give_up_compaction(self, entry: OpenLog, events: list[DiskEvent]) -> None:
        if entry.compaction is not None:
            self._end_compaction(entry)
            events.append(Compacted(log=entry.files.log, is_last=True))

    def _end_compaction(self, entry: OpenLog) -> None:
        if entry.compaction is not None:
            entry.compaction.close()
        entry.compaction = None
        self._compacting.pop(entry.files.log, None)

    # Reads

    def read(self, wanted: Slice, *, may_scan: bool = True) -> memoryview:
        """The records of a slice; see `LogReader.read`. Callable from any thread."""
        return self.reader.read(wanted, may_scan=may_scan)

    def _entry(self, log: LogId) -> OpenLog:
        entry = self._open_logs.get(log)
        if entry is None:
            # Deleted after the caller got the slice.
            raise Refused(Code.TOPIC_NOT_FOUND, topic=log.topic)
        return entry
