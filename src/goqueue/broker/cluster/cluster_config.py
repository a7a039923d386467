"""What a node is told to be a member of a cluster. Secrets and certificates are the shell's."""

import msgspec

from goqueue.cluster import BrokerAddresses, ElectionTimes, LivenessTimes, TopicStated, Voter
from goqueue.model import MILLISECOND, SECOND, LogId, LogSettings, Timestamp
from goqueue.model.requests import TopicConfig
from goqueue.records import murmur3

__all__ = [
    "COORDINATOR_LOG",
    "METADATA_LOG",
    "METADATA_SETTINGS",
    "ClusterConfig",
    "JitterSource",
    "coordinator_topic",
]

METADATA_LOG = LogId("__metadata", 0)
# Whoever leads this partition coordinates groups: see `broker/coordinator`.
COORDINATOR_LOG = LogId("__consumer_offsets", 0)

METADATA_SETTINGS = LogSettings(
    retention_ns=None,
    retention_bytes=None,
    batches_in_flight_max=1 << 30,
    may_use_reserve=True,
)


def coordinator_topic(number: int, copies: int, created_at: Timestamp) -> TopicStated:
    """The topic of the log of the coordinator, which is kept for good."""
    name = COORDINATOR_LOG.topic
    config = TopicConfig(
        replication_factor=copies,
        min_insync_replicas=min(2, copies),
        retention_hours=-1,
        dead_letter_topic=name,
    )
    return TopicStated(name=name, number=number, partitions=1, config=config, created_at=created_at)


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a node in its cluster.

    `directory` is the id that was created with the data directory. `peers` are the addresses of
    the other nodes. `quorum` raises the number of nodes that form a cluster. `seed` spreads the
    times at which nodes stand for election; each node needs another.
    """

    directory: str
    addresses: BrokerAddresses
    peers: tuple[str, ...]
    quorum: int | None = None
    seed: int = 0
    rack: str = ""
    release: str = ""
    # Whether the last run on this data directory stopped cleanly.
    is_clean: bool = False
    election: ElectionTimes = ElectionTimes()
    liveness: LivenessTimes = LivenessTimes()
    # How often the leader of the metadata log says that it leads.
    leader_heartbeat_ns: int = 300 * MILLISECOND
    # How long a node has to be back before it leads again what it is the preferred leader of; None:
    # only when an operator asks for it.
    balance_after_ns: int | None = 60 * SECOND
    # How fast followers outside the ISR are sent what they lack; None: as fast as they take it.
    catch_up_bytes_per_second: int | None = None
    # Under which prefix of keys the metadata lie in an external store; None: in the own log.
    store_prefix: str | None = None
    # Larger changes are stored in parts. etcd refuses requests above 1.5 MB: base64 is a third
    # longer, and a record has room beside it.
    store_part_bytes: int = 512 * 1024
    # The image is stated again when the log has grown by so much.
    restate_bytes: int = 4 * 1024 * 1024

    def voter(self, node_id: str) -> Voter:
        return Voter(node_id, self.directory)


class JitterSource:
    """Numbers from [0, 1) that follow from a seed: the chance that the shell handed in."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def draw(self) -> float:
        self._drawn += 1
        return murmur3(b"%d:%d" % (self._seed, self._drawn)) / (1 << 32)
