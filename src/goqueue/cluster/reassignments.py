"""Reassignments: partitions that move to other brokers, and what became of earlier moves.

Owns the record of each reassignment: what moves where, how fast, and how each move ended. What a
partition is meanwhile says `PartitionTable`: its `target` is set when its move begins, and is its
replicas when the move is over. Decides nothing: see `partition_moves`.

Invariants
- A partition is in one reassignment at a time that has not ended.
- A move begins once and ends once. It ends only if its partition is as the controller knew it
  (compare and set on the partition version), or is gone.
- A move that is given up leaves the replicas as they were.

Cost: a change touches the moves that it names, and copies the record of their reassignment: at most
`MOVES_MAX` entries. Bounds: `RUNNING_MAX` reassignments run, the last `ENDED_MAX` are remembered.
"""

import enum
from collections.abc import Iterator, Mapping

import msgspec

from goqueue.cluster.partitions import PartitionId, PartitionTable

__all__ = [
    "ENDED_MAX",
    "MOVES_MAX",
    "RUNNING_MAX",
    "MoveEnd",
    "MoveState",
    "PartitionMove",
    "Reassignment",
    "ReassignmentCancelled",
    "ReassignmentChange",
    "ReassignmentEnded",
    "ReassignmentStarted",
    "ReassignmentTable",
    "ReplicaMovesBegun",
]

# So many partitions are in one reassignment, and so many reassignments run at once.
MOVES_MAX = 1_000
RUNNING_MAX = 4
# So many that have ended are remembered, and so many moves of theirs.
ENDED_MAX = 20
_ENDED_MOVES_MAX = 2_000


class MoveState(enum.StrEnum):
    """What became of a move so far."""

    PENDING = "pending"
    BEGUN = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in {MoveState.PENDING, MoveState.BEGUN}


class PartitionMove(msgspec.Struct, frozen=True, array_like=True):
    """One partition of a reassignment: from its replicas `old` to `new`.

    `name` is that of its topic, which may be gone meanwhile. `sent` are the bytes that leaders sent
    to learners, as far as they said so, when the move was over.
    """

    topic: int
    partition: int
    name: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    state: MoveState = MoveState.PENDING
    reason: str = ""
    sent: int = 0

    @property
    def where(self) -> PartitionId:
        return PartitionId(self.topic, self.partition)


class ReassignmentStarted(msgspec.Struct, frozen=True, kw_only=True, tag="reassignment_started"):
    """An operator wants partitions elsewhere. All moves wait for their turn.

    A broker sends learners at most `bytes_per_second` (0: no limit). A move that takes longer than
    `timeout_s` from its beginning is given up.
    """

    number: int
    moves: tuple[PartitionMove, ...]
    bytes_per_second: int
    timeout_s: int
    started_at: int


class ReplicaMovesBegun(msgspec.Struct, frozen=True, kw_only=True, tag="replica_moves_begun"):
    """It is the turn of these partitions: whoever is new in their targets begins to copy them."""

    number: int
    partitions: tuple[tuple[int, int], ...]


class MoveEnd(msgspec.Struct, frozen=True, array_like=True):
    """How the move of a partition ended, if the partition has still this `version`."""

    topic: int
    partition: int
    version: int
    state: MoveState
    reason: str = ""
    sent: int = 0


class ReassignmentEnded(msgspec.Struct, frozen=True, kw_only=True, tag="reassignment_ended"):
    """Moves of a reassignment are over; the reassignment is, when its last one is."""

    number: int
    ends: tuple[MoveEnd, ...]
    at: int


class ReassignmentCancelled(
    msgspec.Struct, frozen=True, kw_only=True, tag="reassignment_cancelled"
):
    """An operator does not want a reassignment any more: its moves are given up."""

    number: int
    at: int


ReassignmentChange = (
    ReassignmentStarted | ReplicaMovesBegun | ReassignmentEnded | ReassignmentCancelled
)


class Reassignment(msgspec.Struct, frozen=True, kw_only=True):
    """A reassignment and its moves, in the order in which they were given."""

    number: int
    moves: tuple[PartitionMove, ...]
    bytes_per_second: int
    timeout_s: int
    started_at: int
    cancelled_at: int = 0
    ended_at: int = 0

    @property
    def is_over(self) -> bool:
        return self.ended_at > 0


class ReassignmentTable:
    """The reassignments of a cluster as of one version."""

    def __init__(self) -> None:
        self._known: dict[int, Reassignment] = {}
        # The partitions that are in a reassignment which runs, with its number.
        self._moving: dict[PartitionId, int] = {}
        self.next_number = 1

    def __iter__(self) -> Iterator[Reassignment]:
        """All that are known, oldest first."""
        return iter(self._known.values())

    def get(self, number: int) -> Reassignment | None:
        return self._known.get(number)

    @property
    def running(self) -> list[Reassignment]:
        """Those that have not ended, oldest first."""
        return [each for each in self._known.values() if not each.is_over]

    @property
    def moving(self) -> Mapping[PartitionId, int]:
        """The partitions of running reassignments whose moves are not over, with the numbers."""
        return self._moving

    # Changing

    def apply(self, change: ReassignmentChange, table: PartitionTable, version: int) -> None:
        """Become what a change says, with its partitions; one that came too late is nothing."""
        match change:
            case ReassignmentStarted():
                self._start(change)
            case ReplicaMovesBegun():
                self._begin(change, table, version)
            case ReassignmentEnded():
                self._end(change, table, version)
            case ReassignmentCancelled(number=number):
                found = self._known.get(number)
                if found is not None and not found.is_over and not found.cancelled_at:
                    self._known[number] = msgspec.structs.replace(found, cancelled_at=change.at)

    def _start(self, change: ReassignmentStarted) -> None:
        if change.number in self._known or any(each.where in self._moving for each in change.moves):
            return
        self._known[change.number] = Reassignment(
            number=change.number,
            moves=change.moves,
            bytes_per_second=change.bytes_per_second,
            timeout_s=change.timeout_s,
            started_at=change.started_at,
        )
        self._moving.update((each.where, change.number) for each in change.moves)
        self.next_number = max(self.next_number, change.number + 1)

    def _begin(self, change: ReplicaMovesBegun, table: PartitionTable, version: int) -> None:
        found = self._known.get(change.number)
        if found is None:
            return
        wanted = {PartitionId(*each) for each in change.partitions}
        moves = tuple(
            msgspec.structs.replace(move, state=MoveState.BEGUN)
            if move.where in wanted
            and move.state is MoveState.PENDING
            and table.set_target(move.where, move.new, version)
            else move
            for move in found.moves
        )
        self._known[change.number] = msgspec.structs.replace(found, moves=moves)

    def _end(self, change: ReassignmentEnded, table: PartitionTable, version: int) -> None:
        found = self._known.get(change.number)
        if found is None:
            return
        ends = {PartitionId(each.topic, each.partition): each for each in change.ends}
        moves = tuple(
            _ended(move, ends[move.where], table, version)
            if move.where in ends and not move.state.is_over
            else move
            for move in found.moves
        )
        for move in moves:
            # A later reassignment may move again what this one has moved.
            if move.state.is_over and self._moving.get(move.where) == found.number:
                del self._moving[move.where]
        is_over = all(move.state.is_over for move in moves)
        ended_at = max(1, change.at) if is_over else 0
        self._known[change.number] = msgspec.structs.replace(found, moves=moves, ended_at=ended_at)
        self._forget_old()

    def _forget_old(self) -> None:
        ended = [each for each in self._known.values() if each.is_over]
        count = sum(len(each.moves) for each in ended)
        while len(ended) > ENDED_MAX or (len(ended) > 1 and count > _ENDED_MOVES_MAX):
            oldest = ended.pop(0)
            count -= len(oldest.moves)
            del self._known[oldest.number]

    # Statements

    def stated(self) -> tuple[Reassignment, ...]:
        return tuple(self._known.values())

    def adopt(self, stated: tuple[Reassignment, ...]) -> None:
        """Become what a statement says; the table is empty before."""
        for each in stated:
            self._known[each.number] = each
            self._moving.update(
                (move.where, each.number) for move in each.moves if not move.state.is_over
            )


def _ended(move: PartitionMove, end: MoveEnd, table: PartitionTable, version: int) -> PartitionMove:
    """The move as it ended; as it is if its partition has changed meanwhile."""
    where = move.where
    if move.state is MoveState.PENDING or table.get(*where) is None:
        is_done = end.state is not MoveState.COMPLETED
    elif end.state is MoveState.COMPLETED:
        is_done = table.adopt_target(where, end.version, version)
    else:
        is_done = table.drop_target(where, end.version, version)
    if not is_done:
        return move
    return msgspec.structs.replace(move, state=end.state, reason=end.reason, sent=end.sent)
