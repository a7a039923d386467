"""The components of a node, and which of them takes which command.

The parts of a node, each made with those that it calls.

Calls go downward in the order of this list: no part calls one that is made after it. What one finds
out and a later one has to do, the node hands on.

Which part takes which command.
"""

from collections.abc import Callable
from typing import TypeVar

from goqueue.broker.delayed.delays import DelayedMessages
from goqueue.broker.groups.acks import Settlements
from goqueue.broker.groups.dead_letter_mover import DeadLetterMover
from goqueue.broker.groups.membership import GroupRetention, Membership
from goqueue.broker.groups.offsets import Positions
from goqueue.broker.groups.polls import Polls
from goqueue.broker.groups.priority_indexer import PriorityIndexer
from goqueue.broker.groups.redrive import Redriver
from goqueue.broker.journal import JournalLimits
from goqueue.broker.node_reports import NodeReports
from goqueue.broker.publish import Publisher
from goqueue.broker.read import StreamReads
from goqueue.broker.recovery.journaled_state import JournaledState
from goqueue.broker.recovery.partition_replay import PartitionReplay
from goqueue.broker.recovery.start import NodeStart
from goqueue.broker.state import NodeState
from goqueue.broker.topics import Topics
from goqueue.broker.trace_queries import TraceQueries
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.descriptions import TransactionDescriptions
from goqueue.broker.transactions.producer_snapshots import ProducerSnapshots
from goqueue.broker.transactions.transaction_offsets import TransactionOffsets
from goqueue.broker.upkeep import Upkeep
from goqueue.model import Now, RequestId
from goqueue.model.requests import (
    Ack,
    AddOffsets,
    AddPartition,
    AlterTopic,
    BeginTransaction,
    CancelDelayed,
    CheckHealth,
    Command,
    CommitGroup,
    CommitOffsets,
    CreateTopic,
    DeleteGroup,
    DescribeDelays,
    DescribeGroup,
    DescribeLag,
    DescribeNode,
    DescribeOffsets,
    DescribePartitions,
    DescribePriorities,
    DescribeReliability,
    DescribeTopic,
    DescribeTracing,
    DescribeTransaction,
    DescribeTransactions,
    EndTransaction,
    Extend,
    FindDelayed,
    FindTrace,
    Heartbeat,
    HeartbeatProducer,
    InitProducer,
    Join,
    Leave,
    ListDelayed,
    ListGroups,
    ListTopics,
    ListTransactions,
    Nack,
    Poll,
    PrepareTransaction,
    Publish,
    Read,
    Redrive,
    Reject,
    Release,
    ResetOffsets,
    SearchTraces,
)

__all__ = ["CommandFn", "Components", "dispatch_table"]


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
        self.reports = NodeReports(state, self.topics)
        self.traces = TraceQueries(state.outbox, state.stepwise, state.journeys.tracer)
        self.delaying = DelayedMessages(state)
        self.publishing = Publisher(state, self.delaying)
        self.reading = StreamReads(state)
        self.counting = PriorityIndexer(state)
        self.delivering = Polls(state, self.counting)
        self.coordinator = TransactionCoordinator(state, self.delivering)
        self.moving = DeadLetterMover(state, self.topics, self.delivering, self.coordinator)
        self.redriving = Redriver(state, self.moving)
        self.settling = Settlements(state, self.delivering, self.moving)
        self.positions = Positions(state, self.delivering)
        self.membership = Membership(state, self.delivering, self.positions)
        self.retention = GroupRetention(state, self.membership, group_retention_ns)
        self.transaction_offsets = TransactionOffsets(
            state, self.coordinator.progress, self.positions, self.settling
        )
        self.transactions = TransactionDescriptions(state)
        self.memory = JournaledState(state, self.positions, self.coordinator, limits)
        self.remembering = ProducerSnapshots(state)
        self.starting = NodeStart(
            state,
            self.memory,
            PartitionReplay(state, self.remembering),
            self.coordinator,
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


C = TypeVar("C", bound=Command)
CommandFn = Callable[[RequestId, C, Now], None]


class _Table:
    """Takers by the type of their command."""

    def __init__(self) -> None:
        self.takes: dict[type, CommandFn[Command]] = {}

    def __call__(self, command: type[C], how: CommandFn[C]) -> None:
        self.takes[command] = how  # type: ignore[assignment]  # looked up by the same type


def dispatch_table(parts: Components) -> dict[type, CommandFn[Command]]:
    """The taker of every command, but for those that concern the node as a whole."""
    take = _Table()
    _take_messages(take, parts)
    _take_groups(take, parts)
    _take_transactions(take, parts)
    return take.takes


def _take_messages(take: _Table, parts: Components) -> None:
    take(DescribeNode, parts.reports.describe)
    take(CheckHealth, parts.reports.check_health)
    take(CreateTopic, parts.topics.create)
    take(AlterTopic, lambda request, command, _: parts.topics.alter(request, command))
    take(ListTopics, lambda request, _, __: parts.topics.list_all(request))
    take(DescribeTopic, parts.topics.describe)
    take(DescribePartitions, parts.topics.describe_partitions)
    take(Publish, parts.publishing.publish)
    take(Read, parts.reading.read)
    take(ListDelayed, parts.delaying.list_pending)
    take(FindDelayed, parts.delaying.find)
    take(CancelDelayed, parts.delaying.cancel)
    take(SearchTraces, parts.traces.search)
    take(FindTrace, lambda request, asked, _: parts.traces.find(request, asked))
    take(DescribeTracing, lambda request, _, now: parts.traces.statistics(request, now))
    take(DescribeDelays, lambda request, asked, _: parts.delaying.describe(request, asked))


def _delete_group(parts: Components, request: RequestId, command: DeleteGroup) -> None:
    parts.membership.delete(request, command)
    parts.transaction_offsets.check_again()


def _take_groups(take: _Table, parts: Components) -> None:
    take(Join, parts.membership.join)
    take(Heartbeat, parts.membership.heartbeat)
    take(Leave, parts.membership.leave)
    take(ListGroups, lambda request, _, now: parts.membership.list_all(request, now))
    take(DescribeGroup, parts.membership.describe)
    take(DeleteGroup, lambda request, asked, _: _delete_group(parts, request, asked))
    take(Poll, parts.delivering.poll)
    take(CommitOffsets, parts.positions.commit)
    take(DescribeOffsets, parts.transaction_offsets.describe)
    take(ResetOffsets, parts.positions.reset)
    take(DescribeLag, parts.positions.lag)
    take(Ack, parts.settling.ack)
    take(Nack, parts.settling.nack)
    take(Reject, parts.settling.reject)
    take(Release, parts.settling.release)
    take(Extend, parts.settling.extend)
    take(Redrive, parts.redriving.redrive)
    take(DescribeReliability, lambda request, _, now: parts.redriving.reliability(request, now))
    take(DescribePriorities, lambda request, _, now: parts.counting.describe(request, now))


def _take_transactions(take: _Table, parts: Components) -> None:
    take(InitProducer, parts.coordinator.init_producer)
    take(HeartbeatProducer, parts.coordinator.heartbeat)
    take(BeginTransaction, parts.coordinator.begin)
    take(AddPartition, parts.coordinator.add_partition)
    take(AddOffsets, parts.transaction_offsets.add)
    take(PrepareTransaction, parts.coordinator.prepare)
    take(EndTransaction, parts.coordinator.end)
    take(CommitGroup, parts.coordinator.commit_group)
    take(ListTransactions, parts.transactions.list)
    take(DescribeTransaction, lambda request, asked, _: parts.transactions.describe(request, asked))
    take(DescribeTransactions, lambda request, _, now: parts.transactions.statistics(request, now))
