"""Who gets what was read or found: the part of the node that asked for it.

What nobody waits for any longer belongs to a coordinator whose epoch has ended.
"""

from goqueue.broker.cluster import ClusterMember
from goqueue.broker.cluster.edge import ClusterEdge
from goqueue.broker.components import Components, pass_fetched, pass_found
from goqueue.broker.coordinator.coordinators import Coordinators
from goqueue.broker.disk_reads import (
    ClusterFetch,
    FoldFetch,
    ForwardFetch,
    RepairFetch,
    ReplicaFetch,
)
from goqueue.broker.state import NodeState
from goqueue.model import Fetched, Found, Now

__all__ = ["ReadResults"]


class ReadResults:
    """Hands records and offsets to whoever asked for them."""

    def __init__(
        self,
        state: NodeState,
        components: Components,
        cluster: ClusterMember | None,
        edge: ClusterEdge | None,
        coordinators: Coordinators | None,
    ) -> None:
        self._state = state
        self._components = components
        self._cluster = cluster
        self._edge = edge
        self._coordinators = coordinators

    def fetched(self, event: Fetched, now: Now) -> None:
        """Records were read, or cannot be."""
        purpose = self._state.fetches.pop(event.token, None)
        if purpose is None:
            assert self._coordinators is not None, "every read has a purpose"
            self._coordinators.fetched(event, now)
        elif isinstance(purpose, ClusterFetch | ReplicaFetch | RepairFetch | FoldFetch):
            assert self._cluster is not None
            self._cluster.fetched(purpose, event.data, now)
        elif isinstance(purpose, ForwardFetch):
            assert self._edge is not None
            self._edge.fetched(purpose, event.data, now)
        else:
            pass_fetched(self._components, purpose, event.data, now)

    def found(self, event: Found, now: Now) -> None:
        """An offset was looked for by its time."""
        purpose = self._state.searches.pop(event.token, None)
        if purpose is None:
            assert self._coordinators is not None, "every search has a purpose"
            self._coordinators.found(event, now)
        else:
            pass_found(self._components, purpose, event, now)
