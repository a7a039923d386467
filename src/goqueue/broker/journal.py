"""A journal: an internal log that is the truth of a machine.

Takes changes that were decided and applied, makes one record of all that came in one turn, and
holds back what must not be seen before they are committed. Replay hands the same changes to the
same `apply`, so the live path and recovery are one.

Invariants
- Effects noted behind a change leave only when the change is committed, in order.
- One turn is one record: after a crash there is all of it or nothing. (A turn over 8 MiB, such as
  the deletion of a topic that thousands of groups read, becomes several; the start mends the rest.)
- A full or busy disk delays the journal and loses nothing of it: what was applied is written again,
  in the same order and so with the same offsets. Nobody who notes a change is ever refused.
- No change is larger than `CHANGE_BYTES_MAX`: what grows with users' data is stated in pieces.

- A change that nobody waits for is written with the next one that somebody does, or soon after: it
  never costs a record and a sync of its own while there is other traffic, and the order of changes
  stays that in which they were noted.

Cost per turn: one JSON encoding, one record, one sync that all turns of a group commit share.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from goqueue.broker.outbox import Later, Outbox, Prune
from goqueue.broker.turns import TurnBudget, take_all
from goqueue.log import Appended, Log
from goqueue.model import (
    RESERVED_PREFIX,
    VALUE_BYTES_MAX,
    Code,
    DiskEvent,
    Failed,
    Filled,
    Halt,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Refused,
    Timestamp,
)
from goqueue.records import build, decode, walk

__all__ = [
    "CHANGE_BYTES_MAX",
    "JOURNAL_SETTINGS",
    "Journal",
    "JournalLimits",
    "Snapshot",
    "SnapshotPiece",
    "piece_name",
]

# What fits into a record with the brackets around it. The largest is a group with all the names
# that it may have: some 7 MiB.
CHANGE_BYTES_MAX = VALUE_BYTES_MAX - 2

# Never retired by age or size: what is no longer needed is dropped after it was stated again.
JOURNAL_SETTINGS = LogSettings(
    retention_ns=None,
    retention_bytes=None,
    batches_in_flight_max=1 << 30,
    may_use_reserve=True,
)
_PENDING_MAX = 4096
_BEHIND_MAX = 16
_RECORD_BYTES = 1024 * 1024
_TURN_BYTES_MAX = 8 * 1024 * 1024
_RETRY_NS = 1_000_000_000
# How long, and how many, changes that nobody waits for wait for others.
_SOON_NS = 50_000_000
_SOON_MAX = 256
_RESERVED = RESERVED_PREFIX.encode()

C = TypeVar("C")


class JournalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a journal may become before a snapshot is kept, or everything is stated again.

    `turn_units` is how much of that one turn tells: see `TurnBudget`.
    """

    snapshot_bytes: int = 4 * 1024 * 1024
    restate_bytes: int = 64 * 1024 * 1024
    turn_units: int = 400


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a journal says below an offset, for a faster start.

    A large one is in pieces: files that are named by its slot and bear its id. What they say comes
    first.
    """

    upto: int
    changes: msgspec.Raw
    id: int = 0
    slot: int = 0
    pieces: int = 0


class SnapshotPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a snapshot."""

    id: int
    changes: msgspec.Raw


def piece_name(journal: LogId, slot: int, number: int) -> str:
    """The name of a piece of a snapshot. Two snapshots one after the other use different slots."""
    return f"{journal.topic}-{slot}-{number}"


class Turn(msgspec.Struct, Generic[C], frozen=True):
    """The changes of one record, when they were made, and where it stands."""

    changes: list[C]
    at: Timestamp
    offset: Offset


class _Pending(msgspec.Struct):
    """A record on its way to the disk, and what waits for it."""

    batch: bytearray
    next: Offset
    then: list[Later]


class Journal(Generic[C]):
    """One internal log, its changes, and what waits for them."""

    def __init__(
        self,
        log: Log,
        decoder: msgspec.json.Decoder[list[C]],
        outbox: Outbox,
        limits: JournalLimits,
        append: Callable[[bytearray, Now], Appended] | None = None,
    ) -> None:
        """`append` hands a record to a replicated log, and sees to the effects."""
        self._id = log.id
        self._log = log
        self._append_to_log = append or self._append_here
        self._limits = limits
        self._outbox = outbox
        self._decoder = decoder
        self._noted: list[C] = []
        self._then: list[Later] = []
        # The journals that something was noted in since they were written; this one is in it once.
        self._unwritten: list[LogId] = []
        self._is_unwritten = False
        self._noted_soon: list[C] = []
        self._soon_until: Instant | None = None
        self._needs_proof = False
        self._pending: deque[_Pending] = deque()
        self._full_until: Instant | None = None
        self._stated_bytes = 0
        self._is_restating = False
        # Where the pieces of the newest snapshot are.
        self.slot = 1
        self._saved_at_bytes = 0
        self._written_bytes = 0

    @property
    def id(self) -> LogId:
        return self._id

    @property
    def log(self) -> Log:
        return self._log

    @property
    def is_quiet(self) -> bool:
        """Whether all that was noted is committed."""
        has_some = self._pending or self._noted or self._then or self._noted_soon
        return not has_some

    @property
    def is_behind(self) -> bool:
        """Whether so much is not committed that what nobody waits for should wait."""
        return len(self._pending) > _BEHIND_MAX or self._full_until is not None

    @property
    def noted(self) -> int:
        """How many changes were noted and not yet written."""
        return len(self._noted)

    # Writing

    def check_room(self) -> None:
        """Refuse a command whose changes could not be made durable soon."""
        if self._full_until is not None:
            raise Refused(Code.STORAGE_FULL)
        if len(self._pending) >= _PENDING_MAX:
            raise Refused(Code.LOG_BUSY, reason="the journal is busy")

    def note(self, changes: Iterable[C], then: Iterable[Later] = ()) -> None:
        """Make changes durable; `then` leaves when they, and all noted before, are committed."""
        if self._noted_soon:
            self._hurry()
        self._noted.extend(changes)
        self._then.extend(then)
        self._report()

    def report_to(self, unwritten: list[LogId]) -> None:
        """Put this journal into a list whenever something is noted, until it is flushed."""
        self._unwritten = unwritten
        if self._is_unwritten:
            unwritten.append(self._id)

    def _report(self) -> None:
        if not self._is_unwritten:
            self._is_unwritten = True
            self._unwritten.append(self._id)

    def prove(self) -> None:
        """Let what waits in this turn wait for a commit also if nothing is changed.

        A broker that was deposed and does not know it commits nothing, so it answers nothing.
        """
        self._needs_proof = True

    def note_soon(self, changes: Iterable[C], now: Now) -> None:
        """Make changes durable with the next ones; `next_deadline` says when at the latest."""
        if self._soon_until is None:
            self._soon_until = Instant(now.instant + _SOON_NS)
        self._noted_soon.extend(changes)
        if len(self._noted_soon) >= _SOON_MAX:
            self._hurry()

    def _hurry(self) -> None:
        """Write in this turn what could have waited."""
        self._noted.extend(self._noted_soon)
        self._noted_soon.clear()
        self._soon_until = None
        self._report()

    def flush(self, now: Now) -> list[Later]:
        """End the turn: what was noted becomes one record. What need not wait is returned."""
        self._is_unwritten = False
        needs_proof, self._needs_proof = self._needs_proof, False
        if not self._noted and not (needs_proof and self._then and not self._pending):
            if not self._then:
                return []
            released = take_all(self._then)
            if self._pending:
                self._pending[-1].then.extend(released)
                return []
            return released
        values = [msgspec.json.encode(self._noted)]
        if len(values[0]) > _TURN_BYTES_MAX:
            # Only a turn that changes very many groups at once, each independent of the others.
            values = list(_chunks(self._noted))
        self._noted.clear()
        for value in values:
            self._write(value, now)
        self._pending[-1].then.extend(take_all(self._then))
        return []

    def _write(self, value: bytes, now: Now) -> None:
        pending = _Pending(build([Message(value=value)]), Offset(0), [])
        self._pending.append(pending)
        self._written_bytes += len(pending.batch)
        if self._full_until is None:
            self._append(pending, now)

    def _append(self, pending: _Pending, now: Now) -> bool:
        """Hand a record to the log; False: not now, and it is tried again."""
        try:
            pending.next = self._append_to_log(pending.batch, now).next
        except Refused:
            # No space, or a segment is being set aside, or the log has failed and the node halts.
            self._full_until = Instant(now.instant + _RETRY_NS)
            return False
        return True

    def _append_here(self, batch: bytearray, now: Now) -> Appended:
        appended = self._log.append(batch, now)
        self._outbox.extend(appended.effects)
        return appended

    # What the disk reports

    def handle(self, event: DiskEvent, now: Now) -> list[Later]:
        """Learn what the disk did: what waited for it is returned."""
        self._outbox.extend(self._log.handle(event, now))
        if isinstance(event, Failed):
            # What was applied can no longer be made durable: only a restart makes the node
            # forget it.
            self._outbox.append(Halt(reason=f"{self._id}: {event.reason}"))
            return []
        if isinstance(event, Filled):
            self._full_until = Instant(now.instant + _RETRY_NS)
        return self.committed()

    def committed(self) -> list[Later]:
        """More of the log may be committed: what waited for that is returned."""
        released: list[Later] = []
        committed = self._log.high_watermark
        while self._pending and 0 < self._pending[0].next <= committed:
            released.extend(self._pending.popleft().then)
        return released

    def next_deadline(self) -> Instant | None:
        """When what waits for others is written, or what could not be written is tried again."""
        if self._soon_until is None or self._full_until is None:
            return self._soon_until if self._full_until is None else self._full_until
        return min(self._soon_until, self._full_until)

    def expire(self, now: Now, budget: TurnBudget) -> None:
        """Write what waited for others, and again what found no space.

        Of the latter as much as the turn may do; the rest comes next.
        """
        if self._soon_until is not None and now.instant >= self._soon_until:
            self._hurry()
        if self._full_until is None or now.instant < self._full_until:
            return
        end = self._log.end
        missing = [each for each in self._pending if each.next == 0 or each.next > end]
        for pending in missing:
            # Where it was before it was taken back says nothing any more.
            pending.next = Offset(0)
        count = max(1, budget.left // 2)
        budget.spend(min(count, len(missing)))
        # As long as something is missing it is full: what is noted meanwhile comes behind.
        self._full_until = None
        for pending in missing[:count]:
            if not self._append(pending, now):
                return
        if missing[count:]:
            self._full_until = now.instant

    # Replay

    def decode(self, data: memoryview) -> Iterator["Turn[C]"]:
        """The changes of stored records, a turn at a time."""
        for position in walk(data).positions:
            record = decode(data, position)
            is_ours = record.value is not None and not record.key.startswith(_RESERVED)
            changes = self._decoder.decode(record.value or b"") if is_ours else []
            yield Turn(changes, Timestamp(record.timestamp), Offset(record.offset))

    def decode_snapshot(self, data: bytes) -> Snapshot | None:
        """The snapshot that these bytes are, if they are one and it belongs to this log."""
        try:
            snapshot = msgspec.json.decode(data, type=Snapshot)
        except msgspec.MsgspecError:
            return None
        if not self._log.start <= snapshot.upto <= self._log.end:
            return None
        return snapshot if self.decode_changes(snapshot.changes) is not None else None

    def decode_piece(self, data: bytes | None, snapshot: Snapshot) -> msgspec.Raw | None:
        """What a piece says, if it is one of this snapshot."""
        try:
            piece = msgspec.json.decode(data or b"", type=SnapshotPiece)
        except msgspec.MsgspecError:
            return None
        is_ours = piece.id == snapshot.id and self.decode_changes(piece.changes) is not None
        return piece.changes if is_ours else None

    def decode_changes(self, changes: msgspec.Raw) -> Sequence[C] | None:
        """What a part of a snapshot says; None if that makes no sense."""
        try:
            return self._decoder.decode(changes)
        except msgspec.MsgspecError:
            return None

    # Staying small: see `Restatement` and `SnapshotWriter`

    @property
    def wants_snapshot(self) -> bool:
        return self._written_bytes - self._saved_at_bytes >= self._limits.snapshot_bytes

    def begin_snapshot(self) -> Offset:
        """A snapshot is being made: what is written from here on is read behind it."""
        self._saved_at_bytes = self._written_bytes
        return self._log.end

    @property
    def wants_restating(self) -> bool:
        """Whether most of the log only says what was said again since."""
        is_long = self._log.size >= max(self._limits.restate_bytes, 4 * self._stated_bytes)
        return is_long and not self._is_restating and self._full_until is None

    def begin_restating(self) -> Offset:
        """Everything is being stated again, from a new segment on: where that begins."""
        self._is_restating = True
        self._outbox.extend(self._log.begin_segment())
        return self._log.end

    def end_restating(self, begin: Offset, size: int) -> None:
        """Everything was stated again: what is before goes, when that is committed."""
        self._stated_bytes = size
        self.note([], [Prune(journal=self._id, offset=begin)])

    def drop_below(self, offset: Offset) -> None:
        self._is_restating = False
        self._outbox.extend(self._log.drop_below(offset))


def _chunks(changes: Iterable[object]) -> Iterator[bytes]:
    """JSON lists of changes, each small enough for one record."""
    encoded: list[bytes] = []
    size = 0
    for change in changes:
        piece = msgspec.json.encode(change)
        assert len(piece) <= CHANGE_BYTES_MAX, f"a {type(change).__name__} of {len(piece)} bytes"
        if encoded and size + len(piece) > _RECORD_BYTES:
            yield b"[" + b",".join(encoded) + b"]"
            encoded, size = [], 0
        encoded.append(piece)
        size += len(piece)
    if encoded:
        yield b"[" + b",".join(encoded) + b"]"
