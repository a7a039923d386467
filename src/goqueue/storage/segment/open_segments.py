"""The bounds on open files that all logs of a data directory share.

Sealed segments: the least recently used one is closed, with its index. Active segments: of those
without unsynced writes, the least recently used one is closed and opens its file again on its next
use. A segment with unsynced writes stays open: the kernel reports a write-back error to the
descriptors that were open when it happened, and a descriptor that was closed in between might miss
it.
"""

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from goqueue.model import LogId, Offset
from goqueue.storage.segment.segment_file import SegmentFile

__all__ = ["OpenActives", "OpenSegments", "Pools"]


class OpenSegments:
    """At most `limit` sealed segments, least recently used first out."""

    def __init__(self, limit: int = 64) -> None:
        self._limit = limit
        self._opened: OrderedDict[tuple[LogId, Offset], SegmentFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._opened)

    def get(self, log: LogId, base: Offset) -> SegmentFile | None:
        opened = self._opened.get((log, base))
        if opened is not None:
            self._opened.move_to_end((log, base))
        return opened

    def put(self, log: LogId, segment: SegmentFile) -> None:
        self.discard(log, segment.base)
        self._opened[log, segment.base] = segment
        while len(self._opened) > self._limit:
            _, oldest = self._opened.popitem(last=False)
            oldest.close()

    def absorb(self, others: "OpenSegments") -> None:
        """Add segments that were opened elsewhere."""
        for log, segment in others.drain():
            self.put(log, segment)

    def drain(self) -> Iterator[tuple[LogId, SegmentFile]]:
        """Remove and return every segment, least recently used first."""
        while self._opened:
            (log, _), segment = self._opened.popitem(last=False)
            yield log, segment

    def close(self) -> None:
        for _, segment in self.drain():
            segment.close()

    def take(self, log: LogId, base: Offset) -> SegmentFile | None:
        """Remove and return a segment; the caller closes it."""
        return self._opened.pop((log, base), None)

    def discard(self, log: LogId, base: Offset) -> None:
        opened = self.take(log, base)
        if opened is not None:
            opened.close()


class OpenActives:
    """At most `limit` clean active segments, least recently used first out."""

    def __init__(self, limit: int = 512) -> None:
        self._limit = limit
        self._clean: OrderedDict[SegmentFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clean)

    def use(self, segment: SegmentFile) -> None:
        """Mark a segment as used; it has no unsynced writes."""
        self._clean[segment] = None
        self._clean.move_to_end(segment)
        while len(self._clean) > self._limit:
            oldest, _ = self._clean.popitem(last=False)
            oldest.close()

    def keep(self, segment: SegmentFile) -> None:
        """Do not close this segment until its next `use`."""
        self._clean.pop(segment, None)


class Pools(msgspec.Struct, frozen=True, kw_only=True):
    """Sealed segments with their indexes, and the files of active ones."""

    sealed: OpenSegments
    actives: OpenActives
