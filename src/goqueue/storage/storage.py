"""A data directory: carries out the effects of its logs and reports what came of them.

Synchronous, and the only caller of `LogFiles`. The runtime calls it from one thread, the simulator
from its event loop; the code in between is the same. Where other threads read, a guard is handed
in: it is held for every change and every read, and not while a group commit waits for the disk.

Group commit: all effects handed over in one call share one sync per log. So the cost of a sync is
paid once however many batches arrived while the one before was under way.

What a refusal of the disk means is decided here, once:
- no space for a write or for a new segment (or no descriptor, no memory): nothing of it is kept,
  the log is told (`Filled`) and writes that are already on their way are dropped until it answers
  with `Rewind`;
- any other error of a write, and every error of a sync: the log has failed for good. A second
  sync could report success for pages that are gone, so there is none.
"""

import errno
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from goqueue.model import (
    Compact,
    Compacted,
    DiskEvent,
    Drop,
    Effect,
    Failed,
    Filled,
    LogId,
    LogSettings,
    Offset,
    Quarantine,
    Reshape,
    Rewind,
    Roll,
    SaveEpochs,
    Seek,
    Slice,
    Sync,
    Synced,
    Truncate,
    Write,
)
from goqueue.records import Corrupt
from goqueue.storage.compaction import compact
from goqueue.storage.filesystem import FileSystem
from goqueue.storage.log_files import LogFiles
from goqueue.storage.opening import Opened, open_log
from goqueue.storage.quarantine import DamageFound
from goqueue.storage.segment import OpenSegments

__all__ = ["Storage"]

# What goes away by itself: a write or a new file may succeed later.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def _describe(error: OSError) -> str:
    name = errno.errorcode.get(error.errno or 0, "error")
    return f"{name}: {error.strerror or error}"


class _Desk:
    """One log's place: its files, and what was asked of them in this call."""

    def __init__(self, files: LogFiles) -> None:
        self.files = files
        self.is_failed = False
        self.is_full = False
        self.sync_upto: Offset | None = None
        self.written_upto: Offset | None = None
        self.compaction: Generator[Compacted | None, None, None] | None = None


class Storage:
    """The logs of one data directory."""

    def __init__(
        self,
        files: FileSystem,
        *,
        reserve_bytes: int = 0,
        open_segments_max: int = 64,
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self._files = files
        self._guard = guard or nullcontext()
        self._reserve_bytes = reserve_bytes
        self._pool = OpenSegments(open_segments_max)
        self._desks: dict[LogId, _Desk] = {}
        self._compacting: dict[LogId, _Desk] = {}

    def open(self, log: LogId, settings: LogSettings) -> Opened:
        """Open or create a log, recovering it first; raises OSError if that cannot be done."""
        assert log not in self._desks
        with self._guard:
            opened = open_log(self._files, log, settings, self._pool)
            self._desks[log] = _Desk(opened.files)
        return opened

    def close(self) -> None:
        """A clean stop of every log that has not failed; raises the first error after all."""
        errors: list[OSError] = []
        for desk in self._desks.values():
            self._end_compaction(desk)
            steps = (
                [desk.files.release] if desk.is_failed else [desk.files.save, desk.files.release]
            )
            for step in steps:
                try:
                    with self._guard:
                        step()
                except OSError as error:
                    errors.append(error)
        self._desks.clear()
        if errors:
            raise errors[0]

    # Effects

    def carry_out(self, effects: Sequence[Effect]) -> list[DiskEvent]:
        """Do all of this, in order per log; syncs come last and once."""
        events: list[DiskEvent] = []
        has_space: bool | None = None
        touched: dict[LogId, _Desk] = {}
        for effect in effects:
            desk = touched.setdefault(effect.log, self._desks[effect.log])
            match effect:
                case Write():
                    if has_space is None:
                        has_space = self._has_space()
                    self._write(desk, effect, has_space, events)
                case Sync():
                    self._note_sync(desk, effect)
                case Reshape():
                    self._reshape(desk, effect, events)
        for desk in touched.values():
            self._settle(desk, events)
        return events

    def _has_space(self) -> bool:
        try:
            return not self._reserve_bytes or self._files.free_bytes() >= self._reserve_bytes
        except OSError:
            # A disk that cannot say is asked by writing to it.
            return True

    def _write(self, desk: _Desk, write: Write, has_space: bool, events: list[DiskEvent]) -> None:
        if desk.is_failed or desk.is_full:
            return
        if not has_space:
            self._fill(desk, events)
            return
        try:
            with self._guard:
                desk.files.write(write)
        except OSError as error:
            self._refused(desk, error, events)

    def _refused(self, desk: _Desk, error: OSError, events: list[DiskEvent]) -> None:
        if error.errno not in _PASSING:
            self._fail(desk, error, events)
            return
        try:
            desk.files.trim()
        except OSError as worse:
            self._fail(desk, worse, events)
        else:
            self._fill(desk, events)

    def _fill(self, desk: _Desk, events: list[DiskEvent]) -> None:
        # What was written before is settled first, so that the log hears of both in order.
        if not self._settle(desk, events):
            return
        desk.is_full = True
        events.append(
            Filled(log=desk.files.log, offset=desk.files.end, segment=desk.files.active_base)
        )

    def _fail(self, desk: _Desk, error: OSError, events: list[DiskEvent]) -> None:
        desk.is_failed = True
        desk.sync_upto = desk.written_upto = None
        self._end_compaction(desk)
        events.append(Failed(log=desk.files.log, reason=_describe(error)))

    def _note_sync(self, desk: _Desk, sync: Sync) -> None:
        if desk.is_failed:
            return
        if sync.is_durable:
            desk.sync_upto = max(sync.upto, desk.sync_upto or Offset(0))
        else:
            desk.written_upto = max(sync.upto, desk.written_upto or Offset(0))

    def _settle(self, desk: _Desk, events: list[DiskEvent]) -> bool:
        """Answer the syncs asked for so far; False if the log has failed."""
        log = desk.files.log
        if desk.written_upto is not None:
            upto, desk.written_upto = min(desk.written_upto, desk.files.end), None
            events.append(Synced(log=log, upto=upto, is_durable=False))
        if desk.sync_upto is not None:
            upto, desk.sync_upto = min(desk.sync_upto, desk.files.end), None
            try:
                desk.files.sync_active()
                with self._guard:
                    desk.files.note_synced()
            except OSError as error:
                self._fail(desk, error, events)
            else:
                events.append(Synced(log=log, upto=upto))
        return not desk.is_failed

    def _reshape(self, desk: _Desk, effect: Reshape, events: list[DiskEvent]) -> None:
        if desk.is_failed:
            return
        if isinstance(effect.change, Roll):
            # A segment is synced before it is sealed; what that proves is answered on the way.
            desk.sync_upto = desk.files.end
        elif not isinstance(effect.change, SaveEpochs | Compact):
            self._give_up_compaction(desk, events)
        if not isinstance(effect.change, SaveEpochs | Compact) and not self._settle(desk, events):
            return
        try:
            with self._guard:
                self._change(desk, effect, events)
        except OSError as error:
            if isinstance(effect.change, Roll):
                self._refused(desk, error, events)
            else:
                self._fail(desk, error, events)
        except (Corrupt, DamageFound) as damage:
            # Where to cut cannot be found in a damaged segment, and half a change is none.
            self._fail(desk, OSError(errno.EIO, f"{effect.change}: {damage}"), events)

    def _change(self, desk: _Desk, effect: Reshape, events: list[DiskEvent]) -> None:
        files = desk.files
        match effect.change:
            case Roll(base):
                if not desk.is_full:
                    files.roll(base)
            case Rewind(offset):
                assert offset == files.end, "the log and its files disagree on the end"
                desk.is_full = False
            case Truncate(offset):
                desk.is_full = False
                events.append(files.truncate(offset))
            case Drop(start):
                files.drop(start)
            case Quarantine(segment):
                if segment == files.active_base:
                    # The roll before this found no space, so the damage is where writes would go.
                    raise OSError(errno.ENOSPC, "no space to set the active segment aside")
                files.quarantine(segment)
            case SaveEpochs(epochs):
                files.save_epochs(epochs)
            case Compact():
                desk.compaction = compact(self._files, files, effect.change)
                self._compacting[desk.files.log] = desk

    # Work in the background

    @property
    def has_background_work(self) -> bool:
        return bool(self._compacting)

    def work(self) -> list[DiskEvent]:
        """One small step of one compaction, each in turn."""
        events: list[DiskEvent] = []
        log = next(iter(self._compacting), None)
        if log is not None:
            desk = self._compacting.pop(log)
            self._compacting[log] = desk
            assert desk.compaction is not None
            self._step(desk, desk.compaction, events)
        return events

    def _step(
        self, desk: _Desk, compaction: Iterator[Compacted | None], events: list[DiskEvent]
    ) -> None:
        try:
            with self._guard:
                event = next(compaction)
        except StopIteration:
            self._end_compaction(desk)
        except DamageFound as found:
            self._give_up_compaction(desk, events)
            events.append(found.event)
        except OSError as error:
            self._give_up_compaction(desk, events)
            if error.errno not in _PASSING:
                self._fail(desk, error, events)
        else:
            if event is not None:
                events.append(event)

    def _give_up_compaction(self, desk: _Desk, events: list[DiskEvent]) -> None:
        if desk.compaction is None:
            return
        self._end_compaction(desk)
        events.append(Compacted(log=desk.files.log, is_last=True))

    def _end_compaction(self, desk: _Desk) -> None:
        if desk.compaction is not None:
            with self._guard:
                desk.compaction.close()
        desk.compaction = None
        self._compacting.pop(desk.files.log, None)

    # Reading

    def read(self, wanted: Slice) -> memoryview:
        """The records of a slice; raises DamageFound, whose event belongs to the log."""
        with self._guard:
            return self._desks[wanted.log].files.read(wanted)

    def find(self, seeks: Sequence[Seek]) -> Offset | None:
        """The first offset that any of these finds, in order."""
        for seek in seeks:
            with self._guard:
                found = self._desks[seek.log].files.find(seek)
            if found is not None:
                return found
        return None
