"""The cluster: commands about its nodes, and what callers see of it.

A node that is no member of a cluster answers as a cluster of one.
"""

import msgspec

from goqueue.model.ids import Timestamp
from goqueue.model.requests.topics import TopicConfig

__all__ = [
    "AddParticipants",
    "AppendCopies",
    "AppendMarker",
    "AskVote",
    "CheckClusterHealth",
    "ClusterCommand",
    "ClusterDescription",
    "ClusterHealth",
    "ClusterJoined",
    "ClusterNode",
    "DescribeCluster",
    "DescribeMetadata",
    "ElectLeader",
    "EndCopies",
    "ForgetBroker",
    "HearNode",
    "HeardProducer",
    "JoinCluster",
    "LeaderElected",
    "LeaveCluster",
    "MetadataDescription",
    "MetadataPartition",
    "MetadataTopic",
    "NodeHeard",
    "OpenTransaction",
    "ReportTransactions",
    "TransactionAdmitted",
    "VoteGiven",
]


class DescribeCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `ClusterDescription`, from the image of the node that is asked."""


class CheckClusterHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `ClusterHealth`, as the node that is asked sees it."""


class DescribeMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `MetadataDescription`; without details if nothing is newer than `since`."""

    since: int = 0


class JoinCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the controller whether a node is registered; answered by `ClusterJoined`.

    `cluster_id` and `epoch` are those that the caller knows: here, in `HearNode` and `AskVote`.
    A node that is registered with another `address` for its peers has to register again.
    """

    node: str
    cluster_id: str = ""
    epoch: int = 0
    address: str = ""


class LeaveCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A node is about to stop; answered by `Done` when that is committed."""

    node: str


class HearNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node says that it runs; answered by `NodeHeard` once the epoch that it knows is durable."""

    node: str
    cluster_id: str = ""
    epoch: int = 0


class AppendCopies(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator in `epoch` moves messages: append their copies, unseen until `EndCopies`.

    Answered by `Published` when they are committed. A repetition appends nothing.
    """

    topic: str
    partition: int
    move: int
    epoch: int
    count: int
    at: int
    batch: bytes = b""


class EndCopies(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator in `epoch` has decided a move: its copies count, or never do.

    Answered by `Published` when the marker is committed, which is written also where no copies are:
    those that are still on their way are refused from then on.
    """

    topic: str
    partition: int
    move: int
    epoch: int
    is_commit: bool


class AppendMarker(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator in `epoch` has decided a transaction: append its marker.

    Answered by `Published` when the marker is committed, which is written also where the
    transaction wrote nothing. A repetition is answered in the same way.
    """

    topic: str
    partition: int
    producer: int
    producer_epoch: int
    transaction: int
    epoch: int
    is_commit: bool


class AddParticipants(msgspec.Struct, frozen=True, kw_only=True):
    """A leader has a batch of a transactional id; answered by `TransactionAdmitted`.

    The partitions of `topic`, by its number, are then committed as participants of the open
    transaction. `tenant` is that of the caller who publishes.
    """

    producer_id: int
    producer_epoch: int
    topic: int
    partitions: tuple[int, ...]
    tenant: str = "default"


class OpenTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A transaction that has no marker in a partition, which is named by the topic's number."""

    topic: int
    partition: int
    producer: int
    transaction: int


class HeardProducer(msgspec.Struct, frozen=True, array_like=True):
    """A producer that published in an epoch."""

    producer_id: int
    epoch: int


class ReportTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """A leader names who published, and what is open in its partitions; answered by `Done`.

    What the coordinator has decided gets its marker again, what it does not know is aborted.
    """

    heard: tuple[HeardProducer, ...] = ()
    open: tuple[OpenTransaction, ...] = ()


class TransactionAdmitted(msgspec.Struct, frozen=True, kw_only=True):
    """The number of the transaction that a batch belongs to."""

    transaction: int


class AskVote(msgspec.Struct, frozen=True, kw_only=True):
    """A node asks for a vote in `epoch`; answered by `VoteGiven` once that is durable."""

    candidate: str
    epoch: int
    last_log_epoch: int
    last_log_index: int
    is_pre_vote: bool
    cluster_id: str = ""


class ForgetBroker(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a node for good; answered by `Done` when that is committed."""

    node: str


class ElectLeader(msgspec.Struct, frozen=True, kw_only=True):
    """Let a replica outside the ISR lead a partition; answered by `LeaderElected` when committed.

    Committed records that it lacks are lost. Without `node` the first live replica leads.
    """

    topic: str
    partition: int
    node: str = ""


ClusterCommand = (
    CheckClusterHealth
    | DescribeCluster
    | DescribeMetadata
    | HearNode
    | AskVote
    | AddParticipants
    | AppendCopies
    | AppendMarker
    | EndCopies
    | ReportTransactions
    | ElectLeader
    | ForgetBroker
    | JoinCluster
    | LeaveCluster
)


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster, and how long ago it was heard (None: never in this run).

    It leads `leaders` of the partitions, and keeps copies of `replicas`.
    """

    id: str
    status: str
    client_address: str = ""
    peer_address: str = ""
    is_controller: bool = False
    is_voter: bool = False
    epoch: int = 0
    incarnation: int = 0
    directory: str = ""
    rack: str = ""
    release: str = ""
    silent_ms: int | None = None
    is_full: bool = False
    loop_lag_ms: int = 0
    leaders: int = 0
    replicas: int = 0


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as the image of one node has it."""

    node_id: str
    cluster_id: str
    version: int
    controller_id: str
    controller_epoch: int
    nodes: tuple[ClusterNode, ...]
    updated_at: Timestamp = Timestamp(0)
    # 0 where there is no cluster.
    feature_level: int = 0
    problem: str = ""
    # How many partitions the log of group coordinators has.
    coordinators: int = 1


class ClusterHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the cluster has a controller, and which nodes are heard."""

    status: str
    node_id: str
    role: str
    controller_id: str
    controller_epoch: int
    healthy: int
    unhealthy: int
    under_replicated_partitions: int
    offline_partitions: int
    nodes: tuple[ClusterNode, ...]
    checked_at: Timestamp
    problem: str = ""


class MetadataTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in the metadata image."""

    name: str
    number: int
    config: TopicConfig
    created_at: Timestamp


class MetadataPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in the metadata image."""

    topic: str
    partition: int
    leader: str | None
    epoch: int
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    version: int


class MetadataDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata image; without topics and partitions if nothing is newer than was asked for."""

    version: int
    controller_epoch: int
    cluster_id: str
    topics: tuple[MetadataTopic, ...] = ()
    partitions: tuple[MetadataPartition, ...] = ()


class NodeHeard(msgspec.Struct, frozen=True, kw_only=True):
    """Who heard, and what it knows."""

    node_id: str
    version: int
    controller_id: str
    cluster_id: str
    epoch: int


class VoteGiven(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a node votes for a candidate, and the epoch that it has reached."""

    voter_id: str
    is_granted: bool
    epoch: int
    cluster_id: str = ""


class ClusterJoined(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a node is registered, and who registers it."""

    is_registered: bool
    controller_id: str
    controller_address: str
    cluster_id: str = ""
    epoch: int = 0


class LeaderElected(msgspec.Struct, frozen=True, kw_only=True):
    """The node that leads a partition now, although it may lack committed records."""

    node: str
