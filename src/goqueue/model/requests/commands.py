"""What a caller may ask of a node. Commands are imperative; each is answered once.

Built by gateways after they checked types; names, numbers and states are the core's to refuse.
Durations are nanoseconds. Every command names the reply that answers it.
"""

import msgspec

from goqueue.model.errors import Code
from goqueue.model.ids import SECOND, LogId, Offset, Timestamp
from goqueue.model.messages import Header
from goqueue.model.requests.delays import CancelDelayed, DescribeDelays, FindDelayed, ListDelayed
from goqueue.model.requests.groups import Assignor, Mode, Start, Strategy
from goqueue.model.requests.leases import LeaseOffsets
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

__all__ = [
    "Ack",
    "AlterTopic",
    "CheckHealth",
    "Command",
    "CommitOffsets",
    "CreateTopic",
    "DeleteGroup",
    "DeleteTopic",
    "DescribeGroup",
    "DescribeLag",
    "DescribeNode",
    "DescribeOffsets",
    "DescribePartitions",
    "DescribePriorities",
    "DescribeReliability",
    "DescribeTopic",
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
    "Redrive",
    "Reject",
    "Release",
    "ResetOffsets",
]

# Topics


class CreateTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Make a topic; answered by `TopicDescription`."""

    name: str
    partitions: int = PARTITIONS_DEFAULT
    config: TopicConfig = TopicConfig()


class AlterTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Change settings of a topic; answered by `TopicDescription`."""

    name: str
    changes: TopicChanges


class DeleteTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a topic, its messages and every group's place in it; answered by `Done`."""

    name: str


class ListTopics(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TopicList`."""


class DescribeTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TopicDescription`."""

    name: str


class DescribePartitions(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `PartitionList`."""

    topic: str


# Messages


class Publish(msgspec.Struct, frozen=True, kw_only=True):
    """Append messages; answered by `Published`.

    `batch` holds whole, verified records in request order, with offset 0; it is the node's from
    now on. `targets` names the partition of each record, -1 where its key or its turn decides;
    None stands for -1 throughout. With `is_whole` one message that cannot be taken refuses all.
    `dues` says when each record is to be delivered, 0 for at once; the others carry the flag and
    the header of delayed records. With a `producer` that has a sequence all records go to one
    partition, which `targets` names. `trace` has the headers of the trace that the request is part
    of, for messages that name none themselves. `refused` counts the messages of the same request
    that the gateway could not take, by code: they are not in the batch, only in the metrics.
    """

    topic: str
    batch: bytearray
    targets: list[int] | None = None
    waits: bool = True
    is_whole: bool = False
    dues: list[int] | None = None
    producer: ProducerStamp | None = None
    trace: tuple[Header, ...] = ()
    refused: dict[Code, int] | None = None


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Read a partition in offset order; answered by `Records`.

    From `timestamp` if it is given, else from `offset`, -1 being the earliest kept. With `is_exact`
    another offset outside the log
    is refused; otherwise it is moved to the earliest, or waited for. `messages_max` tells how many
    of them are taken, which counts; what is answered goes by bytes alone.
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


# Groups


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """Become a member of a group, or say again that one is; answered by `Joined`.

    `token` makes a new member's id unique; the shell draws it.
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


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Stay a member; answered by `Beat`."""

    group: str
    member_id: str
    generation: int


class Leave(msgspec.Struct, frozen=True, kw_only=True):
    """Stop being a member: leases are free at once; answered by `Done`."""

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
    """Lease messages; answered by `Leased`, at the latest after `wait_ns`."""

    group: str
    member_id: str
    generation: int | None = None
    wait_ns: int = 30 * SECOND
    messages_max: int = 100
    visibility_ns: int | None = None
    bytes_max: int = 4 * 1024 * 1024


# Positions


class CommitOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Move positions forward, all or none of them; answered by `Offsets`."""

    group: str
    offsets: dict[LogId, Offset]
    member_id: str | None = None
    generation: int | None = None


class DescribeOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `Offsets`; `is_stable`: once no open transaction holds any of them."""

    group: str
    topic: str | None = None
    is_stable: bool = False


class ResetOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Put positions anywhere in the log; answered by `PositionsReset`."""

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
    """Settle messages: their group will not get them again; answered by `Acked`.

    Where `group` is given, leases of others are refused; so in all that name leases.
    """

    leases: tuple[LeaseOffsets, ...]
    group: str | None = None


class Nack(msgspec.Struct, frozen=True, kw_only=True):
    """Give a message back, to be delivered again later; answered by `Returned`."""

    receipt: str
    delay_ns: int | None = None
    reason: str = ""
    group: str | None = None


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """Send a message to the dead letters now; answered by `Returned`."""

    receipt: str
    reason: str = ""
    group: str | None = None


class Extend(msgspec.Struct, frozen=True, kw_only=True):
    """Keep messages for `timeout_ns` from now; answered by `Extended`."""

    leases: tuple[LeaseOffsets, ...]
    timeout_ns: int
    group: str | None = None


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Give leases back at once, as if they had never been; answered by `Released`.

    For messages that were not begun: the delivery that the lease counted is taken back.
    """

    leases: tuple[LeaseOffsets, ...]
    group: str | None = None


class Redrive(msgspec.Struct, frozen=True, kw_only=True):
    """Put dead letters of a topic back, oldest first; answered by `Redriven`.

    `dead_letters` selects some of them, by partition and offset in the dead-letter topic.
    """

    topic: str
    messages_max: int = 1000
    to_topic: str | None = None
    reason: str | None = None
    dead_letters: dict[int, frozenset[int]] | None = None


# The node


class DescribeReliability(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `Reliability`."""


class DescribePriorities(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `PriorityStatistics`."""


class DescribeNode(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `NodeDescription`, also before the node is ready."""


class CheckHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `NodeHealth` at once, also before the node is ready: for probes."""


Command = (
    CreateTopic
    | AlterTopic
    | DeleteTopic
    | ListTopics
    | DescribeTopic
    | DescribePartitions
    | Publish
    | Read
    | ListDelayed
    | FindDelayed
    | CancelDelayed
    | DescribeDelays
    | Join
    | Heartbeat
    | Leave
    | ListGroups
    | DescribeGroup
    | DeleteGroup
    | Poll
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
    | DescribeReliability
    | DescribePriorities
    | DescribeNode
    | CheckHealth
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
)
