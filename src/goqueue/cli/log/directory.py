"""The log files below a path, and a scan over the records of a segment.

A path may be a data directory, the directory of one partition, or a copy of either. Listing reads
names only and judges nothing. The scan yields every valid record and every place without one; it
tells a torn tail from damage and searches for the next valid record behind damage.

Invariant: chunks and flaws come in the order of their positions and do not overlap; the offsets of
the chunks rise and are never below the segment's base. Memory is bounded for files of any size, and
time is bounded for hostile bytes.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from goqueue.cli.output import printable
from goqueue.log import RecoveryPoint, UnfinishedBatch, unfinished_batch
from goqueue.model import LogId, Offset
from goqueue.records import Corrupt
from goqueue.runtime import OsFileSystem
from goqueue.storage import (
    LOGS,
    POINT_FILE,
    Chunk,
    Entry,
    EntryKind,
    File,
    FileSystem,
    NameKind,
    RecordSearch,
    chunks,
    classify,
    find_logs,
    log_directory,
    read_point,
    segment_base,
)

__all__ = [
    "DirectoryUnsuitable",
    "Flaw",
    "Place",
    "Segment",
    "Snapshot",
    "Tree",
    "list_files",
    "look_at",
    "take_snapshot",
    "walk",
    "weigh",
]

_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_LOCK_FILE = "lock"
_POINT_BYTES_MAX = 4096
_SNAPSHOTS_MAX = 5
_LISTINGS_MAX = 100

# The partition of a copy whose name does not tell it.
_UNKNOWN = -1


class DirectoryUnsuitable(Exception):
    """Why a path cannot be worked on; the message is for a person."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A log and the directory of its files, relative to the root of the tree."""

    log: LogId
    directory: str


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The logs found under a path, in order. A tree that is owned has a data directory's lock."""

    root: str
    places: tuple[Place, ...]
    foreign: tuple[str, ...] = ()
    is_owned: bool = True


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One segment as listed.

    The bytes below `promised` were durable once: what is wrong there is damage. Beyond it a record
    that does not add up is a torn tail; `expected` is the offset that begins there, if known.
    """

    entry: Entry
    base: Offset
    is_last: bool
    promised: int
    expected: int = -1


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one log at one moment, in the order of their names."""

    place: Place
    point: RecoveryPoint | None
    entries: tuple[Entry, ...]

    def named(self, kind: NameKind) -> list[Entry]:
        return [entry for entry in self.entries if classify(entry.name) is kind]

    def find(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)

    def segments(self) -> list[Segment]:
        """Every name of a segment, oldest first, whatever stands behind it."""
        found = self.named(NameKind.SEGMENT)
        return [self._segment(entry, entry is found[-1]) for entry in found]

    def set_aside(self) -> list[Segment]:
        """The quarantined segments, oldest first."""
        return [self._segment(entry, False) for entry in self.named(NameKind.QUARANTINED)]

    def _segment(self, entry: Entry, is_last: bool) -> Segment:
        base = segment_base(entry.name)
        point = self.point
        promised, expected = entry.size, -1
        if is_last and (point is None or point.segment < base):
            promised = 0
        elif is_last and point is not None and point.segment == base:
            promised, expected = point.position, point.offset
        return Segment(
            entry=entry, base=base, is_last=is_last, promised=promised, expected=expected
        )


def look_at(path: str) -> Tree:
    """Find the logs under a path; raises DirectoryUnsuitable when it cannot hold any."""
    given = Path(path)
    if not given.exists():
        raise DirectoryUnsuitable(f"{path} does not exist")
    if not given.is_dir():
        raise DirectoryUnsuitable(f"{path} is a file, not a directory")
    root = given.resolve()
    files = OsFileSystem(str(root), is_read_only=True)
    kinds = {entry.name: entry.kind for entry in files.entries("")}
    if LOGS in kinds and kinds[LOGS] is not EntryKind.DIRECTORY:
        raise DirectoryUnsuitable(f"{path}/{LOGS} is a {kinds[LOGS]}, not a directory")
    if LOGS in kinds or _LOCK_FILE in kinds:
        logs, foreign = find_logs(files)
        places = tuple(Place(log=log, directory=log_directory(log)) for log in logs)
        return Tree(root=str(root), places=places, foreign=tuple(foreign))
    partition = _partition_in_place(root)
    if partition is not None:
        return partition
    if any(classify(name) is not NameKind.FOREIGN for name in kinds):
        return Tree(root=str(root), places=(_copied_partition(root),), is_owned=False)
    raise DirectoryUnsuitable(
        f"{path} is neither a data directory (there is no '{LOGS}' in it) "
        "nor the directory of a partition (there is no segment in it)"
    )


def _partition_in_place(path: Path) -> Tree | None:
    """The tree of `ROOT/logs/TOPIC/PARTITION`, if that is what the path is."""
    topic = path.parent
    is_ours = (
        topic.parent.name == LOGS
        and _TOPIC.fullmatch(topic.name)
        and _PARTITION.fullmatch(path.name)
    )
    if not is_ours:
        return None
    log = LogId(topic.name, int(path.name))
    place = Place(log=log, directory=log_directory(log))
    return Tree(root=str(topic.parent.parent), places=(place,))


def _copied_partition(path: Path) -> Place:
    if _PARTITION.fullmatch(path.name):
        log = LogId(printable(path.parent.name), int(path.name))
    else:
        log = LogId(printable(path.name), _UNKNOWN)
    return Place(log=log, directory=".")


def take_snapshot(files: FileSystem, place: Place) -> Snapshot:
    """List the files of a log such that the list and the recovery point belong together.

    A broker may be at work. It moves the point before it removes files and after it adds to them,
    so a list taken between two readings of the same start is as old as the first reading or newer.
    """
    before = _read_point(files, place)
    tries = 0
    while True:
        entries = sorted(list_files(files, place), key=lambda entry: entry.name)
        after = _read_point(files, place)
        tries += 1
        is_steady = before is None or after is None or _is_sequel(before, after)
        if is_steady or tries == _SNAPSHOTS_MAX:
            return Snapshot(place=place, point=before, entries=tuple(entries))
        before = after


def list_files(files: FileSystem, place: Place) -> list[Entry]:
    """The files of a log. A broker that removes one while they are listed makes it start again."""
    for _ in range(_LISTINGS_MAX):
        with contextlib.suppress(FileNotFoundError):
            return files.entries(place.directory)
    return files.entries(place.directory)


def _is_sequel(before: RecoveryPoint, after: RecoveryPoint) -> bool:
    return before.start == after.start and before.offset <= after.offset


def _read_point(files: FileSystem, place: Place) -> RecoveryPoint | None:
    try:
        file = files.open(f"{place.directory}/{POINT_FILE}")
    except PermissionError:
        raise
    except OSError:
        # None is there, or something that is no file: the check of the names reports that.
        return None
    try:
        return read_point(file.read_at(0, _POINT_BYTES_MAX))
    finally:
        file.close()


def weigh(files: FileSystem, places: Iterable[Place]) -> int:
    """The bytes of all segments, to measure progress by."""
    return sum(
        entry.size
        for place in places
        for entry in list_files(files, place)
        if classify(entry.name) is NameKind.SEGMENT
    )


FLAWS_MAX = 100

_WORDS = {
    "crc": "the bytes do not match their checksum",
    "magic": "no record begins here",
    "offset": "the offset is not one that may follow",
    "truncated": "the record is cut off",
    "version": "the record has an unknown version",
}


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that are no good record; `offset` is the first one that may be missing.

    What `is_cut` goes at the next start; it is a torn tail unless good records are in it.
    """

    position: int
    size: int
    offset: int
    reason: str
    is_torn: bool = False
    is_cut: bool = False


def walk(file: File, segment: Segment) -> Iterator[Chunk | Flaw]:
    """The records of one segment, all checked, and the flaws between them."""
    size = segment.entry.size
    durable = min(segment.promised, size)
    offset = int(segment.base)
    has_lost_end = False
    for part in _Durable(file, durable).walk(offset):
        if isinstance(part, Chunk):
            offset = part.columns.offsets[-1] + 1
            has_lost_end = False
        else:
            has_lost_end = True
        yield part
    if segment.promised > size:
        if not has_lost_end:
            missing = f"truncated: {segment.promised - size} bytes that were durable are gone"
            yield Flaw(position=size, size=0, offset=offset, reason=missing)
        return
    yield from _walk_tail(file, segment, offset)


def _walk_tail(file: File, segment: Segment, offset: int) -> Iterator[Chunk | Flaw]:
    """What lies above the recovery point, up to the first record that does not add up."""
    position, size = min(segment.promised, segment.entry.size), segment.entry.size
    batch: UnfinishedBatch | None = None
    try:
        for chunk in _rising(chunks(file, position, size, segment.expected), offset):
            batch = unfinished_batch(chunk.data, chunk.columns, chunk.position, batch)
            yield chunk
            position = chunk.position + chunk.end
            offset = chunk.columns.offsets[-1] + 1
    except Corrupt as corrupt:
        yield _tail_flaw(file, size, corrupt, offset, batch)
    except OSError as error:
        yield _unreadable(error, position, size, offset)
    else:
        if batch is not None:
            words = _words_of_cut(size, batch.position)
            reason = f"batch: the last records of a batch are missing; {words}"
            yield Flaw(
                position=size, size=0, offset=offset, reason=reason, is_torn=True, is_cut=True
            )


def _tail_flaw(
    file: File, size: int, corrupt: Corrupt, offset: int, batch: UnfinishedBatch | None
) -> Flaw:
    """A torn tail; with good records behind the bad one it may be damage, and is a problem."""
    start = corrupt.position
    try:
        following = RecordSearch(file, size).first_from(start, offset)
    except OSError as error:
        return _unreadable(error, start, size, offset)
    words = _words_of_cut(size, start if batch is None else batch.position)
    reason = f"{_explain(corrupt)}; {words}"
    is_torn = following == size
    if not is_torn:
        reason += f", and kept beside the log, because a good record follows at byte {following}"
    return Flaw(
        position=start,
        size=size - start,
        offset=offset,
        reason=reason,
        is_torn=is_torn,
        is_cut=True,
    )


def _words_of_cut(size: int, position: int) -> str:
    return f"the last {size - position} bytes are cut at the next start"


class _Durable:
    """The part of a segment that was durable: a bad record in it does not end it."""

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self._search = RecordSearch(file, size)

    def walk(self, offset: int) -> Iterator[Chunk | Flaw]:
        """Chunks and flaws from the start, where no record is below `offset`."""
        position = 0
        flaws = 0
        while position < self._size:
            try:
                for chunk in _rising(chunks(self._file, position, self._size), offset):
                    yield chunk
                    position = chunk.position + chunk.end
                    offset = chunk.columns.offsets[-1] + 1
            except Corrupt as corrupt:
                flaws += 1
                flaw = self._flaw(corrupt, offset, flaws >= FLAWS_MAX)
                yield flaw
                position = flaw.position + flaw.size
            except OSError as error:
                yield _unreadable(error, position, self._size, offset)
                return

    def _flaw(self, corrupt: Corrupt, offset: int, is_last: bool) -> Flaw:
        start = corrupt.position
        reason = _explain(corrupt)
        try:
            end = self._size if is_last else self._search.behind(start, offset)
        except OSError as error:
            return _unreadable(error, start, self._size, offset)
        if is_last:
            reason += f"; {FLAWS_MAX} flaws are enough, the rest of the segment was not read"
        elif end == self._size:
            reason += "; no good record follows in this segment"
        return Flaw(position=start, size=end - start, offset=offset, reason=reason)


def _rising(found: Iterator[Chunk], offset: int) -> Iterator[Chunk]:
    """The chunks as long as they continue from `offset`: the name of a file is a promise too."""
    for chunk in found:
        if chunk.columns.offsets[0] < offset:
            raise Corrupt(chunk.position, "offset")
        yield chunk
        offset = chunk.columns.offsets[-1] + 1


def _unreadable(error: OSError, position: int, size: int, offset: int) -> Flaw:
    reason = f"unreadable: {error.strerror or error}"
    return Flaw(position=position, size=size - position, offset=offset, reason=reason)


def _explain(corrupt: Corrupt) -> str:
    words = _WORDS.get(corrupt.reason, "the record is malformed")
    return f"{corrupt.reason}: {words}"
