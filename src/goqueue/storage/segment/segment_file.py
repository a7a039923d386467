"""One segment on disk: its records, its index, and reads.

Owns the mapping from offsets to file positions. Serves only complete records whose checksums were
verified since the process started: bytes that this process wrote or verified are not verified
again. Damaged records are holes: the records before and behind one are served.

The file is opened on first use and may be closed at any time: the next use opens it again. So an
idle log costs no descriptor.

Invariant: `end` and `size` describe complete records and holes; bytes beyond `size` are ignored. An
index mark follows each hole.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from goqueue.log import IndexEntry, SparseIndex
from goqueue.model import RECORD_BYTES_MAX, Offset, SegmentFacts, Timestamp
from goqueue.records import (
    HEADER_SIZE,
    Buffer,
    Corrupt,
    index_records,
    scan,
    slice_records,
    sums,
)
from goqueue.storage.filesystem import File, FileSystem
from goqueue.storage.layout import NameKind, segment_name
from goqueue.storage.segment.chunks import CHUNK_BYTES, Chunk, chunks, read_sectors
from goqueue.storage.segment.holes import Hole, stretches, walk_around
from goqueue.storage.segment.index_files import IndexFiles

__all__ = ["ReadPlace", "ScanNeeded", "SegmentFile"]

_HINTS_MAX = 16
_MAGIC = b"GQ"
_MAGIC_AND_OFFSET = struct.Struct(">2s6xq")
_ANY_OFFSET = -1
_NO_OFFSET = Offset(0)
_OFFSET_MAX = (1 << 63) - 1


class ScanNeeded(Exception):
    """A search by time would have to scan the segment."""


class ReadPlace(msgspec.Struct, frozen=True):
    """Where in the file records begin, how much of it to read, and how much there is."""

    position: int
    window: int
    available: int


class SegmentFile:
    """The files of one segment."""

    # Each log of a node has one, and a node has thousands.
    __slots__ = (
        "_base",
        "_directory",
        "_end",
        "_files",
        "_good",
        "_handle",
        "_hints",
        "_holes",
        "_index",
        "_index_files",
        "_interval",
        "_is_index_ours",
        "_is_torn",
        "_max_timestamp",
        "_size",
    )

    def __init__(
        self, files: FileSystem, directory: str, base: Offset, size: int, interval: int
    ) -> None:
        self._files = files
        self._directory = directory
        self._interval = interval
        self._base = base
        self._end = base
        self._size = size
        self._max_timestamp = Timestamp(0)
        self._index = SparseIndex(base)
        self._index_files = IndexFiles(files, directory, base)
        self._good = (0, 0)
        self._is_index_ours = True
        self._hints: dict[int, IndexEntry] = {}
        self._holes: tuple[Hole, ...] = ()
        self._handle: File | None = None
        self._is_torn = False

    @classmethod
    def create(
        cls, files: FileSystem, directory: str, base: Offset, interval: int
    ) -> "SegmentFile":
        """Start an empty segment, durably."""
        path = f"{directory}/{segment_name(base)}"
        files.create(path).close()
        try:
            files.sync_directory(directory)
            created = cls(files, directory, base, 0, interval)
            created.open()
        except OSError:
            with suppress(OSError):
                # The log continues in the previous segment, so this name must not remain.
                files.remove(path)
            raise
        return created

    def open(self) -> File:
        """Open the file unless it is open."""
        if self._handle is None:
            self._handle = self._files.open(self.path(NameKind.SEGMENT))
        return self._handle

    def open_at(self, path: str) -> None:
        """Open the file under another name, before it gets its own."""
        assert self._handle is None
        self._handle = self._files.open(path)

    @property
    def _file(self) -> File:
        return self.open()

    def path(self, kind: NameKind) -> str:
        return f"{self._directory}/{segment_name(self._base, kind)}"

    @property
    def base(self) -> Offset:
        return self._base

    @property
    def end(self) -> Offset:
        return self._end

    @property
    def size(self) -> int:
        return self._size

    @property
    def facts(self) -> SegmentFacts:
        return SegmentFacts(
            base=self._base, end=self._end, size=self._size, max_timestamp=self._max_timestamp
        )

    # Writes

    def append(self, data: Buffer) -> None:
        """Append stamped records; a failed write leaves the segment unchanged."""
        self.put((data,))
        self.learn(data)

    def put(self, parts: Sequence[Buffer]) -> None:
        """The part of an append that may wait for the disk; invisible to readers."""
        self.begin_put().write_all_at(self._size, parts)

    def begin_put(self) -> File:
        """The file, to which somebody is about to write at the end."""
        file = self._file
        self._is_torn = True
        return file

    def learn(self, data: Buffer) -> None:
        """The part of an append that makes the records, which were written, visible to readers."""
        self._is_torn = False
        self._learn(data, self._size)
        self._trust(self._size, self._size + len(data))
        self._size += len(data)

    @property
    def is_torn(self) -> bool:
        """Whether a failed write may have left bytes beyond the last complete record."""
        return self._is_torn

    def _learn(self, data: Buffer, position: int) -> None:
        marks = index_records(data, position, self._index.last_position, self._interval)
        self._index.add(marks, self._max_timestamp)
        self._max_timestamp = Timestamp(max(self._max_timestamp, marks.max_timestamp))
        self._end = Offset(marks.next_offset)

    def trim(self) -> None:
        """Remove the bytes beyond the last complete record, durably.

        A failed write may have left complete records there. Its producer is told that nothing was
        stored, so no crash may restore them.
        """
        self._file.truncate(self._size)
        self._file.sync()
        self._is_torn = False

    def write_again(self, position: int) -> None:
        """Write the records from `position` on again, before a sync.

        If an earlier sync failed, the kernel may show these bytes as clean although they never
        reached the disk: the next sync would succeed and mean nothing. Written again they are
        dirty. The same applies to the length.
        """
        self._file.truncate(self._size)
        while position < self._size:
            data = self._file.read_at(position, min(CHUNK_BYTES, self._size - position))
            self._file.write_at(position, data)
            position += len(data)

    def settle(self) -> None:
        """Make the length that an earlier process left durable, through a new descriptor.

        A cut whose sync failed may be visible to this process and not be on disk.
        """
        file = self._files.open(self.path(NameKind.SEGMENT))
        try:
            file.truncate(self._size)
            file.sync()
        finally:
            file.close()

    def sync(self) -> None:
        self._file.sync()

    def cut(self, position: int, end: Offset) -> None:
        """Truncate the segment, durably, to the records below `position` and offset `end`."""
        self._file.truncate(position)
        self._file.sync()
        self._size = position
        self._end = self._base
        self.rebuild_index(end)

    def close(self) -> None:
        """Close the file; idempotent, and the next use opens it again."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            handle.close()

    # The index

    def save_index(self) -> None:
        """Write the marks added since the last call."""
        self._index_files.save(self._index)

    def load_index(self, upto: int) -> bool:
        """Load the index from its files if it fits the records below position `upto`.

        The records from the last mark but one on are read and verified: both marks must point to
        records, and the newest timestamp, which retention uses, must be right. Missing marks for
        them are added.
        """
        index = self._index_files.load(upto, entries_max=self._size // HEADER_SIZE + 1)
        if index is None:
            return False
        self._holes = self._index_files.load_holes(upto)
        before, last = index.entry(-2), index.entry(-1)
        if not len(index) or upto - before.position > 2 * (self._interval + RECORD_BYTES_MAX):
            return False
        self._index = index
        self._is_index_ours = False
        self._max_timestamp = Timestamp(before.newest if len(index) > 1 else 0)
        return self._fits(before, last, upto)

    def _fits(self, before: IndexEntry, last: IndexEntry, upto: int) -> bool:
        """Check the last two marks against the records, and index those after the last."""
        try:
            for entry in (before, last):
                if (
                    _offset_at(read_sectors(self._file, entry.position, HEADER_SIZE), 0)
                    != entry.offset
                ):
                    return False
            for chunk in self._chunks(before.position, last.position):
                newest = max(chunk.columns.timestamps)
                self._max_timestamp = Timestamp(max(self._max_timestamp, newest))
            for chunk in self._chunks(last.position, upto):
                stamp = chunk.columns.timestamps[0]
                is_first = chunk.position == last.position
                if is_first and max(self._max_timestamp, stamp) != last.newest:
                    return False
                self._learn(memoryview(chunk.data)[: chunk.end], chunk.position)
        except Corrupt:
            return False
        if self._holes:
            self._end = max(self._end, self._holes[-1].below)
        return True

    def rebuild_index(self, end: Offset = _NO_OFFSET) -> None:
        """Rebuild the index from the records, verifying every checksum; damage becomes holes.

        `end` is the known end of the segment, in case its last records are damaged. Raises Corrupt,
        before any change, if no record is good and the end is unknown.
        """
        self.make_index(end)
        self.save_made_index()

    def save_made_index(self) -> None:
        """Replace the files of the index by the one in memory."""
        self._index_files.remove()
        self._index_files.save_holes(self._holes)
        self.save_index()

    def make_index(self, end: Offset = _NO_OFFSET) -> None:
        """Build the index in memory only."""
        end = max(end, self._end)
        index = SparseIndex(self._base)
        holes: list[Hole] = []
        newest, reached, marked = 0, self._base, -1
        for part in walk_around(self._file, self._size, self._base):
            if isinstance(part, Hole):
                if part.end == self._size:
                    part = msgspec.structs.replace(part, below=max(part.first, end))
                    reached = part.below
                holes.append(part)
                # Mark the next record, or a search would have to cross the hole.
                marked = -1
                continue
            records = memoryview(part.data)[: part.end]
            marks = index_records(records, part.position, marked, self._interval)
            index.add(marks, newest)
            marked = index.last_position
            newest = max(newest, marks.max_timestamp)
            reached = Offset(marks.next_offset)
        if holes and not len(index) and reached == self._base:
            raise Corrupt(holes[0].position, holes[0].reason)
        self._index = index
        self._is_index_ours = True
        self._holes = tuple(holes)
        self._end = reached
        self._max_timestamp = Timestamp(newest)
        self._hints.clear()
        self._good = (0, self._size if not holes else holes[0].position)

    @property
    def index(self) -> SparseIndex:
        """The present index; another object after each truncation and each rebuild."""
        return self._index

    def adopt_index(self, scanned: "SegmentFile") -> None:
        """Use the index that a scan of the same records made; marks of later records are added."""
        index, newest = scanned.index, scanned.facts.max_timestamp
        for entry in self._index.entries_from(scanned.size):
            # Its newest time goes by marks that were not ours.
            index.append(msgspec.structs.replace(entry, newest=max(newest, entry.newest)))
        times = index.encode_times()
        is_same = times == self._index.encode_times() and scanned.holes == self._holes
        self._index = index
        self._is_index_ours = True
        self._holes = scanned.holes
        self._max_timestamp = Timestamp(max(self._max_timestamp, newest))
        self._hints.clear()
        if not is_same:
            self.save_made_index()

    def adopt(self, records: memoryview) -> None:
        """Adopt verified records that a recovery scan found right behind the current size."""
        if not records:
            return
        position = self._size
        self._learn(records, position)
        self._size += len(records)
        self._trust(position, self._size)

    def rewind(self, facts: SegmentFacts) -> None:
        """Return to these facts, from before the last records were adopted."""
        self._size, self._end, self._max_timestamp = facts.size, facts.end, facts.max_timestamp
        self._index.cut(facts.size)
        self._good = (min(self._good[0], facts.size), min(self._good[1], facts.size))

    # Damage

    @property
    def holes(self) -> tuple[Hole, ...]:
        """The known holes."""
        return self._holes

    def hole_at(self, offset: int) -> Hole | None:
        """The hole that contains this offset."""
        return next((hole for hole in self._holes if hole.first <= offset < hole.below), None)

    def _chunks(self, position: int, upto: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
        """The verified records of a part of the file, without known holes."""
        for start, end in stretches(self._holes, position, upto):
            yield from chunks(self._file, start, end, chunk_bytes=chunk_bytes)

    def _readable_end(self, position: int) -> int:
        """Where the records from this position end."""
        holes = self._holes
        return next((hole.position for hole in holes if hole.position >= position), self._size)

    def repair(self, first: Offset, data: Buffer) -> Offset:
        """Write whole records over damaged ones, durably; the offset behind them.

        They must be exactly those of the front of a hole: then a crash leaves the rest of the
        hole, and nothing but damaged bytes was ever written over. Returns `first` if they are not.
        """
        if self.hole_at(first) is None:
            self.rebuild_index(self._end)
        hole, found = self.hole_at(first), scan(data, first)
        following = Offset(first + len(found.columns))
        if following == first or found.end != len(data):
            return first
        if hole is None:
            # Every record was just verified: the disk reads well again.
            return min(following, self._readable_below(first))
        if hole.first != first:
            return first
        end = hole.position + len(data)
        fits = end == hole.end if following == hole.below else end < hole.end
        if following > hole.below or not fits:
            # Compaction left other records there than here.
            return first
        self._file.write_at(hole.position, data)
        self._file.sync()
        self.rebuild_index(self._end)
        return first if self.hole_at(first) is not None else following

    def _readable_below(self, offset: Offset) -> Offset:
        """The first offset behind this one that is in a hole; the end if there is none."""
        return next((hole.first for hole in self._holes if hole.first > offset), self._end)

    # Reads

    def read(self, offset: int, below: int, bytes_max: int) -> memoryview:
        """Complete records from the first at or after `offset`, all below `below`.

        At least one, unless compaction removed all of these offsets. Raises Corrupt when the bytes
        are invalid or do not fit the index.
        """
        entry = self._hints.get(offset) or self._index.floor(offset)
        place = self._place(entry, below, bytes_max)
        window, available = place.window, place.available
        while True:
            data = memoryview(read_sectors(self._file, entry.position, min(window, available)))
            bounds = self._bounds(data, entry, offset, below, bytes_max)
            if bounds is not None:
                break
            if window >= available:
                raise Corrupt(entry.position, "truncated")
            window *= 2
        start, end = bounds
        # Skipped records are verified too, and so is one from `below` on that ends an empty
        # read: with a wrong offset they would hide requested records.
        checked = end if start < end else start + slice_records(data[start:], 0, _OFFSET_MAX, 1).end
        self._check_sums(data, entry.position, checked)
        return data[start:end]

    def _place(self, entry: IndexEntry, below: int, bytes_max: int) -> ReadPlace:
        """What to read from a mark on, for so many bytes of records below an offset."""
        window = bytes_max + 2 * self._interval
        beyond = self._index.position_from(below)
        if beyond is not None:
            # Nothing from there on is wanted, whatever the byte limit.
            window = min(window, max(beyond - entry.position, self._interval))
        readable_end = self._readable_end(entry.position) if self._holes else self._size
        return ReadPlace(entry.position, window, readable_end - entry.position)

    def place_to_read(self, offset: int, below: int, bytes_max: int) -> ReadPlace:
        """Where to read records by oneself, who then verifies them."""
        return self._place(self._index.floor(offset), below, bytes_max)

    def _bounds(
        self, data: memoryview, entry: IndexEntry, offset: int, below: int, bytes_max: int
    ) -> tuple[int, int] | None:
        """Where the wanted records start and end in `data`; None if none is complete."""
        first = _offset_at(data, 0)
        if first < 0 or entry.offset not in {first, _ANY_OFFSET}:
            raise Corrupt(entry.position, "index")
        head = slice_records(data, offset, below, 1)
        if head.start == head.end:
            return (head.start, head.start) if head.reached else None
        # Hop from the last mark in range, not over every record: marks are 4 KiB apart.
        goal = entry.position + head.start + bytes_max
        last = self._index.floor_position(goal)
        if last.offset >= below:
            last = self._index.floor(below - 1)
        anchor = last.position - entry.position
        if anchor <= head.start or anchor + HEADER_SIZE > len(data):
            tail = slice_records(data[head.start :], offset, below, bytes_max)
            end, following = head.start + tail.end, tail.next_offset
        else:
            if _offset_at(data, anchor) != last.offset:
                raise Corrupt(last.position, "index")
            room = bytes_max - (anchor - head.start)
            tail = slice_records(data[anchor:], last.offset, below, room)
            fits = tail.end <= room
            end = anchor + tail.end if fits else anchor
            following = tail.next_offset if fits else last.offset
        self._remember(following, entry.position + end)
        return head.start, end

    def _remember(self, offset: int, position: int) -> None:
        """Cache where this read ended: a reader that continues there needs no search.

        The record there may have a higher offset, if compaction removed some.
        """
        if len(self._hints) >= _HINTS_MAX:
            self._hints.clear()
        self._hints[offset] = IndexEntry(_ANY_OFFSET, position)

    def _check_sums(self, data: memoryview, position: int, end: int) -> None:
        low, high = position, position + end
        if self._good[0] <= low and high <= self._good[1]:
            return
        try:
            sums(data, 0, end)
        except Corrupt as corrupt:
            raise Corrupt(position + corrupt.position, corrupt.reason) from None
        self._trust(low, high)

    def _trust(self, low: int, high: int) -> None:
        """Track one range of verified bytes: the union with this one, or the longer of the two."""
        good_low, good_high = self._good
        if low <= good_high and high >= good_low:
            self._good = (min(good_low, low), max(good_high, high))
        elif high - low > good_high - good_low:
            self._good = (low, high)

    def place_of(self, offset: int) -> IndexEntry:
        """The end of the records below `offset`: the offset after the last, and the position.

        The segment is truncated there, so this uses an index that this process built. Raises
        Corrupt within damage, where the bytes of a record cannot be located.
        """
        if not self._is_index_ours:
            self.rebuild_index()
        entry = self._index.floor(offset)
        end = self._base if entry.position == 0 else entry.offset
        position = entry.position
        behind = [hole for hole in self._holes if hole.position >= position]
        for hole in (*behind, None):
            for chunk in chunks(
                self._file, position, self._size if hole is None else hole.position
            ):
                for index, found in enumerate(chunk.columns.offsets):
                    if found >= offset:
                        return IndexEntry(end, chunk.position + chunk.columns.positions[index])
                    end = Offset(found + 1)
            if hole is not None:
                if offset <= hole.first:
                    return IndexEntry(end, hole.position)
                if offset < hole.below:
                    raise Corrupt(hole.position, hole.reason)
                end, position = hole.below, hole.end
        return IndexEntry(end, self._size)

    def find(self, timestamp: int, offset: int, below: int, bytes_max: int) -> Offset | None:
        """The first offset in [`offset`, `below`) with this `timestamp` or a later one.

        The records cannot prove a time mark right, so only an index that this process built is
        used. Raises ScanNeeded without one, or when more than about `bytes_max` would be read.
        """
        if not self._size:
            return None
        if not self._is_index_ours:
            raise ScanNeeded
        by_time, by_offset = self._index.floor_time(timestamp), self._index.floor(offset)
        first = max(by_time.position, by_offset.position)
        for chunk in self._chunks(first, self._size, 16 * self._interval):
            if chunk.position - first > bytes_max:
                raise ScanNeeded
            for index, stamp in enumerate(chunk.columns.timestamps):
                found = chunk.columns.offsets[index]
                if found >= offset and stamp >= timestamp:
                    return Offset(found) if found < below else None
        return None


def _offset_at(data: Buffer, position: int) -> int:
    """The offset in the record header at `position`; -1 if there is no header."""
    if len(data) - position < HEADER_SIZE:
        return -1
    magic, offset = _MAGIC_AND_OFFSET.unpack_from(data, position)
    return int(offset) if magic == _MAGIC else -1
