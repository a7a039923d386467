"""The metadata of a cluster: the changes in its log, and the image that they add up to.

Owns what all brokers agree on: the cluster id, the feature level, the registered brokers, the
voters, topics with their partitions (`PartitionTable`), which of those move (`ReassignmentTable`),
keys, ACLs and tenants (`AccessTable`), and schemas (`SchemaTable`). Decides nothing: the controller
proposes changes, the metadata log commits them, and every broker applies the same ones in the same
order.

A version is the offset after a record of the metadata log, so versions rise over the whole life of
a cluster. The version of its registration is the epoch of a broker: what an earlier run of it was
told is below.

Invariants
- The image is a function of the changes and their versions. `apply` takes no clock, never fails,
  and ignores a change that names a broker, or an epoch of one, that is gone.
- `ImageStated` says all that the changes before it say, but keys, ACLs, tenants and schemas: those
  follow in pieces (`AccessStated`, then `SchemasStated`). A log may begin with it once the last
  piece is committed.

Cost: a change touches the entries that it names; an image is stated in one record, one entry for
each broker and each partition (about 70 bytes: 10,000 partitions are less than 1 MB).
"""

import enum
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from goqueue.cluster.access_table import AccessChange, AccessStated, AccessTable
from goqueue.cluster.partitions import (
    PartitionChange,
    PartitionState,
    PartitionTable,
    ReplicasLost,
    StatedTopic,
    TopicStated,
)
from goqueue.cluster.reassignments import Reassignment, ReassignmentChange, ReassignmentTable
from goqueue.cluster.schema_table import SchemasStated, SchemaTable
from goqueue.cluster.voters import Voter, Voters
from goqueue.schemas import SchemaChange
from goqueue.security import AuditRecorded

__all__ = [
    "COORDINATORS",
    "FEATURE_LEVEL",
    "BrokerAddresses",
    "BrokerFenced",
    "BrokerRegistered",
    "BrokerRemoved",
    "BrokerResigned",
    "BrokerState",
    "ClusterCreated",
    "ClusterRecovered",
    "FeatureLevelRaised",
    "ImageStated",
    "MetadataChange",
    "MetadataImage",
    "RegisteredBroker",
    "StatedPiece",
    "VotersChanged",
    "voters_written",
]

# How many group coordinators a cluster has; fixed when it is created.
COORDINATORS = 1
# The highest feature level that this version supports.
FEATURE_LEVEL = 2


class BrokerAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker is reached, as `host:port`; empty where it does not listen."""

    peers: str = ""
    http: str = ""
    grpc: str = ""
    kafka: str = ""
    sqs: str = ""


class BrokerState(enum.StrEnum):
    """What the controller decided about a registered broker."""

    ACTIVE = "active"
    FENCED = "fenced"
    LEAVING = "leaving"


# Changes. Their tags and fields are stored: fields are only ever added, with a default.


class ClusterCreated(msgspec.Struct, frozen=True, kw_only=True, tag="cluster_created"):
    """The first record ever. Until it is committed, the voters of `formed_by` count as well."""

    cluster_id: str
    voters: tuple[Voter, ...]
    formed_by: tuple[Voter, ...] = ()
    coordinators: int = COORDINATORS


class FeatureLevelRaised(msgspec.Struct, frozen=True, kw_only=True, tag="feature_level_raised"):
    """Kinds of change and message up to this level may be used."""

    level: int


class BrokerRegistered(msgspec.Struct, frozen=True, kw_only=True, tag="broker_registered"):
    """A run of a broker joined the cluster; its version is the broker epoch."""

    broker: str
    directory: str
    incarnation: int
    addresses: BrokerAddresses = BrokerAddresses()
    rack: str = ""
    level_min: int = 1
    level_max: int = FEATURE_LEVEL
    # The version of the program, for people.
    release: str = ""
    # Whether the run before it stopped cleanly: else it may lack what was not synced.
    is_clean: bool = False


class BrokerFenced(msgspec.Struct, frozen=True, kw_only=True, tag="broker_fenced"):
    """A broker is silent. This ends only with a new registration."""

    broker: str
    epoch: int


class BrokerResigned(msgspec.Struct, frozen=True, kw_only=True, tag="broker_leaving"):
    """A broker is about to stop."""

    broker: str
    epoch: int


class BrokerRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="broker_removed"):
    """An operator removed a broker: its id is free for another data directory."""

    broker: str
    epoch: int


class VotersChanged(msgspec.Struct, frozen=True, kw_only=True, tag="voters_changed"):
    """Other voters; while `old` is set a majority of both is needed."""

    new: tuple[Voter, ...]
    old: tuple[Voter, ...] = ()


class ClusterRecovered(msgspec.Struct, frozen=True, kw_only=True, tag="cluster_recovered"):
    """An operator recovered the cluster without its voters: for people, since the statement before
    this record says what follows from it.

    The statement has a version far above the last one that is known, so nothing that the lost
    voters may have committed shares a version with what is committed from now on.
    """

    previous: str
    by: str
    lost: tuple[Voter, ...]
    at: int


class RegisteredBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A registered broker: its registration, and what was decided since."""

    registration: BrokerRegistered
    # The version of the registration.
    epoch: int
    state: BrokerState = BrokerState.ACTIVE

    @property
    def voter(self) -> Voter:
        return Voter(self.registration.broker, self.registration.directory)


class ImageStated(msgspec.Struct, frozen=True, kw_only=True, tag="image_stated"):
    """The whole image, as of the version before this record: what was before may go."""

    version: int
    cluster_id: str
    coordinators: int
    feature_level: int
    voters: Voters
    brokers: tuple[RegisteredBroker, ...]
    topics: tuple[StatedTopic, ...] = ()
    next_topic: int = 1
    next_producer: int = 1
    # How many keys, ACLs and tenants there are, which follow in pieces, and their sum.
    access_count: int = 0
    access_sum: int = 0
    # The sum of the schemas, whose pieces come after those; unset: there are none.
    schema_sum: int | msgspec.UnsetType = msgspec.UNSET
    reassignments: tuple[Reassignment, ...] = ()
    next_reassignment: int = 1


# What states a part of an image that is too large for one record.
StatedPiece = AccessStated | SchemasStated

MetadataChange = (
    ClusterCreated
    | ClusterRecovered
    | FeatureLevelRaised
    | BrokerRegistered
    | BrokerFenced
    | BrokerResigned
    | BrokerRemoved
    | VotersChanged
    | ImageStated
    | ReplicasLost
    | PartitionChange
    | StatedPiece
    | ReassignmentChange
    | AccessChange
    | SchemaChange
    | AuditRecorded
)


def voters_written(changes: Iterable[MetadataChange]) -> Voters | None:
    """The voters that these changes name last, committed or not; None if they name none."""
    found: Voters | None = None
    for change in changes:
        match change:
            case ClusterCreated():
                found = Voters(change.voters, change.formed_by)
            case VotersChanged():
                found = Voters(change.new, change.old)
            case ImageStated():
                found = change.voters
    return found


class MetadataImage:
    """What the committed metadata log says."""

    def __init__(self) -> None:
        self._version = 0
        self._cluster_id = ""
        self._coordinators = COORDINATORS
        self._feature_level = 1
        self._voters = Voters(())
        self._brokers: dict[str, RegisteredBroker] = {}
        self._table = PartitionTable()
        self._reassignments = ReassignmentTable()
        self._access = AccessTable()
        self._schemas = SchemaTable()

    @property
    def version(self) -> int:
        """The offset after the last record that was applied."""
        return self._version

    @property
    def cluster_id(self) -> str:
        """Empty until the cluster was created."""
        return self._cluster_id

    @property
    def coordinators(self) -> int:
        return self._coordinators

    @property
    def feature_level(self) -> int:
        return self._feature_level

    @property
    def voters(self) -> Voters:
        """The voters as of this version."""
        return self._voters

    @property
    def brokers(self) -> Mapping[str, RegisteredBroker]:
        """The registered brokers by id, in the order of their first registration."""
        return self._brokers

    @property
    def table(self) -> PartitionTable:
        """The topics and partitions."""
        return self._table

    @property
    def reassignments(self) -> ReassignmentTable:
        """What moves to other brokers, and what moved lately."""
        return self._reassignments

    @property
    def access(self) -> AccessTable:
        """The keys, ACLs and tenants."""
        return self._access

    @property
    def schemas(self) -> SchemaTable:
        """The schemas."""
        return self._schemas

    @property
    def is_whole(self) -> bool:
        """Whether all of the statement that the log begins with was taken in."""
        return self._access.is_whole and self._schemas.is_whole

    def topic(self, name: str) -> TopicStated | None:
        """The topic of this name."""
        return self._table.topic_named(name)

    def partition(self, topic: int, partition: int) -> PartitionState | None:
        """A partition, by the number of its topic; None if there is none."""
        return self._table.get(topic, partition)

    def leader_of(self, topic: int, partition: int) -> RegisteredBroker | None:
        """The broker that leads a partition, if there is one."""
        state = self._table.get(topic, partition)
        leader = None if state is None else state.leader
        return None if leader is None else self._brokers.get(leader)

    def apply(self, changes: Iterable[MetadataChange], version: int) -> None:
        """Take over the changes of one committed record; `version` is the offset after it."""
        assert version > self._version, f"version {version} after {self._version}"
        for change in changes:
            self._apply(change, version)
        self._version = version

    def _apply(self, change: MetadataChange, version: int) -> None:
        match change:
            case ClusterCreated():
                self._cluster_id = change.cluster_id
                self._coordinators = change.coordinators
                self._voters = Voters(change.voters, change.formed_by)
            case FeatureLevelRaised(level=level):
                self._feature_level = max(self._feature_level, level)
            case BrokerRegistered():
                self._register(change, version)
            case BrokerFenced():
                self._decide(change.broker, change.epoch, BrokerState.FENCED)
            case BrokerResigned():
                self._decide(change.broker, change.epoch, BrokerState.LEAVING)
            case BrokerRemoved():
                if self._is_current(change.broker, change.epoch):
                    del self._brokers[change.broker]
                    self._table.forget_broker(change.broker, version)
            case ReplicasLost():
                if self._is_current(change.broker, change.epoch):
                    self._table.lose_replicas(change, version)
            case VotersChanged():
                self._voters = Voters(change.new, change.old)
            case ImageStated():
                self._adopt(change)
            case _:
                self._apply_to_tables(change, version)

    def _apply_to_tables(
        self,
        change: PartitionChange
        | StatedPiece
        | ReassignmentChange
        | AccessChange
        | SchemaChange
        | AuditRecorded
        | ClusterRecovered,
        version: int,
    ) -> None:
        match change:
            case AccessStated():
                self._access.take_piece(change)
            case SchemasStated():
                self._schemas.take_piece(change, version)
            case AuditRecorded() | ClusterRecovered():
                # They say who did what: what follows from it is in other changes.
                pass
            case _ if isinstance(change, AccessChange):
                self._access.apply(change)
            case _ if isinstance(change, SchemaChange):
                self._schemas.apply(change, version)
            case _ if isinstance(change, ReassignmentChange):
                self._reassignments.apply(change, self._table, version)
            case _:
                self._table.apply(change, version)

    def _register(self, change: BrokerRegistered, version: int) -> None:
        known = self._brokers.get(change.broker)
        self._brokers[change.broker] = RegisteredBroker(registration=change, epoch=version)
        # A run that was fenced and comes back has lost nothing.
        is_same = known is not None and known.registration.incarnation == change.incarnation
        if not change.is_clean and not is_same:
            self._table.doubt_replicas(change.broker, version)

    def _is_current(self, broker: str, epoch: int) -> bool:
        found = self._brokers.get(broker)
        return found is not None and found.epoch == epoch

    def _decide(self, broker: str, epoch: int, state: BrokerState) -> None:
        if self._is_current(broker, epoch):
            found = self._brokers[broker]
            self._brokers[broker] = msgspec.structs.replace(found, state=state)

    def _adopt(self, stated: ImageStated) -> None:
        if self._version:
            assert stated == self.stated(), "the leader states another image"
            return
        self._cluster_id = stated.cluster_id
        self._coordinators = stated.coordinators
        self._feature_level = stated.feature_level
        self._voters = stated.voters
        self._brokers = {each.registration.broker: each for each in stated.brokers}
        self._table.adopt(stated.topics)
        self._table.next_topic = stated.next_topic
        self._table.next_producer = stated.next_producer
        self._reassignments.adopt(stated.reassignments)
        self._reassignments.next_number = stated.next_reassignment
        if stated.access_count:
            self._access.begin_statement()
        if stated.schema_sum is not msgspec.UNSET:
            self._schemas.begin_statement()

    def stated(self) -> ImageStated:
        """The image as one change, for a record behind all that it says."""
        return ImageStated(
            version=self._version,
            cluster_id=self._cluster_id,
            coordinators=self._coordinators,
            feature_level=self._feature_level,
            voters=self._voters,
            brokers=tuple(self._brokers.values()),
            topics=tuple(self._table.stated()),
            next_topic=self._table.next_topic,
            next_producer=self._table.next_producer,
            access_count=len(self._access),
            access_sum=self._access.sum,
            schema_sum=self._schemas.stated_sum,
            reassignments=self._reassignments.stated(),
            next_reassignment=self._reassignments.next_number,
        )

    def state_pieces(self) -> Iterator[StatedPiece]:
        """The rest of a statement, a piece for each record: see `AccessTable.state_pieces`."""
        yield from self._access.state_pieces()
        yield from self._schemas.state_pieces()
