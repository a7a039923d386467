"""Rewrites sealed segments so that only the newest record of each key is left.

Works in small steps, so that writes continue between them, and reads the old files until the new
one is complete and synced. Before the rename of a group nothing has changed; after it the group is
done. A crash at any point leaves a log that reads the same for every key.
"""

import errno
from collections.abc import Generator, Iterator
from contextlib import suppress

from goqueue.log import Leftover, NewestOffsets, placeholder
from goqueue.model import Compact, Compacted, Offset, SegmentFacts, Timestamp
from goqueue.records import Corrupt, index_records
from goqueue.storage.filesystem import File, FileSystem, remove_if_there
from goqueue.storage.index_rebuild import rebuild_index
from goqueue.storage.layout import NameKind, segment_name
from goqueue.storage.log_files import LogFiles
from goqueue.storage.segment import Chunk, chunks

__all__ = ["compact"]

_STEP_BYTES = 256 * 1024


def compact(
    files: FileSystem, log: LogFiles, order: Compact
) -> Generator[Compacted | None, None, None]:
    """Execute a compaction; each step yields None, each finished group its event.

    Raises DamageFound for a damaged record and OSError when the disk refuses: the current group is
    then unchanged.
    """
    newest = NewestOffsets(
        log.settings.compaction_keys_bytes,
        order.dirty_from,
        aborted=order.aborted,
        marks_before=order.marks_before,
    )
    has_room = True
    for base in (base for group in order.groups for base in group):
        facts = log.facts(base)
        if facts is None or facts.end <= order.dirty_from or not has_room:
            continue
        for chunk in _steps(files, log, facts):
            has_room = newest.note(chunk.data, chunk.columns)
            yield None
            if not has_room:
                break
    # A pass that ran out of memory for keys leaves the rest to the next one.
    groups = [group for group in order.groups if group[0] < newest.upto]
    for index, group in enumerate(groups):
        rewrite = _Rewrite(files, log, group, newest, order.tombstones_before)
        try:
            yield from rewrite.run()
            merged = rewrite.finish()
        except (Exception, GeneratorExit):
            # Also when the pass is abandoned: the generator is closed at its yield.
            rewrite.give_up()
            raise
        half_done = log.swap(group, merged)
        cleaned_upto = min(merged.end, newest.upto)
        if half_done is None:
            log.save_cleaned(cleaned_upto)
        yield Compacted(
            log=log.log,
            replaced=group,
            segment=merged,
            cleaned_upto=cleaned_upto,
            is_last=index + 1 == len(groups),
        )
        if half_done is not None:
            # Not a lack of space any more: there are files that should not exist.
            raise OSError(errno.EIO, f"half a compaction: {half_done}") from half_done
    if not groups:
        yield Compacted(log=log.log, is_last=True)


def _end_of(log: LogFiles, group: tuple[Offset, ...]) -> Offset:
    facts = log.facts(group[-1])
    assert facts is not None, "a reshaping that removes segments ends the compaction first"
    return facts.end


def _steps(files: FileSystem, log: LogFiles, facts: SegmentFacts) -> Iterator[Chunk]:
    file = files.open(f"{log.directory}/{segment_name(facts.base)}")
    try:
        yield from chunks(file, 0, facts.size, chunk_bytes=_STEP_BYTES)
    except Corrupt as corrupt:
        rebuild_index(log, facts.base)
        log.check_holes(facts.base)
        # It was readable a moment later: abandon the pass; the next one starts over.
        raise OSError(errno.ENOMEM, f"{log.log}: {corrupt}") from corrupt
    finally:
        file.close()


class _Rewrite:
    """One group of adjacent segments being merged into a new file."""

    def __init__(
        self,
        files: FileSystem,
        log: LogFiles,
        group: tuple[Offset, ...],
        newest: NewestOffsets,
        tombstones_before: Timestamp,
    ) -> None:
        self._files = files
        self._log = log
        self._group = group
        self._newest = newest
        self._tombstones_before = tombstones_before
        self._path = f"{log.directory}/{segment_name(group[0], NameKind.CLEANED)}"
        self._file: File | None = None
        self._size = 0
        self._end = group[0]
        self._last_timestamp = 0
        self._max_timestamp = Timestamp(0)

    def run(self) -> Iterator[None]:
        """Copy the records to keep, a little per step."""
        remove_if_there(self._files, self._path)
        self._file = self._files.create(self._path)
        for base in self._group:
            facts = self._log.facts(base)
            assert facts is not None
            for chunk in _steps(self._files, self._log, facts):
                self._copy(chunk)
                yield None

    def _copy(self, chunk: Chunk) -> None:
        view = memoryview(chunk.data)
        kept = self._newest.kept(chunk.data, chunk.columns, chunk.end, self._tombstones_before)
        for part in kept:
            if isinstance(part, Leftover):
                self._write(memoryview(part.data))
            else:
                self._write(view[part.start : part.end])
        self._last_timestamp = chunk.columns.timestamps[-1]

    def _write(self, data: memoryview) -> None:
        marks = index_records(data, self._size, 0, len(data) + 1)
        self._max_timestamp = Timestamp(max(self._max_timestamp, marks.max_timestamp))
        self._end = Offset(marks.next_offset)
        assert self._file is not None
        self._file.write_at(self._size, data)
        self._size += len(data)

    def finish(self) -> SegmentFacts:
        """Sync the new file; it ends at the offset where the old ones ended."""
        end = _end_of(self._log, self._group)
        if self._end < end:
            self._write(memoryview(placeholder(end - 1, self._last_timestamp)))
        assert self._file is not None
        self._file.sync()
        self._close()
        return SegmentFacts(
            base=self._group[0], end=end, size=self._size, max_timestamp=self._max_timestamp
        )

    def give_up(self) -> None:
        """Remove the new file, above all on a full disk."""
        if self._file is not None:
            self._close()
            with suppress(OSError):
                self._files.remove(self._path)

    def _close(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
