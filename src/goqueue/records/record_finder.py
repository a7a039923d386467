# cython: boundscheck=False, wraparound=False
"""Records among pieces of stored ones, found by their offsets.

Who asks for them in the order in which they stand pays for one pass; who does not, for an index of
the piece, 16 bytes a record, that stays with it.

The bytes were verified when they arrived. Every step is bounds checked all the same. Offsets must
rise within a piece, unless each record is asked for in its turn.
"""

from array import array
from collections.abc import Iterable, Sequence

from goqueue.records.cursor import Cursor
from goqueue.records.layout import Buffer

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import BAD_OFFSET, OK

__all__ = ["IndexedRecords", "RecordFinder"]

_NONE = array("q", bytes(8))


class IndexedRecords:
    """Stored records, found one after the other or by an index that is made when it is needed."""

    __slots__ = ("_count", "_next", "_offset", "_offsets", "_position", "_positions", "cursor")

    def __init__(self, piece: Buffer) -> None:
        self.cursor = Cursor(piece)
        # The record that was found last, and where the next one begins.
        self._offset = -1
        self._position = 0
        # The index, if there is one, and which entry of it follows the one that was found last.
        self._count = -1
        self._next = 0
        self._offsets = self._positions = _NONE

    def seek(self, offset: int) -> bool:
        """Move the cursor to the record with this offset; False if there is none."""
        if self._count < 0:
            cursor = self.cursor
            previous = self._offset
            while self._position < cursor.size:
                reason = cursor.skim(self._position)
                if reason == OK and cursor.offset != offset and cursor.offset <= previous:
                    reason = BAD_OFFSET
                if reason != OK:
                    raise cursor.corrupt(reason)
                if cursor.offset > offset:
                    break
                self._offset = previous = cursor.offset
                self._position = cursor.end
                if previous == offset:
                    return True
            self._index()
        return self._search(offset)

    def _index(self) -> None:
        """Note where every record begins: what is wanted is not in order."""
        cursor = self.cursor
        reason = cursor.hop_all()
        if reason != OK:
            raise cursor.corrupt(reason)
        self._count = cursor.count
        # One more than there are: there is no view of nothing.
        self._offsets = array("q", bytes(8 * self._count + 8))
        self._positions = array("q", bytes(8 * self._count + 8))
        position = 0
        previous = -1
        for index in range(self._count):
            reason = cursor.rise(position, previous)
            if reason != OK:
                raise cursor.corrupt(reason)
            previous = cursor.offset
            self._offsets[index] = previous
            self._positions[index] = position
            position = cursor.end

    def _search(self, offset: int) -> bool:
        if not self._count or offset < self._offsets[0] or offset > self._offsets[self._count - 1]:
            return False
        index = self._next
        if index >= self._count or self._offsets[index] != offset:
            # Where nothing was removed, every offset is there.
            index = min(offset - self._offsets[0], self._count - 1)
        if self._offsets[index] != offset:
            index = 0
            after = self._count
            while index < after:
                middle = (index + after) // 2
                if self._offsets[middle] < offset:
                    index = middle + 1
                else:
                    after = middle
            if index >= self._count or self._offsets[index] != offset:
                return False
        self._next = index + 1
        reason = self.cursor.hop(self._positions[index])
        if reason != OK:
            raise self.cursor.corrupt(reason)
        return True


class RecordFinder:
    """Finds records by their offsets in pieces of stored ones; offsets rise within a piece."""

    __slots__ = ("_last", "_pieces")

    def __init__(self, pieces: Iterable[Buffer | IndexedRecords]) -> None:
        self._pieces = [
            piece if isinstance(piece, IndexedRecords) else IndexedRecords(piece)
            for piece in pieces
        ]
        self._last = self._pieces[0] if self._pieces else IndexedRecords(b"")

    def find(self, offset: int) -> Cursor:
        """The record with this offset, under a cursor."""
        if not self._last.seek(offset):
            for piece in self._pieces:
                if piece.seek(offset):
                    self._last = piece
                    break
            else:
                # A lease without its bytes would be a message that nobody can settle.
                raise KeyError(offset)
        return self._last.cursor

    def gather(self, offsets: Sequence[int], size: int) -> bytearray | None:
        """Copy the records with these offsets in this order.

        None if one of them is missing, or if they are not `size` bytes together.
        """
        gathered = bytearray(size)
        into = Cursor(gathered)
        for offset in offsets:
            try:
                cursor = self.find(offset)
            except KeyError:
                return None
            if cursor.end - cursor.position > into.size - into.position:
                return None
            cursor.copy(into)
        return gathered if into.position == into.size else None
