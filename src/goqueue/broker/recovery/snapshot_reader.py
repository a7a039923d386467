"""Snapshots of journals as a start takes them in: all pieces are looked at before one is applied.

A piece is applied per turn, so that a node that starts still answers whether it lives. A snapshot
of which anything is missing is passed over, and the journal is replayed instead: half of it would
say of some things what became of them later, and of others what was before.
"""

import msgspec

from goqueue.broker.journal import Journal, Snapshot, piece_name
from goqueue.broker.journal_changes import Change, TopicChange
from goqueue.broker.recovery.journaled_state import JournaledState
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.model import Load, LogId, Now, Offset, Timestamp

__all__ = ["SnapshotReader"]


class _SnapshotRead(msgspec.Struct):
    """A snapshot in pieces on its way."""

    journal: "Journal[TopicChange] | Journal[Change]"
    snapshot: Snapshot
    pieces: list[msgspec.Raw]
    applied: int = 0

    @property
    def awaited(self) -> str:
        """The name of the next piece."""
        return piece_name(self.journal.id, self.snapshot.slot, len(self.pieces))


class SnapshotReader:
    """Takes in the snapshots of journals, one after the other."""

    def __init__(self, state: NodeState, journaled_state: JournaledState) -> None:
        self._state = state
        self._journaled_state = journaled_state
        self._reading: _SnapshotRead | None = None

    @property
    def journal(self) -> LogId:
        """The journal whose snapshot is, or was, being taken in."""
        assert self._reading is not None
        return self._reading.journal.id

    def begin(
        self, journal: "Journal[TopicChange] | Journal[Change]", data: bytes | None
    ) -> Offset | None:
        """Where the journal is to be replayed from; None: pieces of its snapshot come first."""
        snapshot = None if data is None else journal.decode_snapshot(data)
        if snapshot is None:
            return journal.log.start
        self._reading = _SnapshotRead(journal, snapshot, [])
        if snapshot.pieces:
            journal.slot = snapshot.slot
            self._state.outbox.append(Load(name=self._reading.awaited))
            return None
        self._apply(self._reading, snapshot.changes)
        return Offset(snapshot.upto)

    def expects(self, name: str) -> bool:
        """Whether a piece of this name is awaited."""
        return self._reading is not None and name == self._reading.awaited

    def loaded(self, data: bytes | None, now: Now) -> Offset | None:
        """A piece is here, or is missing: see `begin`."""
        reading = self._reading
        assert reading is not None
        piece = reading.journal.decode_piece(data, reading.snapshot)
        if piece is None:
            return reading.journal.log.start
        reading.pieces.append(piece)
        if len(reading.pieces) < reading.snapshot.pieces:
            self._state.outbox.append(Load(name=reading.awaited))
        else:
            reading.pieces.append(reading.snapshot.changes)
            self._state.alarms.set(Errand.START, now.instant)
        return None

    def apply_piece(self, now: Now) -> Offset | None:
        """Become what the next piece says: see `begin`."""
        reading = self._reading
        assert reading is not None
        self._apply(reading, reading.pieces[reading.applied])
        reading.applied += 1
        if reading.applied < len(reading.pieces):
            self._state.alarms.set(Errand.START, now.instant)
            return None
        return Offset(reading.snapshot.upto)

    def _apply(self, reading: _SnapshotRead, piece: msgspec.Raw) -> None:
        changes = reading.journal.decode_changes(piece)
        assert changes is not None, "it was looked at before"
        for change in changes:
            self._journaled_state.apply(change, Timestamp(0))
