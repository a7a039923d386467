"""The segments of one log, as metadata: which offsets each holds, and how many bytes.

Owns the order of segments, and the ranges that are refused because records are damaged or a
segment is missing. Knows no files and no positions: those belong to storage.

Invariant: segments are sorted, do not overlap, and only the last one grows. Damaged ranges are
sorted and do not touch; each lies within segments or between them.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from goqueue.model import Code, LogId, Offset, Refused, Seek, SegmentFacts, Slice, Timestamp

__all__ = ["DamagedRange", "Segments"]


class DamagedRange(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets that were written and are refused now."""

    first: Offset
    below: Offset
    reason: str


class _Before(msgspec.Struct, frozen=True):
    """The active segment before a change that the disk has not confirmed."""

    offset: Offset
    active: SegmentFacts


class Segments:
    """Sealed segments, the active one, and the holes between them."""

    __slots__ = ("_bases", "_damaged", "_facts", "_unconfirmed")

    def __init__(self, facts: Sequence[SegmentFacts], damaged: Iterable[DamagedRange] = ()) -> None:
        assert facts, "a log has at least its active segment"
        self._facts = list(facts)
        self._bases = [segment.base for segment in facts]
        self._damaged = list(damaged)
        # Unconfirmed changes; created on first use, since an empty deque is 760 bytes.
        self._unconfirmed: deque[_Before] | None = None

    @property
    def in_flight(self) -> int:
        """The number of batches that the disk has not confirmed."""
        return len(self._unconfirmed or ()) - self._has_only_rolled()

    def _has_only_rolled(self) -> bool:
        """Whether the last change was a roll without a batch after it."""
        last = self._unconfirmed[-1] if self._unconfirmed else None
        return last is not None and last.offset == self.active.end

    @property
    def active(self) -> SegmentFacts:
        return self._facts[-1]

    @property
    def sealed(self) -> tuple[SegmentFacts, ...]:
        return tuple(self._facts[:-1])

    @property
    def damaged(self) -> tuple[DamagedRange, ...]:
        return tuple(self._damaged)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def holding(self, offset: Offset) -> SegmentFacts | None:
        """The segment that holds `offset`, if any."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0 or self._facts[index].end <= offset:
            return None
        return self._facts[index]

    def extent_below(self, upto: Offset) -> tuple[Offset, int] | None:
        """The segment that ends at `upto`, or did before writes that are not confirmed.

        With its size then; None if the log was not written up to there by confirmed writes.
        """
        active = self.active
        if active.end == upto:
            return active.base, active.size
        before = next((each for each in self._unconfirmed or () if each.offset == upto), None)
        return None if before is None else (before.active.base, before.active.size)

    def damage_at(self, offset: Offset) -> DamagedRange | None:
        for gap in self._damaged:
            if gap.first <= offset < gap.below:
                return gap
        return None

    # Reads

    def readable_from(self, offset: Offset) -> Offset:
        """The first offset from this one on that is not refused as damaged."""
        while (damage := self.damage_at(offset)) is not None:
            offset = damage.below
        return offset

    def slice(self, log: LogId, offset: Offset, limit: Offset, bytes_max: int) -> Slice | None:
        """The records from `offset` on, up to `limit` and within one segment."""
        damage = self.damage_at(offset)
        if damage is not None:
            raise Refused(
                Code.RECORDS_DAMAGED,
                offset=offset,
                first=damage.first,
                next_offset=self.readable_from(offset),
                reason=damage.reason,
            )
        segment = self.holding(offset)
        if segment is None:
            return None
        below = min(limit, segment.end, self._damage_from(offset))
        if offset >= below:
            return None
        return Slice(log=log, segment=segment.base, offset=offset, below=below, bytes_max=bytes_max)

    def _damage_from(self, offset: Offset) -> Offset:
        """Where the next damage after `offset` begins; the end if there is none."""
        return next((gap.first for gap in self._damaged if gap.first > offset), self.active.end)

    def seeks(self, log: LogId, timestamp: Timestamp, start: Offset, limit: Offset) -> list[Seek]:
        """Where to look for a record in [start, limit) at or after `timestamp`, in order."""
        return [
            Seek(
                log=log,
                segment=segment.base,
                timestamp=timestamp,
                offset=max(segment.base, start),
                below=min(segment.end, limit),
            )
            for segment in self._facts
            if segment.max_timestamp >= timestamp and segment.base < limit
        ]

    # Changes

    def grow(self, size: int, end: Offset, timestamp: Timestamp) -> None:
        """The active segment grew by `size` bytes, up to offset `end`."""
        active = self._facts[-1]
        if not self._has_only_rolled():
            self._note(_Before(active.end, active))
        self._facts[-1] = SegmentFacts(
            base=active.base,
            end=end,
            size=active.size + size,
            max_timestamp=max(active.max_timestamp, timestamp),
        )

    def roll(self, base: Offset) -> None:
        """Seal the active segment and continue in an empty one."""
        assert base >= self._facts[-1].end
        if not self._has_only_rolled():
            self._note(_Before(base, self._facts[-1]))
        self._facts.append(
            SegmentFacts(base=base, end=base, size=0, max_timestamp=self._facts[-1].max_timestamp)
        )
        self._bases.append(base)

    def _note(self, before: _Before) -> None:
        """Keep the previous state, in case the disk has no space for this change."""
        if self._unconfirmed is None:
            self._unconfirmed = deque()
        self._unconfirmed.append(before)

    def confirm(self, upto: Offset) -> None:
        """The disk has every record below `upto`: these are final."""
        while self._unconfirmed and self._unconfirmed[0].offset < upto:
            self._unconfirmed.popleft()

    def confirm_all(self) -> None:
        """All changes are final: the log has failed, or a truncation replaces them."""
        self._unconfirmed = None

    def take_back(self, offset: Offset, active: Offset) -> None:
        """The disk has nothing from `offset` on, and its active segment begins at `active`."""
        before = next(change for change in self._unconfirmed or () if change.offset == offset)
        while self._unconfirmed and self._unconfirmed[-1].offset >= offset:
            self._unconfirmed.pop()
        facts = before.active
        if active == offset != facts.base:
            # A roll succeeded, and only the write after it did not.
            facts = SegmentFacts(base=active, end=offset, size=0, max_timestamp=facts.max_timestamp)
        self.restore_active(facts)

    def restore_active(self, facts: SegmentFacts) -> None:
        """Take back everything from `facts.end` on; `facts` is the active segment again."""
        while self._facts and self._facts[-1].base >= facts.base:
            self._facts.pop()
            self._bases.pop()
        self._facts.append(facts)
        self._bases.append(facts.base)
        self._damaged = [
            msgspec.structs.replace(gap, below=min(gap.below, facts.end))
            for gap in self._damaged
            if gap.first < facts.end
        ]

    def drop_below(self, start: Offset) -> None:
        """Forget sealed segments and damage that end at or below `start`."""
        while len(self._facts) > 1 and self._facts[0].end <= start:
            self._facts.pop(0)
            self._bases.pop(0)
        self._damaged = [gap for gap in self._damaged if gap.below > start]

    def replace(self, bases: Sequence[Offset], merged: SegmentFacts) -> bool:
        """Compaction merged these neighbours into one; False if none of them is known any more.

        Some of them may have been dropped in the meantime.
        """
        known = [base for base in bases if base in self._bases]
        if not known:
            return False
        index = self._bases.index(known[0])
        assert self._bases[index : index + len(known)] == known
        assert known[-1] != self.active.base, "the active segment is never compacted"
        self._facts[index : index + len(known)] = [merged]
        self._bases[index : index + len(known)] = [merged.base]
        return True

    def refuse(self, first: Offset, below: Offset, reason: str) -> None:
        """The records of [first, below) are damaged."""
        if first >= below:
            return
        joined = [gap for gap in self._damaged if gap.first <= below and first <= gap.below]
        refused = DamagedRange(
            first=min([first, *(gap.first for gap in joined)]),
            below=max([below, *(gap.below for gap in joined)]),
            reason=joined[0].reason if joined else reason,
        )
        kept = [gap for gap in self._damaged if gap not in joined]
        self._damaged = sorted([*kept, refused], key=lambda gap: gap.first)

    def accept(self, first: Offset, below: Offset) -> None:
        """The records of [first, below) are whole again."""
        parts: list[DamagedRange] = []
        for gap in self._damaged:
            before = msgspec.structs.replace(gap, below=min(gap.below, first))
            behind = msgspec.structs.replace(gap, first=max(gap.first, below))
            parts += [each for each in (before, behind) if each.first < each.below]
        self._damaged = parts

    def is_damaged(self, facts: SegmentFacts) -> bool:
        """Whether some of the records of this segment are refused."""
        return any(gap.first < facts.end and facts.base < gap.below for gap in self._damaged)

    def known(self, base: Offset) -> SegmentFacts | None:
        """The segment that starts at `base`, if it still exists."""
        return self._facts[self._bases.index(base)] if base in self._bases else None
