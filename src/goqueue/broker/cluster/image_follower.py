"""Follows the committed image: the catalog has its topics, and replicas know what changed.

Keys, ACLs and tenants follow beside them (see `AccessFollower`), schemas (`SchemaFollower`), and
what the audit log of this node is to say of all of it.

The only way by which topics of a cluster change on a broker, the controller among them: a reply
never says what a topic is, the committed log does.

Invariant: after a record was followed, the catalog holds the topics of the image, no more.
Cost: by what a record names; a statement of the image, which comes only to a broker that was far
behind, by all topics.
"""

from collections.abc import Iterator

from goqueue.broker.audit import AUDIT_LOG
from goqueue.broker.cluster.access_follower import AccessFollower
from goqueue.broker.cluster.cluster_producers import ClusterProducers
from goqueue.broker.cluster.metadata_records import MetadataRecord
from goqueue.broker.cluster.schema_follower import SchemaFollower
from goqueue.broker.partitions import Partition
from goqueue.broker.recovery.start import CLUSTER_LOGS, GROUPS_LOG, TOPICS_LOG
from goqueue.broker.replication.replicas import Replicas
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    AccessChange,
    BrokerFenced,
    BrokerRegistered,
    BrokerRemoved,
    BrokerResigned,
    ImageStated,
    IsrChanged,
    LeadersChanged,
    MetadataChange,
    MetadataImage,
    PartitionId,
    PartitionsAssigned,
    ProducerIdsAllocated,
    ReassignmentChange,
    ReassignmentEnded,
    RegisteredBroker,
    ReplicaMovesBegun,
    ReplicasLost,
    TopicDeleted,
    TopicStated,
    UncleanLeaderElected,
)
from goqueue.model import Now, Report, TopicCreated, TopicRemoved
from goqueue.schemas import SchemaChange
from goqueue.security import AuditRecorded

__all__ = ["ImageFollower"]

_INTERNAL = (TOPICS_LOG.topic, GROUPS_LOG.topic, AUDIT_LOG.topic, *CLUSTER_LOGS)


class ImageFollower:
    """Takes what was committed over into the catalog and the roles of logs."""

    def __init__(self, state: NodeState, replicas: Replicas, producers: ClusterProducers) -> None:
        self._state = state
        self._replicas = replicas
        self._producers = producers
        self._access = AccessFollower(state)
        self._schemas = SchemaFollower(state)
        self._version = 0
        # Topics that are gone, with what was open of them: the node forgets the rest.
        self._removed: list[tuple[TopicStated, list[Partition]]] = []
        # Topics that are new.
        self._opened: list[str] = []

    @property
    def version(self) -> int:
        """The version of the image that this node decides by."""
        return self._version

    def follow(
        self,
        applied: list[MetadataRecord],
        image: MetadataImage,
        registered: RegisteredBroker | None,
        now: Now,
    ) -> None:
        """Records were applied to the image."""
        replicas = self._replicas
        replicas.follow_brokers(image, registered)
        if registered is not None:
            self._producers.registered(registered.epoch, image.table.next_producer)
        for record in applied:
            for change in record.changes:
                self._follow(change, image)
            audited = [each for each in record.changes if isinstance(each, AuditRecorded)]
            if audited:
                self._state.audit.follow(audited, record.version)
        self._state.audit.resume(now)
        self._access.follow(image.access)
        self._schemas.follow(image.schemas)
        if self._access.is_current(image.access) and self._schemas.is_current(image.schemas):
            self._version = image.version
            if registered is not None:
                # All that was answered before this run began is in this image.
                self._state.security.keys.is_current = True
        if registered is not None and not replicas.hosted.has_begun:
            replicas.begin(_INTERNAL)

    def _follow(self, change: MetadataChange, image: MetadataImage) -> None:
        replicas = self._replicas
        match change:
            case TopicStated():
                self._state_topic(change, image)
            case TopicDeleted():
                self._delete_topic(change.number)
            case PartitionsAssigned():
                if change.topic in image.table.topics:
                    replicas.host(change.topic)
            case LeadersChanged() | IsrChanged() | UncleanLeaderElected() | ReplicasLost():
                for where in _partitions_of(change):
                    replicas.look_at(where)
            case BrokerRegistered() | BrokerFenced() | BrokerResigned() | BrokerRemoved():
                replicas.look_at_all()
            case ProducerIdsAllocated():
                self._producers.allocated(change)
            case ImageStated():
                self._follow_statement(image)
            case _:
                self._follow_table(change, image)

    def _follow_table(self, change: MetadataChange, image: MetadataImage) -> None:
        match change:
            case _ if isinstance(change, ReassignmentChange):
                self._follow_moves(change)
            case _ if isinstance(change, AccessChange):
                self._access.apply(change, image.access)
            case _ if isinstance(change, SchemaChange):
                self._schemas.apply(change, image.schemas)

    def _follow_moves(self, change: ReassignmentChange) -> None:
        """Partitions begin to move, or are elsewhere now; or they move slower."""
        self._replicas.follow_moves()
        match change:
            case ReplicaMovesBegun():
                for each in change.partitions:
                    self._replicas.rehost(PartitionId(*each))
            case ReassignmentEnded():
                for end in change.ends:
                    self._replicas.rehost(PartitionId(end.topic, end.partition))

    def _state_topic(self, stated: TopicStated, image: MetadataImage) -> None:
        known = image.table.topics.get(stated.number)
        if known is None:
            # Deleted by a later record, which was applied already; or the name was taken.
            return
        catalog = self._state.catalog
        is_new = catalog.numbered(stated.number) is None
        topic = catalog.apply(known)
        assert topic is not None
        topic.is_open = topic.may_delay = topic.may_mark = True
        if is_new:
            made = TopicCreated(topic=stated.name, partitions=stated.partitions)
            self._state.outbox.append(Report(report=made))
            self._opened.append(stated.name)
            return
        settings = catalog.log_settings(topic)
        for log in topic.logs:
            partition = self._state.partitions.get(log)
            if partition is not None:
                partition.log.configure(settings)
                self._replicas.look_at(PartitionId(topic.number, log.partition))

    def _delete_topic(self, number: int) -> None:
        topic = self._state.catalog.numbered(number)
        if topic is None:
            return
        gone = self._replicas.drop(number, topic.stated.partitions)
        self._state.catalog.apply(TopicDeleted(name=topic.name, number=number))
        self._removed.append((topic.stated, gone))
        self._state.outbox.append(Report(report=TopicRemoved(topic=topic.name)))

    def _follow_statement(self, image: MetadataImage) -> None:
        """This broker was so far behind that it got the image instead of the changes."""
        table = image.table
        for topic in self._state.catalog.all:
            if topic.number not in table.topics:
                self._delete_topic(topic.number)
        for stated in table.topics.values():
            self._state_topic(stated, image)
            self._replicas.host(stated.number)
        self._replicas.drop_moved()
        self._replicas.follow_moves()
        self._replicas.look_at_all()

    def take_changed(self) -> bool:
        """Whether this node decides otherwise than at the last call: about callers, or schemas."""
        has_changed = self._access.take_changed()
        return self._schemas.take_changed() or has_changed

    def take_opened(self) -> list[str]:
        """The topics that are new since the last call."""
        opened, self._opened = self._opened, []
        return opened

    def take_removed(self) -> list[tuple[TopicStated, list[Partition]]]:
        """The topics that are gone since the last call, with the logs that were open here."""
        removed, self._removed = self._removed, []
        return removed


def _partitions_of(
    change: LeadersChanged | IsrChanged | UncleanLeaderElected | ReplicasLost,
) -> Iterator[PartitionId]:
    match change:
        case LeadersChanged():
            for each in change.changes:
                yield PartitionId(each.topic, each.partition)
        case ReplicasLost():
            for lost in change.partitions:
                yield PartitionId(*lost)
        case _:
            yield PartitionId(change.topic, change.partition)
