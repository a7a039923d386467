"""What a member of a cluster says of a registered node."""

from goqueue.broker.cluster.member import ClusterMember
from goqueue.cluster import BrokerState, NodeStatus
from goqueue.model import Instant

__all__ = ["node_status"]


def node_status(member: ClusterMember, broker: str, now: Instant) -> NodeStatus:
    """The status of a registered broker as this one hears it."""
    is_me = broker == member.me.broker
    status = NodeStatus.ALIVE if is_me else member.liveness.status(broker, now)
    known = None if member.metadata is None else member.metadata.image.brokers.get(broker)
    is_leaving = known is not None and known.state is BrokerState.LEAVING
    is_leaving = is_leaving or (is_me and member.presence.is_leaving)
    return NodeStatus.LEAVING if is_leaving and status is NodeStatus.ALIVE else status
