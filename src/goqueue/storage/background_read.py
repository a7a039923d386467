"""Reads of many records by a thread of its own, such as for a follower that is far behind.

An ordinary read holds the guard while it waits for the disk: right for records in the page cache,
wrong for old ones, because the event loop would wait for the guard as long. Here the guard is held
only to find the place in the file. Bytes are read and verified without it, through a descriptor of
their own, so a segment that is removed or replaced meanwhile is read to its end as it was.

Invariants
- Every record is verified, also if this process verified it before.
- Without the guard nothing that others change is looked at.

Where bytes are damaged, or the index is wrong, an ordinary read decides: that is rare, and scans
the segment, without the guard.

Cost: a descriptor opened and closed for each read, and one pass over the bytes.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from goqueue.model import LogId, SegmentFacts, Slice
from goqueue.records import Corrupt, slice_records, sums
from goqueue.storage.filesystem import File
from goqueue.storage.log_files import LogFiles
from goqueue.storage.open_log import OpenLog
from goqueue.storage.segment import ReadPlace, SegmentFile, read_sectors

__all__ = ["BackgroundRead"]


class BackgroundRead:
    """Reads slices for a thread that is not the event loop; `read` is the ordinary read."""

    def __init__(
        self,
        guard: AbstractContextManager[object],
        entry: Callable[[LogId], OpenLog],
        read: Callable[[Slice], memoryview],
    ) -> None:
        self._guard = guard
        self._entry = entry
        self._read = read

    def read(self, wanted: Slice) -> memoryview:
        """The records of a slice; raises DamageFound, Refused or OSError like an ordinary read."""
        with self._guard:
            files = self._entry(wanted.log).files
            facts = files.facts_of(wanted.segment)
            is_open = files.opened(wanted.segment) is not None
        if facts is not None and not is_open:
            self._open(files, facts)
        with self._guard:
            found = self._find(files, wanted)
        if found is not None:
            place, file = found
            try:
                data = _read(file, place, wanted)
            except Corrupt:
                pass
            else:
                with self._guard:
                    files.meter.bytes_read += len(data)
                return data
            finally:
                file.close()
        return self._read(wanted)

    def _find(self, files: LogFiles, wanted: Slice) -> tuple[ReadPlace, File] | None:
        """Where the records are, and the file; None if an ordinary read has to decide."""
        segment = files.opened(wanted.segment)
        if segment is None or not segment.size or segment.hole_at(wanted.offset) is not None:
            return None
        place = segment.place_to_read(wanted.offset, wanted.below, wanted.bytes_max)
        return place, files.view(segment.facts).open()

    def _open(self, files: LogFiles, facts: SegmentFacts) -> None:
        """Index a sealed segment that nobody read lately."""
        view: SegmentFile | None = files.view(facts)
        assert view is not None
        try:
            if view.load_index(facts.size):
                with self._guard:
                    if files.admit(view, facts):
                        view = None
        finally:
            if view is not None:
                view.close()


def _read(file: File, place: ReadPlace, wanted: Slice) -> memoryview:
    """Verified records from a place in a file; raises Corrupt."""
    size = place.window
    while True:
        data = memoryview(read_sectors(file, place.position, min(size, place.available)))
        found = slice_records(data, wanted.offset, wanted.below, wanted.bytes_max)
        if found.start < found.end:
            break
        if found.reached or size >= place.available:
            # Nothing there, or not what the index says.
            raise Corrupt(place.position, "index")
        size *= 2
    sums(data, 0, found.end)
    return data[found.start : found.end]
