"""`goqueue log stats`: what a log holds, read from names, indexes and the ends of files.

Takes the same time for logs of any size, because it reads no more than that. Counts offsets, not
records: compaction leaves fewer records than offsets. Checks only what it reads; `verify` checks
everything. Also owns the tables of `goqueue log` for people.
"""

import sys
from collections.abc import Iterable, Sequence

import msgspec

from goqueue.cli.log.directory import Flaw, Place, Segment, Snapshot, take_snapshot, walk
from goqueue.cli.log.dump import ShownMessage, timestamp_text
from goqueue.cli.log.reindex import Reindexed
from goqueue.cli.log.verify import Problem, Verification
from goqueue.cli.output import console, cut, printable, table
from goqueue.cli.quantities import shown_time, sized
from goqueue.log import Checked, DamagedRange, assemble
from goqueue.model import INDEX_INTERVAL_BYTES, Offset, SegmentFacts, Timestamp, parse_time
from goqueue.records import Corrupt, Flag
from goqueue.storage import EntryKind, FileSystem, NameKind, SegmentFile, chunks, segment_name

__all__ = [
    "IndexCounts",
    "LogStatistics",
    "MessageTable",
    "Statistics",
    "measure",
    "print_reindexed",
    "print_statistics",
    "print_verification",
]

_FIRST_CHUNK_BYTES = 4096


class IndexCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many segments have an index that fits, none, or one that must be rebuilt."""

    usable: int
    missing: int
    unusable: int


class LogStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One log. `unserved` offsets are in no readable segment; `latest` is the last one written;
    `cuts` are copies of what recoveries cut off although good records were in it.
    """

    topic: str
    partition: int
    segments: int
    bytes: int
    earliest: int
    latest: int
    offsets: int
    unserved: int
    earliest_timestamp: str | msgspec.UnsetType = msgspec.UNSET
    latest_timestamp: str | msgspec.UnsetType = msgspec.UNSET
    recovery_point: int | msgspec.UnsetType = msgspec.UNSET
    quarantined: int
    indexes: IndexCounts
    cuts: tuple[str, ...] = ()


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `goqueue log stats`."""

    logs: tuple[LogStatistics, ...]
    segments: int
    bytes: int
    offsets: int
    quarantined: int


def measure(files: FileSystem, places: Iterable[Place]) -> Statistics:
    """Statistics of these logs, and their sums."""
    logs = tuple(_Survey(files, take_snapshot(files, place)).run() for place in places)
    return Statistics(
        logs=logs,
        segments=sum(log.segments for log in logs),
        bytes=sum(log.bytes for log in logs),
        offsets=sum(log.offsets for log in logs),
        quarantined=sum(log.quarantined for log in logs),
    )


class _Survey:
    """One look at one log."""

    def __init__(self, files: FileSystem, snapshot: Snapshot) -> None:
        self._files = files
        self._snapshot = snapshot
        self._directory = snapshot.place.directory
        self._usable = self._missing = self._unusable = 0
        self._damaged: dict[Offset, tuple[DamagedRange, ...]] = {}

    def run(self) -> LogStatistics:
        snapshot = self._snapshot
        segments = [s for s in snapshot.segments() if s.entry.kind is EntryKind.FILE]
        set_aside = snapshot.set_aside()
        checked = [self._check(segments, index) for index in range(len(segments))]
        checked += [
            Checked(base=s.base, reason="quarantined", is_set_aside=True) for s in set_aside
        ]
        state = assemble(checked, snapshot.point).state
        newest = max((s.max_timestamp for s in state.segments), default=Timestamp(0))
        oldest = self._oldest(segments)
        point = snapshot.point
        return LogStatistics(
            topic=snapshot.place.log.topic,
            partition=snapshot.place.log.partition,
            segments=len(segments),
            bytes=sum(segment.entry.size for segment in segments),
            earliest=state.start,
            latest=state.end - 1,
            offsets=state.end - state.start,
            unserved=sum(lost.below - lost.first for lost in state.damaged),
            earliest_timestamp=timestamp_text(oldest) if oldest else msgspec.UNSET,
            latest_timestamp=timestamp_text(newest) if newest else msgspec.UNSET,
            recovery_point=point.offset if point else msgspec.UNSET,
            quarantined=len(set_aside),
            indexes=IndexCounts(
                usable=self._usable, missing=self._missing, unusable=self._unusable
            ),
            cuts=tuple(entry.name for entry in snapshot.named(NameKind.CUT)),
        )

    def _check(self, segments: Sequence[Segment], index: int) -> Checked:
        segment = segments[index]
        if not segment.entry.size and not segment.is_last:
            return Checked(base=segment.base, reason="empty")
        try:
            facts = self._indexed(segment)
        except FileNotFoundError:
            return Checked(base=segment.base, reason="gone")
        if facts is None and index + 1 < len(segments):
            # To be exact it would have to be read; its name and the next one tell nearly as much.
            facts = _facts(segment, segments[index + 1].base)
        damaged = self._damaged.get(segment.base, ())
        return Checked(base=segment.base, facts=facts or self._walked(segment), damaged=damaged)

    def _indexed(self, segment: Segment) -> SegmentFacts | None:
        """What the index and the records behind its last entry tell, if they agree."""
        if not segment.entry.size:
            return _facts(segment, segment.base)
        kinds = (NameKind.INDEX, NameKind.TIMEINDEX)
        names = [segment_name(segment.base, kind) for kind in kinds]
        if any(self._snapshot.find(name) is None for name in names):
            self._missing += 1
            return None
        size = segment.entry.size
        file = SegmentFile(self._files, self._directory, segment.base, size, INDEX_INTERVAL_BYTES)
        try:
            if file.load_index(size):
                self._usable += 1
                self._damaged[segment.base] = tuple(
                    DamagedRange(first=hole.first, below=hole.below, reason=hole.reason)
                    for hole in file.holes
                )
                return file.facts
            # A torn tail is no fault of the index: it need only fit what was durable.
            is_good = 0 < segment.promised < size and file.load_index(segment.promised)
        finally:
            file.close()
        self._usable += is_good
        self._unusable += not is_good
        return None

    def _walked(self, segment: Segment) -> SegmentFacts:
        """What the records of the last segment tell, up to the first that does not add up."""
        end, newest = segment.base, 0
        file = self._files.open(f"{self._directory}/{segment.entry.name}")
        try:
            for part in walk(file, segment):
                if isinstance(part, Flaw):
                    continue
                end = Offset(part.columns.offsets[-1] + 1)
                newest = max(newest, max(part.columns.timestamps, default=0))
        finally:
            file.close()
        return _facts(segment, end, newest)

    def _oldest(self, segments: Sequence[Segment]) -> int:
        """The timestamp of the first record, or 0."""
        if not segments:
            return 0
        size = segments[0].entry.size
        try:
            file = self._files.open(f"{self._directory}/{segments[0].entry.name}")
        except FileNotFoundError:
            return 0
        try:
            for chunk in chunks(file, 0, size, chunk_bytes=_FIRST_CHUNK_BYTES):
                return chunk.columns.timestamps[0]
        except Corrupt:
            return 0
        finally:
            file.close()
        return 0


def _facts(segment: Segment, end: Offset, newest: int = 0) -> SegmentFacts:
    return SegmentFacts(
        base=segment.base, end=end, size=segment.entry.size, max_timestamp=Timestamp(newest)
    )


_NOTES_MAX = 50
_VALUE_WIDTH = 80
_KEY_WIDTH = 24


def print_verification(verification: Verification) -> None:
    """Problems, torn tails, notes, and one line that sums them up."""
    verdict = verification.verdict
    _print_problems("Problems", verdict.problems)
    _print_problems(
        "Torn tails (cut at the next start, nothing that was committed is lost)", verdict.torn
    )
    _print_notes(verification.notes)
    size = sized(verdict.bytes)
    print(
        f"{_count(verdict.records, 'record')} in {_count(verdict.segments, 'segment')} ({size}): "
        f"{_outcome(verdict.problems, verdict.torn)}"
    )


def print_reindexed(reindexed: Reindexed) -> None:
    _print_problems("Problems", reindexed.problems)
    _print_problems("Torn tails", reindexed.torn)
    rebuilt = _count(reindexed.rebuilt, "index", "indexes")
    print(
        f"{rebuilt} of {_count(reindexed.segments, 'segment')} ({sized(reindexed.bytes)}) rebuilt: "
        f"{_outcome(reindexed.problems, reindexed.torn)}"
    )


def print_statistics(statistics: Statistics) -> None:
    headings = (
        "log",
        "segments",
        "size",
        "earliest",
        "latest",
        "from",
        "to",
        "recovery point",
        "indexes",
        "not served",
    )
    if statistics.logs:
        console().print(table(headings, [_row(log) for log in statistics.logs]))
    _print_cuts(statistics.logs)
    print(
        f"{_count(len(statistics.logs), 'log')}, {_count(statistics.segments, 'segment')}, "
        f"{sized(statistics.bytes)}, {_count(statistics.offsets, 'offset')}, "
        f"{statistics.quarantined} quarantined"
    )


def _row(log: LogStatistics) -> Sequence[str | int]:
    states = msgspec.structs.asdict(log.indexes)
    return (
        f"{log.topic}-{log.partition}",
        log.segments,
        sized(log.bytes),
        log.earliest,
        log.latest,
        _shown(log.earliest_timestamp),
        _shown(log.latest_timestamp),
        "none" if log.recovery_point is msgspec.UNSET else str(log.recovery_point),
        ", ".join(f"{count} {state}" for state, count in states.items() if count) or "none needed",
        f"{_count(log.unserved, 'offset')}, {log.quarantined} quarantined"
        if log.unserved or log.quarantined
        else "",
    )


def _print_cuts(logs: Sequence[LogStatistics]) -> None:
    for log in logs:
        for name in log.cuts:
            print(f"{log.topic}-{log.partition}: {printable(name)} was cut off at a start and kept")


def _shown(timestamp: str | msgspec.UnsetType) -> str:
    return "" if timestamp is msgspec.UNSET else shown_time(parse_time(timestamp))


def _print_problems(title: str, problems: Sequence[Problem]) -> None:
    if not problems:
        return
    print(f"{title}:")
    headings = ("topic", "partition", "segment", "byte", "offset", "kind", "reason")
    rows = [
        (
            problem.topic,
            problem.partition,
            problem.segment,
            problem.position,
            "" if problem.offset is msgspec.UNSET else str(problem.offset),
            problem.kind,
            problem.reason,
        )
        for problem in problems
    ]
    sys.stdout.flush()
    console().print(table(headings, rows))


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes[:_NOTES_MAX]:
        print(f"note: {note}")
    if len(notes) > _NOTES_MAX:
        print(f"note: and {len(notes) - _NOTES_MAX} more of these")


def _outcome(problems: Sequence[Problem], torn: Sequence[Problem]) -> str:
    words = []
    if problems:
        words.append(_count(len(problems), "problem"))
    if torn:
        words.append(_count(len(torn), "torn tail"))
    return ", ".join(words) or "no problem found"


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or f'{one}s'}"


class MessageTable:
    """Messages line by line as they come, in columns of fixed width: it needs no memory."""

    def __init__(self) -> None:
        print(_line("log", "offset", "timestamp", "priority", "flags", "key", "value"))

    def add(self, message: ShownMessage) -> None:
        key = "" if message.key is msgspec.UNSET else message.key
        print(
            _line(
                f"{message.topic}-{message.partition}",
                str(message.offset),
                _shown(message.timestamp),
                message.priority,
                ",".join(_flag_names(message.flags)),
                cut(printable(key[: _KEY_WIDTH + 1]), _KEY_WIDTH),
                _value(message),
            )
        )

    def close(self) -> None:
        """Nothing: the lines are out."""


def _value(message: ShownMessage) -> str:
    if message.value is None:
        return "(null)"
    shown = cut(printable(message.value[: _VALUE_WIDTH + 1]), _VALUE_WIDTH)
    return shown if message.encoding is msgspec.UNSET else f"base64:{shown}"


def _flag_names(flags: int) -> Iterable[str]:
    return (flag.name.lower() for flag in Flag if flag & flags and flag.name)


def _line(*cells: str) -> str:
    log, offset, timestamp, priority, flags, key, value = cells
    line = f"{log:<16} {offset:>10} {timestamp:<30} {priority:<10} {flags:<12} {key:<24} {value}"
    return line.rstrip()
