"""What a single node keeps alone, as the logs of the first node of a cluster.

Messages stay where they are: a log of a single node is one without leader epochs, which the first
leader continues with the record of its own. All else is told anew, once: the first record of the
metadata log states an image with all topics, of which this node alone is in sync; keys, ACLs,
tenants and schemas follow in pieces; groups, offsets, decisions and schedules become the journal of
the coordinator.

Numbers stay, of topics, groups, moves and schedules, since records and positions name them. A
producer with a transactional id gets its number in the range of the cluster (`TRANSACTIONAL_FROM`);
ids without one are below what the cluster gives out, and their logs know their sequences.

Invariants
- Topics are stated as if created at version 0, so no record is older than its topic (C13).
- Nothing is told while anything is under way: an open transaction, a dead letter on its way, a
  restore. `obstacles` says what, and what no cluster serves.

Cost: all that the two journals amount to, once, in memory.
"""

from collections.abc import Iterator, Sequence

import msgspec

from goqueue.broker.cluster.broker_state import BROKER_STATE_LOG, BrokerState, state_messages
from goqueue.broker.cluster.cluster_config import METADATA_LOG, coordinator_topic
from goqueue.broker.cluster.cluster_producers import TRANSACTIONAL_FROM
from goqueue.broker.journal_changes import Change, Numbered, TopicChange
from goqueue.broker.recovery.journaled_state import JournaledState
from goqueue.broker.recovery.start import TOPICS_LOG
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    FEATURE_LEVEL,
    AccessEntry,
    AccessTable,
    ImageStated,
    PartitionId,
    PartitionState,
    SchemaTable,
    StatedTopic,
    TopicStated,
    Voter,
    Voters,
)
from goqueue.model import LogId, Message, Offset, Timestamp
from goqueue.model.requests import TenantStatus
from goqueue.schemas import CLUSTER_LIMITS, SchemaChange
from goqueue.transactions import Begun, ParticipantsAdded, Prepared, ProducerStated, ProgressAdded

__all__ = ["Conversion", "ConvertedLog", "ConvertedNode"]

# How much of a journal one record holds, before it is cut.
_RECORD_BYTES = 256 * 1024
# As many copies as topics of a cluster have by default.
_COPIES_MAX = 3
_NAMED_MAX = 3


class ConvertedNode(msgspec.Struct, frozen=True, kw_only=True):
    """The first node of the cluster, the names of those that are to join it, and the time."""

    me: Voter
    others: tuple[str, ...]
    at: Timestamp

    @property
    def cluster_id(self) -> str:
        """A cluster that was formed by votes has a term above 0 here."""
        return f"{self.me.directory}-0"

    @property
    def copies(self) -> int:
        return min(_COPIES_MAX, 1 + len(self.others))

    def replicas(self, first: int) -> tuple[str, ...]:
        """Who keeps a partition: this node, and others in turn; first who is to lead it later."""
        count = len(self.others)
        chosen = [self.others[(first + each) % count] for each in range(self.copies - 1)]
        place = first % self.copies
        return (*chosen[:place], self.me.broker, *chosen[place:])


class ConvertedLog(msgspec.Struct, frozen=True):
    """A log of the first node of a cluster, as it begins."""

    log: LogId
    records: tuple[Message, ...]


class Conversion:
    """What one node keeps alone; asked while it does not serve."""

    def __init__(self, state: NodeState, journaled_state: JournaledState) -> None:
        self._state = state
        self._journaled_state = journaled_state

    # Whether it can be told

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way that ends by itself."""
        state = self._state
        return (
            not any(state.transactions.finishing)
            and state.audit.is_quiet
            and state.journals.are_quiet
            and all(
                partition.log.high_watermark == partition.log.end for partition in state.partitions
            )
            and not any(self._moving())
        )

    def _moving(self) -> Iterator[LogId]:
        """Logs with something of a move that is not ended: dead letters, ticks, redrives."""
        for partition in self._state.partitions:
            if any(key.is_internal for key in partition.log.producers.open):
                yield partition.log_id

    def obstacles(self) -> list[str]:
        """Why this node cannot become that of a cluster, in sentences for the operator."""
        state = self._state
        found: list[str] = []
        open_count = state.transactions.open_count
        if open_count:
            found.append(
                f"{open_count} transactions are open: start the node alone, commit or abort them "
                "(goqueue txn list), and stop it"
            )
        found += self._schema_obstacles()
        arriving = [topic.name for topic in state.catalog.all if topic.stated.is_arriving]
        if arriving or state.pending_restore is not None:
            found.append("a restore is under way: let it end, or cancel it")
        deleting = [
            tenant.id for tenant in state.security.tenants if tenant.status is TenantStatus.DELETING
        ]
        if deleting:
            found.append(f"tenants are being deleted: {_named(deleting)}")
        damaged = sorted(state.storage.damaged_by_topic())
        if damaged:
            found.append(
                f"records of {_named(damaged)} are damaged, and there is no other copy to repair "
                "them from: delete the records up to them, or the topics"
            )
        led = [str(each.log_id) for each in state.partitions if each.log.last_epoch]
        if led:
            found.append(f"{_named(led)} had leaders of a cluster before")
        failed = [str(log) for log in state.storage.failed]
        if failed:
            found.append(f"the disk failed to store records of {_named(failed)}")
        return found

    def _schema_obstacles(self) -> Iterator[str]:
        schemas, limits = self._state.schemas, CLUSTER_LIMITS
        for what, used, limit in (
            ("bytes", schemas.text_bytes, limits.bytes_max),
            ("versions and levels", schemas.entry_count, limits.entries_max),
        ):
            if used > limit:
                yield (
                    f"the schema registry holds {used} {what}, and that of a cluster at most "
                    f"{limit}: delete subjects that nobody needs"
                )

    @property
    def counts(self) -> tuple[int, int]:
        """How many topics and groups there are."""
        return len(self._state.catalog.all), len(list(self._state.groups))

    # Telling it

    def logs(self, node: ConvertedNode) -> tuple[ConvertedLog, ...]:
        """The logs that the first node of the cluster begins with, beside those of its topics."""
        assert self.is_settled, "nothing is under way"
        assert not self.obstacles(), "the caller has looked"
        ends = {
            PartitionId(topic.number, log.partition): end
            for topic in self._state.catalog.all
            for log in topic.logs
            if (end := self._state.partitions[log].log.end)
        }
        coordinator = self._coordinator(node)
        groups = tuple(_records(self._group_changes()))
        if groups:
            ends[PartitionId(coordinator.topic.number, 0)] = Offset(len(groups))
        own = BrokerState(cluster_id=node.cluster_id)
        return (
            ConvertedLog(TOPICS_LOG, tuple(_records(self._own_changes()))),
            ConvertedLog(LogId(coordinator.topic.name, 0), groups),
            ConvertedLog(METADATA_LOG, tuple(self._metadata(node, coordinator))),
            ConvertedLog(BROKER_STATE_LOG, tuple(state_messages(own, ends))),
        )

    def _own_changes(self) -> Iterator[Sequence[TopicChange]]:
        """What stays this node's own: its runs, the usage of tenants, how far its audit log is."""
        for changes in self._journaled_state.state_topics():
            kept = [
                each
                for each in changes
                if not isinstance(each, TopicStated | AccessEntry | SchemaChange)
            ]
            if kept:
                yield kept

    def _group_changes(self) -> Iterator[Sequence[Change]]:
        for changes in self._journaled_state.state_groups():
            yield [told for each in changes for told in _as_in_cluster(each)]

    def _metadata(self, node: ConvertedNode, coordinator: StatedTopic) -> Iterator[Message]:
        state = self._state
        access = AccessTable()
        for changes in state.security.changes():
            for change in changes:
                if isinstance(change, AccessEntry):
                    access.apply(change)
        schemas = SchemaTable()
        for stated_schemas in state.schemas.changes():
            for schema_change in stated_schemas:
                schemas.apply(schema_change)
        topics = [self._stated(node, topic.stated) for topic in state.catalog.all]
        stated = ImageStated(
            version=0,
            cluster_id=node.cluster_id,
            coordinators=1,
            feature_level=FEATURE_LEVEL,
            voters=Voters((node.me,)),
            brokers=(),
            topics=(*sorted(topics, key=lambda each: each.topic.number), coordinator),
            next_topic=coordinator.topic.number + 1,
            next_producer=state.transactions.producers.next_id,
            access_count=len(access),
            access_sum=access.sum,
            schema_sum=schemas.stated_sum,
        )
        pieces = [*access.state_pieces(), *schemas.state_pieces()]
        yield Message(value=msgspec.json.encode([stated, *pieces[:1]]))
        for piece in pieces[1:]:
            yield Message(value=msgspec.json.encode([piece]))

    def _stated(self, node: ConvertedNode, topic: TopicStated) -> StatedTopic:
        config = msgspec.structs.replace(topic.config, replication_factor=node.copies)
        # Which of these a topic has is not known to its leaders before it is used.
        topic = msgspec.structs.replace(
            topic, config=config, has_delays=True, has_lanes=True, has_producers=True
        )
        return _first_alone(node, topic)

    def _coordinator(self, node: ConvertedNode) -> StatedTopic:
        number = self._state.catalog.next_number
        return _first_alone(node, coordinator_topic(number, node.copies, node.at))


def _first_alone(node: ConvertedNode, topic: TopicStated) -> StatedTopic:
    """Partitions of which the first node has all, and the others nothing yet."""
    partitions = tuple(
        PartitionState(
            replicas=node.replicas(topic.number + partition),
            isr=(node.me.broker,),
            leader=None,
            epoch=0,
            version=0,
        )
        for partition in range(topic.partitions)
    )
    return StatedTopic(topic, 0, partitions)


def _as_in_cluster(change: Change) -> Iterator[Change]:
    """A change of the journal of a single node, as the coordinator of a cluster journals it."""
    match change:
        case Numbered():
            upto = TRANSACTIONAL_FROM + change.producers_upto
            yield msgspec.structs.replace(change, producers_upto=upto)
        case ProducerStated():
            # Of one without a transactional id the logs know all there is to know.
            if change.transactional_id is not None:
                number = TRANSACTIONAL_FROM + change.producer
                yield msgspec.structs.replace(change, producer=number)
        case Begun() | ParticipantsAdded() | ProgressAdded() | Prepared():
            raise AssertionError("no transaction is open")
        case _:
            yield change


def _records(steps: Iterator[Sequence[object]]) -> Iterator[Message]:
    """Changes in records of bounded size; none is larger than one may be."""
    encoded: list[bytes] = []
    size = 0
    for changes in steps:
        for change in changes:
            piece = msgspec.json.encode(change)
            if encoded and size + len(piece) > _RECORD_BYTES:
                yield Message(value=b"[" + b",".join(encoded) + b"]")
                encoded, size = [], 0
            encoded.append(piece)
            size += len(piece)
    if encoded:
        yield Message(value=b"[" + b",".join(encoded) + b"]")


def _named(names: Sequence[str]) -> str:
    """Some of these names, and how many more there are."""
    shown = ", ".join(names[:_NAMED_MAX])
    return f"{shown} and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else shown
