"""The components of a node, the handler of each command, and who gets what was read.

Each component is created with those that it calls. Calls go downward in the order of the list: no
component calls one that is created after it. What one finds out and a later one has to do, the node
hands on.
"""

from collections.abc import Callable
from typing import TypeVar, assert_never

from goqueue.broker.delayed.delays import DelayedMessages
from goqueue.broker.disk_reads import (
    CancelledFetch,
    DueFetch,
    FetchPurpose,
    FindPurpose,
    JournalFetch,
    LagFetch,
    MoveFetch,
    PriorityFetch,
    ReadAheadFetch,
    ReadSearch,
    RedriveFetch,
    ReplayFetch,
    ResetSearch,
)
from goqueue.broker.groups.acks import Acks
from goqueue.broker.groups.dead_letter_mover import DeadLetterMover
from goqueue.broker.groups.membership import GroupRetention, Membership
from goqueue.broker.groups.offsets import Positions
from goqueue.broker.groups.polls import Polls
from goqueue.broker.groups.priority_indexer import PriorityIndexer
from goqueue.broker.groups.receives import Receives
from goqueue.broker.groups.redrive import Redriver
from goqueue.broker.journal import JournalLimits
from goqueue.broker.node_reports import NodeReports
from goqueue.broker.publish import Publisher
from goqueue.broker.read import StreamReads
from goqueue.broker.record_deletion import RecordDeletion
from goqueue.broker.recovery.journaled_state import JournaledState
from goqueue.broker.recovery.partition_replay import PartitionReplay
from goqueue.broker.recovery.start import NodeStart
from goqueue.broker.replies import Replies
from goqueue.broker.scheduler import Scheduler
from goqueue.broker.state import NodeState
from goqueue.broker.tick_sender import TickSender
from goqueue.broker.topics import Topics
from goqueue.broker.trace_queries import TraceQueries
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.descriptions import TransactionDescriptions
from goqueue.broker.transactions.producer_snapshots import ProducerSnapshots
from goqueue.broker.transactions.transaction_offsets import TransactionOffsets
from goqueue.broker.upkeep import Absences, Upkeep
from goqueue.model import Found, Now, RequestId
from goqueue.model.requests import (
    Ack,
    AddOffsets,
    AddPartition,
    AlterSchedule,
    AlterTopic,
    AwaitReply,
    BeginTransaction,
    CancelDelayed,
    CheckHealth,
    Command,
    CommitGroup,
    CommitOffsets,
    CreateSchedule,
    CreateTopic,
    DeleteGroup,
    DeleteRecords,
    DeleteSchedule,
    DescribeDelays,
    DescribeGroup,
    DescribeLag,
    DescribeNode,
    DescribeOffsets,
    DescribePartitions,
    DescribePriorities,
    DescribeReliability,
    DescribeSchedule,
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
    ListSchedules,
    ListTopics,
    ListTransactions,
    Nack,
    PauseSchedule,
    Poll,
    PrepareTransaction,
    Publish,
    Read,
    Receive,
    Redrive,
    Reject,
    Release,
    ResetOffsets,
    ResumeSchedule,
    RunSchedule,
    SearchTraces,
    SendReply,
    Watch,
)

__all__ = ["CommandFn", "Components", "dispatch_table", "pass_fetched", "pass_found"]


class Components:
    """Everything that a node does."""

    def __init__(
        self,
        state: NodeState,
        secret: bytes,
        limits: JournalLimits,
        group_retention_ns: int | None,
    ) -> None:
        self.topics = Topics(state)
        self.reports = NodeReports(state, self.topics)
        self.trace_queries = TraceQueries(state.outbox, state.stepwise, state.traces.tracer)
        self.delayed_messages = DelayedMessages(state)
        self.publisher = Publisher(state, self.delayed_messages)
        self.stream_reads = StreamReads(state)
        self.replies = Replies(state)
        self.priority_indexer = PriorityIndexer(state)
        self.polls = Polls(state, self.priority_indexer)
        self.receives = Receives(state, self.polls)
        self.record_deletion = RecordDeletion(state, self.polls)
        self.coordinator = TransactionCoordinator(state, self.polls)
        self.dead_letter_mover = DeadLetterMover(state, self.topics, self.polls, self.coordinator)
        self.tick_sender = TickSender(state, self.coordinator)
        self.scheduler = Scheduler(state, self.tick_sender)
        self.redriver = Redriver(state, self.dead_letter_mover)
        self.acks = Acks(state, self.polls, self.dead_letter_mover)
        self.positions = Positions(state, self.polls)
        self.membership = Membership(state, self.polls, self.positions)
        self.retention = GroupRetention(state, self.membership, group_retention_ns)
        self.transaction_offsets = TransactionOffsets(
            state, self.coordinator.progress, self.positions, self.acks
        )
        self.transaction_descriptions = TransactionDescriptions(state)
        self.journaled_state = JournaledState(state, self.positions, self.coordinator, limits)
        self.producer_snapshots = ProducerSnapshots(state)
        self.node_start = NodeStart(
            state,
            self.journaled_state,
            PartitionReplay(state, self.producer_snapshots),
            self.coordinator,
            secret=secret,
            limits=limits,
        )
        self.upkeep = Upkeep(
            state,
            self.journaled_state,
            self.polls,
            self.delayed_messages,
            self.producer_snapshots,
            retention=self.retention,
        )
        self.absences = Absences(state, self.upkeep)


C = TypeVar("C", bound=Command)
CommandFn = Callable[[RequestId, C, Now], None]


class _Table:
    """Handlers by the type of their command."""

    def __init__(self) -> None:
        self.handlers: dict[type, CommandFn[Command]] = {}

    def __call__(self, command: type[C], how: CommandFn[C]) -> None:
        self.handlers[command] = how  # type: ignore[assignment]  # looked up by the same type


def dispatch_table(components: Components) -> dict[type, CommandFn[Command]]:
    """The handler of every command, except `DeleteTopic`, which concerns most components."""
    handle = _Table()
    _handle_messages(handle, components)
    _handle_groups(handle, components)
    _handle_transactions(handle, components)
    _handle_schedules(handle, components)
    return handle.handlers


def _handle_messages(handle: _Table, components: Components) -> None:
    handle(DescribeNode, components.reports.describe)
    handle(CheckHealth, components.reports.check_health)
    handle(CreateTopic, components.topics.create)
    handle(AlterTopic, lambda request, command, _: components.topics.alter(request, command))
    handle(ListTopics, lambda request, _, __: components.topics.list_all(request))
    handle(DescribeTopic, components.topics.describe)
    handle(DescribePartitions, components.topics.describe_partitions)
    handle(DeleteRecords, components.record_deletion.delete)
    handle(Publish, components.publisher.publish)
    handle(Read, components.stream_reads.read)
    handle(Watch, components.stream_reads.watch)
    handle(AwaitReply, components.replies.wait)
    handle(SendReply, components.replies.send)
    handle(ListDelayed, components.delayed_messages.list_pending)
    handle(FindDelayed, components.delayed_messages.find)
    handle(CancelDelayed, components.delayed_messages.cancel)
    handle(SearchTraces, components.trace_queries.search)
    handle(FindTrace, lambda request, asked, _: components.trace_queries.find(request, asked))
    handle(
        DescribeTracing, lambda request, _, now: components.trace_queries.statistics(request, now)
    )
    handle(
        DescribeDelays,
        lambda request, asked, _: components.delayed_messages.describe(request, asked),
    )


def _delete_group(components: Components, request: RequestId, command: DeleteGroup) -> None:
    components.membership.delete(request, command)
    components.transaction_offsets.check_again()


def _handle_groups(handle: _Table, components: Components) -> None:
    handle(Join, components.membership.join)
    handle(Heartbeat, components.membership.heartbeat)
    handle(Leave, components.membership.leave)
    handle(ListGroups, lambda request, _, now: components.membership.list_all(request, now))
    handle(DescribeGroup, components.membership.describe)
    handle(DeleteGroup, lambda request, asked, _: _delete_group(components, request, asked))
    handle(Poll, components.polls.poll)
    handle(Receive, components.receives.receive)
    handle(CommitOffsets, components.positions.commit)
    handle(DescribeOffsets, components.transaction_offsets.describe)
    handle(ResetOffsets, components.positions.reset)
    handle(DescribeLag, components.positions.lag)
    handle(Ack, components.acks.ack)
    handle(Nack, components.acks.nack)
    handle(Reject, components.acks.reject)
    handle(Release, components.acks.release)
    handle(Extend, components.acks.extend)
    handle(Redrive, components.redriver.redrive)
    handle(
        DescribeReliability, lambda request, _, now: components.redriver.reliability(request, now)
    )
    handle(
        DescribePriorities,
        lambda request, _, now: components.priority_indexer.describe(request, now),
    )


def _handle_transactions(handle: _Table, components: Components) -> None:
    handle(InitProducer, components.coordinator.init_producer)
    handle(HeartbeatProducer, components.coordinator.heartbeat)
    handle(BeginTransaction, components.coordinator.begin)
    handle(AddPartition, components.coordinator.add_partition)
    handle(AddOffsets, components.transaction_offsets.add)
    handle(PrepareTransaction, components.coordinator.prepare)
    handle(EndTransaction, components.coordinator.end)
    handle(CommitGroup, components.coordinator.commit_group)
    handle(ListTransactions, components.transaction_descriptions.list)
    handle(
        DescribeTransaction,
        lambda request, asked, _: components.transaction_descriptions.describe(request, asked),
    )
    handle(
        DescribeTransactions,
        lambda request, _, now: components.transaction_descriptions.statistics(request, now),
    )


def _handle_schedules(handle: _Table, components: Components) -> None:
    handle(CreateSchedule, components.scheduler.create)
    handle(AlterSchedule, components.scheduler.alter)
    handle(PauseSchedule, components.scheduler.pause)
    handle(ResumeSchedule, components.scheduler.resume)
    handle(DeleteSchedule, components.scheduler.delete)
    handle(RunSchedule, components.tick_sender.run)
    handle(DescribeSchedule, components.scheduler.describe)
    handle(ListSchedules, components.scheduler.list_page)


# What was read from the disk


def pass_fetched(
    components: Components, purpose: FetchPurpose, data: memoryview | None, now: Now
) -> None:
    """Hand records that were read to the component that wanted them."""
    match purpose:
        case ReadAheadFetch():
            components.polls.records_fetched(purpose, data, now)
        case MoveFetch():
            components.dead_letter_mover.records_fetched(purpose, data, now)
        case PriorityFetch():
            components.priority_indexer.records_fetched(purpose, data, now)
        case DueFetch():
            components.delayed_messages.fetched(purpose, data, now)
        case CancelledFetch():
            components.delayed_messages.cancelled_fetched(purpose, data, now)
        case RedriveFetch():
            components.redriver.records_fetched(purpose, data, now)
        case LagFetch():
            components.positions.records_fetched(purpose, data, now)
        case JournalFetch():
            components.node_start.replayed(purpose, data, now)
        case ReplayFetch():
            components.node_start.records_replayed(purpose, data, now)
        case _:
            assert_never(purpose)


def pass_found(components: Components, purpose: FindPurpose, event: Found, now: Now) -> None:
    """Hand an offset that was found to the component that looked for it."""
    match purpose:
        case ReadSearch():
            components.stream_reads.found(purpose, event.offset, now)
        case ResetSearch():
            components.positions.found(purpose, event.offset, now)
        case _:
            assert_never(purpose)
