"""Key compaction: which segments to rewrite together, and which records outlive it.

Decides over bytes that storage reads and writes; offsets never change. Records without a key
and control records are left alone. Delayed ones go: they never were anyone's newest value, and
those that are still pending are above the floor.

Invariant: of two records with one key, the older is never kept while the newer is dropped,
except that a tombstone goes once it is old and nothing older than it is left.
"""

from collections.abc import Sequence

import msgspec

from goqueue.log.control import ControlKind
from goqueue.model import Compact, LogSettings, Offset, SegmentFacts, Timestamp
from goqueue.records import HEADER_SIZE, Buffer, Columns, Flag

__all__ = ["KeptRange", "NewestOffsets", "plan_compaction"]

_ENTRY_OVERHEAD_BYTES = 150
_PERCENT = 100
_NOT_FOLDED = int(Flag.CONTROL | Flag.DELAYED)


class KeptRange(msgspec.Struct, frozen=True):
    """Neighbouring records that all survive: positions in the data that was looked at."""

    start: int
    end: int


def plan_compaction(
    sealed: Sequence[SegmentFacts],
    cleaned_upto: Offset,
    floor: Offset,
    settings: LogSettings,
    wall: Timestamp,
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
    )


class NewestOffsets:
    """The newest offset of each key in the dirty part of a log, within bounded memory."""

    def __init__(self, keys_bytes_max: int, dirty_from: Offset) -> None:
        self._newest: dict[bytes, int] = {}
        self._room = keys_bytes_max
        self._dirty_from = dirty_from
        self.upto = dirty_from

    def note(self, data: Buffer, columns: Columns) -> bool:
        """Learn the keys of these records; False when memory for keys ran out at some record.

        Records from `upto` on are then left for the next pass.
        """
        view = memoryview(data)
        for index, key_length in enumerate(columns.key_lengths):
            offset = columns.offsets[index]
            if offset < self._dirty_from:
                continue
            if key_length and not columns.flags[index] & _NOT_FOLDED:
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
    ) -> list[KeptRange]:
        """The ranges of `data` that survive, in order, neighbours merged."""
        view = memoryview(data)
        ranges: list[KeptRange] = []
        start = -1
        for index in range(len(columns)):
            position = columns.positions[index]
            if self._survives(view, columns, index, tombstones_before):
                start = position if start < 0 else start
            elif start >= 0:
                ranges.append(KeptRange(start, position))
                start = -1
        if start >= 0:
            ranges.append(KeptRange(start, data_end))
        return ranges

    def _survives(
        self, view: memoryview, columns: Columns, index: int, tombstones_before: Timestamp
    ) -> bool:
        flags = columns.flags[index]
        key_length = columns.key_lengths[index]
        if not key_length:
            return True
        start = columns.positions[index] + HEADER_SIZE
        key = bytes(view[start : start + key_length])
        if flags & Flag.CONTROL:
            # The one that must end a segment is written anew, so the old ones can go.
            return key != ControlKind.PLACEHOLDER.encode()
        if flags & Flag.DELAYED:
            # Whoever has delays sets the floor below what is pending, so this one is over. It must
            # go before its delivery is folded, or nothing would prove that it was delivered.
            return False
        offset = columns.offsets[index]
        if offset < self._newest.get(key, offset):
            return False
        is_settled = offset < self.upto
        is_expired = columns.timestamps[index] < tombstones_before
        return not (flags & Flag.TOMBSTONE and is_settled and is_expired)
