"""Which of the oldest segments have had their time.

Deletes whole sealed segments only, oldest first, and never what lies at or above the floor:
an open transaction or a pending delay may still need it.

How far the compaction of a log has come, and whether a pass is under way.

Invariant: at most one pass at a time; what was cleaned once is dirty again only after a truncation.
"""

from collections.abc import Sequence

import msgspec

from goqueue.log.compaction import plan_compaction
from goqueue.log.producer_state import Spans
from goqueue.log.segments import Segments
from goqueue.model import Compact, Compacted, LogSettings, Offset, SegmentFacts, Timestamp

__all__ = ["Cleaning", "is_outlived", "retained_from"]


def retained_from(
    sealed: Sequence[SegmentFacts],
    total_size: int,
    floor: Offset,
    settings: LogSettings,
    wall: Timestamp,
) -> Offset | None:
    """The offset from which records are kept, or None when nothing is to be deleted."""
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


class Cleaning:
    """Plans passes, and learns what they did."""

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
        aborted: Spans,
    ) -> Compact | None:
        """The next pass below `limit`, if one is worth it and none is under way."""
        if not settings.cleanup.compacts or self._is_under_way:
            return None
        whole = [facts for facts in segments.sealed if not segments.is_damaged(facts)]
        plan = plan_compaction(whole, self._upto, limit, settings, wall, aborted=aborted)
        if plan is not None and len(whole) < len(segments.sealed):
            # A damaged segment stays as it is, and may hold older values of any key: without the
            # tombstone they would come back.
            plan = msgspec.structs.replace(plan, tombstones_before=Timestamp(0))
        self._is_under_way = plan is not None
        return plan

    def dirty_bytes(self, segments: Segments) -> int:
        """How much of the sealed segments was not there in the last pass."""
        return sum(segment.size for segment in segments.sealed if segment.end > self._upto)

    def compacted(self, event: Compacted, segments: Segments) -> None:
        """A group of segments was rewritten, or the pass was given up."""
        if event.is_last:
            self._is_under_way = False
        if event.segment is not None and segments.replace(event.replaced, event.segment):
            self._upto = max(self._upto, event.cleaned_upto)

    def truncate(self, end: Offset) -> None:
        """What is written there from now on is dirty."""
        self._upto = min(self._upto, end)
