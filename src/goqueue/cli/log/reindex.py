"""Rebuilds every index of a data directory from its records.

The only command of `goqueue log` that writes, and it writes indexes only. The caller holds the lock
of the data directory.
"""

from collections.abc import Callable, Iterable

import msgspec

from goqueue.cli.log.directory import Flaw, Place, Segment, Snapshot, take_snapshot, walk
from goqueue.cli.log.verify import Kind, Problem, problem_of
from goqueue.model import INDEX_INTERVAL_BYTES
from goqueue.records import Corrupt
from goqueue.storage import EntryKind, FileSystem, NameKind, SegmentFile, segment_name

__all__ = ["Reindexed", "rebuild_indexes"]


class Reindexed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `goqueue log rebuild-index`. A segment with a problem keeps its old index."""

    rebuilt: int
    segments: int
    bytes: int
    problems: tuple[Problem, ...]
    torn: tuple[Problem, ...]


def rebuild_indexes(
    files: FileSystem, places: Iterable[Place], advance: Callable[[int], None]
) -> Reindexed:
    """Rebuild `.index` and `.timeindex` of every segment of these logs."""
    count, size, rebuilt = 0, 0, 0
    found: list[Problem] = []
    for place in places:
        snapshot = take_snapshot(files, place)
        for segment in snapshot.segments():
            flaws = _rebuild(files, snapshot, segment)
            rebuilt += all(flaw.kind is Kind.TORN for flaw in flaws)
            found += flaws
            count += 1
            size += segment.entry.size
            advance(segment.entry.size)
    return Reindexed(
        rebuilt=rebuilt,
        segments=count,
        bytes=size,
        problems=tuple(problem for problem in found if problem.kind is not Kind.TORN),
        torn=tuple(problem for problem in found if problem.kind is Kind.TORN),
    )


def _rebuild(files: FileSystem, snapshot: Snapshot, segment: Segment) -> list[Problem]:
    obstacle = _obstacle(snapshot, segment)
    if obstacle is not None:
        return [obstacle]
    torn, size = _torn_tail(files, snapshot.place, segment)
    file = SegmentFile(files, snapshot.place.directory, segment.base, size, INDEX_INTERVAL_BYTES)
    try:
        file.rebuild_index()
    except Corrupt as corrupt:
        reason = f"{corrupt.reason}: a damaged segment keeps the index that it has"
        return [_problem(snapshot, segment, corrupt.position, Kind.DAMAGE, reason)]
    finally:
        file.close()
    if file.holes:
        return [
            *torn,
            *(
                _problem(
                    snapshot,
                    segment,
                    hole.position,
                    Kind.DAMAGE,
                    f"{hole.reason}: offsets {hole.first} to {hole.below - 1} are not served",
                )
                for hole in file.holes
            ),
        ]
    if size and not _is_written(files, snapshot.place, segment):
        reason = "it could not be written: is there space on the disk?"
        return [*torn, _problem(snapshot, segment, 0, Kind.INDEX, reason)]
    return torn


def _is_written(files: FileSystem, place: Place, segment: Segment) -> bool:
    """Whether both files are there. Storage passes on no error of a cache, but this is our work."""
    sizes = {entry.name: entry.size for entry in files.entries(place.directory)}
    kinds = (NameKind.INDEX, NameKind.TIMEINDEX)
    return all(sizes.get(segment_name(segment.base, kind)) for kind in kinds)


def _problem(
    snapshot: Snapshot, segment: Segment, position: int, kind: Kind, reason: str
) -> Problem:
    return Problem(
        topic=snapshot.place.log.topic,
        partition=snapshot.place.log.partition,
        segment=segment.base,
        position=position,
        kind=kind,
        reason=reason,
    )


def _obstacle(snapshot: Snapshot, segment: Segment) -> Problem | None:
    """A thing that is no file where a file of the segment should be."""
    for kind in (NameKind.SEGMENT, NameKind.INDEX, NameKind.TIMEINDEX):
        entry = snapshot.find(segment_name(segment.base, kind))
        if entry is not None and entry.kind is not EntryKind.FILE:
            sort = Kind.NOT_A_FILE if kind is NameKind.SEGMENT else Kind.INDEX
            reason = f"{entry.name} is a {entry.kind}, not a file"
            return _problem(snapshot, segment, 0, sort, reason)
    return None


def _torn_tail(files: FileSystem, place: Place, segment: Segment) -> tuple[list[Problem], int]:
    """The torn tail of the last segment, and the size without it: the index must end before."""
    size = segment.entry.size
    if not segment.is_last:
        return [], size
    file = files.open(f"{place.directory}/{segment.entry.name}")
    try:
        for part in walk(file, segment):
            if isinstance(part, Flaw) and part.is_torn:
                return [problem_of(place.log, segment, part)], part.position
    finally:
        file.close()
    return [], size
