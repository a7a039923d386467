"""Active segments whose file is open at the moment, over all logs of a data directory.

Owns a bound on the descriptors of idle logs: of those without unsynced writes, the one not used for
longest is closed, and opens its file again when it is next used. A segment with unsynced writes
is not listed here and so stays open: the error of a write-back is told to the descriptors that were
open when it happened, and one that was closed in between might never hear of it.
"""

from collections import OrderedDict

from goqueue.storage.segment.segment_file import SegmentFile

__all__ = ["OpenActives"]


class OpenActives:
    """At most `limit` clean active segments, least recently used first out."""

    def __init__(self, limit: int = 512) -> None:
        self._limit = limit
        self._clean: OrderedDict[SegmentFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clean)

    def use(self, segment: SegmentFile) -> None:
        """This one is used now and holds nothing that was not synced."""
        self._clean[segment] = None
        self._clean.move_to_end(segment)
        while len(self._clean) > self._limit:
            oldest, _ = self._clean.popitem(last=False)
            oldest.close()

    def keep(self, segment: SegmentFile) -> None:
        """This one is not to be closed from here, until it is used again."""
        self._clean.pop(segment, None)
