"""Opens a log after any stop: checks the files, repairs what a crash left, and reports.

Reads only the bytes above the recovery point, plus the index and the last few kilobytes of each
sealed segment. The report lists everything that was cut, quarantined, rebuilt or not recognised.

If there is nothing to repair, nothing is changed and nothing is synced: thousands of logs open in
seconds, and a crash finds the same files. What must still be made durable waits for the first
change (`LogFiles.settle`).

Crash points: each repair is complete in itself and found again by the next opening, so a crash
during recovery is just one more crash.
"""

import errno
from collections.abc import Iterator

import msgspec

from goqueue.log import (
    Assembly,
    Checked,
    DamagedRange,
    Epochs,
    LogState,
    RecoveryPoint,
    UnfinishedBatch,
    assemble,
    is_sealed,
    tail_to_scan,
    unfinished_batch,
)
from goqueue.model import LogId, LogSettings, Offset, SegmentFacts
from goqueue.records import HEADER_SIZE, Corrupt
from goqueue.storage.cleaned_file import load_cleaned
from goqueue.storage.epochs_file import load_epochs, scan_epochs
from goqueue.storage.filesystem import (
    Entry,
    EntryKind,
    FileSystem,
    ensure_directory,
    remove_if_there,
)
from goqueue.storage.first_write_barrier import Durability, FirstWriteBarrier
from goqueue.storage.layout import (
    CLEANED_FILE,
    EPOCHS_FILE,
    POINT_FILE,
    NameKind,
    classify,
    directories_above,
    log_directory,
    segment_base,
    segment_name,
)
from goqueue.storage.log_files import LogFiles
from goqueue.storage.recovery import Cut, RecoveryReport, keep_cut
from goqueue.storage.recovery_point import POINT_BYTES, RecoveryPointFile, read_point
from goqueue.storage.segment import (
    OpenSegments,
    Pools,
    RecordSearch,
    SegmentFile,
    chunks,
    set_aside,
)

__all__ = ["Opened", "new_log", "open_log"]


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """An opened log: its files, its state, the report, and the segments that were opened."""

    files: LogFiles
    state: LogState
    report: RecoveryReport
    sealed: OpenSegments


def open_log(files: FileSystem, log: LogId, settings: LogSettings, pools: Pools) -> Opened:
    """Open the log of one partition, creating it if it does not exist.

    The shared pools are not touched: other threads may use them meanwhile.
    """
    return _LogOpener(files, log, settings, pools).run()


def new_log(files: FileSystem, log: LogId, settings: LogSettings, pools: Pools) -> LogFiles:
    """The files of a log whose directory was just created: none until the first change."""
    return LogFiles(
        files,
        log,
        settings,
        sealed=(),
        active=SegmentFile(files, log_directory(log), Offset(0), 0, settings.index_interval_bytes),
        point=RecoveryPointFile(files, log_directory(log), _NOTHING),
        pools=pools,
        footing=FirstWriteBarrier(files, log_directory(log), Durability.MADE),
    )


_NOTHING = RecoveryPoint(
    sequence=0, segment=Offset(0), position=0, offset=Offset(0), start=Offset(0)
)


class _TailFound(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a tail: the invalid record, and the facts before an incomplete batch; None if
    there is none.
    """

    torn: Corrupt | None = None
    whole: SegmentFacts | None = None


class _LogOpener:
    """One opening: the files found, and the repairs so far."""

    def __init__(self, files: FileSystem, log: LogId, settings: LogSettings, pools: Pools) -> None:
        self._files = files
        self._log = log
        self._directory = log_directory(log)
        self._settings = settings
        self._pools = pools
        self._checked = OpenSegments()
        self._cut: Cut | None = None
        self._scanned = 0
        self._rebuilt: list[Offset] = []
        self._removed: list[str] = []
        self._foreign: list[str] = []
        self._opened: dict[Offset, SegmentFile] = {}
        self._tails: dict[Offset, int] = {}

    def run(self) -> Opened:
        """Run the opening; on failure every opened file is closed."""
        try:
            return self._run()
        except Exception:
            for segment in self._opened.values():
                segment.close()
            self._checked.close()
            raise

    def _run(self) -> Opened:
        entries = self._sort_out(self._list())
        point = self._read_point(entries)
        assembly = assemble(list(self._check_segments(entries, point)), point)
        reached = _reached(assembly.state, point)
        if self._is_bare(entries, assembly):
            ground = Durability.BARE
            active = self._segment_file(Offset(0), 0)
        elif reached == point and self._is_whole(assembly):
            ground = Durability.FOUND
            active = self._opened[reached.segment]
        else:
            ground = Durability.SURE
            active = self._mend(assembly, point)
        files = LogFiles(
            self._files,
            self._log,
            self._settings,
            sealed=assembly.state.segments[:-1],
            active=active,
            point=RecoveryPointFile(self._files, self._directory, reached),
            pools=self._pools,
            footing=FirstWriteBarrier(self._files, self._directory, ground),
        )
        if ground is Durability.SURE:
            files.promise()
        history = () if ground is Durability.BARE else self._epochs(entries, assembly.state, files)
        active.close()
        return Opened(
            files=files,
            state=msgspec.structs.replace(
                assembly.state, epochs=history, cleaned_upto=self._cleaned(entries)
            ),
            report=self._report(assembly),
            sealed=self._checked,
        )

    def _list(self) -> list[Entry]:
        for path in [*directories_above(self._directory)[1:], self._directory]:
            ensure_directory(self._files, path)
        return self._files.entries(self._directory)

    def _is_bare(self, entries: dict[str, Entry], assembly: Assembly) -> bool:
        return not entries and not self._removed and not assembly.state.end

    def _is_whole(self, assembly: Assembly) -> bool:
        """Whether there is nothing to repair, with a recovery point at the very end."""
        return not (
            self._scanned
            or self._removed
            or self._rebuilt
            or self._cut
            or assembly.superseded
            or assembly.to_set_aside
            or assembly.is_active_new
            or list(self._opened) != [assembly.state.segments[-1].base]
        )

    def _mend(self, assembly: Assembly, point: RecoveryPoint | None) -> SegmentFile:
        """Repair what needs it, and make what will be served durable; the active segment."""
        if point is None:
            # Without a recovery point the parent directories may not be durable.
            for path in directories_above(self._directory):
                self._files.sync_directory(path)
        for base, position in self._tails.items():
            if base in self._opened:
                self._opened[base].write_again(position)
        self._remove_superseded(assembly)
        # Create the new active segment before quarantining the damaged one: its name tells the next
        # opening, should this one be interrupted, which offsets are taken.
        is_name_taken = assembly.state.segments[-1].base in assembly.to_set_aside
        if is_name_taken:
            self._set_aside(assembly)
        active = self._activate(assembly)
        if not is_name_taken:
            self._set_aside(assembly)
        # The scanned tail may be in the page cache only; what is served must be durable.
        active.sync()
        return active

    def _sort_out(self, entries: list[Entry]) -> dict[str, Entry]:
        """Remove what a crash left half done, and list unknown files."""
        ours: dict[str, Entry] = {}
        for entry in sorted(entries, key=lambda found: found.name):
            kind = classify(entry.name)
            if kind is NameKind.FOREIGN:
                self._foreign.append(entry.name)
            elif kind in {NameKind.TEMPORARY, NameKind.CLEANED} and entry.kind is EntryKind.FILE:
                self._files.remove(f"{self._directory}/{entry.name}")
                self._removed.append(entry.name)
            else:
                ours[entry.name] = entry
        return ours

    def _read_point(self, entries: dict[str, Entry]) -> RecoveryPoint | None:
        entry = entries.get(POINT_FILE)
        path = f"{self._directory}/{POINT_FILE}"
        if entry is None:
            return None
        if entry.kind is not EntryKind.FILE:
            raise OSError(errno.EINVAL, f"a {entry.kind}, not a file", path)
        file = self._files.open(path)
        try:
            return read_point(file.read_at(0, POINT_BYTES))
        finally:
            file.close()

    # Checking

    def _check_segments(
        self, entries: dict[str, Entry], point: RecoveryPoint | None
    ) -> Iterator[Checked]:
        segments = [e for e in entries.values() if classify(e.name) is NameKind.SEGMENT]
        for entry in entries.values():
            if classify(entry.name) is NameKind.QUARANTINED:
                yield Checked(
                    base=segment_base(entry.name), reason="quarantined", is_set_aside=True
                )
        # An empty last file does not seal the one before: it may be left from a failed roll.
        last = max(
            (i for i, e in enumerate(segments) if e.size or e.kind != EntryKind.FILE), default=0
        )
        for index, entry in enumerate(segments):
            base = segment_base(entry.name)
            if entry.kind is not EntryKind.FILE:
                yield Checked(base=base, reason=f"a {entry.kind}, not a file")
            elif is_sealed(base, point) or index < last:
                following = segments[index + 1 : index + 2]
                end = segment_base(following[0].name) if following else base
                yield self._check_sealed(base, entry.size, end)
            else:
                yield self._check_last(base, entry.size, point)

    def _check_sealed(self, base: Offset, size: int, end: Offset) -> Checked:
        if not size:
            return Checked(base=base, reason="empty")
        segment = self._segment_file(base, size)
        self._opened[base] = segment
        if not segment.load_index(size):
            try:
                segment.rebuild_index(end)
            except Corrupt as corrupt:
                self._close(base)
                return Checked(base=base, reason=corrupt.reason)
            self._scanned += size
            self._rebuilt.append(base)
        self._checked.put(self._log, self._opened.pop(base))
        return Checked(base=base, facts=segment.facts, damaged=_damaged_in(segment))

    def _close(self, base: Offset) -> None:
        self._checked.discard(self._log, base)
        opened = self._opened.pop(base, None)
        if opened is not None:
            opened.close()

    def _check_last(self, base: Offset, size: int, point: RecoveryPoint | None) -> Checked:
        tail = tail_to_scan(base, size, point)
        if tail is None:
            return Checked(base=base, reason="truncated")
        segment = self._segment_file(base, tail.position)
        self._opened[base] = segment
        damage: Corrupt | None = None
        if tail.position and not segment.load_index(tail.position):
            try:
                segment.rebuild_index(Offset(max(tail.expected, 0)))
            except Corrupt as corrupt:
                damage = corrupt
            self._scanned += tail.position
            self._rebuilt.append(base)
        found = self._scan_tail(segment, size, tail.expected)
        torn = found.torn
        if torn is not None and torn.reason == "unreadable":
            # The contents are unknown, so nothing is cut.
            damage = damage or torn
        if damage is not None:
            self._close(base)
            # As many records as fit into the unread bytes may have been acknowledged.
            unread = 0 if torn is None else (size - segment.size) // HEADER_SIZE
            return Checked(base=base, reason=damage.reason, end=Offset(segment.end + unread))
        expected = segment.end
        if found.whole is not None:
            segment.rewind(found.whole)
        if segment.size < size:
            self._cut = self._keep_cut(segment, size, torn, expected)
            segment.trim()
        self._tails[base] = tail.position
        return Checked(base=base, facts=segment.facts, damaged=_damaged_in(segment))

    def _scan_tail(self, segment: SegmentFile, size: int, expected: int) -> _TailFound:
        """Adopt the complete records above the recovery point."""
        start = segment.size
        if start == size:
            return _TailFound()
        self._scanned += size - start
        torn: Corrupt | None = None
        batch: UnfinishedBatch | None = None
        whole = segment.facts
        file = self._files.open(segment.path(NameKind.SEGMENT))
        try:
            for chunk in chunks(file, start, size, expected):
                batch = unfinished_batch(chunk.data, chunk.columns, chunk.position, batch)
                records = memoryview(chunk.data)[: chunk.end]
                if batch is not None and batch.position >= chunk.position:
                    # It starts here: the segment may be cut back to this point.
                    segment.adopt(records[: batch.position - chunk.position])
                    whole = segment.facts
                    records = records[batch.position - chunk.position :]
                segment.adopt(records)
        except Corrupt as corrupt:
            torn = corrupt
        finally:
            file.close()
        return _TailFound(torn=torn, whole=None if batch is None else whole)

    def _keep_cut(
        self, segment: SegmentFile, size: int, torn: Corrupt | None, expected: Offset
    ) -> Cut:
        """Describe a cut; the bytes are copied first if good records follow the bad one."""
        cut = Cut(
            segment=segment.base,
            position=segment.size,
            size=size - segment.size,
            reason="incomplete batch" if torn is None else torn.reason,
        )
        if torn is None:
            return cut
        file = self._files.open(segment.path(NameKind.SEGMENT))
        try:
            if RecordSearch(file, size).first_from(torn.position, expected) == size:
                return cut
            return keep_cut(self._files, self._directory, file, cut)
        except OSError:
            # Unreadable bytes behind a torn record do not prevent the opening.
            return cut
        finally:
            file.close()

    def _segment_file(self, base: Offset, size: int) -> SegmentFile:
        interval = self._settings.index_interval_bytes
        return SegmentFile(self._files, self._directory, base, size, interval)

    # Repairing

    def _remove_superseded(self, assembly: Assembly) -> None:
        for base in assembly.superseded:
            self._close(base)
            for kind in (NameKind.INDEX, NameKind.TIMEINDEX, NameKind.HOLES, NameKind.SEGMENT):
                self._remove_if_there(segment_name(base, kind))

    def _set_aside(self, assembly: Assembly) -> None:
        for base in assembly.to_set_aside:
            self._close(base)
            for kind in (NameKind.INDEX, NameKind.TIMEINDEX, NameKind.HOLES):
                self._remove_if_there(segment_name(base, kind))
            set_aside(self._files, self._directory, base)
        self._files.sync_directory(self._directory)

    def _remove_if_there(self, name: str) -> None:
        if remove_if_there(self._files, f"{self._directory}/{name}"):
            self._removed.append(name)

    def _activate(self, assembly: Assembly) -> SegmentFile:
        facts = assembly.state.segments[-1]
        for base in [base for base in self._opened if base != facts.base]:
            # It was scanned like the last one, but it is sealed.
            self._opened[base].sync()
            self._opened[base].save_index()
            self._checked.put(self._log, self._opened.pop(base))
        if facts.base in self._opened:
            return self._opened[facts.base]
        if assembly.is_active_new:
            interval = self._settings.index_interval_bytes
            created = SegmentFile.create(self._files, self._directory, facts.base, interval)
            self._opened[facts.base] = created
            return created
        # The file after it is gone and was empty, so this one is active again.
        self._close(facts.base)
        reopened = self._segment_file(facts.base, facts.size)
        self._opened[facts.base] = reopened
        if not reopened.load_index(facts.size):
            reopened.rebuild_index()
        return reopened

    # Epochs

    def _epochs(
        self, entries: dict[str, Entry], state: LogState, files: LogFiles
    ) -> tuple[tuple[int, int], ...]:
        """The saved history if it can be trusted, else a scan of the epoch records."""
        is_there = EPOCHS_FILE in entries
        saved = load_epochs(self._files, self._directory) if is_there else None
        epochs = Epochs(
            saved if saved is not None else scan_epochs(self._files, self._directory, state)
        )
        epochs.truncate(state.end)
        epochs.drop_below(state.start)
        if epochs.history != saved:
            files.save_epochs(epochs.history)
        return epochs.history

    def _cleaned(self, entries: dict[str, Entry]) -> Offset:
        return load_cleaned(self._files, self._directory) if CLEANED_FILE in entries else Offset(0)

    def _report(self, assembly: Assembly) -> RecoveryReport:
        return RecoveryReport(
            log=self._log,
            scanned_bytes=self._scanned,
            cut=self._cut,
            damaged=assembly.state.damaged,
            set_aside=assembly.to_set_aside,
            rebuilt_indexes=tuple(self._rebuilt),
            removed=tuple(self._removed),
            foreign=tuple(self._foreign),
        )


def _damaged_in(segment: SegmentFile) -> tuple[DamagedRange, ...]:
    return tuple(
        DamagedRange(first=hole.first, below=hole.below, reason=hole.reason)
        for hole in segment.holes
    )


def _reached(state: LogState, point: RecoveryPoint | None) -> RecoveryPoint:
    """The recovery point of the opened log, with the sequence of the last one."""
    active = state.segments[-1]
    return RecoveryPoint(
        sequence=point.sequence if point else 0,
        segment=active.base,
        position=active.size,
        offset=active.end,
        start=state.start,
        committed=state.committed,
    )
