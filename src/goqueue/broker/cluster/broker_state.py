"""What only this broker knows and must not forget: its runs, its ballots, its cluster, its logs.

Kept in the log `__broker_state-0`, which is replicated to nobody. There are two kinds of records.
One holds the whole state but for the ends of logs, so only the last of them counts. The other,
with a key, holds the ends of some logs (`RecordedEnds`), or with another key those of all. A log
that has grown is stated anew and dropped below that.

Invariant: a state is durable before anything acts on it; `save` and `note_ends` return a number
that `handle` reports when that is so, in order.

Crash points: before the sync nobody has heard of the new state; after it the next run knows it.
Stated anew | dropped: the statement is read last and says the same.
Cost: one record and one sync for a ballot; about 20 bytes on disk for each log in a note of ends.
"""

from collections.abc import Mapping

import msgspec

from goqueue.broker.disk_reads import ClusterFetch
from goqueue.broker.journal import JOURNAL_SETTINGS
from goqueue.broker.outbox import Outbox
from goqueue.cluster import Ballot, PartitionId
from goqueue.log import Log, LogState
from goqueue.model import (
    SECOND,
    DiskEvent,
    Failed,
    Filled,
    Halt,
    Instant,
    LogId,
    Message,
    Now,
    Offset,
    Refused,
    Slice,
)
from goqueue.records import Buffer, build, decode, walk

__all__ = [
    "BROKER_STATE_LOG",
    "BrokerState",
    "BrokerStateJournal",
    "StoreMark",
    "StoredBrokerState",
    "misplaced_metadata",
    "state_messages",
]

BROKER_STATE_LOG = LogId("__broker_state", 0)
_READ_BYTES = 256 * 1024
_LOG_BYTES = 1024 * 1024
_RETRY_NS = SECOND
# The keys of records with the ends of some logs, and of all.
_SOME_ENDS = b"ends"
_ALL_ENDS = b"all-ends"

_End = tuple[int, int, int]


class StoreMark(msgspec.Struct, frozen=True, kw_only=True):
    """A record in an external store: its version and its digest. Version 0: none."""

    version: int = 0
    digest: str = ""


class BrokerState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that this broker must remember by itself."""

    incarnation: int = 0
    ballot: Ballot = Ballot()
    # Empty until the first record of a cluster was committed.
    cluster_id: str = ""
    # Whether a run ended without a clean stop, and no registration has said so yet.
    is_unclean: bool = False
    # An operator let this broker begin anew with the metadata log of a cluster that was recovered.
    awaits_metadata: bool = False
    # The cluster that an operator ended by recovering it as `cluster_id`, until that is audited.
    recovered_from: str = ""
    # The newest record that was seen in an external store, if the metadata are there.
    observed: StoreMark = StoreMark()

    def begin_run(self, *, is_unclean: bool) -> "BrokerState":
        """The state of the next run; `is_unclean`: the last one did not stop cleanly."""
        return msgspec.structs.replace(
            self,
            incarnation=self.incarnation + 1,
            is_unclean=self.is_unclean or is_unclean,
        )

    def followed(self, cluster_id: str, *, is_registered: bool) -> "BrokerState":
        """The state once the committed image names this cluster, and perhaps this run."""
        if not cluster_id:
            return self
        return msgspec.structs.replace(
            self,
            cluster_id=self.cluster_id or cluster_id,
            awaits_metadata=False,
            # Once the image says it, it keeps it until this broker is in sync again.
            is_unclean=self.is_unclean and not is_registered,
        )

    def lost_metadata(self, end: Offset) -> str | None:
        """Why the metadata log, which ends here, cannot be that of this broker; None if it can.

        Whoever entered a cluster holds its first record. Without it, a broker would vote as if it
        had promised nothing.
        """
        if not self.cluster_id or end or self.awaits_metadata:
            return None
        return (
            f"the log __metadata is gone, although this node belongs to the cluster "
            f"{self.cluster_id}: put it back, or forget the node (goqueue cluster forget) and "
            "start it with an empty data directory"
        )


def misplaced_metadata(state: BrokerState, *, is_external: bool) -> str | None:
    """Why this broker cannot find its metadata where its settings say that they are."""
    if not state.cluster_id or bool(state.observed.version) is is_external:
        return None
    kept, wanted = ("its own log", "etcd") if is_external else ("etcd", "quorum")
    right = "quorum" if is_external else "etcd"
    return (
        f"the cluster {state.cluster_id} of this data directory keeps its metadata in {kept}, and "
        f"cluster.metadata is {wanted}: set it to {right}"
    )


_decoder = msgspec.json.Decoder(BrokerState)
_ends_decoder = msgspec.json.Decoder(tuple[_End, ...])


def _ends_message(key: bytes, ends: Mapping[PartitionId, Offset]) -> Message:
    entries = [(topic, partition, end) for (topic, partition), end in ends.items()]
    return Message(key=key, value=msgspec.json.encode(entries))


def state_messages(state: BrokerState, ends: Mapping[PartitionId, Offset]) -> list[Message]:
    """The records of a log that begins with this state and these ends."""
    return [_ends_message(_ALL_ENDS, ends), Message(value=msgspec.json.encode(state))]


class StoredBrokerState:
    """What the records of the log say, as far as they were read."""

    def __init__(self) -> None:
        self.state = BrokerState()
        self.ends: dict[PartitionId, Offset] = {}

    def read(self, data: Buffer) -> Offset | None:
        """Take in stored records, in order; the offset behind the last one."""
        following: Offset | None = None
        for position in walk(data).positions:
            record = decode(data, position)
            value = record.value or b""
            if not record.key:
                self.state = _decoder.decode(value)
            else:
                self._read_ends(record.key, value)
            following = Offset(record.offset + 1)
        return following

    def _read_ends(self, key: bytes, value: bytes) -> None:
        if key == _ALL_ENDS:
            self.ends.clear()
        for topic, partition, end in _ends_decoder.decode(value):
            where = PartitionId(topic, partition)
            self.ends[where] = Offset(end)
            if not end:
                del self.ends[where]


class BrokerStateJournal:
    """The log of this broker's own state."""

    def __init__(self, outbox: Outbox, state: LogState) -> None:
        self._outbox = outbox
        self._log = Log(BROKER_STATE_LOG, JOURNAL_SETTINGS, state)
        self._stored = StoredBrokerState()
        self._state = self._stored.state
        self._serial = 0
        # The states on their way: their numbers, by the offset behind them.
        self._pending: dict[Offset, int] = {}
        self._retry_at: Instant | None = None
        # A statement is on its way: where it begins, and where it ends.
        self._drop: tuple[Offset, Offset] | None = None
        # The ends of logs, durable or not, by topic number and partition.
        self.ends = self._stored.ends
        # Ends to write, and whether all must be stated, because a record was lost.
        self._noted: dict[PartitionId, Offset] = {}
        self._must_state = False

    @property
    def log(self) -> Log:
        return self._log

    @property
    def state(self) -> BrokerState:
        """The newest state, durable or not."""
        return self._state

    # Replay

    def next_read(self, offset: Offset) -> Slice | None:
        """What to read next at a start; None when all was read."""
        return self._log.read(max(offset, self._log.start), _READ_BYTES)

    def replay(self, purpose: ClusterFetch, data: memoryview) -> Offset:
        """Learn stored states; the offset at which the next read begins."""
        following = self._stored.read(data)
        self._state, self.ends = self._stored.state, self._stored.ends
        return purpose.upto if following is None else following

    # Writing

    def note_ends(self, ends: Mapping[PartitionId, Offset], now: Now) -> int:
        """Note ends of logs, 0 for one that is gone; the number as of `save`."""
        for where, end in ends.items():
            if end:
                self.ends[where] = end
            else:
                self.ends.pop(where, None)
        self._noted.update(ends)
        self._serial += 1
        if self._retry_at is None:
            self._append(now)
        return self._serial

    def save(self, state: BrokerState, now: Now) -> int:
        """Make a state durable; its number is returned by `handle` when it is."""
        self._state = state
        self._serial += 1
        if self._retry_at is None:
            self._append(now)
        return self._serial

    def _append(self, now: Now) -> None:
        messages = []
        begins: Offset | None = None
        if self._log.size > _LOG_BYTES and self._drop is None:
            self._outbox.extend(self._log.begin_segment())
            begins = self._log.end
            self._must_state = True
        if self._must_state:
            messages.append(_ends_message(_ALL_ENDS, self.ends))
        elif self._noted:
            messages.append(_ends_message(_SOME_ENDS, self._noted))
        messages.append(Message(value=msgspec.json.encode(self._state)))
        try:
            appended = self._log.append(build(messages), now)
        except Refused:
            # No space, or the log has failed and the node halts.
            self._retry_at = Instant(now.instant + _RETRY_NS)
            return
        self._retry_at = None
        self._noted = {}
        self._must_state = False
        if begins is not None:
            self._drop = (begins, appended.next)
        self._pending[appended.next] = self._serial
        self._outbox.extend(appended.effects)

    def handle(self, event: DiskEvent, now: Now) -> int | None:
        """Learn what the disk did; returns the number of the newest durable state, if it is new."""
        self._outbox.extend(self._log.handle(event, now))
        if isinstance(event, Failed):
            self._outbox.append(Halt(reason=f"{BROKER_STATE_LOG}: {event.reason}"))
            return None
        if isinstance(event, Filled):
            # The newest state says all that the ones which were lost said.
            self._pending = {
                end: each for end, each in self._pending.items() if end <= self._log.end
            }
            self._retry_at = Instant(now.instant + _RETRY_NS)
            self._must_state = True
            if self._drop is not None and self._drop[1] > self._log.end:
                self._drop = None
        durable = self._log.high_watermark
        done = [end for end in self._pending if end <= durable]
        if self._drop is not None and self._drop[1] <= durable:
            self._outbox.extend(self._log.drop_below(self._drop[0]))
            self._drop = None
        return max((self._pending.pop(end) for end in done), default=None)

    def next_deadline(self) -> Instant | None:
        return self._retry_at

    def expire(self, now: Now) -> None:
        """Write again what found no space."""
        if self._retry_at is not None and now.instant >= self._retry_at:
            self._append(now)
