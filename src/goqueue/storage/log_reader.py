"""Reads of logs, for any thread.

A read that meets a lost index, or bytes that do not fit it, needs the whole segment scanned: the
index is rebuilt, and damage becomes holes. A scan takes as long as the segment is large, so it
holds no lock, and an event loop has it run in a thread.

Invariant: a read that may not scan reads only what it returns, and the marks beside it.
"""

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager

from goqueue.model import LogId, Slice
from goqueue.storage.index_rebuild import rebuild_index
from goqueue.storage.metrics import IndexType
from goqueue.storage.open_log import OpenLog
from goqueue.storage.segment import RebuildNeeded

__all__ = ["LogReader"]


class LogReader:
    """Reads slices of the open logs."""

    def __init__(
        self,
        guard: AbstractContextManager[object],
        entry: Callable[[LogId], OpenLog],
        ticks: Callable[[], int],
    ) -> None:
        self._guard = guard
        self._entry = entry
        self._ticks = ticks

    def read(self, wanted: Slice, *, may_scan: bool = True) -> memoryview:
        """The records of a slice; raises DamageFound, whose event belongs to the log.

        Raises RebuildNeeded if a segment has to be scanned and may not be: the caller is an event
        loop, has `rebuild` run in a thread, and asks again.
        """
        try:
            return self._read(wanted)
        except RebuildNeeded as needed:
            if not may_scan:
                raise
            self.rebuild(needed)
        try:
            return self._read(wanted)
        except RebuildNeeded as needed:
            # It was readable a moment ago: the disk is unreliable.
            raise OSError(errno.EIO, f"{wanted.log}: {needed.reason}") from needed

    def _read(self, wanted: Slice) -> memoryview:
        with self._guard:
            entry = self._entry(wanted.log)
            began = self._ticks()
            data = entry.files.read(wanted)
            entry.meter.bytes_read += len(data)
            entry.meter.look_up(IndexType.OFFSET, self._ticks() - began)
            return data

    def rebuild(self, needed: RebuildNeeded) -> None:
        """Rebuild the index that a read lacked; raises OSError."""
        files = self._entry(needed.log).files
        # The log may have been deleted and created anew meanwhile.
        rebuild_index(files, needed.base, lambda: self._entry(needed.log).files is files)
