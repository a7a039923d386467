"""The replies of a node. A refusal is not a reply: `ask` raises `Refused`.

Replies with records name slices of the log; the runtime reads them and puts the bytes into `data`
before the gateway sees the reply.
"""

import enum

import msgspec

from goqueue.model.errors import Code
from goqueue.model.ids import LogId, Offset, Timestamp
from goqueue.model.messages import Header
from goqueue.model.requests.backups import BackupDescription, BackupList
from goqueue.model.requests.cluster import (
    ClusterDescription,
    ClusterHealth,
    ClusterJoined,
    LeaderElected,
    MetadataDescription,
    NodeHeard,
    TransactionAdmitted,
    VoteGiven,
)
from goqueue.model.requests.delays import DelayedDescription, DelayedList, DelayStatistics
from goqueue.model.requests.groups import (
    Assignor,
    GroupProtocol,
    GroupState,
    Mode,
    RebalanceState,
)
from goqueue.model.requests.leases import Acked, Extended, Leased, Released
from goqueue.model.requests.reassignments import (
    ReassignmentDescription,
    ReassignmentList,
)
from goqueue.model.requests.schedules import ScheduleDescription, ScheduleList, ScheduleRan
from goqueue.model.requests.security import SecurityReply
from goqueue.model.requests.topics import TopicConfig
from goqueue.model.requests.traces import TraceDetail, TraceList, TraceSeed, TracingStatistics
from goqueue.model.requests.transactions import (
    GroupCommitted,
    ProducerGranted,
    TransactionBegan,
    TransactionDescription,
    TransactionEnded,
    TransactionList,
    TransactionPrepared,
    TransactionStatistics,
)
from goqueue.model.schemas import SchemaReply, Violation

__all__ = [
    "Beat",
    "CooperativeBeat",
    "DeletionLimit",
    "Done",
    "GroupDescription",
    "GroupList",
    "Joined",
    "Lag",
    "LaneDescription",
    "MemberAssignment",
    "MemberDescription",
    "NodeDescription",
    "NodeHealth",
    "Offsets",
    "PartitionDescription",
    "PartitionLag",
    "PartitionList",
    "PartitionStart",
    "Placed",
    "PositionReset",
    "PositionsReset",
    "PriorityStatistics",
    "Published",
    "Rebalances",
    "Records",
    "RecordsDeleted",
    "Redriven",
    "RefusedDeadLetter",
    "Reliability",
    "Reply",
    "ReplyReceived",
    "ReplySent",
    "Returned",
    "RevocationConfirmed",
    "TopicDescription",
    "TopicFlow",
    "TopicList",
    "Watched",
]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The command was carried out; there is nothing to return."""


# Topics


class TopicList(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that users created, sorted."""

    topics: tuple[str, ...]


class TopicDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A topic; `offsets` holds the earliest and the last offset of each partition."""

    name: str
    config: TopicConfig
    created_at: Timestamp
    total_messages: int
    total_size_bytes: int
    offsets: tuple[tuple[Offset, Offset], ...]


class PartitionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One partition as the cluster sees it; without a leader `leader` is empty."""

    partition: int
    leader: str
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    version: int
    earliest_offset: Offset
    end_offset: Offset
    high_watermark: Offset
    size_bytes: int
    # How many committed messages it has; only a leader in a cluster tells.
    messages: int = 0
    # Why its offsets are not known, if they are not.
    error: Code | None = None


class PartitionList(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a topic in order."""

    topic: str
    partitions: tuple[PartitionDescription, ...]


class DeletionLimit(enum.StrEnum):
    """Why records were kept although they were to be deleted."""

    NONE = ""
    DELAYED_MESSAGE = "delayed_message"
    OPEN_TRANSACTION = "open_transaction"


class PartitionStart(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition begins after a deletion, and how many offsets went with it.

    `kept_by` says what still needs records below the offset that was asked for.
    """

    partition: int
    earliest_offset: Offset
    deleted_offsets: int
    kept_by: DeletionLimit = DeletionLimit.NONE


class RecordsDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions that were asked for, in order."""

    topic: str
    partitions: tuple[PartitionStart, ...]


# Messages


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for all records of one partition: `first` offset and `count`, or `refused`.

    With `is_duplicate` an earlier attempt stored them: `first` is where. `size` is in bytes.
    """

    partition: int
    first: Offset
    count: int
    refused: Code | None = None
    is_duplicate: bool = False
    size: int = 0


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a `Publish`.

    `targets` has, in request order, the partition of each record, or a negative number that says
    why it was not routed (`records.Unroutable`). `placed` has one entry per partition; its records
    have consecutive offsets in request order. So the offset of a record is the `first` of its
    partition plus the number of earlier records with the same target.

    With `is_unconfirmed` (`Acks.NONE`) only refusals are placed: nothing is known of the rest yet.
    `violations` are of records with the target `NONCONFORMING`, by their place in the request.
    """

    targets: list[int]
    placed: tuple[Placed, ...]
    timestamp: Timestamp
    is_unconfirmed: bool = False
    violations: dict[int, Violation] = {}


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """Stored records from `offset` on, not filtered: `gateways.visible_records` does that.

    `offset` is where the read started. The next read starts after the last record of `data`, or at
    `upto` if there is none (`gateways.offset_after`). `stable` is the last stable offset, `start`
    the log start offset. Readers of committed messages drop the `aborted` ranges, each from its
    first offset to the one after its last. `seed` derives the trace contexts of messages that carry
    none.
    """

    log: LogId
    offset: Offset
    high_watermark: Offset
    stable: Offset
    start: Offset
    upto: Offset
    aborted: tuple[tuple[int, int], ...] = ()
    data: tuple[memoryview, ...] = ()
    seed: TraceSeed | None = None


class ReplyReceived(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a message."""

    value: bytes | None
    headers: tuple[Header, ...] = ()


class ReplySent(msgspec.Struct, frozen=True, kw_only=True):
    """Whether somebody waited for a reply."""

    is_delivered: bool


class Watched(msgspec.Struct, frozen=True):
    """The partitions that have news, in order; none if none came in time."""

    partitions: tuple[int, ...] = ()


# Groups


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """The membership: id, generation, and the partitions assigned to the member."""

    member_id: str
    generation: int
    leader_id: str
    assigned: tuple[LogId, ...]
    members: tuple[str, ...]
    mode: Mode
    protocol: GroupProtocol = GroupProtocol.EAGER


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a heartbeat; a member of another generation adopts this assignment."""

    is_rebalanced: bool
    state: GroupState
    generation: int
    assigned: tuple[LogId, ...]


class CooperativeBeat(msgspec.Struct, frozen=True, kw_only=True):
    """What a member of a cooperative group owns, and what of that it has to give up.

    The deadline is that of the first partition to be revoked.
    """

    is_rebalance_required: bool
    to_revoke: tuple[LogId, ...]
    assigned: tuple[LogId, ...]
    generation: int
    state: GroupState
    revocation_deadline: Timestamp | None = None
    rebalance_state: RebalanceState = RebalanceState.NONE


class RevocationConfirmed(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions were given up; `pending_count` others of the group are still to be."""

    pending_count: int
    rebalance_state: RebalanceState


class MemberAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one member."""

    member_id: str
    generation: int
    assigned: tuple[LogId, ...]


class Rebalances(msgspec.Struct, frozen=True, kw_only=True):
    """Rebalances since the start of the node; those that failed forced a revocation.

    Durations run from the cause until every member was told, in nanoseconds.
    """

    count: int = 0
    succeeded: int = 0
    failed: int = 0
    partitions_revoked: int = 0
    partitions_assigned: int = 0
    revocation_timeouts: int = 0
    last_duration_ns: int = 0
    durations_ns: int = 0
    last_at: Timestamp | None = None
    by_reason: dict[str, int] = {}


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a group. The times are wall times."""

    member_id: str
    client_id: str
    assigned: tuple[LogId, ...]
    last_heartbeat: Timestamp
    joined_at: Timestamp
    in_flight: int
    # Of those assigned, what the member has to give up.
    revoking: tuple[LogId, ...] = ()
    instance_id: str = ""


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One group."""

    group: str
    state: GroupState
    mode: Mode
    assignor: Assignor
    generation: int
    topics: tuple[str, ...]
    created_at: Timestamp
    members: tuple[MemberDescription, ...]
    # When somebody last received without joining, to the hour.
    last_received_at: Timestamp | None = None
    protocol: GroupProtocol = GroupProtocol.EAGER
    rebalance_state: RebalanceState = RebalanceState.NONE


class GroupList(msgspec.Struct, frozen=True, kw_only=True):
    """Every group, sorted by name."""

    groups: tuple[GroupDescription, ...]


# Positions


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """The committed offset of a group in each partition, which is the next one to read."""

    group: str
    offsets: dict[LogId, Offset]
    generation: int
    updated_at: Timestamp | None = None
    # What clients said about the offsets that they committed, where they said something.
    metadata: dict[LogId, str] | None = None


class PositionReset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a reset puts, or would put, one position."""

    log: LogId
    offset: Offset
    lag: int


class PositionsReset(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset did, or would do."""

    group: str
    positions: tuple[PositionReset, ...]


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind in one partition."""

    log: LogId
    committed: Offset
    end: Offset
    lag: int
    in_flight: int
    time_lag_ns: int


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind."""

    group: str
    partitions: tuple[PartitionLag, ...]


# Acknowledgement


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """A nacked or rejected message: when it is redelivered, or its dead-letter topic.

    Its place there is None if it was gone before it could be copied.
    """

    log: LogId
    offset: Offset
    attempt: int
    visible_at: Timestamp | None = None
    dead_letter_topic: str | None = None
    dead_letter_partition: int | None = None
    dead_letter_offset: Offset | None = None


class RefusedDeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter that was not redriven, since its value does not conform to the schema."""

    log: LogId
    offset: Offset
    code: Code
    path: str
    reason: str


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters were redriven, and how many stay since their values are refused."""

    moved: int
    refused: int = 0
    first_refused: RefusedDeadLetter | None = None


class Reliability(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the process started, and what is held now."""

    acks: int
    nacks: int
    rejects: int
    dead_letters: int
    extensions: int
    redeliveries: int
    expirations: int
    in_flight: int
    rejected_dead_letters: int
    exhausted_dead_letters: int
    # By the topic that keeps them.
    dead_letters_by_topic: dict[str, int] = {}
    releases: int = 0


class LaneDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One priority of one group on one partition, in this life of the node."""

    group: str
    log: LogId
    lane: int
    ready: int
    in_flight: int
    enqueued: int
    dequeued: int
    waited_ns: int
    served_ago_ns: int | None
    waiting_ns: int


class PriorityStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The lanes of all groups, in sum and one by one; sums are by priority."""

    published: tuple[int, ...]
    average_wait_ns: tuple[int, ...]
    pending: tuple[int, ...]
    lanes: tuple[LaneDescription, ...]


# The node


class TopicFlow(msgspec.Struct, frozen=True):
    """Messages of a topic since the process started: taken, and handed out to any reader."""

    published: int = 0
    consumed: int = 0


class DamagedOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of one log that are refused because their records are damaged."""

    log: LogId
    first: Offset
    below: Offset
    reason: str


class NodeDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The node as a whole; `not_ready` says why it does not serve, if so.

    Topics that nothing happened in have no flow. Totals are of the topics that the caller sees; a
    probe without a key sees no topics, and the totals of all.
    """

    node_id: str
    not_ready: str | None
    failed_logs: tuple[LogId, ...]
    topics: tuple[TopicDescription, ...]
    flows: dict[str, TopicFlow] = {}
    health: "NodeHealth"
    topic_count: int = 0
    total_size_bytes: int = 0


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the node serves; costs the same however many topics there are.

    `full_logs` found no space at their last write; `damaged` are the first of `damaged_ranges`.
    Logs are those that the caller may see; `has_problems` says whether there are any at all.
    """

    node_id: str
    not_ready: str | None
    failed_logs: tuple[LogId, ...]
    full_logs: tuple[LogId, ...] = ()
    damaged: tuple[DamagedOffsets, ...] = ()
    damaged_ranges: int = 0
    has_problems: bool = False


Reply = (
    Done
    | TopicList
    | TopicDescription
    | PartitionList
    | RecordsDeleted
    | Published
    | Records
    | Watched
    | ReplyReceived
    | ReplySent
    | DelayedDescription
    | DelayedList
    | DelayStatistics
    | Joined
    | Beat
    | CooperativeBeat
    | RevocationConfirmed
    | MemberAssignment
    | Rebalances
    | GroupDescription
    | GroupList
    | Leased
    | Offsets
    | PositionsReset
    | Lag
    | Acked
    | Released
    | Returned
    | Extended
    | Redriven
    | Reliability
    | PriorityStatistics
    | NodeDescription
    | NodeHealth
    | ClusterDescription
    | ClusterHealth
    | ClusterJoined
    | LeaderElected
    | ReassignmentDescription
    | ReassignmentList
    | MetadataDescription
    | NodeHeard
    | TransactionAdmitted
    | VoteGiven
    | ProducerGranted
    | TransactionBegan
    | TransactionPrepared
    | TransactionEnded
    | GroupCommitted
    | TransactionDescription
    | TransactionList
    | TransactionStatistics
    | TraceList
    | TraceDetail
    | TracingStatistics
    | ScheduleDescription
    | ScheduleList
    | ScheduleRan
    | BackupDescription
    | BackupList
    | SchemaReply
    | SecurityReply
)
