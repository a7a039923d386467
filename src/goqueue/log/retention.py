"""Retention and the progress of compaction.

Retention deletes whole sealed segments only, oldest first, and never at or above the floor: an open
transaction or a pending delay may still need them.

Invariant: at most one compaction pass at a time; a cleaned segment is dirty again only after a
truncation.
"""

from collections.abc import Sequence

import msgspec

from goqueue.log.compaction import plan_compaction
from goqueue.log.offset_ranges import OffsetRanges
from goqueue.log.segments import Segments
from goqueue.model import Compact, Compacted, LogSettings, Offset, SegmentFacts, Timestamp

__all__ = ["CompactionPlanner", "is_outlived", "retained_from"]


def retained_from(
    sealed: Sequence[SegmentFacts],
    total_size: int,
    floor: Offset,
    settings: LogSettings,
    wall: Timestamp,
) -> Offset | None:
    """The first offset to keep; None when there is nothing to delete."""
    start: Offset | None = None
    for segment in sealed:
        if segment.end > floor:
            break
        is_surplus = (
            settings.retention_bytes is not None
            and total_size - segment.size >= settings.retention_bytes
        )
        if not (is_surplus or is_outlived(segment, settings, wall)):
            break
        total_size -= segment.size
        start = segment.end
    return start


def is_outlived(segment: SegmentFacts, settings: LogSettings, wall: Timestamp) -> bool:
    """Whether the newest record of the segment is older than the retention time."""
    return (
        settings.retention_ns is not None and wall - segment.max_timestamp > settings.retention_ns
    )


class CompactionPlanner:
    """Plans compaction passes and tracks their results."""

    __slots__ = ("_is_under_way", "_upto")

    def __init__(self, upto: Offset) -> None:
        self._upto = upto
        self._is_under_way = False

    def plan(
        self,
        segments: Segments,
        limit: Offset,
        settings: LogSettings,
        wall: Timestamp,
        aborted: OffsetRanges,
    ) -> Compact | None:
        """The next pass below `limit`, if it is worthwhile and none is running."""
        if not settings.cleanup.compacts or self._is_under_way:
            return None
        whole = [facts for facts in segments.sealed if not segments.is_damaged(facts)]
        plan = plan_compaction(whole, self._upto, limit, settings, wall, aborted=aborted)
        if plan is not None and len(whole) < len(segments.sealed):
            # A damaged segment is left alone and may hold older values of any key: without the
            # tombstone they would reappear.
            plan = msgspec.structs.replace(plan, tombstones_before=Timestamp(0))
        self._is_under_way = plan is not None
        return plan

    def dirty_bytes(self, segments: Segments) -> int:
        """Bytes of sealed segments that the last pass did not see."""
        return sum(segment.size for segment in segments.sealed if segment.end > self._upto)

    def compacted(self, event: Compacted, segments: Segments) -> None:
        """A group of segments was rewritten, or the pass was abandoned."""
        if event.is_last:
            self._is_under_way = False
        if event.segment is not None and segments.replace(event.replaced, event.segment):
            self._upto = max(self._upto, event.cleaned_upto)

    def truncate(self, end: Offset) -> None:
        """Records written from there on are dirty."""
        self._upto = min(self._upto, end)
