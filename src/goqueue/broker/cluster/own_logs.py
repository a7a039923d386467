"""The logs that a member reads before it is one: its own state, and its copy of the metadata log.

Each is read to its end, then the start goes on with the next turn. A damaged log ends the process:
what it promised is not known any more.
"""

from goqueue.broker.cluster.broker_state import BROKER_STATE_LOG, BrokerStateJournal
from goqueue.broker.cluster.cluster_config import METADATA_LOG, METADATA_SETTINGS
from goqueue.broker.cluster.metadata_records import MetadataRecord, decode_records
from goqueue.broker.disk_reads import ClusterFetch
from goqueue.broker.journal import JOURNAL_SETTINGS
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.log import Log, LogState, Replica, ReplicaRole
from goqueue.model import Halt, Instant, LogId, Offset, Open

__all__ = ["OwnLogs"]

_READ_BYTES = 256 * 1024


class OwnLogs:
    """What was opened and read so far."""

    ids = (BROKER_STATE_LOG, METADATA_LOG)

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self.broker_state: BrokerStateJournal | None = None
        self.metadata: Log | None = None
        self._records: list[MetadataRecord] = []

    def open_broker_state(self) -> None:
        self._state.outbox.append(Open(log=BROKER_STATE_LOG, settings=JOURNAL_SETTINGS))

    def open_metadata(self) -> None:
        self._state.outbox.append(Open(log=METADATA_LOG, settings=METADATA_SETTINGS))

    def opened(self, log: LogId, found: LogState) -> None:
        """A log was recovered."""
        if found.damaged:
            ranges = ", ".join(f"{each.first}-{each.below}" for each in found.damaged)
            damage = f"the log {log} is damaged (offsets {ranges})"
            self._state.outbox.append(Halt(reason=damage))
        elif log == BROKER_STATE_LOG:
            self.broker_state = BrokerStateJournal(self._state.outbox, found)
            self._fetch(log, found.start)
        else:
            self.metadata = Log(log, METADATA_SETTINGS, found, Replica(ReplicaRole.FOLLOWER))
            self._fetch(log, found.start)

    def _fetch(self, log: LogId, offset: Offset) -> None:
        """Read on; when all was read the start continues with the next turn."""
        if log == BROKER_STATE_LOG:
            assert self.broker_state is not None
            wanted = self.broker_state.next_read(offset)
        else:
            assert self.metadata is not None
            wanted = self.metadata.read_for_follower(offset, _READ_BYTES)
        if wanted is not None:
            self._state.fetch(wanted, ClusterFetch(log, wanted.below))
        else:
            self._state.alarms.set(Errand.CLUSTER, Instant(0))

    def replayed(self, purpose: ClusterFetch, data: memoryview | None) -> None:
        """A part of a log was read."""
        if data is None:
            self._state.outbox.append(Halt(reason=f"the log {purpose.log} cannot be read"))
        elif purpose.log == BROKER_STATE_LOG:
            assert self.broker_state is not None
            self._fetch(purpose.log, self.broker_state.replay(purpose, data))
        else:
            self._records.extend(decode_records(data))
            following = self._records[-1].version if self._records else purpose.upto
            self._fetch(purpose.log, following)

    def take_records(self) -> list[MetadataRecord]:
        """The records of the metadata log, once it was read."""
        records, self._records = self._records, []
        return records
