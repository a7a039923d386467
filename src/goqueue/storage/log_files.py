"""All files of one log: the active segment, the sealed ones, the recovery point.

Executes changes of the log one at a time, in an order that leaves a readable log after a crash
between any two steps. Raises OSError when the disk refuses; `Storage` decides what that means for
the log.

One thread changes a log; others may read it. The guard is held for every read and while a change
swaps what readers see, and never while a change waits for the disk, so no read waits for a sync. A
truncation is the exception: it holds the guard to its end.

Invariant: every segment but the last is durable, so only the last can have a torn tail.
"""

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress

from goqueue.log import IndexEntry, RecoveryPoint, placeholder
from goqueue.model import (
    Offset,
    Repaired,
    SegmentFacts,
    Truncated,
    Write,
)
from goqueue.records import Buffer, Corrupt
from goqueue.storage.cleaned_file import forget_cleaned, save_cleaned
from goqueue.storage.epochs_file import History, save_epochs
from goqueue.storage.filesystem import File, FileCommit
from goqueue.storage.layout import NameKind, segment_name
from goqueue.storage.log_segments import LogSegments
from goqueue.storage.segment import (
    SegmentFile,
    remove_index,
    remove_set_aside,
)

__all__ = ["LogFiles"]


class LogFiles(LogSegments):
    """The files of one log, opened for writing by this process alone."""

    __slots__ = ()

    # Writes

    def settle(self) -> None:
        """Before the first change: make what the opening found durable.

        Changes nothing that readers see, and may wait for the disk.
        """
        if not self._footing.is_sure:
            self._footing.settle(self._active, self._point, self._reached())
        if self._epochs_owed is not None:
            self._save_owed_epochs(self._epochs_owed)

    def promise(self) -> None:
        """After a repair: everything was synced; replace every older recovery point."""
        self._point.save_durably(self._reached())
        self._files.sync_directory(self._directory)

    def write(self, writes: Sequence[Write]) -> None:
        """Append batches together; raises OSError, and then any part of them may be written."""
        self.begin_write(writes)
        # A slow disk may block a write; readers do not look beyond the old size.
        self._active.put([write.data for write in writes])
        self.end_write(writes)

    def begin_write(self, writes: Sequence[Write]) -> None:
        """Before batches are written; the active segment must end where the log expects it."""
        assert self._footing.is_sure, "settled before the first change"
        position = self._active.size
        for write in writes:
            assert write.segment == self._active.base, "log and files disagree on the segment"
            assert write.position == position, "log and files disagree on the size"
            position += len(write.data)
        if not self._is_dirty:
            with self.guard:
                self._active.open()
                self._actives.keep(self._active)
                self._is_dirty = True
        self._active.begin_put()

    def commit(
        self, writes: Sequence[Write], *, is_synced: bool, ticks: Callable[[], int]
    ) -> FileCommit:
        """What a group commit does to the active segment, between `begin_write` and `end_write`."""
        parts = [write.data for write in writes]
        file, size = self._active.open(), self._active.size
        return FileCommit(file, size, parts, is_synced=is_synced, ticks=ticks)

    def end_write(self, writes: Sequence[Write]) -> None:
        """Batches were written: readers may see them."""
        with self.guard:
            for write in writes:
                self._active.learn(write.data)
                assert self._active.end == write.next_offset, "log and files disagree on offsets"

    def trim(self) -> None:
        """Undo a write that failed half way."""
        if self._active.is_torn:
            self._active.trim()

    def fail(self) -> None:
        """The log has failed: its file need not stay open for a sync."""
        with self.guard:
            self._is_dirty = False
            self._actives.use(self._active)

    def sync(self) -> None:
        """Make all writes durable."""
        if self._is_dirty:
            self._active.sync()
        self.note_synced()

    def note_committed(self, upto: Offset) -> None:
        """A replicated log is committed so far; the point of the next sync says so."""
        self._committed = max(self._committed, upto)

    def note_synced(self) -> None:
        """Everything written so far is durable; `save_point` writes that down later."""
        is_committed_further = self._point.point.committed < self._committed
        if self._is_dirty or (is_committed_further and not self.is_bare):
            with self.guard:
                self._is_dirty = False
                self._actives.use(self._active)
            # Taken now: by the time it is saved there may be later, unsynced records.
            self._point.advance(self._reached())

    def save_point(self) -> None:
        """Write the index and the recovery point of the last sync, unless they are on disk.

        Errors are ignored: the point before this one still holds.
        """
        if self._point.is_behind:
            with self.guard:
                self._active.save_index()
            with suppress(OSError):
                self._point.catch_up()

    def roll(self, base: Offset) -> None:
        """Seal the active segment, which was synced, and start the next.

        So a segment with a successor is complete.
        """
        if self._active.base == base:
            return
        assert not self._is_dirty, "a segment is synced before it is sealed"
        with self.guard:
            self._active.save_index()
        successor = SegmentFile.create(
            self._files, self._directory, base, self._settings.index_interval_bytes
        )
        with self.guard:
            self._sealed[self._active.base] = self._active.facts
            self._actives.keep(self._active)
            self._pool.put(self._log, self._active)
            self._active = successor
            self.meter.segments_created += 1
            self._actives.use(successor)
        with suppress(OSError):
            # The promise before this one still holds.
            self._point.save_durably(self._reached())

    def _reached(self, start: Offset | None = None) -> RecoveryPoint:
        return RecoveryPoint(
            sequence=0,
            segment=self._active.base,
            position=self._active.size,
            offset=self._active.end,
            start=self.point.start if start is None else start,
            committed=min(self._committed, self._active.end),
        )

    # Changes of segments

    def truncate(self, offset: Offset) -> Truncated:
        """Remove every record from `offset` on.

        The recovery point is lowered first, then segments are removed from the last backwards: a
        crash in between leaves a shorter log or the old one, never a hole.
        """
        with self.guard:
            return self._truncate(offset)

    def _truncate(self, offset: Offset) -> Truncated:
        if self.is_bare:
            return Truncated(log=self._log, offset=self._active.end, active=self._active.facts)
        self.sync()
        forget_cleaned(self._files, self._directory)
        offset = min(offset, self._active.end)
        base = self._base_holding(offset)
        target = None if base is None else self._segment(base)
        # If compaction removed the last records before the cut, the point is before them.
        place = IndexEntry(offset, 0) if target is None else target.place_of(offset)
        self._committed = min(self._committed, Offset(place.offset))
        self._point.save_durably(
            RecoveryPoint(
                sequence=0,
                segment=offset if base is None else base,
                position=place.position,
                offset=Offset(place.offset),
                start=self.point.start,
                committed=self._committed,
            )
        )
        self._remove_from(offset if base is None else Offset(base + 1))
        if target is None:
            self._active = SegmentFile.create(
                self._files, self._directory, offset, self._settings.index_interval_bytes
            )
            self.meter.segments_created += 1
        else:
            self._reopen(target, place, offset)
        self._actives.use(self._active)
        remove_set_aside(self._files, self._directory, offset)
        self._point.save_durably(self._reached())
        return Truncated(log=self._log, offset=offset, active=self._active.facts)

    def reset(self, start: Offset) -> Truncated:
        """Remove every record, and begin an empty log at `start`.

        The recovery point moves first: after a crash, segments that end below it are left over.
        """
        with self.guard:
            if not self.is_bare and start < self._active.end:
                self._truncate(self.point.start)
            self.sync()
            forget_cleaned(self._files, self._directory)
            self._committed = start
            self._point.save_durably(
                RecoveryPoint(
                    sequence=0,
                    segment=start,
                    position=0,
                    offset=start,
                    start=start,
                    committed=start,
                )
            )
            self._remove_from(Offset(0))
            self._active = SegmentFile.create(
                self._files, self._directory, start, self._settings.index_interval_bytes
            )
            self.meter.segments_created += 1
            self._actives.use(self._active)
            self.save_epochs(())
            self._point.save_durably(self._reached())
            return Truncated(log=self._log, offset=start, active=self._active.facts, is_reset=True)

    def _remove_from(self, base: Offset) -> None:
        """Remove every segment that starts at or after `base`, the last one first."""
        for later in sorted((*self._sealed, self._active.base), reverse=True):
            if later >= base:
                self._remove(later)
                self._forget(later)
                self._files.sync_directory(self._directory)

    def _reopen(self, target: SegmentFile, place: IndexEntry, offset: Offset) -> None:
        """Cut `target` at `place` and make it the active segment."""
        if target.base != self._active.base:
            self._sealed.pop(target.base)
            self._pool.take(self._log, target.base)
        self._active = target
        self._active.cut(place.position, Offset(place.offset))
        if self._active.end < offset:
            # Compaction had removed the last record before the cut: the segment must still end
            # where the log continues.
            self._active.append(placeholder(offset - 1, self._active.facts.max_timestamp))
            self._active.sync()

    def repair(self, first: Offset, data: Buffer) -> Repaired:
        """Write the records of another copy over damaged ones, if they fit; see `SegmentFile`."""
        with self.guard:
            base = self._base_of(first)
            below = first
            if base is not None:
                try:
                    below = self._segment(base).repair(first, data)
                except Corrupt:
                    # Not one record of the segment is good: nothing says where these were.
                    below = first
        return Repaired(log=self._log, first=first, below=below)

    def _base_of(self, offset: Offset) -> Offset | None:
        """The segment that holds an offset."""
        if self._active.base <= offset:
            return self._active.base
        found = (base for base, facts in self._sealed.items() if base <= offset < facts.end)
        return next(found, None)

    def has_below(self, start: Offset) -> bool:
        """Whether there is something to delete below `start`."""
        return start > self.point.start or any(
            facts.end <= start for facts in self._sealed.values()
        )

    def drop(self, start: Offset) -> None:
        """Remove every sealed segment that ends at or below `start`, oldest first."""
        if not self.has_below(start):
            # Nothing is to be noted either: a full disk must not fail the log for that.
            return
        self.sync()
        self._point.save_durably(self._reached(start))
        gone = sorted(base for base, facts in self._sealed.items() if facts.end <= start)
        with self.guard:
            for base in gone:
                self._forget(base)
        for base in gone:
            self._remove(base)
        self._files.sync_directory(self._directory)

    def swap(self, replaced: tuple[Offset, ...], merged: SegmentFacts) -> OSError | None:
        """Replace segments by their rewritten copy, which is complete and synced.

        Indexes are removed first. After the rename the new segment covers the others, which
        recovery recognises, so a crash before they are removed changes nothing. An error after the
        rename is returned, because the swap has taken place.
        """
        first = replaced[0]
        cleaned = f"{self._directory}/{segment_name(first, NameKind.CLEANED)}"
        opened = self._index_anew(merged, cleaned)
        with self.guard:
            try:
                for base in replaced:
                    remove_index(self._files, self._directory, base)
                self._files.rename(cleaned, f"{self._directory}/{segment_name(first)}")
            except OSError:
                opened.close()
                raise
            # Reads use the new file from here on, even if the rest fails.
            size = sum(self._sealed[base].size for base in replaced)
            for base in replaced:
                self._forget(base)
            self._sealed[first] = merged
            self._pool.put(self._log, opened)
            self.meter.replace(size, merged.size)
        try:
            self._files.sync_directory(self._directory)
            for base in replaced[1:]:
                self._remove(base)
            self._files.sync_directory(self._directory)
        except OSError as error:
            return error
        with self.guard:
            opened.save_index()
        return None

    def _index_anew(self, facts: SegmentFacts, path: str) -> SegmentFile:
        """Index a segment before it gets its name, so that no reader has to."""
        interval = self._settings.index_interval_bytes
        opened = SegmentFile(self._files, self._directory, facts.base, facts.size, interval)
        try:
            opened.open_at(path)
            opened.make_index()
        except Corrupt as corrupt:
            opened.close()
            # The new file is bad; the log still has the old ones, so this is not damage.
            raise OSError(errno.EIO, f"a rewritten segment: {corrupt}") from corrupt
        except OSError:
            opened.close()
            raise
        return opened

    def save_cleaned(self, upto: Offset) -> None:
        """Record that everything below `upto` was compacted, durably."""
        save_cleaned(self._files, self._directory, upto)

    def save_epochs(self, epochs: History) -> None:
        """Save a copy of the epoch history: now, or before the next record if that fails.

        Until then the older copy says too much at most, about records that are not there.
        """
        self._footing.note_epochs()
        self._epochs_owed = epochs
        with suppress(OSError):
            self._save_owed_epochs(epochs)

    def _save_owed_epochs(self, epochs: History) -> None:
        save_epochs(self._files, self._directory, epochs)
        self._epochs_owed = None

    def save(self) -> File | None:
        """Before a clean stop: sync, and leave nothing to scan.

        The file of the recovery point is returned, for the caller to sync, together with those of
        other logs, and to close; None if there is nothing to do.
        """
        if not self._footing.is_sure:
            # Nothing changed, and the opening had nothing to scan.
            return None
        self.sync()
        with self.guard:
            self._active.save_index()
        return self._point.write_all(self._reached())

    def release(self) -> None:
        """Close the files without another write."""
        with self.guard:
            self._actives.keep(self._active)
            self._active.close()
            for base in sorted(self._sealed):
                self._pool.discard(self._log, base)

    def _forget(self, base: Offset) -> None:
        if base == self._active.base:
            self._actives.keep(self._active)
            self._active.close()
        self._sealed.pop(base, None)
        self._pool.discard(self._log, base)

    def _remove(self, base: Offset) -> None:
        remove_index(self._files, self._directory, base)
        self._files.remove(f"{self._directory}/{segment_name(base)}")
        self.meter.segments_deleted += 1
