"""The cluster that a node belongs to: its nodes, its controller, its health, and what moves."""

import datetime as dt
from collections.abc import Iterable

import msgspec

from goqueue.client.http import Request, Transport, get, post, target

__all__ = [
    "Cluster",
    "ClusterHealth",
    "ClusterNode",
    "ClusterState",
    "CoordinatorPartition",
    "Coordinators",
    "GroupCoordinator",
    "Move",
    "MovedPartition",
    "NodeHealth",
    "Reassignment",
]


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


class Move(msgspec.Struct, frozen=True):
    """A partition, and the nodes that are to keep it: the first is the preferred leader."""

    topic: str
    partition: int
    new_replicas: tuple[str, ...]


class MovedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a reassignment.

    `state` is pending, in_progress, catching_up, completed, failed or cancelled.
    """

    topic: str
    partition: int
    old_replicas: tuple[str, ...]
    new_replicas: tuple[str, ...]
    state: str
    catchup_percent: float
    bytes_transferred: int
    error: str | None = None


class Reassignment(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions that move to other nodes; it has ended when `completed_at` is set."""

    id: str
    state: str
    partitions: tuple[MovedPartition, ...]
    started_at: dt.datetime
    throttle_bytes_per_sec: int | None = None
    completed_at: dt.datetime | None = None
    error: str | None = None


class CoordinatorPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of the log of coordinators; its leader coordinates groups."""

    partition: int
    leader: str | None
    replicas: tuple[str, ...]
    isr: tuple[str, ...]


class Coordinators(msgspec.Struct, frozen=True, kw_only=True):
    """Who coordinates groups; nobody before the first group of a cluster is used."""

    internal_topic: str
    partition_count: int
    coordinators: tuple[CoordinatorPartition, ...]


class GroupCoordinator(msgspec.Struct, frozen=True, kw_only=True):
    """Who coordinates a group; None while nobody does."""

    group_id: str
    coordinator_partition: int
    coordinator_node: str | None


_STATES = msgspec.json.Decoder(ClusterState)
_HEALTH = msgspec.json.Decoder(ClusterHealth)


class _Election(msgspec.Struct, frozen=True, kw_only=True):
    leader: str


class _Reassignments(msgspec.Struct, frozen=True, kw_only=True):
    reassignments: tuple[Reassignment, ...]


_ELECTION = msgspec.json.Decoder(_Election)
_REASSIGNMENT = msgspec.json.Decoder(Reassignment)
_REASSIGNMENTS = msgspec.json.Decoder(_Reassignments)
_COORDINATORS = msgspec.json.Decoder(Coordinators)
_COORDINATOR = msgspec.json.Decoder(GroupCoordinator)


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

    async def transfer_leader(self, topic: str, partition: int, node_id: str = "") -> str:
        """Let a replica in sync lead a partition, and return the node that does; nothing is lost.

        Without `node_id` that is the preferred leader: the first replica. The cluster does the same
        by itself when a node is back for a minute.
        """
        fields: dict[str, object] = {"node": node_id} if node_id else {}
        path = ("admin", "topics", topic, "partitions", str(partition), "elect")
        request = post(*path, fields=fields, is_repeatable=True)
        elected = await self._transport.read(request, _ELECTION)
        return elected.leader

    async def reassign(
        self,
        moves: Iterable[Move],
        *,
        throttle_bytes_per_sec: int | None = None,
        timeout_per_partition_s: int = 3600,
    ) -> Reassignment:
        """Move partitions to other nodes while they are used; `reassignment` says how far it is.

        Each node sends new replicas at most `throttle_bytes_per_sec` of what they lack. A partition
        that takes longer than its timeout stays where it was.
        """
        partitions = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "new_replicas": list(each.new_replicas),
            }
            for each in moves
        ]
        fields: dict[str, object] = {
            "partitions": partitions,
            "throttle_bytes_per_sec": throttle_bytes_per_sec,
            "timeout_per_partition_sec": timeout_per_partition_s,
        }
        return await self._transport.read(
            post("admin", "reassignment", fields=fields), _REASSIGNMENT
        )

    async def reassignments(self) -> tuple[Reassignment, ...]:
        """The reassignments that run, and the last that ended; oldest first."""
        found = await self._transport.read(get("admin", "reassignment"), _REASSIGNMENTS)
        return found.reassignments

    async def reassignment(self, reassignment_id: str) -> Reassignment:
        """A reassignment, and how far it is."""
        request = get("admin", "reassignment", reassignment_id)
        return await self._transport.read(request, _REASSIGNMENT)

    async def cancel_reassignment(self, reassignment_id: str) -> Reassignment:
        """Leave what is not moved yet where it was; what was moved stays where it is."""
        path = target("admin", "reassignment", reassignment_id)
        request = Request(method="DELETE", target=path, is_repeatable=True)
        return await self._transport.read(request, _REASSIGNMENT)

    async def coordinators(self) -> Coordinators:
        """The nodes that coordinate groups."""
        return await self._transport.read(get("admin", "coordinators"), _COORDINATORS)

    async def coordinator_of(self, group: str) -> GroupCoordinator:
        """The node that coordinates a group."""
        request = get("admin", "coordinators", "groups", group)
        return await self._transport.read(request, _COORDINATOR)
