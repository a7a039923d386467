"""A three-segment log as each kind of stop leaves it, with the truth about what it holds."""

import functools

import msgspec

from goqueue.model import Message
from goqueue.records import walk
from goqueue.storage import POINT_FILE, read_point
from tests.unit.storage.driven_log import DrivenLog, path_of
from tests.unit.storage.memory_files import Content, MemoryFiles

STOPS = (
    "clean",
    "unclean",
    "unclean with the point lagging",
    "unclean without a point",
)
SEGMENTS = 3


class StoppedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A data directory after a stop, and all that had been committed before it."""

    content: Content
    committed: dict[int, bytes]
    stamps: dict[int, int]
    epochs: tuple[tuple[int, int], ...]
    bases: tuple[int, ...]
    promised: int
    """What lies below was promised by the recovery point."""

    @property
    def end(self) -> int:
        return len(self.committed)

    def held_by(self, name: str) -> range:
        """The offsets in the segment that this file is, or belongs to."""
        index = self.bases.index(int(name[:20]))
        return range(self.bases[index], (*self.bases, self.end)[index + 1])

    def reaches(self, name: str, position: int) -> int:
        """The first offset of this segment that is not whole below `position`."""
        for offset in self.held_by(name):
            position -= len(self.committed[offset])
            if position < 0:
                return offset
        return self.held_by(name).stop

    def is_boundary(self, name: str, position: int) -> bool:
        held = self.held_by(name)
        below = sum(len(self.committed[o]) for o in held if o < self.reaches(name, position))
        return below == position

    def first_stamped(self, timestamp: int) -> int:
        """The first offset stamped at or after a time, or the end."""
        stamped = (offset for offset, stamp in self.stamps.items() if stamp >= timestamp)
        return next(stamped, self.end)


@functools.cache
def stopped_log(kind: str) -> StoppedLog:
    files = MemoryFiles()
    driven = DrivenLog(files)
    early = _fill(driven, files)
    content = files.copy()
    if kind == "clean":
        driven.close()
        content = files.copy()
    elif kind == "unclean with the point lagging":
        content[path_of(POINT_FILE)] = early
    elif kind == "unclean without a point":
        del content[path_of(POINT_FILE)]
    point = read_point(content.get(path_of(POINT_FILE), b""))
    bases = tuple(int(segment.base) for segment in driven.log.segments)
    committed = DrivenLog(MemoryFiles(content)).read_all()
    assert sorted(committed) == list(range(driven.log.end)), "reopened as it is, all is there"
    return StoppedLog(
        content=content,
        committed=committed,
        stamps={offset: walk(data).timestamps[0] for offset, data in committed.items()},
        epochs=driven.log.epochs.history,
        bases=bases,
        promised=bases[-1] if point is None else point.offset,
    )


def _fill(driven: DrivenLog, files: MemoryFiles) -> bytes:
    """Write three segments; returns the recovery point as it was half way through the third."""
    early = b""
    driven.start_epoch(3)
    number = 0
    while len(driven.log.segments) < SEGMENTS or driven.log.segments[-1].size < 1_500:
        number += 1
        if number == 40:
            driven.start_epoch(7)
        key = b"k%d" % (number % 5) if number % 3 else b""
        driven.append([Message(key=key, value=b"value-%04d-%s" % (number, b"x" * (number % 9)))])
        is_half_way = len(driven.log.segments) == SEGMENTS and driven.log.segments[-1].size > 700
        if is_half_way and not early:
            early = files.copy()[path_of(POINT_FILE)]
    return early
