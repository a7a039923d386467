"""The nodes of a cluster, and where its partitions are, without await.

The class wraps that of `goqueue.client.cluster`, method by method.
"""

from collections.abc import Iterable

from goqueue.client.cluster import (
    Cluster,
    ClusterHealth,
    ClusterState,
    Coordinators,
    GroupCoordinator,
    Move,
    Reassignment,
)
from goqueue.client.sync.loop_thread import LoopThread

__all__ = ["SyncCluster"]


class SyncCluster:
    # Generated from Cluster by `make sync-client`.
    """`q.cluster`."""

    def __init__(self, loop: LoopThread, cluster: Cluster) -> None:
        self._loop = loop
        self._cluster = cluster

    def state(self) -> ClusterState:
        """The nodes of the cluster, and which of them is the controller."""
        return self._loop.call(self._cluster.state())

    def health(self) -> ClusterHealth:
        """Whether the cluster has a controller, and which nodes are heard."""
        return self._loop.call(self._cluster.health())

    def forget(self, node_id: str) -> None:
        """Remove a dead node for good, so that another may take its id.

        The controller does it, whichever node is asked. One that is alive is refused with
        `node_alive`.
        """
        self._loop.call(self._cluster.forget(node_id))

    def elect_unclean(self, topic: str, partition: int, node_id: str = "") -> str:
        """Let a copy that is not in sync lead a partition, and return the node that does.

        Acknowledged messages that it lacks are lost. While a copy that is in sync is alive this is
        refused with `node_alive`: that one leads without a loss.
        """
        return self._loop.call(self._cluster.elect_unclean(topic, partition, node_id))

    def transfer_leader(self, topic: str, partition: int, node_id: str = "") -> str:
        """Let a replica in sync lead a partition, and return the node that does; nothing is lost.

        Without `node_id` that is the preferred leader: the first replica. The cluster does the same
        by itself when a node is back for a minute.
        """
        return self._loop.call(self._cluster.transfer_leader(topic, partition, node_id))

    def reassign(
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
        return self._loop.call(
            self._cluster.reassign(
                moves,
                throttle_bytes_per_sec=throttle_bytes_per_sec,
                timeout_per_partition_s=timeout_per_partition_s,
            )
        )

    def reassignments(self) -> tuple[Reassignment, ...]:
        """The reassignments that run, and the last that ended; oldest first."""
        return self._loop.call(self._cluster.reassignments())

    def reassignment(self, reassignment_id: str) -> Reassignment:
        """A reassignment, and how far it is."""
        return self._loop.call(self._cluster.reassignment(reassignment_id))

    def cancel_reassignment(self, reassignment_id: str) -> Reassignment:
        """Leave what is not moved yet where it was; what was moved stays where it is."""
        return self._loop.call(self._cluster.cancel_reassignment(reassignment_id))

    def coordinators(self) -> Coordinators:
        """The nodes that coordinate groups."""
        return self._loop.call(self._cluster.coordinators())

    def coordinator_of(self, group: str) -> GroupCoordinator:
        """The node that coordinates a group."""
        return self._loop.call(self._cluster.coordinator_of(group))
