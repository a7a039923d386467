"""The components of a node, the handler of each command, and who gets what was read.

Each component is created with those that it calls. Calls go downward in the order of the list: no
component calls one that is created after it. What one finds out and a later one has to do, the node
hands on.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, assert_never

import msgspec

from goqueue.broker.backups import Backups
from goqueue.broker.cluster import ClusterReports
from goqueue.broker.cluster.cluster_commands import COORDINATOR_COMMANDS
from goqueue.broker.delayed.delays import DelayedMessages
from goqueue.broker.disk_reads import (
    AuditFetch,
    CancelledFetch,
    DueFetch,
    FindPurpose,
    JournalFetch,
    LagFetch,
    MoveFetch,
    NodeFetchPurpose,
    PriorityFetch,
    ReadAheadFetch,
    ReadSearch,
    RedriveFetch,
    ReplayFetch,
    ResetSearch,
)
from goqueue.broker.groups.acks import Acks
from goqueue.broker.groups.cooperative import CooperativeGroups
from goqueue.broker.groups.dead_letter_mover import DeadLetterMover
from goqueue.broker.groups.membership import GroupRetention, Membership
from goqueue.broker.groups.offsets import Positions
from goqueue.broker.groups.polls import Polls
from goqueue.broker.groups.priority_indexer import PriorityIndexer
from goqueue.broker.groups.receives import Receives
from goqueue.broker.groups.redrive import Redriver
from goqueue.broker.groups.waiting_heartbeats import WaitingHeartbeats
from goqueue.broker.journal import JournalLimits
from goqueue.broker.node_reports import NodeReports
from goqueue.broker.publish import Publisher
from goqueue.broker.read import StreamReads
from goqueue.broker.record_deletion import RecordDeletion
from goqueue.broker.recovery.journaled_state import JournaledState
from goqueue.broker.recovery.partition_replay import PartitionReplay
from goqueue.broker.recovery.start import NodeStart
from goqueue.broker.replies import Replies
from goqueue.broker.restores import Restores
from goqueue.broker.scheduler import Scheduler
from goqueue.broker.schema_validation import SchemaValidation
from goqueue.broker.schemas import Schemas
from goqueue.broker.security import SecurityAdmin
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_deletion import TenantDeletion
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.tick_sender import TickSender
from goqueue.broker.topics import Topics
from goqueue.broker.trace_queries import TraceQueries
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.copies import Copies, LocalCopies
from goqueue.broker.transactions.descriptions import TransactionDescriptions
from goqueue.broker.transactions.producer_snapshots import ProducerSnapshots
from goqueue.broker.transactions.transaction_offsets import TransactionOffsets
from goqueue.broker.turns import Errand, ForGroup
from goqueue.broker.upkeep import Absences, Upkeep
from goqueue.broker.usage_journal import UsageJournal
from goqueue.model import (
    CheckCompatibility,
    Code,
    DeleteSchema,
    DeleteSubject,
    DescribeCompatibility,
    DescribeRegistry,
    DescribeSchema,
    FindSchema,
    FindSchemaById,
    Found,
    ListReferrers,
    ListSchemaUses,
    ListSubjects,
    ListVersions,
    Now,
    Refused,
    RegisterSchema,
    RequestId,
    ResetCompatibility,
    SetCompatibility,
)
from goqueue.model.requests import (
    Ack,
    AddOffsets,
    AddParticipants,
    AddPartition,
    AlterQuotas,
    AlterSchedule,
    AlterTenant,
    AlterTopic,
    AppendCopies,
    AppendMarker,
    AskVote,
    AuthorizeScrape,
    AwaitReply,
    BeginTransaction,
    CancelDelayed,
    CancelReassignment,
    CheckClusterHealth,
    CheckHealth,
    Command,
    CommitGroup,
    CommitOffsets,
    CooperativeHeartbeat,
    CreateAcl,
    CreateBackup,
    CreateKey,
    CreateSchedule,
    CreateTenant,
    CreateTopic,
    DeleteAcl,
    DeleteBackup,
    DeleteGroup,
    DeleteRecords,
    DeleteSchedule,
    DeleteTenant,
    DescribeAssignment,
    DescribeBackup,
    DescribeCaller,
    DescribeCluster,
    DescribeCoordinators,
    DescribeDelays,
    DescribeGroup,
    DescribeLag,
    DescribeMetadata,
    DescribeNode,
    DescribeOffsets,
    DescribePartitions,
    DescribePriorities,
    DescribeQuotas,
    DescribeRebalances,
    DescribeReliability,
    DescribeSchedule,
    DescribeTenant,
    DescribeTenantStatistics,
    DescribeTopic,
    DescribeTracing,
    DescribeTransaction,
    DescribeTransactions,
    DescribeUsage,
    Drain,
    ElectLeader,
    EndCopies,
    EndTransaction,
    Extend,
    FindDelayed,
    FindTrace,
    ForgetBroker,
    HearNode,
    Heartbeat,
    HeartbeatProducer,
    InitProducer,
    Join,
    JoinCluster,
    Leave,
    LeaveCluster,
    ListAcls,
    ListBackups,
    ListDelayed,
    ListGroups,
    ListKeys,
    ListReassignments,
    ListSchedules,
    ListTenantGroups,
    ListTenants,
    ListTenantTopics,
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
    ReportTransactions,
    ResetOffsets,
    ResetUsage,
    RestoreBackup,
    ResumeSchedule,
    RevokeKey,
    RevokePartitions,
    RotateKey,
    RunSchedule,
    SearchTraces,
    SendReply,
    SetTenantStatus,
    StartReassignment,
    TransferLeader,
    Watch,
)

__all__ = [
    "CommandFn",
    "Components",
    "HandlerTable",
    "NodeSettings",
    "begin_serving",
    "dispatch_table",
    "errand_table",
    "group_handlers",
    "pass_fetched",
    "pass_found",
]


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What components are told: see `Node`."""

    secret: bytes
    limits: JournalLimits
    group_retention_ns: int | None
    upkeep_idle_ns: int


class Components:
    """Everything that a node does; without `copies` messages move between its own logs."""

    def __init__(
        self, state: NodeState, settings: NodeSettings, copies: Copies | None = None
    ) -> None:
        self.quotas = TenantQuotas(state)
        self.security = SecurityAdmin(state, self.quotas)
        self.schemas = Schemas(state)
        self.topics = Topics(state, self.quotas)
        self.reports = NodeReports(state, self.topics)
        self.trace_queries = TraceQueries(state)
        self.delayed_messages = DelayedMessages(state)
        self.validation = SchemaValidation(state, self.schemas)
        self.publisher = Publisher(state, self.delayed_messages, self.quotas, self.validation)
        self.stream_reads = StreamReads(state, self.quotas)
        self.replies = Replies(state)
        self.priority_indexer = PriorityIndexer(state)
        self.polls = Polls(state, self.priority_indexer, self.quotas)
        self.receives = Receives(state, self.polls, self.quotas)
        self.record_deletion = RecordDeletion(state, self.polls)
        self.copies = copies = copies or LocalCopies(state, self.topics)
        self.coordinator = TransactionCoordinator(state, self.polls, copies)
        self.dead_letter_mover = DeadLetterMover(state, copies, self.polls, self.coordinator)
        self.tick_sender = TickSender(state, self.coordinator, copies, self.quotas, self.validation)
        self.scheduler = Scheduler(state, self.tick_sender, self.quotas)
        self.redriver = Redriver(state, self.dead_letter_mover, self.quotas, self.validation)
        self.acks = Acks(state, self.polls, self.dead_letter_mover)
        self.positions = Positions(state, self.polls, self.quotas)
        heartbeats = self.heartbeats = WaitingHeartbeats(state)
        self.membership = Membership(state, self.polls, self.positions, self.quotas, heartbeats)
        self.cooperative_groups = CooperativeGroups(state, self.membership, self.heartbeats)
        self.retention = GroupRetention(state, self.membership, settings.group_retention_ns)
        self.transaction_offsets = TransactionOffsets(
            state, self.coordinator.progress, self.positions, self.acks
        )
        self.transaction_descriptions = TransactionDescriptions(state)
        self.backups = Backups(state)
        delayed = self.delayed_messages
        self.restores = Restores(state, self.backups, self.positions, delayed, self.tick_sender)
        self.journaled_state = JournaledState(
            state, self.positions, self.coordinator, settings.limits
        )
        self.producer_snapshots = ProducerSnapshots(state)
        stated = self.journaled_state, PartitionReplay(state, self.producer_snapshots)
        self.node_start = NodeStart(
            state, *stated, self.coordinator, secret=settings.secret, limits=settings.limits
        )
        self.tenant_deletion = TenantDeletion(
            state, self.quotas, self.scheduler, self.membership, self.coordinator
        )
        self.usage_journal = UsageJournal(state)
        self.upkeep = Upkeep(
            state,
            self.journaled_state,
            self.polls,
            self.delayed_messages,
            self.producer_snapshots,
            retention=self.retention,
            idle_every_ns=settings.upkeep_idle_ns,
            usage_journal=self.usage_journal,
        )
        self.absences = Absences(state, self.upkeep)

    def stop(self, now: Now) -> None:
        """Let nobody wait, and save what a start would have to read again."""
        self.stream_reads.end_all()
        self.polls.end_all()
        self.heartbeats.end_all()
        self.replies.end_all()
        self.backups.end_all()
        self.usage_journal.save_all(now)
        self.journaled_state.snapshot_all(now)
        self.delayed_messages.save_all()
        self.producer_snapshots.save_all()


C = TypeVar("C", bound=Command)
CommandFn = Callable[[RequestId, C, Now], None]


class HandlerTable:
    """Handlers by the type of their command."""

    def __init__(self) -> None:
        self.handlers: dict[type, CommandFn[Command]] = {}

    def __call__(self, command: type[C], how: CommandFn[C]) -> None:
        self.handlers[command] = how  # type: ignore[assignment]  # looked up by the same type


def begin_serving(components: Components, state: NodeState, now: Now) -> None:
    """The node takes commands from now on: begin what runs by itself."""
    for group in state.groups:
        group.hear_all(now)
        state.alarms.set(ForGroup(group.number), group.next_deadline())
    components.delayed_messages.arm_all(now)
    components.membership.catch_up(now)
    components.coordinator.begin_serving(now)
    components.retention.begin(now)
    components.upkeep.begin(now)
    components.tick_sender.begin(now)
    components.backups.begin()
    components.usage_journal.begin(now)
    components.tenant_deletion.begin(now)


def dispatch_table(
    components: Components, cluster: ClusterReports
) -> dict[type, CommandFn[Command]]:
    """The handler of every command, except `DeleteTopic`, which concerns most components."""
    handle = HandlerTable()
    _handle_messages(handle, components)
    _handle_groups(handle, components)
    _handle_transactions(handle, components)
    _handle_schedules(handle, components)
    _handle_backups(handle, components)
    _handle_schemas(handle, components.schemas)
    _handle_security(handle, components.security)
    _handle_cluster(handle, cluster)
    handle(DeleteTenant, components.tenant_deletion.delete)
    return handle.handlers


def group_handlers(components: Components) -> dict[type, CommandFn[Command]]:
    """The handlers of commands that the coordinator of a cluster carries out."""
    handle = HandlerTable()
    _handle_groups(handle, components)
    _handle_transactions(handle, components)
    _handle_schedules(handle, components)
    return {
        kind: each
        for kind, each in handle.handlers.items()
        if kind in COORDINATOR_COMMANDS or kind is DescribePriorities
    }


def _handle_messages(handle: HandlerTable, components: Components) -> None:
    handle(DescribeNode, components.reports.describe)
    handle(CheckHealth, components.reports.check_health)
    handle(AuthorizeScrape, components.reports.authorize_scrape)
    handle(CreateTopic, components.topics.create)
    handle(AlterTopic, lambda request, command, _: components.topics.alter(request, command))
    handle(ListTopics, lambda request, _, now: components.topics.list_all(request, now))
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
    handle(DescribeDelays, components.delayed_messages.describe)


def _delete_group(components: Components, request: RequestId, command: DeleteGroup) -> None:
    components.membership.delete(request, command)
    components.transaction_offsets.check_again()


def _handle_groups(handle: HandlerTable, components: Components) -> None:
    handle(Join, components.membership.join)
    handle(Heartbeat, components.membership.heartbeat)
    handle(CooperativeHeartbeat, components.cooperative_groups.heartbeat)
    handle(RevokePartitions, components.cooperative_groups.revoke)
    handle(DescribeAssignment, components.cooperative_groups.describe_assignment)
    handle(DescribeRebalances, components.cooperative_groups.describe_rebalances)
    handle(Drain, components.membership.drain)
    handle(Leave, components.membership.leave)
    handle(ListTenantGroups, components.security.list_groups)
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


def _handle_transactions(handle: HandlerTable, components: Components) -> None:
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


def _handle_schedules(handle: HandlerTable, components: Components) -> None:
    handle(CreateSchedule, components.scheduler.create)
    handle(AlterSchedule, components.scheduler.alter)
    handle(PauseSchedule, components.scheduler.pause)
    handle(ResumeSchedule, components.scheduler.resume)
    handle(DeleteSchedule, components.scheduler.delete)
    handle(RunSchedule, components.tick_sender.run)
    handle(DescribeSchedule, components.scheduler.describe)
    handle(ListSchedules, components.scheduler.list_page)


def _handle_backups(handle: HandlerTable, components: Components) -> None:
    backups = components.backups
    handle(CreateBackup, backups.create)
    handle(ListBackups, lambda request, _, __: backups.list_all(request))
    handle(DescribeBackup, lambda request, asked, _: backups.describe(request, asked))
    handle(DeleteBackup, lambda request, asked, _: backups.delete(request, asked))
    handle(RestoreBackup, lambda request, asked, _: components.restores.restore(request, asked))


def _handle_schemas(handle: HandlerTable, schemas: Schemas) -> None:
    handle(RegisterSchema, schemas.register)
    handle(FindSchema, schemas.find)
    handle(CheckCompatibility, schemas.check)
    handle(ListSubjects, schemas.list_subjects)
    handle(ListVersions, schemas.list_versions)
    handle(DescribeSchema, schemas.describe)
    handle(FindSchemaById, schemas.find_by_id)
    handle(ListSchemaUses, schemas.list_uses)
    handle(ListReferrers, schemas.list_referrers)
    handle(DeleteSubject, schemas.delete_subject)
    handle(DeleteSchema, schemas.delete)
    handle(DescribeCompatibility, schemas.describe_level)
    handle(SetCompatibility, schemas.set_level)
    handle(ResetCompatibility, schemas.reset_level)
    handle(DescribeRegistry, schemas.describe_all)


def _handle_cluster(handle: HandlerTable, cluster: ClusterReports) -> None:
    handle(DescribeCluster, cluster.describe)
    handle(CheckClusterHealth, cluster.check_health)
    handle(DescribeMetadata, cluster.describe_metadata)
    handle(HearNode, cluster.hear)
    handle(AskVote, cluster.vote)
    handle(JoinCluster, cluster.join)
    handle(LeaveCluster, cluster.leave)
    handle(ForgetBroker, cluster.forget)
    handle(ElectLeader, cluster.elect)
    moves = cluster.moves
    handle(TransferLeader, moves.transfer)
    handle(StartReassignment, moves.change)
    handle(CancelReassignment, moves.change)
    handle(ListReassignments, moves.list_all)
    handle(DescribeCoordinators, moves.describe_coordinators)
    for kind in (AddParticipants, AppendCopies, AppendMarker, EndCopies, ReportTransactions):
        handle(kind, _refuse_alone)


def _refuse_alone(_request: RequestId, _command: Command, _now: Now) -> None:
    raise Refused(Code.REQUEST_INVALID, reason="this node is not a member of a cluster")


def _handle_security(handle: HandlerTable, security: SecurityAdmin) -> None:
    handle(CreateKey, security.change)
    handle(ListKeys, security.list_keys)
    handle(RevokeKey, security.change)
    handle(RotateKey, security.change)
    handle(DescribeCaller, security.describe_caller)
    handle(CreateAcl, security.change)
    handle(ListAcls, security.list_acls)
    handle(DeleteAcl, security.change)
    handle(CreateTenant, security.change)
    handle(ListTenants, security.list_tenants)
    handle(DescribeTenant, security.describe_tenant)
    handle(AlterTenant, security.change)
    handle(SetTenantStatus, security.change)
    handle(DescribeQuotas, security.describe_quotas)
    handle(AlterQuotas, security.change)
    handle(DescribeUsage, security.describe_usage)
    handle(ResetUsage, security.reset_usage)
    handle(DescribeTenantStatistics, security.describe_statistics)
    handle(ListTenantTopics, security.list_topics)


def errand_table(components: Components, state: NodeState) -> dict[Errand, Callable[[Now], None]]:
    """What to do for each errand, except those that concern most components."""
    return {
        Errand.MARKERS: components.coordinator.resume_markers,
        Errand.MOVES: components.dead_letter_mover.resume,
        Errand.POLLS: components.polls.wake_more,
        Errand.PROGRESS: components.coordinator.progress.resume,
        Errand.READS: components.stream_reads.wake_more,
        Errand.REBALANCES: components.membership.rebalance_more,
        Errand.SCHEDULES: components.tick_sender.wake,
        Errand.START: components.node_start.resume,
        Errand.STATEMENTS: components.journaled_state.continue_statements,
        Errand.STEPS: state.stepwise.resume,
        Errand.UPKEEP: partial(_maintain, components),
    }


def _maintain(components: Components, now: Now) -> None:
    components.upkeep.do_a_share(now)
    components.tick_sender.look_at_clock(now)


# What was read from the disk


def pass_fetched(
    components: Components, purpose: NodeFetchPurpose, data: memoryview | None, now: Now
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
        case AuditFetch():
            components.node_start.audit_fetched(data, now)
        case JournalFetch():
            components.node_start.replayed(purpose, data)
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
