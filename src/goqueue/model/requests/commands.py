"""The commands of a node. Each is answered exactly once.

Gateways build them after they checked types and sizes; the node checks names, numbers and states
and refuses what does not fit. The docstring of a command names its reply. Durations are
nanoseconds.
"""

import enum
from collections.abc import Mapping

import msgspec

from goqueue.model.errors import Code
from goqueue.model.ids import SECOND, LogId, Offset, Timestamp
from goqueue.model.messages import Header
from goqueue.model.requests.backups import (
    CreateBackup,
    DeleteBackup,
    DescribeBackup,
    ListBackups,
    RestoreBackup,
)
from goqueue.model.requests.cluster import ClusterCommand
from goqueue.model.requests.delays import CancelDelayed, DescribeDelays, FindDelayed, ListDelayed
from goqueue.model.requests.groups import Assignor, GroupProtocol, Mode, Start, Strategy
from goqueue.model.requests.leases import LeaseOffsets
from goqueue.model.requests.reassignments import ReassignmentCommand
from goqueue.model.requests.schedules import (
    AlterSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
)
from goqueue.model.requests.security import SecurityCommand
from goqueue.model.requests.topics import PARTITIONS_DEFAULT, TopicChanges, TopicConfig
from goqueue.model.requests.traces import DescribeTracing, FindTrace, SearchTraces
from goqueue.model.requests.transactions import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    CommitGroup,
    DescribeTransaction,
    DescribeTransactions,
    EndTransaction,
    HeartbeatProducer,
    InitProducer,
    Isolation,
    ListTransactions,
    PrepareTransaction,
    ProducerStamp,
)
from goqueue.model.schemas import SchemaCommand, Violation

__all__ = [
    "Ack",
    "Acks",
    "AlterTopic",
    "AuthorizeScrape",
    "AwaitReply",
    "CheckHealth",
    "Command",
    "CommitOffsets",
    "CooperativeHeartbeat",
    "CreateTopic",
    "DeleteGroup",
    "DeleteRecords",
    "DeleteTopic",
    "DescribeAssignment",
    "DescribeGroup",
    "DescribeLag",
    "DescribeNode",
    "DescribeOffsets",
    "DescribePartitions",
    "DescribePriorities",
    "DescribeRebalances",
    "DescribeReliability",
    "DescribeTopic",
    "Drain",
    "Extend",
    "Heartbeat",
    "Join",
    "Leave",
    "ListGroups",
    "ListTopics",
    "Nack",
    "Poll",
    "Publish",
    "Read",
    "Receive",
    "Redrive",
    "Reject",
    "Release",
    "ResetOffsets",
    "RevokePartitions",
    "SendReply",
    "Watch",
]

# Topics


class CreateTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Create a topic; answered by `TopicDescription`."""

    name: str
    partitions: int = PARTITIONS_DEFAULT
    config: TopicConfig = TopicConfig()
    # The settings that were given, None: all. Others may depend on the cluster.
    chosen: tuple[str, ...] | None = None


class AlterTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Change settings of a topic; answered by `TopicDescription`."""

    name: str
    changes: TopicChanges


class DeleteTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a topic, its messages and every group's position in it; answered by `Done`."""

    name: str


class ListTopics(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TopicList`."""


class DescribeTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TopicDescription`."""

    name: str


class DescribePartitions(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `PartitionList`; `only` is how one node asks another about what that leads."""

    topic: str
    only: tuple[int, ...] | None = None


class DeleteRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the oldest records of partitions; answered by `RecordsDeleted` once that is durable.

    `before` is the first offset to keep, by partition; None deletes all that is stored now.
    """

    topic: str
    before: Mapping[int, Offset | None] | None = None


# Messages


class Acks(enum.StrEnum):
    """What the answer to a publish waits for.

    `none`: the node has the messages and may lose them; the answer has no offsets. `leader`: the
    leader has them as its flush policy says. `all`: every in-sync replica has.
    """

    NONE = "none"
    LEADER = "leader"
    ALL = "all"


class Publish(msgspec.Struct, frozen=True, kw_only=True):
    """Append messages; answered by `Published`.

    `batch` holds whole, verified records in request order, with offset 0 (`records.build`,
    `records.Draft`). The node owns it from now on and changes it in place.

    `targets` has the partition of each record, or -1 to route it by its key, or round robin without
    one; None routes all of them. With `is_whole` one unacceptable message refuses the whole batch;
    otherwise the reply lists it. A `producer` needs its answer: it is refused with `Acks.NONE`.

    `dues` has the delivery time of each record, 0 for now; delayed records carry their flag and
    header already. A `producer` with a sequence names one partition in `targets`, the same for all
    records; its open transaction, if any, includes them. `trace` has the trace headers of the
    request, for messages without their own. `refused` counts messages that the gateway refused
    itself, by code, for the metrics. `violations` and `is_validated` are the node's: what does not
    conform to the schemas of the topic, by index, and whether that is known.
    """

    topic: str
    batch: bytearray
    targets: list[int] | None = None
    acks: Acks = Acks.ALL
    is_whole: bool = False
    dues: list[int] | None = None
    producer: ProducerStamp | None = None
    trace: tuple[Header, ...] = ()
    refused: dict[Code, int] | None = None
    violations: dict[int, Violation] | None = None
    is_validated: bool = False


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Read a partition in offset order; answered by `Records`.

    Starts at `timestamp` (the first record at or after it) if given, else at `offset`; -1 is the
    earliest offset. With `is_exact` an offset outside the log is refused; otherwise one below the
    log start moves to it, and one above the end waits. `wait_ns` is how long to wait for a record.

    `bytes_max` bounds the answer; one record is returned whatever its size. `messages_max` is how
    many messages the gateway will pass on: it bounds what metrics and traces count, not the answer.
    """

    topic: str
    partition: int
    offset: Offset = Offset(0)
    timestamp: Timestamp | None = None
    bytes_max: int = 1024 * 1024
    wait_ns: int = 0
    is_exact: bool = False
    isolation: Isolation = Isolation.READ_COMMITTED
    messages_max: int | None = None


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """Wait for records in any of several partitions of a topic; answered by `Watched`.

    `offsets` tells by partition which offset would be news.
    """

    topic: str
    offsets: dict[int, Offset]
    wait_ns: int
    isolation: Isolation = Isolation.READ_COMMITTED


# Groups


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """Join a group, or rejoin it with a `member_id`; answered by `Joined`.

    `token` makes the id of a new member unique: the gateway draws it at random. `mode` and
    `assignor` of None take those of the group, or the defaults if it is new. A static member, with
    an `instance_id`, replaces the member of that instance.
    """

    group: str
    client_id: str
    topics: tuple[str, ...]
    token: str
    mode: Mode | None = None
    assignor: Assignor | None = None
    session_ns: int = 30 * SECOND
    start: Start = Start.EARLIEST
    member_id: str | None = None
    protocol: GroupProtocol = GroupProtocol.EAGER
    instance_id: str | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the membership alive; answered by `Beat`, also with the current generation."""

    group: str
    member_id: str
    generation: int


class CooperativeHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the membership in a cooperative group alive; answered by `CooperativeBeat`.

    With `wait_ns` it waits for news for this member.
    """

    group: str
    member_id: str
    generation: int
    wait_ns: int = 0


class RevokePartitions(msgspec.Struct, frozen=True, kw_only=True):
    """Confirm that a member has given up partitions; answered by `RevocationConfirmed`."""

    group: str
    member_id: str
    generation: int
    logs: tuple[LogId, ...]


class DescribeAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one member; answered by `MemberAssignment`."""

    group: str
    member_id: str


class DescribeRebalances(msgspec.Struct, frozen=True, kw_only=True):
    """Rebalances of one group, or of all that the caller may see; answered by `Rebalances`."""

    group: str | None = None


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Deliver nothing more to a member, whose leases stay; answered by `Done`.

    Its waiting polls are answered without messages, and so are later ones, until it joins again.
    """

    group: str
    member_id: str


class Leave(msgspec.Struct, frozen=True, kw_only=True):
    """Leave a group; its leases end at once; answered by `Done`."""

    group: str
    member_id: str


class ListGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `GroupList`."""


class DescribeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `GroupDescription`."""

    group: str


class DeleteGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a group with its members, positions and leases; answered by `Done`."""

    group: str


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """Lease messages; answered by `Leased`, at the latest after `wait_ns`.

    With `in_flight_max` the member holds at most so many messages unsettled, these included.
    """

    group: str
    member_id: str
    generation: int | None = None
    wait_ns: int = 30 * SECOND
    messages_max: int = 100
    visibility_ns: int | None = None
    bytes_max: int = 4 * 1024 * 1024
    in_flight_max: int | None = None


class Receive(msgspec.Struct, frozen=True, kw_only=True):
    """Lease messages of topics for a group without joining it; answered by `Leased`.

    A group that does not exist is created, in mode shared.
    """

    group: str
    topics: tuple[str, ...]
    wait_ns: int = 0
    messages_max: int = 1
    visibility_ns: int | None = None
    bytes_max: int = 4 * 1024 * 1024


# Positions


class CommitOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Move positions forward; answered by `Offsets`.

    A position never moves back: a lower offset is answered with the current one (`ResetOffsets`
    moves back). Up to 250 positions are committed together or not at all. A `member_id`
    is required while the group has members; its generation and assignment are checked.

    `metadata` are texts of the client about offsets, kept until the position moves on.
    """

    group: str
    offsets: dict[LogId, Offset]
    member_id: str | None = None
    generation: int | None = None
    metadata: dict[LogId, str] | None = None


class DescribeOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Committed offsets of a group; answered by `Offsets`.

    With `is_stable` the answer waits until no open transaction is about to change them.
    """

    group: str
    topic: str | None = None
    is_stable: bool = False


class ResetOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Move positions anywhere in the log; open leases end; answered by `PositionsReset`."""

    group: str
    topic: str
    strategy: Strategy
    partition: int | None = None
    timestamp: Timestamp | None = None
    offset: Offset | None = None
    is_dry_run: bool = False


class DescribeLag(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `Lag`."""

    group: str


# Acknowledgement


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """Acknowledge messages: the group never gets them again; answered by `Acked`.

    With `group`, leases of other groups are refused; the same holds for all commands below.
    """

    leases: tuple[LeaseOffsets, ...]
    group: str | None = None


class Nack(msgspec.Struct, frozen=True, kw_only=True):
    """Return a message for redelivery, after a delay if given; answered by `Returned`."""

    receipt: str
    delay_ns: int | None = None
    reason: str = ""
    group: str | None = None


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """Move a message to the dead letters now; answered by `Returned`."""

    receipt: str
    reason: str = ""
    group: str | None = None


class Extend(msgspec.Struct, frozen=True, kw_only=True):
    """Set the end of leases to `timeout_ns` from now; answered by `Extended`."""

    leases: tuple[LeaseOffsets, ...]
    timeout_ns: int
    group: str | None = None


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Return messages that were not started, for redelivery at once; answered by `Released`.

    The delivery that the lease counted is taken back.
    """

    leases: tuple[LeaseOffsets, ...]
    group: str | None = None


class Redrive(msgspec.Struct, frozen=True, kw_only=True):
    """Move dead letters of a topic back to it, oldest first; answered by `Redriven`.

    `dead_letters` selects some of them, by partition and offset in the dead-letter topic.
    """

    topic: str
    messages_max: int = 1000
    to_topic: str | None = None
    reason: str | None = None
    dead_letters: dict[int, frozenset[int]] | None = None


# Request and reply


class AwaitReply(msgspec.Struct, frozen=True, kw_only=True):
    """Wait for the reply to a message; answered by `ReplyReceived`.

    The shell draws `reply_to`, and whoever publishes the message puts it into a header.
    """

    reply_to: str
    wait_ns: int


class SendReply(msgspec.Struct, frozen=True, kw_only=True):
    """Reply to a message; answered by `ReplySent`."""

    reply_to: str
    value: bytes | None
    headers: tuple[Header, ...] = ()


# The node


class DescribeReliability(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `Reliability`."""


class DescribePriorities(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `PriorityStatistics`."""


class DescribeNode(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `NodeDescription`, also before the node is ready.

    `is_summary` leaves out the topics: their totals are up to a second old where they are many.
    """

    is_summary: bool = False


class CheckHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `NodeHealth` at once, also before the node is ready: for probes."""


class AuthorizeScrape(msgspec.Struct, frozen=True, kw_only=True):
    """Ask whether the caller may see the metrics, which name all tenants; answered by `Done`."""


Command = (
    CreateTopic
    | AlterTopic
    | DeleteTopic
    | DeleteRecords
    | ListTopics
    | DescribeTopic
    | DescribePartitions
    | Publish
    | Read
    | Watch
    | ListDelayed
    | FindDelayed
    | CancelDelayed
    | DescribeDelays
    | Join
    | Heartbeat
    | CooperativeHeartbeat
    | RevokePartitions
    | DescribeAssignment
    | DescribeRebalances
    | Drain
    | Leave
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
    | AwaitReply
    | SendReply
    | DescribeReliability
    | DescribePriorities
    | DescribeNode
    | CheckHealth
    | AuthorizeScrape
    | ClusterCommand
    | ReassignmentCommand
    | InitProducer
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
    | SearchTraces
    | FindTrace
    | DescribeTracing
    | AlterSchedule
    | CreateSchedule
    | DeleteSchedule
    | DescribeSchedule
    | ListSchedules
    | PauseSchedule
    | ResumeSchedule
    | RunSchedule
    | CreateBackup
    | ListBackups
    | DescribeBackup
    | DeleteBackup
    | RestoreBackup
    | SchemaCommand
    | SecurityCommand
)
