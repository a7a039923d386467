"""Damage to files without the knowledge of the process: bit rot, and wrong caches."""

from bisect import bisect_right
from random import Random

import msgspec

from goqueue.model import LogId, Offset
from goqueue.records import Flag, scan
from goqueue.sim.disk import SimulatedFileSystem
from goqueue.storage import (
    POINT_FILE,
    NameKind,
    classify,
    log_directory,
    read_point,
    segment_base,
    segment_name,
)

__all__ = ["Harm", "Sabotage"]

_FLAGS_AT = 3
_OFFSET_MAX = Offset((1 << 63) - 1)
_WITHOUT_EVIDENCE = int(Flag.TOMBSTONE | Flag.COMMIT | Flag.DELAYED)


class Harm(msgspec.Struct, frozen=True, kw_only=True):
    """What may be refused from now on: one record, or any record of a segment."""

    base: Offset
    end: Offset
    offset: Offset | None = None


class Sabotage:
    """Damages the files of one log."""

    def __init__(self, files: SimulatedFileSystem, random: Random, log: LogId) -> None:
        self._files = files
        self._random = random
        self._directory = log_directory(log)

    def flip_durable_bit(self) -> Harm | None:
        """Flip a bit of a record below the recovery point."""
        point = read_point(self._files.durable_content(f"{self._directory}/{POINT_FILE}"))
        if point is None:
            return None
        base = self._random.choice(self._bases(NameKind.SEGMENT) or [Offset(0)])
        path = f"{self._directory}/{segment_name(base)}"
        if path not in self._files.paths() or base > point.segment:
            return None
        size = len(self._files.content(path))
        limit = min(size, point.position) if base == point.segment else size
        if not limit:
            return None
        position, bit = self._random.randrange(limit), self._random.randrange(8)
        content = self._files.content(path)
        if self._is_beyond_detection(content, position, bit):
            return None
        self._files.flip_bit(path, position, bit)
        found = scan(content)
        record = bisect_right(found.columns.positions, position) - 1
        is_known = position < found.end and record >= 0
        offset = Offset(found.columns.offsets[record]) if is_known else None
        return Harm(base=base, end=self._end_of(base), offset=offset)

    def _end_of(self, base: Offset) -> Offset:
        following = [each for each in self._bases(NameKind.SEGMENT) if each > base]
        return min(following, default=_OFFSET_MAX)

    def _is_beyond_detection(self, content: bytes, position: int, bit: int) -> bool:
        """Whether nothing in the record contradicts this flip of a flag (docs/adr/0002)."""
        found = scan(content)
        starts = found.columns.positions
        is_flags_byte = any(position == start + _FLAGS_AT for start in starts)
        # Behind other damage it is not known where records begin.
        return position >= found.end or (is_flags_byte and bool(1 << bit & _WITHOUT_EVIDENCE))

    def lose_sector(self) -> Harm | None:
        """Make a sealed segment unreadable."""
        point = read_point(self._files.durable_content(f"{self._directory}/{POINT_FILE}"))
        bases = self._bases(NameKind.SEGMENT)
        sealed = [base for base in bases if point is not None and base < point.segment]
        if not sealed:
            return None
        base = self._random.choice(sealed)
        self._files.make_unreadable(f"{self._directory}/{segment_name(base)}")
        return Harm(base=base, end=self._end_of(base))

    def shorten_last(self, committed: Offset) -> Harm | None:
        """Cut the last segment below the recovery point, if nothing above that was committed."""
        point = read_point(self._files.durable_content(f"{self._directory}/{POINT_FILE}"))
        if point is None or point.offset < committed or not point.position:
            return None
        path = f"{self._directory}/{segment_name(point.segment)}"
        if path not in self._files.paths():
            return None
        content = self._files.content(path)
        self._files.replace_content(path, content[: self._random.randrange(point.position)])
        # What was written above the point is lost with the rest, or its offsets are: up to the next
        # segment, if a truncation left one, whatever an earlier damage hides from the scan.
        written = [*scan(content[point.position :]).columns.offsets]
        seen = read_point(self._files.content(f"{self._directory}/{POINT_FILE}")) or point
        end = max([point.offset, seen.offset, *(offset + 1 for offset in written)])
        following = self._end_of(point.segment)
        end = end if following == _OFFSET_MAX else max(end, following)
        return Harm(base=point.segment, end=Offset(end))

    def spoil_point_slot(self) -> None:
        """Flip a bit in one slot of the recovery point; the other slot must be used."""
        path = f"{self._directory}/{POINT_FILE}"
        if path in self._files.paths():
            size = len(self._files.content(path))
            if size:
                self._files.flip_bit(path, self._random.randrange(size), self._random.randrange(8))

    def spoil_index(self) -> None:
        """Delete an index file, cut it, flip a bit in it, or put another one in its place."""
        kind = self._random.choice([NameKind.INDEX, NameKind.TIMEINDEX])
        bases = self._bases(kind)
        if not bases:
            return
        path = f"{self._directory}/{segment_name(self._random.choice(bases), kind)}"
        content = self._files.content(path)
        match self._random.randrange(4):
            case 0:
                self._files.delete(path)
            case 1:
                self._files.replace_content(
                    path, content[: self._random.randrange(len(content) + 1)]
                )
            case 2 if content:
                spoilt = bytearray(content)
                spoilt[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)
                self._files.replace_content(path, bytes(spoilt))
            case _:
                other = f"{self._directory}/{segment_name(self._random.choice(bases), kind)}"
                self._files.replace_content(path, self._files.content(other) + content)

    def _bases(self, kind: NameKind) -> list[Offset]:
        prefix = f"{self._directory}/"
        names = [path.removeprefix(prefix) for path in self._files.paths()]
        return [segment_base(name) for name in names if classify(name) is kind]
