"""Faults planted into the moves of partitions, one at a time."""

from typing import Any

import msgspec
import pytest

from goqueue.cluster import MoveEnd, MoveState, MoveStep, PartitionTable
from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_REASSIGNMENTS"]

_ROLES = "goqueue.broker.replication.log_roles.LogRoles"
_MOVES = "goqueue.cluster.partition_moves"


def leaves_copies_behind_when_a_move_ends(patch: pytest.MonkeyPatch) -> None:
    rehost = attribute(f"{_ROLES}.rehost")

    def careless(roles: Any, where: Any) -> None:
        state = roles.image.table.get(*where)
        if state is None or roles._me in state.copies:
            rehost(roles, where)

    patch.setattr(f"{_ROLES}.rehost", careless)


def ends_a_move_before_its_target_is_in_sync(patch: pytest.MonkeyPatch) -> None:
    decide = attribute(f"{_MOVES}.decide_move")

    def hasty(move: Any, state: Any, **how: Any) -> MoveStep:
        step: MoveStep = decide(move, state, **how)
        is_begun = move.state is MoveState.BEGUN and state is not None
        if step.end is None and is_begun and state.leader in move.new:
            end = MoveEnd(move.topic, move.partition, state.version, MoveState.COMPLETED)
            return MoveStep(end)
        return step

    def adopt(table: Any, where: Any, known: int, version: int) -> bool:
        state = table.get(*where)
        if state is None or state.version != known or state.leader not in state.target:
            return False
        moved = msgspec.structs.replace(
            state, replicas=state.target, isr=state.target, target=(), version=version
        )
        table._put(where, moved)
        return True

    patch.setattr("goqueue.broker.cluster.reassigner.decide_move", hasty)
    patch.setattr(PartitionTable, "adopt_target", adopt)


def lets_learners_join_before_they_have_all(patch: pytest.MonkeyPatch) -> None:
    leader = "goqueue.broker.replication.partition_leader.PartitionLeader"
    wish = attribute(f"{leader}.wish")

    def hasty(led: Any, now: Any, repeat_ns: int) -> Any:
        for broker in led.image.learners:
            progress = led.progress(broker)
            if progress is not None and progress.join_at is not None:
                progress.hold(led.log.end, led._epochs.get(broker, 0), led.log.end, now)
        return wish(led, now, repeat_ns)

    patch.setattr(f"{leader}.wish", hasty)


def drops_learners_without_leaving_their_isr(patch: pytest.MonkeyPatch) -> None:
    def careless(table: Any, where: Any, known: int, version: int) -> bool:
        state = table.get(*where)
        if state is None or state.version != known:
            return False
        table._put(where, msgspec.structs.replace(state, target=(), version=version))
        return True

    patch.setattr(PartitionTable, "drop_target", careless)


def forgets_a_later_move_when_an_earlier_one_ends(patch: pytest.MonkeyPatch) -> None:
    table = "goqueue.cluster.reassignments.ReassignmentTable"
    end = attribute(f"{table}._end")

    def forgetful(reassignments: Any, change: Any, partitions: Any, version: int) -> None:
        end(reassignments, change, partitions, version)
        found = reassignments.get(change.number)
        for move in () if found is None else found.moves:
            if move.state.is_over:
                reassignments._moving.pop(move.where, None)

    patch.setattr(f"{table}._end", forgetful)


PLANTED_IN_REASSIGNMENTS: tuple[Plant, ...] = (
    leaves_copies_behind_when_a_move_ends,
    ends_a_move_before_its_target_is_in_sync,
    lets_learners_join_before_they_have_all,
    drops_learners_without_leaving_their_isr,
    forgets_a_later_move_when_an_earlier_one_ends,
)
