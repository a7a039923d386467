"""How far the compaction of a log has come, and whether a pass is under way.

Invariant: at most one pass at a time; what was cleaned once is dirty again only after a truncation.
"""

import msgspec

from goqueue.log.authors import Spans
from goqueue.log.removal.compaction import plan_compaction
from goqueue.log.segments import Segments
from goqueue.model import Compact, Compacted, LogSettings, Offset, Timestamp

__all__ = ["Cleaning"]


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
