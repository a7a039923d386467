"""The controller's side of reassignments: commands of operators, and the next step of each move.

Decides by `cluster/partition_moves` on the committed image, so the next controller goes on where
this one ended. Only the time that a move may take is this controller's own: it begins anew with
another one.

Invariants
- A command is answered when its record is committed; an unknown outcome is reported as such.
- A reassignment that begins is possible as far as the image says: its topics, partitions and nodes
  exist, its nodes live, its partitions do not move, and enough replicas stay for the minimum.

Crash points of a move, each met by the simulator: target committed | learner made | in the ISR |
leadership transferred | replicas switched | old copies removed. The image says at each which step
is next; what a broker keeps that the image does not name goes when it follows, or when it starts.

Cost: one pass over the moves that are not over for each version of the image, and twice a second.
Bound: `_REQUESTS_MAX` commands; see `ReassignmentTable` for the rest.
"""

from collections import deque

import msgspec

from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.cluster.leader_transfers import LeaderTransfers
from goqueue.broker.cluster.level_gate import audited
from goqueue.broker.cluster.move_progress import MoveProgressBoard, reassignment_id
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    MOVES_MAX,
    RUNNING_MAX,
    MetadataChange,
    MoveEnd,
    MoveState,
    PartitionId,
    PartitionMove,
    Reassignment,
    ReassignmentCancelled,
    ReassignmentEnded,
    ReassignmentStarted,
    begin_moves,
    decide_move,
)
from goqueue.model import (
    MILLISECOND,
    SECOND,
    Answer,
    Code,
    Instant,
    Now,
    Refused,
    RequestId,
)
from goqueue.model.requests import CancelReassignment, StartReassignment, WantedMove
from goqueue.security import Admitted, FieldChange

__all__ = ["Reassigner"]

_REQUESTS_MAX = 64
_LOOK_NS = 500 * MILLISECOND
# So long a move that is over waits for its leader to say what it sent.
_REPORT_NS = SECOND
_TIMEOUT_S_MAX = 7 * 24 * 3600


class _Request(msgspec.Struct, frozen=True):
    """A command that is not decided; `admitted` is None for a node without authentication."""

    request: RequestId
    command: StartReassignment | CancelReassignment
    admitted: Admitted | None


class Reassigner:
    """Moves partitions while this broker leads the metadata log."""

    def __init__(
        self,
        state: NodeState,
        metadata: ClusterMetadata,
        board: MoveProgressBoard,
        transfers: LeaderTransfers,
    ) -> None:
        self._state = state
        self._metadata = metadata
        self._board = board
        self._transfers = transfers
        self._requests: deque[_Request] = deque()
        # Callers that wait until it is committed that a reassignment is cancelled.
        self._cancelling: list[tuple[RequestId, int]] = []
        # Since when this controller knows that a move is under way.
        self._since: dict[PartitionId, Instant] = {}
        # With what the last look found nothing to do, and when to look again all the same.
        self._settled: tuple[int, frozenset[str]] | None = None
        self._look_at = Instant(0)

    # Commands

    def request(self, request: RequestId, command: StartReassignment | CancelReassignment) -> None:
        """An operator wants partitions elsewhere, or does not want it any more."""
        if len(self._requests) >= _REQUESTS_MAX:
            raise Refused(Code.LOG_BUSY, reason="the metadata log is busy")
        admitted = self._state.access.note_command()
        self._requests.append(_Request(request, command, admitted))

    def resign(self, refusal: Refused) -> None:
        """This broker leads no longer: the next controller goes on."""
        while self._requests:
            self._state.outbox.answer(self._requests.popleft().request, refusal)
        for request, _ in self._cancelling:
            self._state.outbox.answer(request, Refused(Code.REPLICATION_FAILED))
        self._cancelling.clear()
        self._since.clear()
        self._settled = None

    # Decisions

    def decide(self, live: frozenset[str], answers: list[Answer], now: Now) -> list[MetadataChange]:
        """The next steps, for one record."""
        image = self._metadata.image
        self._answer_cancelled()
        changes = self._decide_request(live, answers, now)
        if not image.reassignments.moving:
            self._since.clear()
            return changes
        known = (image.version, live)
        if not changes and self._settled == known and now.instant < self._look_at:
            return []
        cancelled = {each.number for each in changes if isinstance(each, ReassignmentCancelled)}
        steps: list[MetadataChange] = [*begin_moves(image.reassignments, image.table)]
        for each in image.reassignments.running:
            ends = self._end_moves(each, live, now, is_cancelled=each.number in cancelled)
            if ends:
                steps.append(ReassignmentEnded(number=each.number, ends=ends, at=now.wall))
        self._settled = None if changes or steps else known
        self._look_at = Instant(now.instant + _LOOK_NS)
        return [*changes, *steps]

    def _end_moves(
        self, found: Reassignment, live: frozenset[str], now: Now, *, is_cancelled: bool
    ) -> tuple[MoveEnd, ...]:
        image = self._metadata.image
        ends: list[MoveEnd] = []
        for move in found.moves:
            if move.state.is_over:
                self._since.pop(move.where, None)
                continue
            state = image.table.get(*move.where)
            topic = image.table.topics.get(move.topic)
            step = decide_move(
                move,
                state,
                registered=image.brokers.keys(),
                live=live,
                minimum=1 if topic is None else topic.config.min_insync_replicas,
                give_up=self._give_up(found, move, now, is_cancelled=is_cancelled),
            )
            if step.end is not None:
                sent = self._board.sent(move.where)
                since = self._since.get(move.where, now.instant)
                is_told = sent or now.instant - since >= _REPORT_NS
                if is_told or step.end.state is not MoveState.COMPLETED:
                    ends.append(msgspec.structs.replace(step.end, sent=sent))
            elif step.leader is not None:
                self._transfers.request(move.where, step.leader, now, is_forced=True)
        return tuple(ends)

    def _give_up(
        self, found: Reassignment, move: PartitionMove, now: Now, *, is_cancelled: bool
    ) -> MoveEnd | None:
        """How a move ends that is not wanted any more, or takes too long."""
        if is_cancelled or found.cancelled_at:
            return MoveEnd(move.topic, move.partition, 0, MoveState.CANCELLED)
        if move.state is MoveState.PENDING:
            return None
        since = self._since.setdefault(move.where, now.instant)
        if now.instant - since < found.timeout_s * SECOND:
            return None
        reason = f"it was not over after {found.timeout_s} s"
        return MoveEnd(move.topic, move.partition, 0, MoveState.FAILED, reason)

    # Requests

    def _decide_request(
        self, live: frozenset[str], answers: list[Answer], now: Now
    ) -> list[MetadataChange]:
        """One command, on all that was decided before."""
        while self._requests:
            wanted = self._requests.popleft()
            try:
                with self._state.access.resuming(wanted.admitted, now):
                    changes = self._change(wanted, live, answers, now)
            except Refused as refused:
                self._state.outbox.answer(wanted.request, refused)
                continue
            if changes:
                return changes
        return []

    def _change(
        self, wanted: _Request, live: frozenset[str], answers: list[Answer], now: Now
    ) -> list[MetadataChange]:
        request, command, image = wanted.request, wanted.command, self._metadata.image
        if isinstance(command, StartReassignment):
            started = self._started(command, live, now)
            name = reassignment_id(started.number)
            moves = FieldChange("partitions", None, str(len(started.moves)))
            told = (FieldChange("id", None, name), moves)
            reply = self._board.describe(_as_started(started), image)
            answers.append(Answer(request=request, reply=reply))
            return [started, *audited(self._state, image, request, told)]
        found = self._board.find(command.id, image)
        if found.is_over:
            self._state.audit.cancel(request)
            self._state.outbox.answer(request, self._board.describe(found, image))
            return []
        self._cancelling.append((request, found.number))
        cancelled = ReassignmentCancelled(number=found.number, at=max(1, now.wall))
        return [cancelled, *audited(self._state, image, request)]

    def _answer_cancelled(self) -> None:
        """Answer whoever cancelled what is committed to be cancelled."""
        waiting, self._cancelling = self._cancelling, []
        image = self._metadata.image
        for request, number in waiting:
            found = image.reassignments.get(number)
            if found is None:
                name = reassignment_id(number)
                refusal = Refused(Code.REASSIGNMENT_NOT_FOUND, reassignment=name)
                self._state.outbox.answer(request, refusal)
            elif found.cancelled_at or found.is_over:
                self._state.outbox.answer(request, self._board.describe(found, image))
            else:
                self._cancelling.append((request, number))

    def _started(
        self, command: StartReassignment, live: frozenset[str], now: Now
    ) -> ReassignmentStarted:
        """What to commit for a wish; raises Refused if it is not possible."""
        reassignments = self._metadata.image.reassignments
        if not 0 < len(command.moves) <= MOVES_MAX:
            raise _invalid("partitions", f"must be 1 to {MOVES_MAX} partitions")
        if not 0 <= command.bytes_per_second <= 1 << 40:
            raise _invalid("throttle_bytes_per_sec", "must be 1 to 1 TiB")
        if not 0 < command.timeout_s <= _TIMEOUT_S_MAX:
            raise _invalid("timeout_per_partition_sec", f"must be 1 to {_TIMEOUT_S_MAX} seconds")
        if len(reassignments.running) >= RUNNING_MAX:
            reason = f"{RUNNING_MAX} reassignments are running already"
            raise Refused(Code.LOG_BUSY, reason=reason)
        moves: dict[PartitionId, PartitionMove] = {}
        for wanted in command.moves:
            move = self._move(wanted, live)
            if move.where in moves:
                raise _invalid("partitions", f"{wanted.topic}-{wanted.partition} is named twice")
            if move.where in reassignments.moving:
                raise Refused(
                    Code.LOG_BUSY,
                    topic=wanted.topic,
                    partition=wanted.partition,
                    reason="a reassignment of it is under way",
                )
            moves[move.where] = move
        return ReassignmentStarted(
            number=reassignments.next_number,
            moves=tuple(moves.values()),
            bytes_per_second=command.bytes_per_second,
            timeout_s=command.timeout_s,
            started_at=now.wall,
        )

    def _move(self, wanted: WantedMove, live: frozenset[str]) -> PartitionMove:
        image = self._metadata.image
        topic = image.topic(wanted.topic)
        if topic is None:
            raise Refused(Code.TOPIC_NOT_FOUND, topic=wanted.topic)
        state = image.table.get(topic.number, wanted.partition)
        if state is None:
            raise Refused(
                Code.PARTITION_NOT_FOUND, partition=wanted.partition, partitions=topic.partitions
            )
        replicas = wanted.replicas
        if not replicas or len(set(replicas)) != len(replicas):
            raise _invalid("new_replicas", "must be different nodes, at least one")
        for node in replicas:
            if node not in image.brokers:
                raise Refused(Code.NODE_NOT_FOUND, node=node)
            if node not in live:
                raise _invalid("new_replicas", f"{node} is not alive")
        minimum = topic.config.min_insync_replicas
        if len(replicas) < minimum:
            reason = f"{wanted.topic} needs {minimum} replicas (min_insync_replicas)"
            raise _invalid("new_replicas", reason)
        return PartitionMove(topic.number, wanted.partition, topic.name, state.replicas, replicas)


def _as_started(change: ReassignmentStarted) -> Reassignment:
    return Reassignment(
        number=change.number,
        moves=change.moves,
        bytes_per_second=change.bytes_per_second,
        timeout_s=change.timeout_s,
        started_at=change.started_at,
    )


def _invalid(field: str, reason: str) -> Refused:
    return Refused(Code.REQUEST_INVALID, field=field, reason=reason)
