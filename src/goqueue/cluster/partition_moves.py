"""How partitions move: pure decisions of the controller.

A move goes

    pending -> in_progress    its turn has come: the target is in the image, learners copy
            -> (catching up)  learners join the ISR, as any replica does
            -> completed      all of the target is in sync and lives, and one of them leads
            -> cancelled      an operator, or the time that it may take, ends it: learners go

Every step is one record, and follows from the image alone (and from the time, for the limit): so it
does not matter which controller takes it. A step that another change of the partition overtook
does nothing, and is decided anew.

Invariants
- Learners count for nothing until they are in the ISR, by the rules for any replica.
- An end of a move never makes an ISR smaller than the minimum (C9): until then it waits.
- What was committed is on all of the target when the replicas change, and in the hands of a leader.
- At most `MOVES_AT_ONCE` moves are under way in a cluster.

Cost: one pass over the moves that are not over, for each record of the controller while there are
any.
"""

from collections.abc import Collection
from typing import NamedTuple

from goqueue.cluster.partitions import PartitionState, PartitionTable
from goqueue.cluster.reassignments import (
    MoveEnd,
    MoveState,
    PartitionMove,
    ReassignmentTable,
    ReplicaMovesBegun,
)

__all__ = ["MOVES_AT_ONCE", "MoveStep", "begin_moves", "decide_move", "wanted_leader"]

MOVES_AT_ONCE = 50


class MoveStep(NamedTuple):
    """What to do for a move that is under way: end it, or first have another broker lead."""

    end: MoveEnd | None = None
    leader: str | None = None


def begin_moves(reassignments: ReassignmentTable, table: PartitionTable) -> list[ReplicaMovesBegun]:
    """The moves whose turn it is: in the order in which they were asked for."""
    under_way = sum(1 for where in reassignments.moving if _is_begun(table.get(*where)))
    room = MOVES_AT_ONCE - under_way
    begun: list[ReplicaMovesBegun] = []
    for each in reassignments.running:
        if room <= 0:
            break
        if each.cancelled_at:
            continue
        chosen = [
            move.where
            for move in each.moves
            if move.state is MoveState.PENDING and table.get(*move.where) is not None
        ][:room]
        room -= len(chosen)
        if chosen:
            begun.append(ReplicaMovesBegun(number=each.number, partitions=tuple(chosen)))
    return begun


def _is_begun(state: PartitionState | None) -> bool:
    return state is not None and bool(state.target)


def decide_move(
    move: PartitionMove,
    state: PartitionState | None,
    *,
    registered: Collection[str],
    live: Collection[str],
    minimum: int,
    give_up: MoveEnd | None,
) -> MoveStep:
    """The next step of a move that is not over.

    `registered` are the brokers of the cluster, `live` those that may lead. With `give_up` the
    move is to end so.
    """
    if state is None:
        return MoveStep(_end(move, 0, MoveState.FAILED, "the topic was deleted"))
    gone = [broker for broker in move.new if broker not in registered]
    if give_up is None and gone:
        reason = f"{', '.join(gone)} is not a node of the cluster any more"
        give_up = _end(move, state.version, MoveState.FAILED, reason)
    if give_up is not None:
        return _give_up(move, state, give_up, minimum, live)
    if move.state is MoveState.PENDING:
        return MoveStep()
    in_sync = set(move.new) <= set(state.isr)
    if not in_sync or not all(broker in live for broker in move.new):
        return MoveStep()
    if any(state.is_unsure(broker) for broker in move.new):
        return MoveStep()
    if not _keeps_minimum(state, move.new, minimum):
        return MoveStep()
    if state.leader not in move.new:
        return MoveStep(leader=wanted_leader(move.new, state, live))
    return MoveStep(_end(move, state.version, MoveState.COMPLETED))


def _give_up(
    move: PartitionMove,
    state: PartitionState,
    give_up: MoveEnd,
    minimum: int,
    live: Collection[str],
) -> MoveStep:
    """End a move without what it was for; its learners go, unless that costs the minimum.

    A learner that leads hands over first: a leader that is replaced behind its back answers for a
    moment by what it knew.
    """
    if move.state is not MoveState.PENDING:
        left = tuple(broker for broker in state.isr if broker in state.replicas)
        if not left or not _keeps_minimum(state, left, minimum):
            return MoveStep()
        if state.leader in live and state.leader not in state.replicas:
            leader = wanted_leader(left, state, live)
            return MoveStep() if leader is None else MoveStep(leader=leader)
    return MoveStep(_end(move, state.version, give_up.state, give_up.reason))


def _keeps_minimum(state: PartitionState, left: Collection[str], minimum: int) -> bool:
    return len(left) >= min(minimum, len(state.isr))


def wanted_leader(
    candidates: Collection[str], state: PartitionState, live: Collection[str]
) -> str | None:
    """The first of the candidates that may lead: live, in sync, sure."""
    for broker in candidates:
        if broker in state.isr and broker in live and not state.is_unsure(broker):
            return broker
    return None


def _end(move: PartitionMove, version: int, state: MoveState, reason: str = "") -> MoveEnd:
    return MoveEnd(move.topic, move.partition, version, state, reason)
