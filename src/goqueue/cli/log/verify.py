"""`goqueue log verify`: check the files of a log by the rules of recovery.

Takes no lock and writes nothing. What recovery would cut is torn; what it would set aside or miss
is a problem. A broker may write meanwhile, so a finding about a file that has changed since it was
listed is a note, not a problem.

An index is a cache: missing entries only cost time, but a wrong entry leads readers to the wrong
position, so every entry is compared with the records as they are scanned. Reads each segment once,
in bounded memory.
"""

import enum
import itertools
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable

import msgspec

from goqueue.cli.log.directory import (
    Flaw,
    Place,
    Segment,
    Snapshot,
    list_files,
    take_snapshot,
    walk,
)
from goqueue.cli.output import printable
from goqueue.log import ENTRY_SIZE, Checked, assemble
from goqueue.model import INDEX_INTERVAL_BYTES, LogId, Offset, SegmentFacts, Timestamp
from goqueue.records import HEADER_SIZE
from goqueue.storage import (
    POINT_FILE,
    Chunk,
    EntryKind,
    File,
    FileSystem,
    NameKind,
    classify,
    segment_base,
    segment_name,
)

__all__ = ["IndexCheck", "Kind", "Problem", "Verdict", "Verification", "problem_of", "verify"]


class IndexCheck:
    """Both files of the index of one segment, compared with its records chunk by chunk.

    What lies beyond the end of the records is a lie in a sealed segment only: the index of the
    last one may be ahead of, or behind, records that are just being written.
    """

    def __init__(self, marks: bytes, times: bytes, is_sealed: bool) -> None:
        self._is_sealed = is_sealed
        self._fault = _shape_fault(".index", marks) or _shape_fault(".timeindex", times)
        self._marks = _entries(marks)
        self._times = _entries(times)
        self._next_mark = 0
        self._next_time = 0
        self._last_start = -1
        self._newest = 0
        self._has_flaw = False
        if not self._fault and self._marks and self._marks[1] != 0:
            self._fault = ".index: the first entry is not for the first record"

    @property
    def fault(self) -> str:
        """What is wrong, or nothing."""
        return self._fault

    def skip(self) -> None:
        """Records are missing from here to the next chunk: what is said about them stays open."""
        self._has_flaw = True

    def take(self, chunk: Chunk) -> None:
        if self._fault:
            return
        self._compare_marks(chunk)
        if not self._has_flaw:
            self._compare_times(chunk)
        self._last_start = chunk.position + chunk.columns.positions[-1]

    def finish(self) -> str:
        """All records were seen: what is wrong with the index, or nothing."""
        if self._fault or not self._is_sealed or self._has_flaw or not self._marks:
            return self._fault
        if 2 * self._next_mark < len(self._marks):
            return ".index: entries for records beyond the end of the segment"
        if 2 * self._next_time < len(self._times):
            return ".timeindex: entries for records beyond the end of the segment"
        if self._times and self._times[1::2] != self._marks[0::2]:
            return ".timeindex: not made with its .index, they are for different records"
        if self._last_start - self._marks[-1] >= self._widest_step():
            return ".index: short, it ends before the segment does"
        return ""

    def _compare_marks(self, chunk: Chunk) -> None:
        end = chunk.position + chunk.end
        while 2 * self._next_mark < len(self._marks):
            offset, position = self._marks[2 * self._next_mark : 2 * self._next_mark + 2]
            if position >= end:
                return
            self._next_mark += 1
            if position < chunk.position:
                # Inside a flaw: unknown.
                continue
            found = bisect_left(chunk.columns.positions, position - chunk.position)
            is_start = (
                found < len(chunk.columns)
                and chunk.columns.positions[found] == position - chunk.position
            )
            if not is_start or chunk.columns.offsets[found] != offset:
                self._fault = f".index: offset {offset} is not at byte {position}"
                return

    def _compare_times(self, chunk: Chunk) -> None:
        columns = chunk.columns
        seen = 0
        while 2 * self._next_time < len(self._times):
            timestamp, offset = self._times[2 * self._next_time : 2 * self._next_time + 2]
            if offset > columns.offsets[-1]:
                break
            self._next_time += 1
            found = bisect_left(columns.offsets, offset)
            if columns.offsets[found] != offset:
                self._fault = f".timeindex: there is no record with offset {offset}"
                return
            self._newest = max(self._newest, max(columns.timestamps[seen : found + 1], default=0))
            seen = found + 1
            if self._newest != timestamp:
                words = f"the newest record up to offset {offset} is not stamped {timestamp}"
                self._fault = f".timeindex: {words}, but {self._newest}"
                return
        self._newest = max(self._newest, max(columns.timestamps[seen:], default=0))

    def _widest_step(self) -> int:
        """The interval of the index, which no file holds, inferred from its widest step."""
        positions = self._marks[1::2]
        steps = (after - before for before, after in itertools.pairwise(positions))
        return max(INDEX_INTERVAL_BYTES, max(steps, default=0))


def _shape_fault(suffix: str, data: bytes) -> str:
    """What is wrong with the entries of one file by themselves."""
    if len(data) % ENTRY_SIZE:
        return f"{suffix}: malformed, {len(data)} bytes are not whole entries"
    entries = _entries(data)
    # A time may stand for several marks; offsets and positions are each marked once.
    columns = (entries[0::2], entries[1::2])
    compare = (int.__le__ if suffix == ".timeindex" else int.__lt__, int.__lt__)
    for column, is_before in zip(columns, compare, strict=True):
        if (column and column[0] < 0) or not all(map(is_before, column, column[1:])):
            return f"{suffix}: malformed, the entries do not rise"
    return ""


def _entries(data: bytes) -> "array[int]":
    entries = array("q")
    entries.frombytes(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE])
    if sys.byteorder == "little":
        entries.byteswap()
    return entries


_INDEXES = (NameKind.INDEX, NameKind.TIMEINDEX)


class Kind(enum.StrEnum):
    """What sort of problem. The names never change once released."""

    DAMAGE = "damage"
    GAP = "gap"
    INDEX = "index"
    NOT_A_FILE = "not_a_file"
    OVERLAP = "overlap"
    QUARANTINED = "quarantined"
    TORN = "torn"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and where: byte `position` of the segment with this base offset."""

    topic: str
    partition: int
    segment: int
    position: int
    offset: int | msgspec.UnsetType = msgspec.UNSET
    kind: Kind
    reason: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `goqueue log verify`; its shape is fixed by the API contract, section 8."""

    records: int
    segments: int
    bytes: int
    problems: tuple[Problem, ...]
    torn: tuple[Problem, ...]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict, and notes on what is odd but harmless."""

    verdict: Verdict
    notes: tuple[str, ...]


def problem_of(log: LogId, segment: Segment, flaw: Flaw) -> Problem:
    """A flaw in a segment, as a problem."""
    return Problem(
        topic=log.topic,
        partition=log.partition,
        segment=segment.base,
        position=flaw.position,
        offset=flaw.offset,
        kind=Kind.TORN if flaw.is_torn else Kind.DAMAGE,
        reason=flaw.reason,
    )


def verify(
    files: FileSystem, places: Iterable[Place], advance: Callable[[int], None]
) -> Verification:
    """Check every record, every index and every chain of segments of these logs."""
    checks = []
    for place in places:
        check = _LogCheck(files, take_snapshot(files, place), advance)
        check.run()
        checks.append(check)
    return Verification(
        verdict=Verdict(
            records=sum(check.records for check in checks),
            segments=sum(check.segments for check in checks),
            bytes=sum(check.bytes for check in checks),
            problems=tuple(problem for check in checks for problem in check.problems),
            torn=tuple(problem for check in checks for problem in check.torn),
        ),
        notes=tuple(note for check in checks for note in check.notes),
    )


class _LogCheck:
    """The check of one log, and what it has found so far."""

    def __init__(
        self, files: FileSystem, snapshot: Snapshot, advance: Callable[[int], None]
    ) -> None:
        self._files = files
        self._snapshot = snapshot
        self._place = snapshot.place
        self._advance = advance
        self._checked: list[Checked] = []
        self.records = self.segments = self.bytes = 0
        self.problems: list[Problem] = []
        self.torn: list[Problem] = []
        self.notes: list[str] = []

    def run(self) -> None:
        self._check_names()
        for segment in self._snapshot.segments():
            if segment.entry.kind is EntryKind.FILE:
                self._check_segment(segment)
            else:
                reason = f"{segment.entry.name} is a {segment.entry.kind}, not a file"
                self._checked.append(Checked(base=segment.base, reason=reason))
                self._add(Kind.NOT_A_FILE, segment.base, reason)
        self._check_chain()
        self.problems.sort(key=lambda problem: (problem.segment, problem.position))

    def _add(
        self, kind: Kind, segment: int, reason: str, offset: int | msgspec.UnsetType = msgspec.UNSET
    ) -> None:
        problem = Problem(
            topic=self._place.log.topic,
            partition=self._place.log.partition,
            segment=segment,
            position=0,
            offset=offset,
            kind=kind,
            reason=reason,
        )
        self.problems.append(problem)

    def _note(self, name: str, words: str) -> None:
        self.notes.append(f"{self._place.directory}/{printable(name)}: {words}")

    # Names

    def _check_names(self) -> None:
        bases = {segment.base for segment in self._snapshot.segments()}
        for entry in self._snapshot.entries:
            match classify(entry.name):
                case NameKind.FOREIGN:
                    self._note(entry.name, f"a {entry.kind} that is not ours")
                case NameKind.TEMPORARY | NameKind.CLEANED:
                    self._note(entry.name, "left half done, goes away at the next start")
                case NameKind.INDEX | NameKind.TIMEINDEX | NameKind.HOLES if (
                    segment_base(entry.name) not in bases
                ):
                    self._note(entry.name, "an index without its segment")
                case NameKind.QUARANTINED:
                    base = segment_base(entry.name)
                    reason = f"{entry.name} was set aside as damaged and is not served"
                    self._checked.append(
                        Checked(base=base, reason="quarantined", is_set_aside=True)
                    )
                    self._add(Kind.QUARANTINED, base, reason, base)
                case NameKind.CUT:
                    self._note(entry.name, "cut off at a start and kept to look at; may be removed")
                case NameKind.OWN if entry.kind is not EntryKind.FILE:
                    reason = f"{entry.name} is a {entry.kind}, not a file: the log cannot be opened"
                    self._add(Kind.NOT_A_FILE, min(bases, default=0), reason)
        if self._snapshot.point is None and self._snapshot.entries:
            self._note(POINT_FILE, "none that can be read, so all of the last segment may be torn")

    # Records

    def _check_segment(self, segment: Segment) -> None:
        index = self._read_index(segment)
        try:
            file = self._files.open(f"{self._place.directory}/{segment.entry.name}")
        except FileNotFoundError:
            self._checked.append(Checked(base=segment.base, reason="gone"))
            self._note(segment.entry.name, "went away while the log was being checked")
            return
        try:
            found = self._check_records(file, segment, index)
        finally:
            file.close()
        if found or index.finish():
            self._judge(segment, found, index.finish())

    def _check_records(self, file: File, segment: Segment, index: IndexCheck) -> list[Problem]:
        found: list[Problem] = []
        end, newest = segment.base, 0
        is_damaged = not segment.entry.size and not segment.is_last
        for part in walk(file, segment):
            if isinstance(part, Flaw):
                is_damaged = is_damaged or not part.is_cut
                found.append(problem_of(self._place.log, segment, part))
                index.skip()
                self._advance(part.size)
                continue
            index.take(part)
            self.records += len(part.columns)
            end = Offset(part.columns.offsets[-1] + 1)
            newest = max(newest, max(part.columns.timestamps, default=0))
            self._advance(part.end)
        if not segment.entry.size and not segment.is_last:
            empty = Flaw(position=0, size=0, offset=segment.base, reason="empty: no record is left")
            found.append(problem_of(self._place.log, segment, empty))
        self.segments += 1
        self.bytes += segment.entry.size
        facts = SegmentFacts(
            base=segment.base, end=end, size=segment.entry.size, max_timestamp=Timestamp(newest)
        )
        # The next segment says where a damaged one ends. If there is none although the
        # recovery point lies in one, its last record tells, and what is missing then is a gap.
        if is_damaged and not self._lacks_successor(segment):
            self._checked.append(Checked(base=segment.base, reason="damaged", end=end))
        else:
            self._checked.append(Checked(base=segment.base, facts=facts))
        return found

    def _lacks_successor(self, segment: Segment) -> bool:
        point = self._snapshot.point
        return segment.is_last and point is not None and point.segment > segment.base

    def _judge(self, segment: Segment, found: list[Problem], index_fault: str) -> None:
        """Take what was found, unless a broker at work since the listing explains it.

        Retention, compaction and truncation replace a file, so that nothing found in it counts.
        Appends only add: they may explain half a record at the end, never damage before it.
        """
        now = {entry.name: entry for entry in list_files(self._files, self._place)}
        name = segment.entry.name
        size = now[name].size if name in now else -1
        if size < segment.entry.size or (size > segment.entry.size and not segment.is_last):
            self._note(name, "changed while it was being checked; check it again")
            return
        self.problems += [problem for problem in found if problem.kind is not Kind.TORN]
        if size > segment.entry.size:
            self._note(name, "grew while it was being checked, so its end was not judged")
        else:
            self.torn += [problem for problem in found if problem.kind is Kind.TORN]
        indexes = (segment_name(segment.base, kind) for kind in _INDEXES)
        if index_fault and all(now.get(name) == self._snapshot.find(name) for name in indexes):
            self._add(Kind.INDEX, segment.base, index_fault)

    def _read_index(self, segment: Segment) -> IndexCheck:
        marks = self._read_entries(segment, NameKind.INDEX)
        times = self._read_entries(segment, NameKind.TIMEINDEX)
        return IndexCheck(marks, times, not segment.is_last)

    def _read_entries(self, segment: Segment, kind: NameKind) -> bytes:
        """The bytes of an index file; none if it is not there, which is no fault of a cache."""
        name = segment_name(segment.base, kind)
        entry = self._snapshot.find(name)
        if entry is None:
            return b""
        entries_max = segment.entry.size // HEADER_SIZE + 1
        if entry.kind is not EntryKind.FILE:
            self._add(Kind.INDEX, segment.base, f"{kind.value}: a {entry.kind}, not a file")
            return b""
        if entry.size > entries_max * ENTRY_SIZE and not segment.is_last:
            words = f"{entry.size} bytes are more entries than the segment has room for records"
            self._add(Kind.INDEX, segment.base, f"{kind.value}: {words}")
            return b""
        try:
            file = self._files.open(f"{self._place.directory}/{name}")
        except FileNotFoundError:
            return b""
        try:
            return file.read_at(0, min(entry.size, entries_max * ENTRY_SIZE))
        finally:
            file.close()

    # The chain

    def _check_chain(self) -> None:
        """What no segment accounts for, by the code that recovery uses."""
        assembly = assemble(self._checked, self._snapshot.point)
        for lost in assembly.state.damaged:
            if lost.reason == "missing":
                reason = (
                    f"missing: offsets {lost.first} to {lost.below - 1} are in no segment; "
                    f"a file {segment_name(lost.first)} should be here"
                )
                self._add(Kind.GAP, lost.first, reason, lost.first)
        for base in assembly.superseded:
            self._note(segment_name(base), "a leftover, all of it is in another segment or expired")
        readable = {found.base for found in self._checked if found.facts is not None}
        for base in assembly.to_set_aside:
            if base in readable:
                reason = "overlap: it begins before the segment in front of it ends"
                self._add(Kind.OVERLAP, base, reason, base)
