"""Key compaction: which segments to rewrite together, and which records to keep.

Decides over bytes that storage reads and writes; offsets never change. Records without a key and
control records are kept. Delayed records are dropped: they were never the newest value of a key,
and pending ones are above the floor. Aborted records are dropped as well. A dropped record that
carries the mark of its batch leaves the mark behind as a control record, because producer state is
derived from the log.

Invariant: of two records with one key, the older is never kept while the newer is dropped, except
that a tombstone is dropped once it is old and nothing older than it is left.
"""

from collections.abc import Sequence

import msgspec

from goqueue.log.batch_mark import BatchMark, marks_in, parse_mark
from goqueue.log.control import ControlKind
from goqueue.log.offset_ranges import OffsetRanges
from goqueue.model import (
    BATCH_HEADER,
    HOUR,
    Compact,
    LogSettings,
    Offset,
    Record,
    SegmentFacts,
    Timestamp,
)
from goqueue.records import HEADER_SIZE, Buffer, Columns, Flag, encode

__all__ = ["KeptRange", "Leftover", "NewestOffsets", "plan_compaction"]

_ENTRY_OVERHEAD_BYTES = 150
_PERCENT = 100
_NOT_FOLDED = int(Flag.CONTROL | Flag.DELAYED)
_MARK_NS = 24 * HOUR


class KeptRange(msgspec.Struct, frozen=True):
    """Adjacent records that are all kept: positions in the scanned data."""

    start: int
    end: int


class Leftover(msgspec.Struct, frozen=True):
    """A record that replaces a dropped one."""

    data: bytes


def plan_compaction(
    sealed: Sequence[SegmentFacts],
    cleaned_upto: Offset,
    floor: Offset,
    settings: LogSettings,
    wall: Timestamp,
    *,
    aborted: OffsetRanges | None = None,
) -> Compact | None:
    """Group the sealed segments below `floor`, if enough of them changed since the last pass."""
    eligible = [segment for segment in sealed if segment.end <= floor]
    total = sum(segment.size for segment in eligible)
    dirty = sum(segment.size for segment in eligible if segment.end > cleaned_upto)
    if not dirty or dirty * _PERCENT < total * settings.dirty_percent_min:
        return None
    groups: list[list[Offset]] = []
    group_size = 0
    previous_end: Offset | None = None
    for segment in eligible:
        is_neighbour = previous_end == segment.base
        if groups and is_neighbour and group_size + segment.size <= settings.segment_bytes:
            groups[-1].append(segment.base)
            group_size += segment.size
        else:
            groups.append([segment.base])
            group_size = segment.size
        previous_end = segment.end
    return Compact(
        groups=tuple(tuple(group) for group in groups),
        dirty_from=cleaned_upto,
        tombstones_before=Timestamp(wall - settings.tombstone_ns),
        marks_before=Timestamp(wall - _MARK_NS),
        aborted=() if aborted is None else aborted.within(eligible[0].base, eligible[-1].end),
    )


class NewestOffsets:
    """The newest offset of each key in the dirty part of a log, within bounded memory."""

    def __init__(
        self,
        keys_bytes_max: int,
        dirty_from: Offset,
        *,
        aborted: Sequence[tuple[int, int]] = (),
        marks_before: int = 0,
    ) -> None:
        self._newest: dict[bytes, int] = {}
        self._room = keys_bytes_max
        self._dirty_from = dirty_from
        self._marks_before = marks_before
        self._aborted = OffsetRanges()
        for first, following in aborted:
            self._aborted.add(first, following)
        self.upto = dirty_from

    def note(self, data: Buffer, columns: Columns) -> bool:
        """Record the keys of these records; False when the memory for keys ran out.

        Records from `upto` on are then left for the next pass.
        """
        view = memoryview(data)
        for index, key_length in enumerate(columns.key_lengths):
            offset = columns.offsets[index]
            if offset < self._dirty_from:
                continue
            is_message = not columns.flags[index] & _NOT_FOLDED and offset not in self._aborted
            if key_length and is_message:
                start = columns.positions[index] + HEADER_SIZE
                key = bytes(view[start : start + key_length])
                if key not in self._newest:
                    self._room -= key_length + _ENTRY_OVERHEAD_BYTES
                    if self._room < 0 and self._newest:
                        return False
                self._newest[key] = offset
            self.upto = Offset(offset + 1)
        return True

    def kept(
        self, data: Buffer, columns: Columns, data_end: int, tombstones_before: Timestamp
    ) -> list[KeptRange | Leftover]:
        """The records of `data` to keep, in order, adjacent ones merged."""
        view = memoryview(data)
        marks = dict(marks_in(data, columns))
        pieces: list[KeptRange | Leftover] = []
        start = -1
        for index in range(len(columns)):
            position = columns.positions[index]
            if self._survives(view, columns, index, tombstones_before):
                start = position if start < 0 else start
                continue
            if start >= 0:
                pieces.append(KeptRange(start, position))
                start = -1
            mark = marks.get(index)
            if mark is not None and mark.at >= self._marks_before:
                pieces.append(_leftover(mark, columns, index))
        if start >= 0:
            pieces.append(KeptRange(start, data_end))
        return pieces

    def _survives(
        self, view: memoryview, columns: Columns, index: int, tombstones_before: Timestamp
    ) -> bool:
        flags = columns.flags[index]
        key_length = columns.key_lengths[index]
        if columns.offsets[index] in self._aborted and not flags & Flag.CONTROL:
            return False
        if not key_length:
            return True
        start = columns.positions[index] + HEADER_SIZE
        key = bytes(view[start : start + key_length])
        if flags & Flag.CONTROL:
            return self._control_survives(view, columns, index, key)
        if flags & Flag.DELAYED:
            # Pending delays are above the floor, so this one is done. It must be dropped before
            # its delivery is compacted, or nothing would prove that it was delivered.
            return False
        offset = columns.offsets[index]
        if offset < self._newest.get(key, offset):
            return False
        is_settled = offset < self.upto
        is_expired = columns.timestamps[index] < tombstones_before
        return not (flags & Flag.TOMBSTONE and is_settled and is_expired)

    def _control_survives(self, view: memoryview, columns: Columns, index: int, key: bytes) -> bool:
        if key == ControlKind.PLACEHOLDER.encode():
            # The one that must end a segment is written again, so old ones can be dropped.
            return False
        if key == BATCH_HEADER.encode():
            start = columns.positions[index] + HEADER_SIZE + len(key)
            mark = parse_mark(bytes(view[start : start + columns.value_lengths[index]]))
            return mark is not None and mark.at >= self._marks_before
        return True


def _leftover(mark: BatchMark, columns: Columns, index: int) -> Leftover:
    """What remains of a dropped record: the mark of its batch."""
    record = Record(
        offset=columns.offsets[index],
        timestamp=columns.timestamps[index],
        priority=columns.priorities[index],
        flags=int(Flag.CONTROL),
        key=BATCH_HEADER.encode(),
        value=mark.encode(),
        headers=(),
    )
    return Leftover(encode(record))
