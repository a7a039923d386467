"""The segments of one log as readers see them: which there are, what is damaged, and reads.

The state of `LogFiles`, which alone changes it. Whoever reads holds the guard, except for what is
opened by itself (`view`).
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from goqueue.log import IndexEntry, RecoveryPoint
from goqueue.model import (
    Code,
    Damaged,
    LogId,
    LogSettings,
    Offset,
    Refused,
    SegmentFacts,
    Slice,
)
from goqueue.records import Corrupt
from goqueue.storage.epochs_file import History
from goqueue.storage.filesystem import FileSystem
from goqueue.storage.first_write_barrier import FirstWriteBarrier
from goqueue.storage.layout import log_directory
from goqueue.storage.metrics import UNCOUNTED
from goqueue.storage.recovery_point import RecoveryPointFile
from goqueue.storage.segment import DamageFound, Hole, Pools, RebuildNeeded, SegmentFile

__all__ = ["LogSegments"]


class LogSegments:
    """The files of one log, for reading."""

    __slots__ = (
        "_active",
        "_actives",
        "_committed",
        "_directory",
        "_epochs_owed",
        "_files",
        "_footing",
        "_is_dirty",
        "_log",
        "_point",
        "_pool",
        "_sealed",
        "_settings",
        "guard",
        "meter",
    )

    def __init__(
        self,
        files: FileSystem,
        log: LogId,
        settings: LogSettings,
        *,
        sealed: Iterable[SegmentFacts],
        active: SegmentFile,
        point: RecoveryPointFile,
        pools: Pools,
        footing: FirstWriteBarrier,
    ) -> None:
        self._files = files
        self._log = log
        self._directory = log_directory(log)
        self._settings = settings
        self._sealed = {facts.base: facts for facts in sealed}
        self._active = active
        self._point = point
        self._pool = pools.sealed
        self._actives = pools.actives
        self._footing = footing
        # A history that could not be saved yet: no record is written before it is.
        self._epochs_owed: History | None = None
        self._is_dirty = False
        self._committed = point.point.committed
        # Set by a storage that holds several logs.
        self.meter = UNCOUNTED
        self.guard: AbstractContextManager[object] = nullcontext()

    @property
    def log(self) -> LogId:
        return self._log

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def settings(self) -> LogSettings:
        return self._settings

    @property
    def end(self) -> Offset:
        """The offset after the last record written."""
        return self._active.end

    @property
    def active_base(self) -> Offset:
        return self._active.base

    @property
    def is_dirty(self) -> bool:
        """Whether there are unsynced writes."""
        return self._is_dirty

    @property
    def is_bare(self) -> bool:
        """Whether this log was never written to and has no files yet."""
        return self._footing.is_bare

    @property
    def point(self) -> RecoveryPoint:
        return self._point.point

    @property
    def sealed(self) -> list[SegmentFacts]:
        """The facts of the sealed segments, in order."""
        return [self._sealed[base] for base in sorted(self._sealed)]

    def extent_below(self, offset: Offset) -> IndexEntry:
        """The base of the segment in which the records below `offset` end, and where in it.

        Raises Corrupt where damage hides that.
        """
        with self.guard:
            base = self._base_holding(offset)
            if self.is_bare or base is None:
                return IndexEntry(self._active.base, 0)
            return IndexEntry(base, self._segment(base).place_of(offset).position)

    def facts(self, base: Offset) -> SegmentFacts | None:
        """The facts of a sealed segment."""
        return self._sealed.get(base)

    def _base_holding(self, offset: Offset) -> Offset | None:
        """The last segment that starts at or before `offset` and reaches it."""
        if self._active.base <= offset:
            return self._active.base
        ends = {base: facts.end for base, facts in self._sealed.items()}
        return max((b for b, end in ends.items() if b <= offset <= end), default=None)

    # Reads

    def read(self, wanted: Slice) -> memoryview:
        """The records of a slice; raises DamageFound, or RebuildNeeded where only a scan tells."""
        segment = self._segment_for(wanted)
        hole = segment.hole_at(wanted.offset) if segment.holes else None
        if hole is not None:
            raise self._damage(segment.base, hole)
        try:
            return segment.read(wanted.offset, wanted.below, wanted.bytes_max)
        except Corrupt as corrupt:
            raise RebuildNeeded(self._log, segment.base, str(corrupt)) from corrupt

    def opened(self, base: Offset) -> SegmentFile | None:
        """The segment with its index, if that is in memory."""
        return self._active if base == self._active.base else self._pool.get(self._log, base)

    def facts_of(self, base: Offset) -> SegmentFacts | None:
        """What is known of a segment; None if it is gone."""
        return self._active.facts if base == self._active.base else self._sealed.get(base)

    def view(self, facts: SegmentFacts) -> SegmentFile:
        """The records of a segment without its index, with a file of their own."""
        interval = self._settings.index_interval_bytes
        return SegmentFile(self._files, self._directory, facts.base, facts.size, interval)

    def admit(self, opened: SegmentFile, facts: SegmentFacts) -> bool:
        """Keep a sealed segment that was opened without the guard; the caller holds it now.

        False if the segment is another meanwhile, or is open: then the caller closes this one.
        """
        if self._sealed.get(facts.base) is not facts or self.opened(facts.base) is not None:
            return False
        self._pool.put(self._log, opened)
        return True

    def _damage(self, base: Offset, hole: Hole) -> DamageFound:
        return DamageFound(
            Damaged(
                log=self._log,
                segment=base,
                position=hole.position,
                first=hole.first,
                below=hole.below,
                reason=hole.reason,
            )
        )

    def check_holes(self, base: Offset) -> None:
        """Raise the first known damage of a sealed segment, if there is any."""
        with self.guard:
            for hole in self._segment(base).holes:
                raise self._damage(base, hole)

    def _segment_for(self, wanted: Slice) -> SegmentFile:
        """The segment of a slice, also if it was merged into another in the meantime."""
        if wanted.segment == self._active.base or wanted.segment in self._sealed:
            return self._indexed(wanted.segment)
        for base, facts in self._sealed.items():
            if base <= wanted.offset < facts.end:
                return self._indexed(base)
        raise Refused(Code.OFFSET_OUT_OF_RANGE, offset=wanted.offset, earliest=self.point.start)

    def _segment(self, base: Offset) -> SegmentFile:
        """A segment for a change of the log, which waits for its index; raises Corrupt."""
        try:
            return self._indexed(base)
        except RebuildNeeded:
            opened = self.view(self._sealed[base])
        try:
            opened.make_index(self._sealed[base].end)
        finally:
            opened.close()
        self.meter.index_rebuilds += 1
        self.keep_opened(opened)
        return opened

    def _indexed(self, base: Offset) -> SegmentFile:
        """A segment with its index; raises RebuildNeeded if that is lost."""
        if base == self._active.base:
            if not self._is_dirty:
                self._actives.use(self._active)
            return self._active
        opened = self._pool.get(self._log, base)
        return self._open_sealed(self._sealed[base]) if opened is None else opened

    def _open_sealed(self, facts: SegmentFacts) -> SegmentFile:
        opened = self.view(facts)
        try:
            is_loaded = opened.load_index(facts.size)
        except BaseException:
            opened.close()
            raise
        if not is_loaded:
            opened.close()
            raise RebuildNeeded(self._log, facts.base, "index")
        self._pool.put(self._log, opened)
        return opened

    def keep_opened(self, segment: SegmentFile) -> None:
        """Use a sealed segment whose index was made in memory."""
        segment.save_made_index()
        self._pool.put(self._log, segment)
