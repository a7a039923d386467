"""Recovery: assembles a log from the files that were found on disk.

Storage lists, reads and verifies checksums; this module decides. The basic rule: above the recovery
point an invalid record is a torn write and is cut; below it, it is damage and is refused, because
it had been durable. A producer's batch that is incomplete above the point is cut as a whole.

Invariant: every offset between the start and the end of the assembled log is in exactly one segment
or in exactly one damaged range, or in a damaged range within its segment.
"""

from collections.abc import Sequence

import msgspec

from goqueue.log.batch_mark import last_mark_in
from goqueue.log.segments import DamagedRange
from goqueue.model import Offset, SegmentFacts, Timestamp
from goqueue.records import Columns

__all__ = [
    "Assembly",
    "Checked",
    "LogState",
    "RecoveryPoint",
    "Tail",
    "UnfinishedBatch",
    "assemble",
    "is_sealed",
    "tail_to_scan",
    "unfinished_batch",
]


class RecoveryPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Written after a sync: the log below `offset` is durable.

    `segment` and `position` locate that offset; `start` is the first offset of the log. The point
    may lag behind, never run ahead. `sequence` identifies the newer of two copies. A replicated log
    is `committed` at least so far; a standalone one saves nothing, because its end is committed.
    """

    sequence: int
    segment: Offset
    position: int
    offset: Offset
    start: Offset
    committed: Offset = Offset(0)


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a log needs to continue. The last segment is the active one."""

    start: Offset = Offset(0)
    segments: tuple[SegmentFacts, ...] = (
        SegmentFacts(base=Offset(0), end=Offset(0), size=0, max_timestamp=Timestamp(0)),
    )
    damaged: tuple[DamagedRange, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()
    # The log is compacted below this.
    cleaned_upto: Offset = Offset(0)
    # What a replicated log knew to be committed; a standalone one has committed its end.
    committed: Offset = Offset(0)

    @property
    def end(self) -> Offset:
        return self.segments[-1].end


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """Where the scan of the last segment starts, and the offset expected there (-1: any)."""

    position: int
    expected: int


class UnfinishedBatch(msgspec.Struct, frozen=True):
    """A producer's batch that continues behind the data read: its start and its last offset."""

    position: int
    following: Offset


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a segment file: its facts, or why it is unusable.

    `end` is as far as records were seen in an unusable one: no later record may get one of its
    offsets. `damaged` has the holes of a usable one.
    """

    base: Offset
    facts: SegmentFacts | None = None
    reason: str = ""
    end: Offset = Offset(0)
    is_set_aside: bool = False
    damaged: tuple[DamagedRange, ...] = ()


class Assembly(msgspec.Struct, frozen=True, kw_only=True):
    """The recovered log, and the file changes that produce it."""

    state: LogState
    superseded: tuple[Offset, ...]
    to_set_aside: tuple[Offset, ...]
    is_active_new: bool


def is_sealed(base: Offset, point: RecoveryPoint | None) -> bool:
    """Whether a segment had a successor, even one that is gone: then it has no torn tail."""
    return point is not None and point.segment > base


def tail_to_scan(base: Offset, size: int, point: RecoveryPoint | None) -> Tail | None:
    """Where to scan the last segment from; None if bytes below the recovery point are missing."""
    if point is None or point.segment != base:
        # A compacted segment that a truncation made active has gaps, so the offsets need only rise.
        return Tail(position=0, expected=-1)
    if size < point.position:
        return None
    return Tail(position=point.position, expected=point.offset)


def unfinished_batch(
    data: bytes, columns: Columns, position: int, before: UnfinishedBatch | None
) -> UnfinishedBatch | None:
    """The batch that is still incomplete after these records, if there is one.

    `data` is at `position` of the segment; `before` is the batch that earlier records left
    incomplete. Offsets are compared and records are not counted, because compaction may have
    removed some. A batch without a mark may be kept in part: its end is unknown, and its producer
    got no answer.
    """
    found = last_mark_in(data, columns)
    if found is not None:
        index, mark = found
        first = columns.offsets[index]
        begin = position + columns.positions[index]
        before = UnfinishedBatch(begin, Offset(first + mark.count))
    if before is None or columns.offsets[-1] + 1 >= before.following:
        return None
    return before


def assemble(checked: Sequence[Checked], point: RecoveryPoint | None) -> Assembly:
    """Chain the segments into one log; offsets that no segment holds are damaged."""
    chain = _Chain(point)
    ordered = sorted(checked, key=lambda found: (found.base, found.facts is not None))
    promised = point.offset if point else Offset(0)
    while ordered and ordered[-1].is_set_aside and ordered[-1].base >= promised:
        # A truncation removed these records and was interrupted before it removed the file.
        ordered.pop()
    for index, found in enumerate(ordered):
        is_last = index + 1 == len(ordered)
        following = None if is_last else ordered[index + 1].base
        chain.take(found, following)
    return chain.finish()


class _Chain:
    """The segments joined so far, and the offset at which the next one must start."""

    def __init__(self, point: RecoveryPoint | None) -> None:
        self._promised = point.offset if point else Offset(0)
        self._committed = point.committed if point else Offset(0)
        self._promised_in = point.segment if point else None
        self._expected: Offset | None = point.start if point else None
        self._start: Offset | None = self._expected
        self._segments: list[SegmentFacts] = []
        self._damaged: list[DamagedRange] = []
        self._superseded: list[Offset] = []
        self._to_set_aside: list[Offset] = []

    def take(self, found: Checked, following: Offset | None) -> None:
        """Add the next segment; `following` is the base of the one after it."""
        facts = found.facts
        if facts is None:
            self._take_damaged(found, following)
        elif self._is_left_over(facts):
            self._superseded.append(found.base)
        elif self._expected is not None and found.base < self._expected and self._segments:
            self._to_set_aside.append(found.base)
        else:
            # A first segment may start below the start of the log: its first records were deleted
            # with a neighbour that was merged into it at the same time.
            self._skip_to(found.base, "missing")
            self._segments.append(facts)
            self._damaged.extend(each for each in found.damaged if each.first < each.below)
            self._expected = facts.end

    def _is_left_over(self, facts: SegmentFacts) -> bool:
        """Whether an interrupted change of files would have removed this one.

        After a merge or a deletion its records are in the segment before, or not needed. After a
        truncation an empty one may be left beyond the end.
        """
        if self._expected is None:
            return False
        is_beyond = not facts.size and self._expected < facts.base
        return facts.end <= self._expected != facts.base or (
            is_beyond and facts.base > self._promised
        )

    def _take_damaged(self, found: Checked, following: Offset | None) -> None:
        if not found.is_set_aside:
            self._to_set_aside.append(found.base)
        is_within = self._expected is not None and found.base < self._expected
        if is_within and (found.is_set_aside or self._segments):
            below = found.end
        else:
            self._skip_to(found.base, "missing")
            below = found.base if following is None else following
            is_replaced = following == found.base
            if following is None or (found.base == self._promised_in and not is_replaced):
                # It reached at least to the recovery point, whatever old names lie in between.
                below = max(below, self._promised)
        self._skip_to(max(below, found.end), found.reason)

    def finish(self) -> Assembly:
        if self._expected is not None:
            self._skip_to(self._promised, "missing")
        end = self._expected or Offset(0)
        is_active_new = not self._segments or self._segments[-1].end != end
        newest = max((segment.max_timestamp for segment in self._segments), default=Timestamp(0))
        if is_active_new:
            self._segments.append(SegmentFacts(base=end, end=end, size=0, max_timestamp=newest))
        return Assembly(
            state=LogState(
                start=self._start or Offset(0),
                segments=tuple(self._segments),
                damaged=tuple(self._damaged),
                committed=min(self._committed, end),
            ),
            superseded=tuple(self._superseded),
            to_set_aside=tuple(self._to_set_aside),
            is_active_new=is_active_new,
        )

    def _skip_to(self, offset: Offset, reason: str) -> None:
        """No segment holds what lies between the chain's end and `offset`."""
        if self._expected is None:
            self._start = offset
        elif offset > self._expected:
            self._damaged.append(DamagedRange(first=self._expected, below=offset, reason=reason))
        self._expected = offset if self._expected is None else max(offset, self._expected)
