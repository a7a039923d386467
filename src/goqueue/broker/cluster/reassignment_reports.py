"""Commands about where partitions are and who leads them: what callers see, what they may change.

Any broker describes reassignments, from its image and what leaders said; changes go to the
controller. A node without a cluster has nowhere to move anything to.
"""

from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG
from goqueue.broker.cluster.member import ClusterMember
from goqueue.broker.state import NodeState
from goqueue.cluster import BrokerState, MetadataImage, PartitionId
from goqueue.model import Code, Now, Refused, RequestId
from goqueue.model.requests import (
    CancelReassignment,
    DescribeCoordinators,
    LeaderElected,
    ListReassignments,
    MetadataDescription,
    MetadataPartition,
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

    def describe_coordinators(self, request: RequestId, _: DescribeCoordinators, _now: Now) -> None:
        """Say who leads and keeps the log of coordinators; a node alone is the only one."""
        member = self._member
        if member is None:
            me = self._state.node_id
            reply = MetadataDescription(
                version=0, controller_epoch=0, cluster_id="", partitions=(_alone(me),)
            )
        elif member.metadata is None:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="joining its cluster")
        else:
            image = member.metadata.image
            reply = MetadataDescription(
                version=image.version,
                controller_epoch=member.metadata.election.term,
                cluster_id=image.cluster_id,
                partitions=_coordinators(image),
            )
        self._state.outbox.answer(request, reply)

    def change(
        self, request: RequestId, command: StartReassignment | CancelReassignment, now: Now
    ) -> None:
        """Move partitions, or give that up; the controller does it."""
        member = self._member
        if member is None:
            raise self._refusal_alone(command)
        if member.controller is None or member.metadata is None:
            raise Refused(Code.NOT_CONTROLLER)
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

    def _refusal_alone(self, command: StartReassignment | CancelReassignment) -> Refused:
        """Why a node without a cluster moves nothing: the first thing that is not there."""
        if isinstance(command, CancelReassignment):
            return Refused(Code.REASSIGNMENT_NOT_FOUND, reassignment=command.id)
        for move in command.moves:
            self._check_partition(move.topic, move.partition)
            for node in move.replicas:
                if node != self._state.node_id:
                    return Refused(Code.NODE_NOT_FOUND, node=node)
        reason = "this node is not a member of a cluster: there is no other node to move to"
        return Refused(Code.REQUEST_INVALID, field="new_replicas", reason=reason)

    def _transfer_alone(self, request: RequestId, command: TransferLeader) -> None:
        self._check_partition(command.topic, command.partition)
        if command.node not in {"", self._state.node_id}:
            raise Refused(Code.NODE_NOT_FOUND, node=command.node)
        self._state.outbox.answer(request, LeaderElected(node=self._state.node_id))

    def _check_partition(self, name: str, partition: int) -> None:
        topic = self._state.catalog.find(name)
        if not 0 <= partition < topic.stated.partitions:
            raise Refused(
                Code.PARTITION_NOT_FOUND,
                partition=partition,
                partitions=topic.stated.partitions,
            )


def _alone(me: str) -> MetadataPartition:
    return MetadataPartition(
        topic=COORDINATOR_LOG.topic,
        partition=COORDINATOR_LOG.partition,
        leader=me,
        epoch=0,
        replicas=(me,),
        isr=(me,),
        version=0,
    )


def _coordinators(image: MetadataImage) -> tuple[MetadataPartition, ...]:
    """The partitions of the log of coordinators; none before the first group is used."""
    topic = image.topic(COORDINATOR_LOG.topic)
    if topic is None:
        return ()
    active = {name for name, each in image.brokers.items() if each.state is BrokerState.ACTIVE}
    return tuple(
        MetadataPartition(
            topic=topic.name,
            partition=number,
            leader=state.leader,
            epoch=state.epoch,
            replicas=state.copies,
            isr=tuple(broker for broker in state.isr if broker in active),
            version=state.version,
        )
        for number, state in enumerate(image.table.partitions_of(topic.number))
    )
