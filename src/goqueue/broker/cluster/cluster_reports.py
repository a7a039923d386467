"""What callers see of the cluster, and the commands that change its nodes.

Reads only the image and what this node heard; changes go to the controller. A node without a
cluster reports itself.
"""

from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.cluster.controller import Controller
from goqueue.broker.cluster.image_counts import under_replicated_count
from goqueue.broker.cluster.member import ClusterMember
from goqueue.broker.cluster.node_status import node_status
from goqueue.broker.cluster.reassignment_reports import ReassignmentReports
from goqueue.broker.state import NodeState
from goqueue.cluster import TERM_JUMP_MAX, BrokerState, NodeStatus, PartitionId, RegisteredBroker
from goqueue.model import (
    Answer,
    Code,
    LogEnd,
    Now,
    Offset,
    Refused,
    RequestId,
    Timestamp,
    VoteRequest,
)
from goqueue.model.requests import (
    AskVote,
    CheckClusterHealth,
    ClusterDescription,
    ClusterHealth,
    ClusterJoined,
    ClusterNode,
    DescribeCluster,
    DescribeMetadata,
    ElectLeader,
    ForgetBroker,
    HearNode,
    JoinCluster,
    LeaveCluster,
    MetadataDescription,
    MetadataPartition,
    MetadataTopic,
    NodeHeard,
)

__all__ = ["ClusterReports"]

_MILLISECOND = 1_000_000


class ClusterReports:
    """Answers the commands about the cluster."""

    def __init__(self, state: NodeState, member: ClusterMember | None) -> None:
        self._state = state
        self._member = member
        self.moves = ReassignmentReports(state, member)

    def describe(self, request: RequestId, _: DescribeCluster, now: Now) -> None:
        self._state.outbox.answer(request, self._description(now))

    def _description(self, now: Now) -> ClusterDescription:
        metadata = None if self._member is None else self._member.metadata
        if self._member is None or metadata is None:
            return ClusterDescription(
                node_id=self._state.node_id,
                cluster_id="",
                version=0,
                controller_id=self._state.node_id if self._member is None else "",
                controller_epoch=0,
                nodes=(self._alone(),),
                updated_at=now.wall,
                problem="" if self._member is None else "starting",
            )
        leader = metadata.election.leader
        return ClusterDescription(
            node_id=self._state.node_id,
            cluster_id=metadata.image.cluster_id,
            version=metadata.image.version,
            controller_id="" if leader is None else leader.broker,
            controller_epoch=metadata.election.term,
            nodes=self._nodes(self._member, metadata, now),
            updated_at=now.wall,
            feature_level=metadata.image.feature_level,
            problem=self._member.problem or "",
            coordinators=metadata.image.coordinators,
        )

    def _alone(self) -> ClusterNode:
        return ClusterNode(
            id=self._state.node_id,
            status=NodeStatus.ALIVE,
            is_controller=self._member is None,
            is_voter=True,
            silent_ms=0,
        )

    def _nodes(
        self, member: ClusterMember, metadata: ClusterMetadata, now: Now
    ) -> tuple[ClusterNode, ...]:
        brokers = metadata.image.brokers
        return tuple(self._node(member, metadata, brokers[name], now) for name in sorted(brokers))

    def _node(
        self, member: ClusterMember, metadata: ClusterMetadata, broker: RegisteredBroker, now: Now
    ) -> ClusterNode:
        registration = broker.registration
        name = registration.broker
        is_me = name == self._state.node_id
        heard = now.instant if is_me else member.liveness.last_heard(name)
        status = node_status(member, name, now.instant)
        leader = metadata.election.leader
        return ClusterNode(
            id=name,
            status=status,
            client_address=registration.addresses.http,
            peer_address=registration.addresses.peers,
            is_controller=leader is not None and leader == broker.voter,
            is_voter=broker.voter in metadata.image.voters,
            epoch=broker.epoch,
            incarnation=registration.incarnation,
            directory=registration.directory,
            rack=registration.rack,
            release=registration.release,
            silent_ms=None if heard is None else (now.instant - heard) // _MILLISECOND,
            is_full=member.liveness.is_full(name),
            loop_lag_ms=member.liveness.loop_lag_ms(name),
            leaders=len(metadata.image.table.led_by(name)),
            replicas=len(metadata.image.table.hosted_by(name)),
        )

    def check_health(self, request: RequestId, _: CheckClusterHealth, now: Now) -> None:
        described = self._description(now)
        alive = {NodeStatus.ALIVE, NodeStatus.LEAVING}
        fenced = self._fenced()
        healthy = sum(node.status in alive and node.id not in fenced for node in described.nodes)
        unhealthy = len(described.nodes) - healthy
        has_quorum = bool(described.controller_id)
        under_replicated, offline = self._count_lacking()
        is_well = not (unhealthy or described.problem or under_replicated or offline)
        status = "ok" if is_well else "degraded"
        is_controller = described.controller_id == self._state.node_id
        reply = ClusterHealth(
            status=status if has_quorum else "fail",
            node_id=self._state.node_id,
            role="controller" if is_controller else "follower",
            controller_id=described.controller_id,
            controller_epoch=described.controller_epoch,
            healthy=healthy,
            unhealthy=unhealthy,
            under_replicated_partitions=under_replicated,
            offline_partitions=offline,
            nodes=described.nodes,
            checked_at=now.wall,
            problem=described.problem,
        )
        self._state.outbox.answer(request, reply)

    def _fenced(self) -> frozenset[str]:
        """The nodes that the controller has given up, before their status says so."""
        metadata = None if self._member is None else self._member.metadata
        brokers = {} if metadata is None else metadata.image.brokers
        return frozenset(
            name for name, known in brokers.items() if known.state is BrokerState.FENCED
        )

    def _count_lacking(self) -> tuple[int, int]:
        """How many partitions lack live replicas in sync, and how many have no leader."""
        metadata = None if self._member is None else self._member.metadata
        if metadata is None:
            return 0, 0
        return under_replicated_count(metadata.image), len(metadata.image.table.led_by(None))

    def describe_metadata(self, request: RequestId, asked: DescribeMetadata, now: Now) -> None:
        described = self._description(now)
        metadata = None if self._member is None else self._member.metadata
        is_new = metadata is not None and asked.since < metadata.image.version
        stated = [*metadata.image.table.stated()] if metadata is not None and is_new else []
        reply = MetadataDescription(
            version=described.version,
            controller_epoch=described.controller_epoch,
            cluster_id=described.cluster_id,
            topics=tuple(
                MetadataTopic(
                    name=each.topic.name,
                    number=each.topic.number,
                    config=each.topic.config,
                    created_at=Timestamp(each.topic.created_at),
                )
                for each in stated
            ),
            partitions=tuple(
                MetadataPartition(
                    topic=each.topic.name,
                    partition=number,
                    leader=state.leader,
                    epoch=state.epoch,
                    replicas=state.copies,
                    isr=state.isr,
                    version=state.version,
                )
                for each in stated
                for number, state in enumerate(each.partitions)
            ),
        )
        self._state.outbox.answer(request, reply)

    # Other nodes

    def _check_caller(self, cluster_id: str, epoch: int) -> tuple[ClusterMember, ClusterMetadata]:
        """This node as a member; refuses callers of another cluster and of an older epoch."""
        member = self._member
        if member is None or member.metadata is None:
            raise Refused(Code.NOT_CONTROLLER, reason="this node is no member of a cluster")
        own = member.metadata.image.cluster_id
        if cluster_id and own and cluster_id != own:
            reason = f"this node belongs to the cluster {own}"
            raise Refused(Code.REQUEST_INVALID, field="cluster_id", reason=reason)
        term = member.metadata.election.term
        if epoch < term:
            raise Refused(Code.EPOCH_STALE, epoch=term)
        if epoch > term + TERM_JUMP_MAX:
            reason = f"this node has reached {term}, and believes no jump above {TERM_JUMP_MAX}"
            raise Refused(Code.REQUEST_INVALID, field="epoch", reason=reason)
        return member, member.metadata

    def hear(self, request: RequestId, command: HearNode, now: Now) -> None:
        member, metadata = self._check_caller(command.cluster_id, command.epoch)
        if command.node not in metadata.image.brokers:
            raise Refused(Code.NODE_NOT_FOUND, node=command.node)
        if command.node != self._state.node_id:
            member.liveness.hear(command.node, now.instant)
        leader = metadata.election.leader
        reply = NodeHeard(
            node_id=self._state.node_id,
            version=metadata.image.version,
            controller_id="" if leader is None else leader.broker,
            cluster_id=metadata.image.cluster_id,
            epoch=command.epoch,
        )
        metadata.hear_term(command.epoch, Answer(request=request, reply=reply), now)

    def vote(self, request: RequestId, command: AskVote, now: Now) -> None:
        _, metadata = self._check_caller(command.cluster_id, command.epoch)
        known = metadata.image.brokers.get(command.candidate)
        if known is None:
            raise Refused(Code.NODE_NOT_FOUND, node=command.candidate)
        asked = VoteRequest(
            term=command.epoch,
            log=LogEnd(command.last_log_epoch, Offset(command.last_log_index)),
            is_pre_vote=command.is_pre_vote,
            lineage=metadata.lineage,
        )
        metadata.ask_vote(known.voter, asked, request, now)

    # Changes

    def _controller(self) -> tuple[ClusterMetadata, Controller]:
        member = self._member
        if member is None or member.metadata is None or member.controller is None:
            raise Refused(Code.NOT_CONTROLLER, reason="this node is no member of a cluster")
        metadata = member.metadata
        if not metadata.is_controller:
            leader = metadata.election.leader
            known = None if leader is None else metadata.image.brokers.get(leader.broker)
            if known is None:
                raise Refused(Code.NOT_CONTROLLER)
            raise Refused(
                Code.NOT_CONTROLLER,
                controller_id=known.registration.broker,
                controller_address=known.registration.addresses.peers,
            )
        return metadata, member.controller

    def join(self, request: RequestId, command: JoinCluster, now: Now) -> None:
        if command.cluster_id or command.epoch:
            _, metadata = self._check_caller(command.cluster_id, command.epoch)
            if command.epoch > metadata.election.term:
                # There is a later controller, or there will be one: it answers.
                refusal = Refused(Code.NOT_CONTROLLER)
                metadata.hear_term(command.epoch, Answer(request=request, reply=refusal), now)
                return
        metadata, _controller = self._controller()
        known = metadata.image.brokers.get(command.node)
        mine = metadata.image.brokers.get(self._state.node_id)
        reply = ClusterJoined(
            is_registered=known is not None
            and known.state is not BrokerState.FENCED
            and command.address in {"", known.registration.addresses.peers},
            controller_id=self._state.node_id,
            controller_address="" if mine is None else mine.registration.addresses.peers,
            cluster_id=metadata.image.cluster_id,
            epoch=metadata.election.term,
        )
        self._state.outbox.answer(request, reply)

    def leave(self, request: RequestId, command: LeaveCluster, now: Now) -> None:
        self._controller()[1].leave(request, command.node, now)

    def forget(self, request: RequestId, command: ForgetBroker, now: Now) -> None:
        if self._member is None:
            is_me = command.node == self._state.node_id
            raise Refused(Code.NODE_ALIVE if is_me else Code.NODE_NOT_FOUND, node=command.node)
        self._controller()[1].forget(request, command.node, now)

    def elect(self, request: RequestId, command: ElectLeader, now: Now) -> None:
        topic = self._state.catalog.find(command.topic)
        if self._member is None:
            raise Refused(Code.NODE_ALIVE, node=self._state.node_id)
        _metadata, controller = self._controller()
        where = PartitionId(topic.number, command.partition)
        controller.partitions.elect_unclean(request, where, command.node)
        controller.decide(now)
