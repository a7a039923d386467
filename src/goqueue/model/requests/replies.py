"""The replies of a node. A refusal is not a reply: `ask` raises `Refused`.

Replies with records name slices of the log; the runtime reads them and puts the bytes into `data`
before the gateway sees the reply.
"""

import enum

import msgspec

from goqueue.model.errors import Code
from goqueue.model.ids import LogId, Offset, Timestamp
from goqueue.model.messages import Header
from goqueue.model.requests.delays import DelayedDescription, DelayedList, DelayStatistics
from goqueue.model.requests.groups import Assignor, GroupState, Mode
from goqueue.model.requests.leases import Acked, Extended, Leased, Released
from goqueue.model.requests.schedules import ScheduleDescription, ScheduleList, ScheduleRan
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

__all__ = [
    "Beat",
    "DeletionLimit",
    "Done",
    "GroupDescription",
    "GroupList",
    "Joined",
    "Lag",
    "LaneDescription",
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
    "Records",
    "RecordsDeleted",
    "Redriven",
    "Reliability",
    "Reply",
    "ReplyReceived",
    "ReplySent",
    "Returned",
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
    """One partition as the cluster sees it."""

    partition: int
    leader: str
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    version: int
    earliest_offset: Offset
    end_offset: Offset
    high_watermark: Offset
    size_bytes: int


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
    """

    targets: list[int]
    placed: tuple[Placed, ...]
    timestamp: Timestamp


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


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a heartbeat; a member of another generation adopts this assignment."""

    is_rebalanced: bool
    state: GroupState
    generation: int
    assigned: tuple[LogId, ...]


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a group. The times are wall times."""

    member_id: str
    client_id: str
    assigned: tuple[LogId, ...]
    last_heartbeat: Timestamp
    joined_at: Timestamp
    in_flight: int


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
    """A nacked or rejected message: when it is redelivered, or its dead-letter topic."""

    log: LogId
    offset: Offset
    attempt: int
    visible_at: Timestamp | None = None
    dead_letter_topic: str | None = None


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters were redriven."""

    moved: int


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

    Topics that nothing happened in have no flow.
    """

    node_id: str
    not_ready: str | None
    failed_logs: tuple[LogId, ...]
    topics: tuple[TopicDescription, ...]
    flows: dict[str, TopicFlow] = {}
    health: "NodeHealth"


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the node serves; costs the same however many topics there are.

    `full_logs` found no space at their last write; `damaged` are the first of `damaged_ranges`.
    """

    node_id: str
    not_ready: str | None
    failed_logs: tuple[LogId, ...]
    full_logs: tuple[LogId, ...] = ()
    damaged: tuple[DamagedOffsets, ...] = ()
    damaged_ranges: int = 0


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
)
