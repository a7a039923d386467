"""What each command is about, what it does to it, and which roles may ask for it.

`RULES` has one row for every command there is. A command without one fails three times: `rule_of`
does not type-check, importing this module stops at `assert_never`, and a test compares the table
with the union of commands. Never decides anything: see `access.py`.

A rule names what a command is about if its fields say so. Where they do not (a receipt, a
transaction, a list), the rule is *deferred*: the handler asks `Access` about each name when it
knows it, and the node asserts that it did.
"""

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar, assert_never, get_args

import msgspec

from goqueue.model import (
    CheckCompatibility,
    DeleteSchema,
    DeleteSubject,
    DescribeCompatibility,
    DescribeRegistry,
    DescribeSchema,
    FindSchema,
    FindSchemaById,
    ListReferrers,
    ListSchemaUses,
    ListSubjects,
    ListVersions,
    RegisterSchema,
    ResetCompatibility,
    SchemaCommand,
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
    DeleteTopic,
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
    Operation,
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
    ResourceType,
    RestoreBackup,
    ResumeSchedule,
    RevokeKey,
    RevokePartitions,
    Role,
    RotateKey,
    RunSchedule,
    SearchTraces,
    SecurityCommand,
    SendReply,
    SetTenantStatus,
    StartReassignment,
    TransferLeader,
    Watch,
)

__all__ = ["RULES", "AnyCommand", "Need", "Rule", "Scope", "rule_of"]

AnyCommand = Command | SecurityCommand
_TopicCommand = (
    CreateTopic
    | AlterTopic
    | DeleteTopic
    | DeleteRecords
    | ListTopics
    | DescribeTopic
    | DescribePartitions
)
_GroupCommand = (
    Join
    | Heartbeat
    | CooperativeHeartbeat
    | RevokePartitions
    | DescribeAssignment
    | DescribeRebalances
    | Leave
    | Drain
    | ListGroups
    | DescribeGroup
    | DeleteGroup
    | Poll
    | Receive
    | CommitOffsets
    | DescribeOffsets
    | ResetOffsets
    | DescribeLag
    | Ack
    | Nack
    | Reject
    | Release
    | Extend
    | Redrive
)
_ProducerCommand = (
    InitProducer
    | HeartbeatProducer
    | BeginTransaction
    | AddPartition
    | AddOffsets
    | PrepareTransaction
    | CommitGroup
    | EndTransaction
    | ListTransactions
    | DescribeTransaction
    | DescribeTransactions
    | AlterSchedule
    | CreateSchedule
    | DeleteSchedule
    | DescribeSchedule
    | ListSchedules
    | PauseSchedule
    | ResumeSchedule
    | RunSchedule
)


_ClusterCommand = (
    CreateBackup
    | ListBackups
    | DescribeBackup
    | DeleteBackup
    | RestoreBackup
    | DescribeCluster
    | CheckClusterHealth
    | DescribeMetadata
    | HearNode
    | AskVote
    | AddParticipants
    | AppendCopies
    | AppendMarker
    | EndCopies
    | ReportTransactions
    | JoinCluster
    | LeaveCluster
    | ForgetBroker
    | ElectLeader
    | TransferLeader
    | StartReassignment
    | CancelReassignment
    | DescribeCoordinators
    | ListReassignments
)


class Need(NamedTuple):
    """One thing that a command does to a name."""

    kind: ResourceType
    name: str
    operation: Operation


class Scope(enum.Enum):
    """Where the names are that a command is about."""

    # In its fields.
    NAMED = enum.auto()
    # Only the handler finds them (all, or some more than the fields name), and asks for each.
    DEFERRED = enum.auto()
    # As DEFERRED, also for probes without a key, which see no names.
    PROBE = enum.auto()
    # It is about the node and all tenants: for keys of `default`.
    CLUSTER = enum.auto()
    # It is about the caller itself, or about nothing that has an owner.
    CALLER = enum.auto()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Who may send a command, and what else has to hold.

    `roles` are those that may besides admins. `name` is of the resource that the command is always
    about, and `others` are further needs that its fields say. With `is_granted_by_acl` an ACL
    replaces the role. A suspended tenant is refused what `stores`.
    """

    scope: Scope
    roles: frozenset[Role] = frozenset()
    kind: ResourceType = ResourceType.TOPIC
    operation: Operation = Operation.DESCRIBE
    name: Callable[[AnyCommand], str] | None = None
    others: Callable[[AnyCommand], Iterable[Need]] | None = None
    is_granted_by_acl: bool = False
    stores: bool = False


C = TypeVar("C", bound=AnyCommand)

_NOBODY: frozenset[Role] = frozenset()
_PRODUCER = frozenset({Role.PRODUCER})
_CONSUMER = frozenset({Role.CONSUMER})
_CLIENT = _PRODUCER | _CONSUMER
_READER = _CONSUMER | {Role.READONLY}
_ANY = _CLIENT | {Role.READONLY}

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_READ, _WRITE, _DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


_CLUSTER_READ = Rule(
    scope=Scope.CLUSTER, roles=frozenset({Role.READONLY}), kind=ResourceType.CLUSTER
)


def _on_topic(
    _: type[C], name: Callable[[C], str], operation: Operation, roles: frozenset[Role]
) -> Rule:
    return Rule(
        scope=Scope.NAMED,
        roles=roles,
        operation=operation,
        name=name,  # type: ignore[arg-type]  # called with this type only
        stores=operation is _WRITE,
    )


def _administers(_: type[C], name: Callable[[C], str], operation: Operation) -> Rule:
    """A change of a topic as a whole: for admins, and for those whom an ACL allows it."""
    return Rule(
        scope=Scope.NAMED,
        operation=operation,
        name=name,  # type: ignore[arg-type]  # called with this type only
        is_granted_by_acl=True,
        stores=True,
    )


def _on_group(
    _: type[C],
    name: Callable[[C], str],
    operation: Operation = _READ,
    roles: frozenset[Role] = _CONSUMER,
    *,
    topics: Callable[[C], Iterable[str]] | None = None,
    scope: Scope = Scope.NAMED,
) -> Rule:
    """Something done to a group, with the right to read topics."""

    def others(command: C) -> Iterable[Need]:
        # Each topic once, however many of its partitions are meant.
        named = dict.fromkeys(() if topics is None else topics(command))
        return [Need(_TOPIC, topic, _READ) for topic in named]

    return Rule(
        scope=scope,
        roles=roles,
        kind=_GROUP,
        operation=operation,
        name=name,  # type: ignore[arg-type]  # called with this type only
        others=None if topics is None else others,  # type: ignore[arg-type]  # as above
    )


def _deferred(roles: frozenset[Role], *, stores: bool = False) -> Rule:
    return Rule(scope=Scope.DEFERRED, roles=roles, stores=stores)


def rule_of(kind: type[AnyCommand]) -> Rule:
    """The rule of a command, by its type: messages and the node; the rest see below."""
    if issubclass(kind, Publish):
        return _on_topic(kind, lambda asked: asked.topic, _WRITE, _PRODUCER)
    if issubclass(kind, CancelDelayed):
        rule = _on_topic(kind, lambda asked: asked.topic, _WRITE, _PRODUCER)
        return msgspec.structs.replace(rule, stores=False)
    if issubclass(kind, (Read, Watch, ListDelayed, FindDelayed)):
        return _on_topic(kind, lambda asked: asked.topic, _READ, _READER)
    if issubclass(kind, (DescribeDelays, DescribeReliability, DescribePriorities)):
        return _deferred(_ANY)
    if issubclass(kind, (SearchTraces, FindTrace, DescribeTracing)):
        return _deferred(_READER)
    if issubclass(kind, (DescribeNode, CheckHealth)):
        return Rule(scope=Scope.PROBE, roles=_ANY)
    if issubclass(kind, AuthorizeScrape):
        return _CLUSTER_READ
    if issubclass(kind, AwaitReply):
        return Rule(scope=Scope.CALLER, roles=_PRODUCER)
    if issubclass(kind, SendReply):
        # Who knows the id of a request has read the message that carries it.
        return Rule(scope=Scope.CALLER, roles=_CLIENT)
    return _rule_of_topics(kind)


def _rule_of_topics(
    kind: type[
        _TopicCommand
        | _GroupCommand
        | _ProducerCommand
        | _ClusterCommand
        | SchemaCommand
        | SecurityCommand
    ],
) -> Rule:
    if issubclass(kind, DescribeTopic):
        return _on_topic(kind, lambda asked: asked.name, _DESCRIBE, _ANY)
    if issubclass(kind, DescribePartitions):
        return _on_topic(kind, lambda asked: asked.topic, _DESCRIBE, _ANY)
    if issubclass(kind, CreateTopic):
        return _administers(kind, lambda asked: asked.name, Operation.CREATE)
    if issubclass(kind, AlterTopic):
        return _administers(kind, lambda asked: asked.name, Operation.ALTER)
    if issubclass(kind, DeleteTopic):
        return _administers(kind, lambda asked: asked.name, Operation.DELETE)
    if issubclass(kind, DeleteRecords):
        return _administers(kind, lambda asked: asked.topic, Operation.DELETE)
    if issubclass(kind, ListTopics):
        return _deferred(_ANY)
    return _rule_of_groups(kind)


def _rule_of_groups(
    kind: type[
        _GroupCommand | _ProducerCommand | _ClusterCommand | SchemaCommand | SecurityCommand
    ],
) -> Rule:
    if issubclass(kind, Poll):
        # Leases are made only on topics that the caller may read when they are made.
        return _on_group(kind, lambda asked: asked.group, scope=Scope.DEFERRED)
    if issubclass(kind, Receive):
        return _on_group(kind, lambda asked: asked.group, topics=lambda asked: asked.topics)
    if issubclass(kind, Join):
        return _on_group(kind, lambda asked: asked.group, topics=lambda asked: asked.topics)
    if issubclass(kind, CommitOffsets):
        return _on_group(
            kind,
            lambda asked: asked.group,
            topics=lambda asked: (log.topic for log in asked.offsets),
        )
    if issubclass(kind, (Heartbeat, CooperativeHeartbeat, RevokePartitions, Leave, Drain)):
        return _on_group(kind, lambda asked: asked.group)
    if issubclass(kind, (DescribeGroup, DescribeOffsets, DescribeLag, DescribeAssignment)):
        # Topics of the group that the caller may not see are left out.
        return _on_group(kind, lambda asked: asked.group, roles=_READER, scope=Scope.DEFERRED)
    if issubclass(kind, (ListGroups, DescribeRebalances)):
        return _deferred(_READER)
    if issubclass(kind, ResetOffsets):
        return _on_group(
            kind, lambda asked: asked.group, Operation.ALTER, topics=lambda asked: (asked.topic,)
        )
    if issubclass(kind, DeleteGroup):
        return _on_group(kind, lambda asked: asked.group, Operation.DELETE)
    if issubclass(kind, (Ack, Nack, Reject, Release, Extend)):
        return _deferred(_CONSUMER)
    if issubclass(kind, Redrive):
        return _deferred(_CONSUMER, stores=True)
    return _rule_of_producers(kind)


def _rule_of_producers(
    kind: type[_ProducerCommand | _ClusterCommand | SchemaCommand | SecurityCommand],
) -> Rule:
    if issubclass(kind, AddPartition):
        rule = _on_topic(kind, lambda asked: asked.log.topic, _WRITE, _PRODUCER)
        return msgspec.structs.replace(rule, scope=Scope.DEFERRED)
    if issubclass(kind, AddOffsets):
        return _on_group(
            kind,
            lambda asked: asked.group,
            roles=_PRODUCER,
            topics=lambda asked: (log.topic for log in asked.offsets),
            scope=Scope.DEFERRED,
        )
    if issubclass(
        kind,
        (
            InitProducer,
            HeartbeatProducer,
            BeginTransaction,
            PrepareTransaction,
            CommitGroup,
            EndTransaction,
        ),
    ):
        return _deferred(_PRODUCER)
    if issubclass(kind, (ListTransactions, DescribeTransaction, DescribeTransactions)):
        return _deferred(_PRODUCER | {Role.READONLY})
    if issubclass(kind, (CreateSchedule, AlterSchedule, RunSchedule)):
        return _deferred(_PRODUCER, stores=True)
    if issubclass(kind, (PauseSchedule, ResumeSchedule, DeleteSchedule)):
        return _deferred(_PRODUCER)
    if issubclass(kind, (DescribeSchedule, ListSchedules)):
        return _deferred(_ANY)
    return _rule_of_schemas(kind)


def _rule_of_schemas(kind: type[_ClusterCommand | SchemaCommand | SecurityCommand]) -> Rule:
    # Handlers ask about the topic of a subject: see `broker/schemas.py`.
    if issubclass(kind, RegisterSchema):
        return _deferred(_PRODUCER, stores=True)
    if issubclass(kind, (DeleteSubject, DeleteSchema)):
        return _deferred(_PRODUCER)
    if issubclass(kind, ResetCompatibility):
        return _deferred(_NOBODY, stores=True)
    if issubclass(kind, SetCompatibility):
        return Rule(scope=Scope.DEFERRED, stores=True)
    if issubclass(
        kind,
        (
            FindSchema,
            CheckCompatibility,
            ListSubjects,
            ListVersions,
            DescribeSchema,
            FindSchemaById,
            ListSchemaUses,
            ListReferrers,
            DescribeCompatibility,
            DescribeRegistry,
        ),
    ):
        return _deferred(_ANY)
    return _rule_of_cluster(kind)


def _rule_of_cluster(kind: type[_ClusterCommand | SecurityCommand]) -> Rule:
    if issubclass(kind, (DescribeCaller, DescribeCluster, CheckClusterHealth)):
        return Rule(scope=Scope.CALLER, roles=_ANY)
    if issubclass(
        kind,
        (
            DescribeTenant,
            ListTenants,
            DescribeQuotas,
            DescribeUsage,
            DescribeTenantStatistics,
            ListTenantTopics,
            ListTenantGroups,
            ListBackups,
            DescribeBackup,
            DescribeCoordinators,
            DescribeMetadata,
            ListReassignments,
        ),
    ):
        return _CLUSTER_READ
    if issubclass(kind, (ListKeys, ListAcls)):
        return Rule(scope=Scope.CLUSTER, kind=ResourceType.CLUSTER)
    if issubclass(
        kind,
        (
            CreateKey,
            RevokeKey,
            RotateKey,
            CreateAcl,
            DeleteAcl,
            CreateTenant,
            AlterTenant,
            DeleteTenant,
            SetTenantStatus,
            AlterQuotas,
            ResetUsage,
            CreateBackup,
            DeleteBackup,
            RestoreBackup,
            HearNode,
            AskVote,
            AddParticipants,
            AppendCopies,
            AppendMarker,
            EndCopies,
            ReportTransactions,
            JoinCluster,
            LeaveCluster,
            ForgetBroker,
            ElectLeader,
            TransferLeader,
            StartReassignment,
            CancelReassignment,
        ),
    ):
        return Rule(
            scope=Scope.CLUSTER, kind=ResourceType.CLUSTER, operation=Operation.ALTER, stores=True
        )
    assert_never(kind)


RULES: dict[type, Rule] = {kind: rule_of(kind) for kind in get_args(AnyCommand)}
