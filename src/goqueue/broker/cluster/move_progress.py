"""Reassignments as callers see them: what the image says, and what leaders said of learners.

How far a learner is goes into no log: leaders say it with their heartbeats, and every broker
remembers what it heard last. After a change of the leader the bytes are those that the next one
sent as well.

Bound: one entry for each partition that is moved.
"""

from goqueue.broker.state import NodeState
from goqueue.cluster import (
    MetadataImage,
    MoveState,
    PartitionId,
    PartitionMove,
    Reassignment,
)
from goqueue.model import Code, MoveProgress, Refused, Timestamp
from goqueue.model.requests import (
    MoveDescription,
    ReassignmentDescription,
)

__all__ = ["MoveProgressBoard", "reassignment_id"]

_PREFIX = "r-"
_CATCHING_UP = "catching_up"


def reassignment_id(number: int) -> str:
    """How callers name a reassignment."""
    return f"{_PREFIX}{number}"


class _Heard:
    """What leaders said of one partition: of the last epoch, and bytes of those before."""

    __slots__ = ("earlier", "last")

    def __init__(self, last: MoveProgress) -> None:
        self.last = last
        self.earlier = 0

    @property
    def sent(self) -> int:
        return self.earlier + self.last.sent


class MoveProgressBoard:
    """What this broker heard of the moves of a cluster."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._heard: dict[PartitionId, _Heard] = {}

    def hear(self, moves: tuple[MoveProgress, ...], image: MetadataImage) -> None:
        """A leader says how far the learners of its partitions are."""
        moving = image.reassignments.moving
        for each in moves:
            where = PartitionId(each.topic, each.partition)
            if where not in moving:
                continue
            known = self._heard.get(where)
            if known is None:
                self._heard[where] = _Heard(each)
            elif each.epoch >= known.last.epoch:
                if each.epoch > known.last.epoch:
                    known.earlier += known.last.sent
                known.last = each

    def follow(self, image: MetadataImage) -> None:
        """Forget what moves no more."""
        moving = image.reassignments.moving
        for where in [each for each in self._heard if each not in moving]:
            del self._heard[where]

    def sent(self, where: PartitionId) -> int:
        """How many bytes learners of a partition were sent, as far as their leaders said so."""
        known = self._heard.get(where)
        return 0 if known is None else known.sent

    # Describing

    def find(self, name: str, image: MetadataImage) -> Reassignment:
        """The reassignment that callers call so; raises Refused."""
        number = name.removeprefix(_PREFIX)
        is_ours = name.startswith(_PREFIX) and number.isdecimal() and len(number) < 18
        found = image.reassignments.get(int(number)) if is_ours else None
        if found is None:
            raise Refused(Code.REASSIGNMENT_NOT_FOUND, reassignment=name)
        return found

    def describe(self, found: Reassignment, image: MetadataImage) -> ReassignmentDescription:
        moves = tuple(self._describe_move(found, each, image) for each in found.moves)
        return ReassignmentDescription(
            id=reassignment_id(found.number),
            state=_state_of(found, moves),
            partitions=moves,
            bytes_per_second=found.bytes_per_second,
            started_at=Timestamp(found.started_at),
            completed_at=Timestamp(found.ended_at) if found.is_over else None,
            error=next((each.error for each in moves if each.error), ""),
        )

    def _describe_move(
        self, found: Reassignment, move: PartitionMove, image: MetadataImage
    ) -> MoveDescription:
        state: str = move.state.value
        held, sent, error = 0, move.sent, move.reason
        if move.state is MoveState.COMPLETED:
            held = 1000
        elif move.state is MoveState.BEGUN:
            known = self._heard.get(move.where)
            partition = image.table.get(*move.where)
            if partition is not None and set(move.new) <= set(partition.isr):
                held, state = 1000, _CATCHING_UP
            elif known is not None:
                held = known.last.held
                state = _CATCHING_UP if known.last.is_near else state
            sent = self.sent(move.where)
            if found.cancelled_at:
                error = "it ends when enough of the old replicas are in sync"
        return MoveDescription(
            topic=move.name,
            partition=move.partition,
            old_replicas=move.old,
            new_replicas=move.new,
            state=state,
            catchup_percent=held / 10,
            bytes_transferred=sent,
            error=error,
        )


def _state_of(found: Reassignment, moves: tuple[MoveDescription, ...]) -> str:
    """The state of a whole reassignment, from those of its moves."""
    states = {each.state for each in found.moves}
    if found.is_over:
        for worst in (MoveState.FAILED, MoveState.CANCELLED):
            if worst in states:
                return worst.value
        return MoveState.COMPLETED.value
    if states == {MoveState.PENDING}:
        return MoveState.PENDING.value
    left = {each.state for each in moves} - {MoveState.COMPLETED.value}
    return _CATCHING_UP if left == {_CATCHING_UP} else MoveState.BEGUN.value
