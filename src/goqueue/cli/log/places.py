"""What a path given on the command line holds: which logs, which files of each.

Looks and judges nothing. A path may be a data directory, the directory of one partition in it,
or a copy of such a directory that lies anywhere.
"""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from goqueue.cli.render import printable
from goqueue.log import RecoveryPoint
from goqueue.model import LogId, Offset
from goqueue.runtime import OsFileSystem
from goqueue.storage import (
    LOGS,
    POINT_FILE,
    Entry,
    EntryKind,
    FileSystem,
    NameKind,
    classify,
    find_logs,
    log_directory,
    read_point,
    segment_base,
)

__all__ = [
    "DirectoryUnsuitable",
    "Place",
    "Segment",
    "Snapshot",
    "Tree",
    "list_files",
    "look_at",
    "take_snapshot",
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
