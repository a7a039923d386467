"""Everything that a journal amounts to, told over many turns: anew in its log, or in a snapshot.

A statement asks for changes a few at a time; each is true when it is told. What happens in between
is journaled as always, behind the beginning of the statement, so both may be read in order.

Invariant: what was told, followed by every change from the beginning of the statement on, amounts
to the same as the whole journal. A statement that ends early changes nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from goqueue.broker.journal import Journal, Snapshot, SnapshotPiece, piece_name
from goqueue.model import Save, Timestamp

__all__ = ["Restatement", "SnapshotWriter", "Statement"]

# A start takes in one piece per turn.
_PIECE_BYTES = 256 * 1024

C = TypeVar("C")


class Statement(Protocol):
    """A statement on its way."""

    def advance(self) -> int | None:
        """Tell the next changes; their size in bytes, or None: that was all of it."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether the disk should catch up first."""
        ...


class Restatement(Generic[C]):
    """Everything again, from a new segment on; what is before it goes afterwards."""

    def __init__(self, journal: Journal[C], steps: Iterator[Sequence[C]]) -> None:
        self._journal = journal
        self._steps = steps
        self._begin = journal.begin_restating()
        self._size = 0

    @property
    def is_behind(self) -> bool:
        return self._journal.is_behind

    def advance(self) -> int | None:
        changes = next(self._steps, None)
        if changes is None:
            self._journal.end_restating(self._begin, self._size)
            return None
        size = len(msgspec.json.encode(changes))
        self._size += size
        self._journal.note(changes)
        return size


class SnapshotWriter(Generic[C]):
    """A snapshot in files of bounded size, the one that names them last.

    Each leaves when all that it says is committed. A crash leaves the snapshot before it whole:
    the pieces of two neighbours have different names.
    """

    def __init__(
        self, journal: Journal[C], steps: Iterator[Sequence[C]], began_at: Timestamp
    ) -> None:
        self._journal = journal
        self._steps = steps
        self._id = int(began_at)
        self._slot = 1 - journal.slot
        self._upto = journal.begin_snapshot()
        self._pieces = 0
        self._encoded: list[bytes] = []
        self._size = 0

    @property
    def is_behind(self) -> bool:
        return self._journal.is_behind

    def advance(self) -> int | None:
        changes = next(self._steps, None)
        if changes is None:
            self._finish()
            return None
        encoded = [msgspec.json.encode(change) for change in changes]
        size = sum(map(len, encoded))
        if self._encoded and self._size + size > _PIECE_BYTES:
            self._save_piece()
        self._encoded += encoded
        self._size += size
        return size

    def _save_piece(self) -> None:
        piece = SnapshotPiece(id=self._id, changes=self._take())
        name = piece_name(self._journal.id, self._slot, self._pieces)
        self._journal.note([], [Save(name=name, data=msgspec.json.encode(piece))])
        self._pieces += 1

    def _take(self) -> msgspec.Raw:
        taken = msgspec.Raw(b"[" + b",".join(self._encoded) + b"]")
        self._encoded, self._size = [], 0
        return taken

    def _finish(self) -> None:
        snapshot = Snapshot(
            upto=self._upto,
            changes=self._take(),
            id=self._id,
            slot=self._slot,
            pieces=self._pieces,
        )
        if self._pieces:
            self._journal.slot = self._slot
        data = msgspec.json.encode(snapshot)
        self._journal.note([], [Save(name=self._journal.id.topic, data=data)])
