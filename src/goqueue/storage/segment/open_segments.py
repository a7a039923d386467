"""Sealed segments that are open at the moment, over all logs of a data directory.

Owns a bound on open files and on indexes in memory: the one not used for longest is closed.

Active segments whose file is open at the moment, over all logs of a data directory.

Owns a bound on the descriptors of idle logs: of those without unsynced writes, the one not used for
longest is closed, and opens its file again when it is next used. A segment with unsynced writes
is not listed here and so stays open: the error of a write-back is told to the descriptors that were
open when it happened, and one that was closed in between might never hear of it.

The bounds on open files that all logs of a data directory share.
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
        """Take over what was opened elsewhere."""
        for log, segment in others.drain():
            self.put(log, segment)

    def drain(self) -> Iterator[tuple[LogId, SegmentFile]]:
        """Hand every segment over to the caller, the one not used for longest first."""
        while self._opened:
            (log, _), segment = self._opened.popitem(last=False)
            yield log, segment

    def close(self) -> None:
        for _, segment in self.drain():
            segment.close()

    def take(self, log: LogId, base: Offset) -> SegmentFile | None:
        """Hand a segment over to the caller, who closes it."""
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
        """This one is used now and holds nothing that was not synced."""
        self._clean[segment] = None
        self._clean.move_to_end(segment)
        while len(self._clean) > self._limit:
            oldest, _ = self._clean.popitem(last=False)
            oldest.close()

    def keep(self, segment: SegmentFile) -> None:
        """This one is not to be closed from here, until it is used again."""
        self._clean.pop(segment, None)


class Pools(msgspec.Struct, frozen=True, kw_only=True):
    """Sealed segments with their indexes, and the files of active ones."""

    sealed: OpenSegments
    actives: OpenActives
