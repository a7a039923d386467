"""The parts of a node, each made with those that it calls.

Calls go downward in the order of this list: no part calls one that is made after it. What one finds
out and a later one has to do, the node hands on.
"""

from goqueue.broker.consuming import (
    Counting,
    Delivering,
    GroupRetention,
    Membership,
    Moving,
    Positions,
    Redriving,
    Settling,
)
from goqueue.broker.journals import JournalLimits
from goqueue.broker.messages import Delaying, Publishing, Reading, Topics
from goqueue.broker.starting import Memory, Recollecting, Starting
from goqueue.broker.state import NodeState
from goqueue.broker.tracing import Asking
from goqueue.broker.transacting import (
    Describing,
    Marking,
    Progressing,
    Remembering,
    Transacting,
)
from goqueue.broker.upkeep import Upkeep

__all__ = ["Parts"]


class Parts:
    """Everything that a node does, by who does it."""

    def __init__(
        self,
        state: NodeState,
        secret: bytes,
        limits: JournalLimits,
        group_retention_ns: int | None,
    ) -> None:
        self.topics = Topics(state)
        self.traces = Asking(state.outbox, state.stepwise, state.journeys.tracer)
        self.delaying = Delaying(state)
        self.publishing = Publishing(state, self.delaying)
        self.reading = Reading(state)
        self.counting = Counting(state)
        self.delivering = Delivering(state, self.counting)
        self.moving = Moving(state, self.topics, self.delivering)
        self.redriving = Redriving(state, self.moving)
        self.settling = Settling(state, self.delivering, self.moving)
        self.positions = Positions(state, self.delivering)
        self.membership = Membership(state, self.delivering, self.positions)
        self.retention = GroupRetention(state, self.membership, group_retention_ns)
        self.progressing = Progressing(state, self.positions, self.settling, self.delivering)
        self.transacting = Transacting(state, self.progressing)
        self.marking = Marking(state)
        self.transactions = Describing(state)
        self.memory = Memory(state, self.positions, self.progressing, limits)
        self.remembering = Remembering(state)
        self.starting = Starting(
            state,
            self.memory,
            Recollecting(state, self.remembering),
            self.transacting,
            secret=secret,
            limits=limits,
        )
        self.upkeep = Upkeep(
            state,
            self.memory,
            self.delivering,
            self.delaying,
            self.remembering,
            retention=self.retention,
        )
