"""The cluster that a node belongs to: its nodes, its controller, its health."""

import datetime as dt

import msgspec

from goqueue.client.http import Request, Transport, get, post, target

__all__ = ["Cluster", "ClusterHealth", "ClusterNode", "ClusterState", "NodeHealth"]


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node; `status` is alive, suspect, dead or leaving. Voters elect the controller.

    It leads `leaders` partitions, and keeps copies of `replicas`.
    """

    id: str
    client_address: str
    peer_address: str
    status: str
    is_controller: bool
    is_voter: bool = False
    version: str = ""
    rack: str = ""
    leaders: int = 0
    replicas: int = 0


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as one node knows it; `version` is that of the metadata.

    `controller_id` is empty while there is no controller, `problem` tells what keeps the node from
    its cluster. `feature_level` rises when all nodes run a version that understands more.
    """

    cluster_id: str
    version: int
    controller_id: str
    controller_epoch: int
    nodes: tuple[ClusterNode, ...]
    updated_at: dt.datetime
    problem: str = ""
    feature_level: int = 0

    @property
    def controller(self) -> ClusterNode | None:
        """The node that decides, if one is known."""
        return next((node for node in self.nodes if node.is_controller), None)


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """When the node that was asked last heard another one; never if `last_seen` is None."""

    id: str
    status: str
    last_seen: dt.datetime | None = None
    is_full: bool = False
    loop_lag_ms: int = 0


class ClusterHealth(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is ok, degraded (a node is missing) or fail (there is no controller)."""

    status: str
    node_id: str
    role: str
    controller_id: str
    controller_epoch: int
    node_count: int
    healthy: int
    unhealthy: int
    under_replicated_partitions: int
    offline_partitions: int
    nodes: tuple[NodeHealth, ...]
    problem: str = ""


_STATES = msgspec.json.Decoder(ClusterState)
_HEALTH = msgspec.json.Decoder(ClusterHealth)


class _Election(msgspec.Struct, frozen=True, kw_only=True):
    leader: str


_ELECTION = msgspec.json.Decoder(_Election)


class Cluster:
    """`q.cluster`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def state(self) -> ClusterState:
        """The nodes of the cluster, and which of them is the controller."""
        return await self._transport.read(get("cluster", "state"), _STATES)

    async def health(self) -> ClusterHealth:
        """Whether the cluster has a controller, and which nodes are heard."""
        return await self._transport.read(get("cluster", "health"), _HEALTH)

    async def forget(self, node_id: str) -> None:
        """Remove a dead node for good, so that another may take its id.

        The controller does it, whichever node is asked. One that is alive is refused with
        `node_alive`.
        """
        request = Request(method="DELETE", target=target("cluster", "nodes", node_id))
        await self._transport.ask(request)

    async def elect_unclean(self, topic: str, partition: int, node_id: str = "") -> str:
        """Let a copy that is not in sync lead a partition, and return the node that does.

        Acknowledged messages that it lacks are lost. While a copy that is in sync is alive this is
        refused with `node_alive`: that one leads without a loss.
        """
        fields: dict[str, object] = {"unclean": True}
        if node_id:
            fields["node"] = node_id
        path = ("admin", "topics", topic, "partitions", str(partition), "elect")
        elected = await self._transport.read(post(*path, fields=fields), _ELECTION)
        return elected.leader
