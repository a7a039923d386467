"""A node as a member of a cluster: its votes, its copy of the metadata log, and the controller.

`ClusterMember` is what the node knows of it. Below it `QuorumMetadata` elects the leader of the
metadata log and replicates it (`LogLeader`, `LogFollower`), `BrokerStateJournal` keeps what only
this broker knows, `Controller` decides while this broker leads, `ClusterReports` answers commands.
"""

from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG, ClusterConfig
from goqueue.broker.cluster.cluster_reports import ClusterReports
from goqueue.broker.cluster.external_metadata import ExternalMetadata
from goqueue.broker.cluster.member import ClusterMember
from goqueue.broker.cluster.quorum_metadata import QuorumMetadata

__all__ = [
    "COORDINATOR_LOG",
    "ClusterConfig",
    "ClusterMember",
    "ClusterReports",
    "ExternalMetadata",
    "QuorumMetadata",
]
