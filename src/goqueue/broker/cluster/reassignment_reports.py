"""Commands about where partitions are and who leads them: what callers see, what they may change.

Any broker describes reassignments, from its image and what leaders said; changes go to the
controller. A node without a cluster has nowhere to move anything to.
"""

from goqueue.broker.cluster.member import ClusterMember
from goqueue.broker.state import NodeState
from goqueue.cluster import PartitionId
from goqueue.model import Code, Now, Refused, RequestId
from goqueue.model.requests import (
    CancelReassignment,
    LeaderElected,
    ListReassignments,
    ReassignmentList,
    StartReassignment,
    TransferLeader,
)

__all__ = ["ReassignmentReports"]


class ReassignmentReports:
    """Answers the commands about reassignments and leaders."""

    def __init__(self, state: NodeState, member: ClusterMember | None) -> None:
        self._state = state
        self._member = member

    def list_all(self, request: RequestId, asked: ListReassignments, _now: Now) -> None:
        """Describe all reassignments that are known, or one."""
        member = self._member
        if member is not None and member.metadata is None:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="joining its cluster")
        if member is None or member.metadata is None:
            if asked.id:
                raise Refused(Code.REASSIGNMENT_NOT_FOUND, reassignment=asked.id)
            listed = ReassignmentList(reassignments=())
        else:
            image, board = member.metadata.image, member.presence.moves
            found = [board.find(asked.id, image)] if asked.id else image.reassignments
            listed = ReassignmentList(
                reassignments=tuple(board.describe(each, image) for each in found)
            )
        self._state.outbox.answer(request, listed)

    def change(
        self, request: RequestId, command: StartReassignment | CancelReassignment, now: Now
    ) -> None:
        """Move partitions, or give that up; the controller does it."""
        member = self._member
        if member is None and isinstance(command, CancelReassignment):
            raise Refused(Code.REASSIGNMENT_NOT_FOUND, reassignment=command.id)
        if member is None or member.controller is None or member.metadata is None:
            reason = "this node is not a member of a cluster: there is no other node to move to"
            raise Refused(Code.REQUEST_INVALID, reason=reason)
        if not member.metadata.is_controller:
            raise member.controller.partitions.not_controller()
        member.controller.moves.request(request, command)
        member.controller.decide(now)

    def transfer(self, request: RequestId, command: TransferLeader, now: Now) -> None:
        """Let another replica lead; the controller asks the one that does."""
        member = self._member
        if member is None:
            self._transfer_alone(request, command)
            return
        if member.controller is None or member.metadata is None:
            raise Refused(Code.NOT_CONTROLLER)
        if not member.metadata.is_controller:
            raise member.controller.partitions.not_controller()
        topic = member.metadata.image.topic(command.topic)
        if topic is None:
            raise Refused(Code.TOPIC_NOT_FOUND, topic=command.topic)
        where = PartitionId(topic.number, command.partition)
        member.controller.transfers.command(request, where, command)
        member.controller.decide(now)

    def _transfer_alone(self, request: RequestId, command: TransferLeader) -> None:
        topic = self._state.catalog.find(command.topic)
        if not 0 <= command.partition < topic.stated.partitions:
            raise Refused(
                Code.PARTITION_NOT_FOUND,
                partition=command.partition,
                partitions=topic.stated.partitions,
            )
        if command.node not in {"", self._state.node_id}:
            raise Refused(Code.NODE_NOT_FOUND, node=command.node)
        self._state.outbox.answer(request, LeaderElected(node=self._state.node_id))
