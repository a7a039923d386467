"""A cluster whose voters are lost for good, continued by one node that is left.

The node becomes the only voter of another cluster: another id, so that voters which come back are
refused like any other cluster, instead of electing a second controller. Its metadata log begins
anew with a statement of the image as this node has it, records that were never known to be
committed among it. Other nodes that are left follow: they keep their partitions and their directory
ids, give up their metadata log, and vote only once they have the new one.

What the lost voters may have committed behind this node is gone. Versions, numbers of topics and of
producers begin far above (`_JUMP`), so none of them is given twice: a leader epoch, for example, is
a version, and a copy somewhere may have records of one that this node never heard of.

Invariant: nothing but the quorum is decided here. Which copies lead says the image: where all in
sync are lost, an operator elects one (`cluster elect --unclean`).
"""

from collections.abc import Iterator, Sequence

import msgspec

from goqueue.broker.cluster.broker_state import (
    BROKER_STATE_LOG,
    StoredBrokerState,
    state_messages,
)
from goqueue.broker.cluster.cluster_config import METADATA_LOG
from goqueue.broker.cluster.metadata_records import MetadataRecord
from goqueue.broker.conversion import ConvertedLog
from goqueue.cluster import (
    FEATURE_LEVEL,
    ClusterRecovered,
    MetadataImage,
    PartitionId,
    Voter,
    Voters,
    voters_written,
)
from goqueue.model import Message, Offset, Timestamp

__all__ = ["RecoveryPlan", "Survivor"]

_JUMP = 1 << 20


class RecoveryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a recovery on a node means; partitions are named as topic-partition."""

    node: str
    cluster_id: str
    lost_voters: tuple[str, ...]
    # Records that this node holds, and those of them that it knows to be committed.
    version: int
    committed: int
    topics: int
    # Partitions that have a copy in sync here; without one here, with one only on lost voters, and
    # with one on another node.
    in_sync: int
    without_copy_in_sync: tuple[str, ...]
    elsewhere: tuple[str, ...]


class Survivor:
    """One node of a cluster, as its own logs say."""

    def __init__(
        self,
        directory: str,
        stored: StoredBrokerState,
        records: Sequence[MetadataRecord],
        committed: Offset,
    ) -> None:
        """`directory` is the id of its data directory; all records count, committed or not."""
        self._directory = directory
        self._stored = stored
        self._committed = committed
        self._image = MetadataImage()
        voters: Voters | None = None
        for record in records:
            self._image.apply(record.changes, record.version)
            voters = voters_written(record.changes) or voters
        self._voters = voters or self._image.voters

    @property
    def cluster_id(self) -> str:
        """The cluster that it has entered; empty if none."""
        return self._stored.state.cluster_id

    @property
    def me(self) -> Voter | None:
        """Its name in the cluster; None if it was never registered."""
        named = [each.voter for each in self._image.brokers.values()]
        for voter in (*named, *self._voters.all()):
            if voter.directory == self._directory:
                return voter
        return None

    def obstacle(self) -> str | None:
        """Why it cannot continue the cluster, in words for the operator; None if it can."""
        if not self.cluster_id:
            return "it belongs to no cluster"
        if self._stored.state.observed.version:
            return "its cluster keeps its metadata in etcd: restore that"
        if not self._image.version:
            return "its metadata log is empty: recover on another node, and let this one follow"
        if self._image.feature_level > FEATURE_LEVEL:
            return "its cluster is of a newer version: install that first"
        if not self._image.is_whole:
            return "its metadata log lacks keys, ACLs or schemas: recover on another node"
        if self.me is None:
            return "its cluster does not know it: recover on another node"
        if self._voters.all() == (self.me,):
            return "it is the only voter: start it"
        return None

    def plan(self) -> RecoveryPlan:
        """What there is here, and what may be lost."""
        me = self.me
        assert me is not None
        lost = tuple(each.broker for each in self._voters.all() if each != me)
        here, gone, elsewhere = 0, [], []
        for name, isr in self._partitions():
            if me.broker in isr:
                here += 1
            elif set(isr) <= set(lost):
                gone.append(name)
            else:
                elsewhere.append(name)
        return RecoveryPlan(
            node=me.broker,
            cluster_id=self.cluster_id,
            lost_voters=lost,
            version=self._image.version,
            committed=self._committed,
            topics=len(self._image.table.topics),
            in_sync=here,
            without_copy_in_sync=tuple(gone),
            elsewhere=tuple(elsewhere),
        )

    def _partitions(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        table = self._image.table
        for number, topic in table.topics.items():
            for partition, state in enumerate(table.partitions_of(number)):
                yield f"{topic.name}-{partition}", state.isr

    # The new logs

    @property
    def start(self) -> Offset:
        """Where the new metadata log begins."""
        return Offset(self._image.version + _JUMP)

    def logs(self, at: Timestamp) -> tuple[ConvertedLog, ...]:
        """The metadata log and the own state of the first node of the recovered cluster."""
        me, previous = self.me, self.cluster_id
        assert me is not None
        image = self._image.stated()
        stated = msgspec.structs.replace(
            image,
            cluster_id=f"{self._directory}-r{self.start}",
            voters=Voters((me,)),
            next_topic=image.next_topic + _JUMP,
            next_producer=image.next_producer + _JUMP,
        )
        pieces = list(self._image.state_pieces())
        lost = tuple(each for each in self._voters.all() if each != me)
        recovered = ClusterRecovered(previous=previous, by=me.broker, lost=lost, at=at)
        metadata = [
            [stated, *pieces[:1]],
            *([piece] for piece in pieces[1:]),
            [recovered],
        ]
        records = tuple(Message(value=msgspec.json.encode(changes)) for changes in metadata)
        own = msgspec.structs.replace(
            self._stored.state, cluster_id=stated.cluster_id, recovered_from=previous
        )
        return (
            ConvertedLog(METADATA_LOG, records),
            ConvertedLog(BROKER_STATE_LOG, tuple(state_messages(own, self._ends))),
        )

    def following(self, cluster_id: str) -> ConvertedLog:
        """The own state of a node that is left, and follows a recovered cluster."""
        own = msgspec.structs.replace(
            self._stored.state,
            cluster_id=cluster_id,
            awaits_metadata=True,
            recovered_from=self.cluster_id,
        )
        return ConvertedLog(BROKER_STATE_LOG, tuple(state_messages(own, self._ends)))

    @property
    def _ends(self) -> dict[PartitionId, Offset]:
        return self._stored.ends
