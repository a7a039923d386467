"""How wishes reach the controller: from another broker, or from this one.

A wish is answered by the metadata log alone; one that gets lost is repeated by whoever has it.
"""

from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.cluster.controller import Controller
from goqueue.broker.state import NodeState
from goqueue.model import PartitionMessage, ResignLeaderships, Send

__all__ = ["ControllerLine"]


class ControllerLine:
    """Passes wishes about partitions to the controller."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._metadata: ClusterMetadata | None = None
        self._controller: Controller | None = None
        self._has_news = False

    def connect(self, metadata: ClusterMetadata, controller: Controller) -> None:
        """The metadata log was read: from now on there may be a controller."""
        self._metadata, self._controller = metadata, controller

    def take_news(self) -> bool:
        """Whether this broker, as the controller, got a wish since the last call."""
        had_news, self._has_news = self._has_news, False
        return had_news

    def report_news(self) -> None:
        """This broker has something to decide, as the controller."""
        self._has_news = True

    def want(self, sender: str, message: PartitionMessage) -> None:
        """A broker, this one perhaps, wants something; nobody hears it who does not lead.

        A leader whose first record is not committed yet decides nothing, but the wish can wait.
        """
        if self._controller is not None and self._metadata is not None:
            if self._metadata.is_leading:
                self._has_news = True
                if isinstance(message, ResignLeaderships) and message.heirs:
                    self._controller.transfers.want(sender, message)
                else:
                    self._controller.partitions.want(sender, message)

    def ask(self, message: PartitionMessage) -> None:
        """Pass a wish of this broker on to the controller, if one is known."""
        leader = None if self._metadata is None else self._metadata.election.leader
        if leader is not None and leader.broker == self._state.node_id:
            self.want(leader.broker, message)
        elif leader is not None:
            self._state.outbox.append(Send(broker=leader.broker, message=message))
