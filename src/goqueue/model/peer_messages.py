"""What the brokers of a cluster say to each other.

A message is an array of MessagePack with its number first. Numbers never change and are never used
again; new fields come last, with a default, so that two adjacent versions understand each other.
Numbers below 16 belong to the link itself (docs/adr/0046-peer-links.md).

    16-31   presence: heartbeats            control
    32-47   votes                           control
    48-63   metadata                        control
    64-95   copies of logs                  replication
    96-127  requests of other brokers       forwarding

Any message may be lost, arrive late, or arrive again over another connection. Its receiver checks
epochs and versions before it believes a word of it.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.model.forward_messages import (
    ForwardCancel,
    ForwardChunk,
    ForwardCommand,
    ForwardMessage,
    ForwardRefusal,
    ForwardReply,
    PublishPart,
)
from goqueue.model.ids import Timestamp
from goqueue.model.partition_messages import (
    AllocateProducerIds,
    LogsAcknowledged,
    LogsAdvanced,
    LogsSubscribed,
    MoveProgress,
    PartitionMessage,
    ReportLogEnds,
    ReportLostReplicas,
    RequestIsrs,
    RequestTopic,
    ResignLeaderships,
    StreamMessage,
)
from goqueue.model.peer_numbers import PeerCounter, PeerTime
from goqueue.model.quorum_messages import (
    LeadershipOffer,
    MetadataMessage,
    RegisterBroker,
    RegistrationRefused,
    VoteMessage,
    VoteReply,
    VoteRequest,
)
from goqueue.model.replica_messages import (
    ReplicaAck,
    ReplicaAppend,
    ReplicaDiverged,
    ReplicaMessage,
    ReplicaRepair,
    ReplicaReset,
    ReplicaSubscribe,
    WatermarkAdvanced,
)

__all__ = [
    "PEER_MESSAGES",
    "USES_MAX",
    "Heartbeat",
    "PeerIdentity",
    "PeerLane",
    "PeerMessage",
    "TenantUse",
]


class PeerLane(enum.IntEnum):
    """One of the three connections of a pair: a full one does not delay the others."""

    CONTROL = 1
    REPLICATION = 2
    FORWARDING = 3


class PeerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a broker is, as it says when a connection begins.

    `directory` is the id of its data directory, `incarnation` the number of this run of its
    process on that directory: higher than that of any earlier one. `cluster_id` is empty until the
    broker belongs to a cluster. `peers` are the addresses in its settings, its own not among them.
    `attempt` are the voters, as broker and directory, of the cluster that its log names although
    the broker does not know that it came about.
    """

    broker: str
    directory: str
    incarnation: int
    address: str
    client_address: str = ""
    cluster_id: str = ""
    peers: tuple[str, ...] = ()
    attempt: tuple[tuple[str, str], ...] = ()


USES_MAX = 256
_TENANT_MAX = 64


class TenantUse(msgspec.Struct, frozen=True, array_like=True):
    """What a node charged to the rates of a tenant since it last told."""

    tenant: Annotated[str, Meta(max_length=_TENANT_MAX)]
    published_messages: PeerCounter = 0
    published_bytes: PeerCounter = 0
    consumed_messages: PeerCounter = 0
    consumed_bytes: PeerCounter = 0


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag=16, kw_only=True):
    """The sender runs: to every other broker each half second.

    `broker_epoch` is 0 until its registration is committed, `metadata_version` that of the image it
    decides by, `loop_lag_ms` how late its last turns were. A broker that is `is_leaving` stops
    soon, with `is_full` its disk takes no more records. `uses` is what the others charge to the
    same tenants, `moves` has the partitions that it leads and that are copied to other brokers.
    With `is_resigning` it has handed over what it led before it stops, as far as it could.
    """

    broker_epoch: PeerCounter = 0
    metadata_version: PeerCounter = 0
    loop_lag_ms: PeerCounter = 0
    sent_at: PeerTime = Timestamp(0)
    is_leaving: bool = False
    is_full: bool = False
    uses: Annotated[tuple[TenantUse, ...], Meta(max_length=USES_MAX)] = ()
    moves: tuple[MoveProgress, ...] = ()
    is_resigning: bool = False


PeerMessage = (
    Heartbeat
    | VoteMessage
    | MetadataMessage
    | PartitionMessage
    | ReplicaMessage
    | ReplicaRepair
    | StreamMessage
    | ForwardMessage
)
PEER_MESSAGES: tuple[type[PeerMessage], ...] = (
    Heartbeat,
    VoteRequest,
    VoteReply,
    LeadershipOffer,
    RegisterBroker,
    RegistrationRefused,
    RequestIsrs,
    ResignLeaderships,
    AllocateProducerIds,
    ReportLostReplicas,
    ReportLogEnds,
    RequestTopic,
    ReplicaSubscribe,
    ReplicaAppend,
    ReplicaDiverged,
    ReplicaRepair,
    ReplicaReset,
    ReplicaAck,
    WatermarkAdvanced,
    LogsSubscribed,
    LogsAcknowledged,
    LogsAdvanced,
    ForwardCommand,
    PublishPart,
    ForwardReply,
    ForwardRefusal,
    ForwardCancel,
    ForwardChunk,
)
