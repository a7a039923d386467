"""What a member tells of itself: who it is, and what it asks to be registered as.

Both are said anew whenever they may have changed; nothing is remembered here.
"""

from goqueue.broker.cluster.broker_state import BrokerState
from goqueue.broker.cluster.cluster_config import ClusterConfig
from goqueue.cluster import FEATURE_LEVEL, MetadataImage, Voter
from goqueue.model import ConnectPeers, PeerIdentity, RegisterBroker

__all__ = ["connect_peers", "registration_of"]


def connect_peers(
    me: Voter,
    config: ClusterConfig,
    own: BrokerState,
    *,
    entered: str,
    attempt: tuple[Voter, ...],
    image: MetadataImage,
) -> ConnectPeers:
    """Who this broker is, and where the others that it knows of are.

    `entered` is the cluster that it belongs to, `attempt` the voters of one that it may belong to.
    """
    identity = PeerIdentity(
        broker=me.broker,
        directory=me.directory,
        incarnation=own.incarnation,
        address=config.addresses.peers,
        client_address=config.addresses.http,
        cluster_id=entered,
        peers=config.peers,
        attempt=() if entered else attempt,
    )
    known = [each.registration.addresses.peers for each in image.brokers.values()]
    addresses = tuple(sorted({each for each in known if each} - {identity.address}))
    return ConnectPeers(identity=identity, addresses=addresses)


def registration_of(
    config: ClusterConfig, own: BrokerState, *, entered: str, version: int
) -> RegisterBroker:
    """What this run asks the controller to register, having seen a version of the image."""
    return RegisterBroker(
        lineage=entered,
        client_address=config.addresses.http,
        rack=config.rack,
        level_max=FEATURE_LEVEL,
        release=config.release,
        version=version,
        is_clean=not own.is_unclean,
    )
