"""The parts of a node, each made with those that it calls.

Calls go downward in the order of this list: no part calls one that is made after it. What one finds
out and a later one has to do, the node hands on.
"""

from goqueue.broker.consuming import (
    PriorityIndexer,
    Polls,
    GroupRetention,
    Membership,
    DeadLetterMover,
    Positions,
    Redriver,
    Settlements,
)
from goqueue.broker.journals import JournalLimits
from goqueue.broker.messages import DelayedMessages, Publisher, StreamReads, Topics
from goqueue.broker.starting import JournaledState, PartitionReplay, NodeStart
from goqueue.broker.state import NodeState
from goqueue.broker.tracing import TraceQueries
from goqueue.broker.transacting import (
    TransactionDescriptions,
    MarkerWriter,
    TransactionOffsets,
    ProducerSnapshots,
    TransactionCoordinator,
)
from goqueue.broker.upkeep import Upkeep

__all__ = ["Components"]


class Components:
    """Everything that a node does, by who does it."""

    def __init__(
        self,
        state: NodeState,
        secret: bytes,
        limits: JournalLimits,
        group_retention_ns: int | None,
    ) -> None:
        self.topics = Topics(state)
        self.traces = TraceQueries(state.outbox, state.stepwise, state.journeys.tracer)
        self.delaying = DelayedMessages(state)
        self.publishing = Publisher(state, self.delaying)
        self.reading = StreamReads(state)
        self.counting = PriorityIndexer(state)
        self.delivering = Polls(state, self.counting)
        self.moving = DeadLetterMover(state, self.topics, self.delivering)
        self.redriving = Redriver(state, self.moving)
        self.settling = Settlements(state, self.delivering, self.moving)
        self.positions = Positions(state, self.delivering)
        self.membership = Membership(state, self.delivering, self.positions)
        self.retention = GroupRetention(state, self.membership, group_retention_ns)
        self.progressing = TransactionOffsets(state, self.positions, self.settling, self.delivering)
        self.transacting = TransactionCoordinator(state, self.progressing)
        self.marking = MarkerWriter(state)
        self.transactions = TransactionDescriptions(state)
        self.memory = JournaledState(state, self.positions, self.progressing, limits)
        self.remembering = ProducerSnapshots(state)
        self.starting = NodeStart(
            state,
            self.memory,
            PartitionReplay(state, self.remembering),
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
