"""Searches of logs by time.

A search uses time marks that this process made: those of a file cannot be proved by a few records.
So the first search of a segment after a start scans it, which may take as long as the segment is
large. The scan holds no lock, on files of its own, and leaves its index to the segment.

Invariant: a search that may not scan reads at most about a megabyte of each segment.
"""

import errno
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from goqueue.model import Code, LogId, Offset, Refused, Seek
from goqueue.records import Corrupt
from goqueue.storage.log_files import LogFiles
from goqueue.storage.metrics import IndexType
from goqueue.storage.open_log import OpenLog
from goqueue.storage.segment import ScanNeeded

__all__ = ["TimeSearch"]

_QUICK_BYTES = 1 << 20


class TimeSearch:
    """Finds offsets by time, for any thread."""

    def __init__(
        self,
        guard: AbstractContextManager[object],
        entry: Callable[[LogId], OpenLog],
        ticks: Callable[[], int],
    ) -> None:
        self._guard = guard
        self._entry = entry
        self._ticks = ticks

    def find(self, seeks: Sequence[Seek], *, may_scan: bool = True) -> Offset | None:
        """The first offset that any of these finds, in order.

        Raises ScanNeeded if a segment has to be scanned and may not be: the caller is an event
        loop, and asks again in a thread.
        """
        for seek in seeks:
            try:
                found = self._find(seek)
            except (Corrupt, ScanNeeded):
                if not may_scan:
                    raise ScanNeeded from None
                found = self._scan(seek)
            if found is not None:
                return found
        return None

    def _find(self, seek: Seek) -> Offset | None:
        with self._guard:
            entry = self._entry(seek.log)
            began = self._ticks()
            segment = entry.files.opened(seek.segment)
            if segment is None:
                raise ScanNeeded
            found = segment.find(seek.timestamp, seek.offset, seek.below, _QUICK_BYTES)
            entry.meter.look_up(IndexType.TIME, self._ticks() - began)
            return found

    def _scan(self, seek: Seek) -> Offset | None:
        with self._guard:
            files = self._entry(seek.log).files
            facts, segment = files.facts_of(seek.segment), files.opened(seek.segment)
            known = None if segment is None else segment.index
        if facts is None:
            return None
        view = files.view(facts)
        try:
            view.make_index(facts.end)
            with self._guard:
                self._require(seek.log, files)
                if segment is not None and segment is files.opened(seek.segment):
                    if segment.index is known:
                        segment.adopt_index(view)
                        files.meter.index_rebuilds += 1
            return view.find(seek.timestamp, seek.offset, seek.below, view.size)
        except Corrupt as corrupt:
            raise OSError(errno.EIO, f"{seek.log}: {corrupt}") from corrupt
        finally:
            view.close()

    def _require(self, log: LogId, files: LogFiles) -> None:
        """Refuse what was found in the files of a log that was created anew meanwhile."""
        if self._entry(log).files is not files:
            raise Refused(Code.TOPIC_NOT_FOUND, topic=log.topic)
