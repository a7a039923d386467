"""The cluster over HTTP: bodies, handlers and routes.

A node that is no member of a cluster reports itself.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import Count, TimeText
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import (
    PARTITION,
    TOPIC,
    ParameterLocation,
    integer,
    name,
)
from goqueue.gateways.http.routing.router import Route
from goqueue.model import MILLISECOND, Code, Refused, Timestamp, format_time
from goqueue.model.requests import (
    TOPIC_SETTINGS,
    AskVote,
    CheckClusterHealth,
    ClusterDescription,
    ClusterHealth,
    ClusterJoined,
    ClusterNode,
    DescribeCluster,
    DescribeMetadata,
    Done,
    ElectLeader,
    ForgetBroker,
    HearNode,
    JoinCluster,
    LeaderElected,
    LeaveCluster,
    MetadataDescription,
    NodeHeard,
    TransferLeader,
    VoteGiven,
)

__all__ = [
    "CLUSTER_ROUTES",
    "PEER_ROUTES",
    "ElectionBody",
    "ElectionOut",
    "ForgottenNode",
    "NodeHealthOut",
    "NodeOut",
    "ReportedHealth",
    "ReportedState",
]

_Address = Annotated[str, Meta(description="host:port", examples=["127.0.0.1:8080"])]
_Text = Annotated[str, Meta(max_length=270)]
_Epoch = Annotated[int, Meta(ge=0, le=2**53)]
_NodeStatus = Annotated[str, Meta(description="alive, suspect, dead or leaving.")]


class NodeOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node of the cluster; voters elect the controller."""

    id: str
    client_address: _Address
    peer_address: _Address
    status: _NodeStatus
    is_controller: bool
    is_voter: bool
    version: Annotated[str, Meta(description="Version of the software.")] = ""
    rack: str = ""
    leaders: Annotated[Count, Meta(description="How many partitions the node leads.")] = 0
    replicas: Annotated[Count, Meta(description="How many partitions it keeps a copy of.")] = 0


class ReportedState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cluster as this node knows it; `version` is that of the metadata."""

    cluster_id: Annotated[str, Meta(description="Empty until a cluster has formed.")]
    version: Count
    controller_id: Annotated[str, Meta(description="Empty while there is no controller.")]
    controller_epoch: Count
    nodes: tuple[NodeOut, ...]
    updated_at: TimeText
    problem: Annotated[str, Meta(description="What keeps this node from its cluster.")] = ""
    feature_level: Annotated[
        Count, Meta(description="What all nodes understand, and the cluster uses; absent alone.")
    ] = 0


class NodeHealthOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When this node last heard another one."""

    id: str
    status: _NodeStatus
    last_seen: TimeText | None = None
    is_full: Annotated[bool, Meta(description="Whether its disk takes no more records.")] = False
    loop_lag_ms: Annotated[Count, Meta(description="How late its event loop was last.")] = 0


class ReportedHealth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the cluster works: `fail` without a controller, `degraded` without a node."""

    status: Annotated[str, Meta(description="ok, degraded or fail.")]
    node_id: str
    role: Annotated[str, Meta(description="controller or follower.")]
    controller_id: str
    controller_epoch: Count
    node_count: Count
    healthy: Count
    unhealthy: Count
    under_replicated_partitions: Count
    offline_partitions: Count
    nodes: tuple[NodeHealthOut, ...]
    problem: str = ""


class PartitionOut(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition is; its leader is null while it has none."""

    leader: str | None
    leader_epoch: Count
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    version: Count


class MetadataTopicOut(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the metadata."""

    id: Count
    config: dict[str, Any]
    created_at: TimeText


class ReportedMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata; without topics and assignments if nothing is newer than `since`."""

    cluster_id: str
    epoch: Count
    version: Count
    topics: dict[str, MetadataTopicOut]
    assignments: dict[str, PartitionOut]


class ElectionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who leads; `unclean` says that committed records may be lost."""

    unclean: Annotated[
        bool,
        Meta(
            description="Whether a node may lead that is not in sync: what it lacks is lost. "
            "Without it leadership passes to a node in sync, and nothing is lost."
        ),
    ] = False
    node: Annotated[
        str,
        Meta(
            description="A node with a copy; without it the preferred leader, "
            "or with `unclean` the first that is alive."
        ),
    ] = ""


class ElectionOut(msgspec.Struct, frozen=True, kw_only=True):
    """The leader that was elected."""

    topic: str
    partition: Count
    leader: str
    unclean: bool


class HeartbeatBody(msgspec.Struct, frozen=True, kw_only=True):
    """A node runs, and what it knows."""

    node_id: str
    cluster_version: Count = 0
    cluster_id: str = ""
    epoch: _Epoch = 0


class HeartbeatOut(msgspec.Struct, frozen=True, kw_only=True):
    """What the node that was told knows."""

    node_id: str
    cluster_version: Count
    controller_id: str
    cluster_id: str
    epoch: Count


class NodeIn(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it describes itself."""

    id: _Text = ""
    client_address: _Text = ""
    peer_address: _Text = ""
    version: _Text = ""
    rack: _Text = ""
    tags: Annotated[tuple[_Text, ...], Meta(max_length=64)] = ()


class JoinBody(msgspec.Struct, frozen=True, kw_only=True):
    """A node asks whether it is a member; it becomes one over its link to the controller."""

    node_id: str
    node: NodeIn | None = None
    cluster_id: str = ""
    epoch: _Epoch = 0


class JoinOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the node is registered, and where the controller is."""

    success: bool
    controller_id: str
    controller_address: str
    cluster_id: str
    epoch: Count


class LeaveBody(msgspec.Struct, frozen=True, kw_only=True):
    """A node is about to stop."""

    node_id: str
    graceful: bool = True
    cluster_id: str = ""
    epoch: _Epoch = 0


class LeaveOut(msgspec.Struct, frozen=True, kw_only=True):
    """It is committed."""

    success: bool
    cluster_id: str
    epoch: Count


class VoteBody(msgspec.Struct, frozen=True, kw_only=True):
    """A vote for a node in an epoch; `pre_vote` only asks whether it would be given."""

    candidate_id: str
    epoch: _Epoch
    last_log_epoch: _Epoch
    last_log_index: _Epoch
    pre_vote: bool = False
    cluster_id: str = ""


class VoteOut(msgspec.Struct, frozen=True, kw_only=True):
    """A vote that is given is durable; `epoch` is the one that the voter has reached."""

    voter_id: str
    vote_granted: bool
    cluster_id: str
    epoch: Count


class ForgottenNode(msgspec.Struct, frozen=True, kw_only=True):
    """The node is no member any more."""

    forgotten: bool
    id: str


_SECTION = "Cluster"
_SINCE = integer("since", "a version that the caller has", default=0, minimum=0, maximum=2**53)
_NODE = name("node", "id of the node", location=ParameterLocation.PATH)


async def _state(call: Call) -> ReportedState:
    found = await call.ask(DescribeCluster(), ClusterDescription)
    return ReportedState(
        cluster_id=found.cluster_id or (found.node_id if _is_alone(found) else ""),
        version=found.version,
        controller_id=found.controller_id,
        controller_epoch=found.controller_epoch,
        nodes=tuple(_node(each) for each in found.nodes),
        updated_at=format_time(found.updated_at),
        problem=found.problem,
        feature_level=found.feature_level,
    )


def _is_alone(found: ClusterDescription) -> bool:
    """Whether a node is no member of a cluster: it is one of its own."""
    return not found.cluster_id and found.controller_id == found.node_id


def _node(found: ClusterNode) -> NodeOut:
    return NodeOut(
        id=found.id,
        client_address=found.client_address,
        peer_address=found.peer_address,
        status=found.status,
        is_controller=found.is_controller,
        is_voter=found.is_voter,
        version=found.release,
        rack=found.rack,
        leaders=found.leaders,
        replicas=found.replicas,
    )


async def _health(call: Call) -> ReportedHealth:
    found = await call.ask(CheckClusterHealth(), ClusterHealth)
    return ReportedHealth(
        status=found.status,
        node_id=found.node_id,
        role=found.role,
        controller_id=found.controller_id,
        controller_epoch=found.controller_epoch,
        node_count=len(found.nodes),
        healthy=found.healthy,
        unhealthy=found.unhealthy,
        under_replicated_partitions=found.under_replicated_partitions,
        offline_partitions=found.offline_partitions,
        nodes=tuple(_seen(each, found.checked_at) for each in found.nodes),
        problem=found.problem,
    )


def _seen(found: ClusterNode, checked_at: Timestamp) -> NodeHealthOut:
    silent_ms = found.silent_ms
    return NodeHealthOut(
        id=found.id,
        status=found.status,
        is_full=found.is_full,
        loop_lag_ms=found.loop_lag_ms,
        last_seen=None
        if silent_ms is None
        else format_time(Timestamp(max(0, checked_at - silent_ms * MILLISECOND))),
    )


async def _forget(call: Call) -> ForgottenNode:
    await call.ask(ForgetBroker(node=call[_NODE]), Done)
    return ForgottenNode(forgotten=True, id=call[_NODE])


async def _elect(call: Call) -> ElectionOut:
    body = call.body(ElectionBody)
    topic, partition = call[TOPIC], call[PARTITION]
    kind = ElectLeader if body.unclean else TransferLeader
    command = kind(topic=topic, partition=partition, node=body.node)
    elected = await call.ask(command, LeaderElected)
    return ElectionOut(topic=topic, partition=partition, leader=elected.node, unclean=body.unclean)


async def _metadata(call: Call) -> ReportedMetadata:
    found = await call.ask(DescribeMetadata(since=call[_SINCE]), MetadataDescription)
    return ReportedMetadata(
        cluster_id=found.cluster_id,
        epoch=found.controller_epoch,
        version=found.version,
        topics={
            each.name: MetadataTopicOut(
                id=each.number,
                config={
                    row.name: row.written(row.of(each.config)) for row in TOPIC_SETTINGS if row.path
                },
                created_at=format_time(each.created_at),
            )
            for each in found.topics
        },
        assignments={
            f"{each.topic}-{each.partition}": PartitionOut(
                leader=each.leader,
                leader_epoch=each.epoch,
                replicas=each.replicas,
                isr=each.isr,
                version=each.version,
            )
            for each in found.partitions
        },
    )


async def _heartbeat(call: Call) -> HeartbeatOut:
    body = call.body(HeartbeatBody)
    command = HearNode(node=body.node_id, cluster_id=body.cluster_id, epoch=body.epoch)
    found = await call.ask(command, NodeHeard)
    return HeartbeatOut(
        node_id=found.node_id,
        cluster_version=found.version,
        controller_id=found.controller_id,
        cluster_id=found.cluster_id,
        epoch=found.epoch,
    )


async def _join(call: Call) -> JoinOut:
    body = call.body(JoinBody)
    node = body.node or NodeIn()
    if node.id not in {"", body.node_id}:
        raise Refused(Code.REQUEST_INVALID, field="node.id", reason="differs from node_id")
    command = JoinCluster(
        node=body.node_id,
        cluster_id=body.cluster_id,
        epoch=body.epoch,
        address=node.peer_address,
    )
    found = await call.ask(command, ClusterJoined)
    return JoinOut(
        success=found.is_registered,
        controller_id=found.controller_id,
        controller_address=found.controller_address,
        cluster_id=found.cluster_id,
        epoch=found.epoch,
    )


async def _leave(call: Call) -> LeaveOut:
    body = call.body(LeaveBody)
    # First that the caller is of this cluster, and not of its past.
    command = HearNode(node=body.node_id, cluster_id=body.cluster_id, epoch=body.epoch)
    heard = await call.ask(command, NodeHeard)
    await call.ask(LeaveCluster(node=body.node_id), Done)
    return LeaveOut(success=True, cluster_id=heard.cluster_id, epoch=heard.epoch)


async def _vote(call: Call) -> VoteOut:
    body = call.body(VoteBody)
    command = AskVote(
        candidate=body.candidate_id,
        epoch=body.epoch,
        last_log_epoch=body.last_log_epoch,
        last_log_index=body.last_log_index,
        is_pre_vote=body.pre_vote,
        cluster_id=body.cluster_id,
    )
    found = await call.ask(command, VoteGiven)
    return VoteOut(
        voter_id=found.voter_id,
        vote_granted=found.is_granted,
        cluster_id=found.cluster_id,
        epoch=found.epoch,
    )


CLUSTER_ROUTES = (
    Route(
        method="GET",
        path="/cluster/state",
        section=_SECTION,
        summary="Describe the nodes of the cluster",
        run=_state,
        answer=ReportedState,
    ),
    Route(
        method="GET",
        path="/cluster/health",
        section=_SECTION,
        summary="Say whether the cluster has a controller, and which nodes are heard",
        run=_health,
        answer=ReportedHealth,
    ),
    Route(
        method="DELETE",
        path="/cluster/nodes/{node}",
        section=_SECTION,
        summary="Forget a node for good, so that another may take its id; asks the controller",
        run=_forget,
        parameters=(_NODE,),
        answer=ForgottenNode,
        errors=(Code.NODE_NOT_FOUND, Code.NODE_ALIVE, Code.NOT_CONTROLLER),
        writes=True,
    ),
    Route(
        method="POST",
        path="/admin/topics/{topic}/partitions/{partition}/elect",
        section=_SECTION,
        summary="Let the preferred leader lead a partition; or a copy that lacks messages",
        run=_elect,
        parameters=(TOPIC, PARTITION),
        body=ElectionBody,
        answer=ElectionOut,
        errors=(
            Code.TOPIC_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.PARTITION_NOT_FOUND,
            Code.NODE_NOT_FOUND,
            Code.NODE_ALIVE,
            Code.LOG_BUSY,
            Code.LEADER_UNAVAILABLE,
            Code.NOT_CONTROLLER,
        ),
        writes=True,
    ),
)

_CALL_ERRORS = (Code.NODE_NOT_FOUND, Code.NOT_CONTROLLER, Code.EPOCH_STALE)

# What the port between nodes serves, to callers that have proved to be of the cluster.
PEER_ROUTES = (
    *(route for route in CLUSTER_ROUTES if route.method == "GET"),
    Route(
        method="GET",
        path="/cluster/metadata",
        section=_SECTION,
        summary="Read the metadata that this node has",
        run=_metadata,
        parameters=(_SINCE,),
        answer=ReportedMetadata,
    ),
    Route(
        method="POST",
        path="/cluster/heartbeat",
        section=_SECTION,
        summary="Say that a node runs",
        run=_heartbeat,
        body=HeartbeatBody,
        answer=HeartbeatOut,
        errors=_CALL_ERRORS,
        writes=True,
    ),
    Route(
        method="POST",
        path="/cluster/join",
        section=_SECTION,
        summary="Ask whether a node is a member; asks the controller",
        run=_join,
        body=JoinBody,
        answer=JoinOut,
        errors=_CALL_ERRORS,
        writes=True,
    ),
    Route(
        method="POST",
        path="/cluster/leave",
        section=_SECTION,
        summary="Say that a node is about to stop; asks the controller",
        run=_leave,
        body=LeaveBody,
        answer=LeaveOut,
        errors=_CALL_ERRORS,
        writes=True,
    ),
    Route(
        method="POST",
        path="/cluster/vote",
        section=_SECTION,
        summary="Ask for a vote, or whether it would be given",
        run=_vote,
        body=VoteBody,
        answer=VoteOut,
        errors=_CALL_ERRORS,
        writes=True,
    ),
)
