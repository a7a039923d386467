"""The logs that this broker keeps a copy of: opened, made and removed as the image says.

A log is opened, made or removed only once the image holds the registration of this run: before, the
image may be older than what an earlier run knew (C13).

Invariants
- A log that the image does not name is moved out of the way, never deleted; one of a committed
  deletion is deleted, and so is one that this run kept, or an earlier one noted, of a partition
  whose copies are elsewhere.
- A log whose records are older than its topic is that of a deleted topic with the same name: leader
  epochs are metadata versions, so the first record says which it is. It is removed before a new
  one is made.
- The log of a new topic is made when that of the old one is gone.
- The note of a log that is removed goes when the log has gone: a crash before leaves it, and the
  next start removes what it names.
- An observed log, of which this broker keeps a copy although it is no replica, is a cache: it goes
  when nobody needs it here, or at the next start.
- A log that is shorter than was noted of it (`RecordedEnds`) has lost what it confirmed. It stays
  closed until the image says that nobody counts on it, and the note says what is left.

Crash points of a lost log: found | reported | left the ISR: found again. Left the ISR | noted: the
same, and nothing is left to report. Noted | follows: it opens as what is left of it.

Cost: one entry for each log; a topic that is created or deleted costs by its partitions here.
"""

from collections.abc import Iterator

from goqueue.broker.partitions import Partition
from goqueue.broker.replication.partition_follower import PartitionFollower
from goqueue.broker.replication.partition_leader import PartitionLeader
from goqueue.broker.replication.recorded_ends import RecordedEnds
from goqueue.broker.state import NodeState
from goqueue.cluster import MetadataImage, PartitionId
from goqueue.log import DamagedRange, Log, LogState, Replica, ReplicaRole
from goqueue.model import Delete, Instant, LogId, Offset, Open, ReplicaLost, Report, Reshape, Sweep

__all__ = ["HostedLog", "HostedLogs"]


class HostedLog:
    """One log that this broker keeps, and its role."""

    __slots__ = (
        "follower",
        "gave_up_for",
        "is_observed",
        "is_resigned",
        "leader",
        "log_id",
        "lost",
        "partition",
        "vacant_at",
        "where",
    )

    def __init__(self, where: PartitionId, log_id: LogId) -> None:
        self.where = where
        self.log_id = log_id
        # What is left of a log that lacks records which it confirmed; None if it lacks nothing.
        self.lost: LogState | None = None
        # None until it was opened, and while it is lost.
        self.partition: Partition | None = None
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        # It led, and something that others were sent is not here: it asked for another epoch.
        self.is_resigned = False
        # The damage for which it gave up a leadership: once is enough, if all copies have it.
        self.gave_up_for: tuple[DamagedRange, ...] = ()
        # Since when nobody leads it, as this broker knows, or this one was named to.
        self.vacant_at: Instant | None = None
        # This broker is no replica, and keeps a copy for the group coordinator.
        self.is_observed = False


class HostedLogs:
    """Keeps the logs on this disk as the image says."""

    def __init__(self, state: NodeState, ends: RecordedEnds) -> None:
        self._state = state
        self._ends = ends
        self._logs: dict[PartitionId, HostedLog] = {}
        self._by_id: dict[LogId, HostedLog] = {}
        # Being removed; perhaps the log is wanted again, for another topic of the same name, or
        # because the partition moves back.
        self._leaving: dict[LogId, PartitionId | None] = {}
        # Being opened, perhaps for an earlier topic of the same name.
        self._opening: dict[LogId, PartitionId] = {}
        self.has_begun = False

    def __iter__(self) -> Iterator[HostedLog]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, where: PartitionId) -> HostedLog | None:
        return self._logs.get(where)

    def find(self, log: LogId) -> HostedLog | None:
        return self._by_id.get(log)

    def begin(self, image: MetadataImage, internal: tuple[str, ...]) -> None:
        """This run is registered: open what the image names, move the rest out of the way."""
        self.has_begun = True
        table = image.table
        mine = table.hosted_by(self._state.node_id)
        names = {table.topics[where.topic].name for where in mine}
        given_up = [where for where in (*self._ends, *self._moved(image)) if where not in mine]
        names.update(table.topics[each.topic].name for each in given_up if table.get(*each))
        self._state.outbox.append(Sweep(topics=(*internal, *sorted(names))))
        for where in mine:
            self.host(where, table.topics[where.topic].name)
        for where in dict.fromkeys(given_up):
            if table.get(*where) is None:
                self._ends.forget(where)
            else:
                self._remove(LogId(table.topics[where.topic].name, where.partition), where)

    def _moved(self, image: MetadataImage) -> Iterator[PartitionId]:
        """The partitions that moves gave to this broker or took from it, as far as is remembered.

        A copy that never confirmed anything has no note.
        """
        me = self._state.node_id
        for each in image.reassignments:
            for move in each.moves:
                if (me in move.old or me in move.new) and image.table.get(*move.where) is not None:
                    yield move.where

    @property
    def observed(self) -> list[HostedLog]:
        """The logs that are kept for the group coordinator only."""
        return [hosted for hosted in self._logs.values() if hosted.is_observed]

    def host(self, where: PartitionId, topic: str, *, is_observed: bool = False) -> None:
        """Keep a copy of this partition, as a replica or for the group coordinator only."""
        known = self._logs.get(where)
        if known is not None:
            if known.is_observed and not is_observed:
                # A replica now: it takes its role anew.
                known.is_observed = False
                known.follower = None
            return
        hosted = HostedLog(where, LogId(topic, where.partition))
        hosted.is_observed = is_observed
        self._logs[where] = hosted
        self._by_id[hosted.log_id] = hosted
        if hosted.log_id not in self._leaving and hosted.log_id not in self._opening:
            self._open(hosted)

    def _open(self, hosted: HostedLog) -> None:
        topic = self._state.catalog.numbered(hosted.where.topic)
        assert topic is not None, "a hosted log belongs to a topic"
        settings = self._state.catalog.log_settings(topic)
        self._opening[hosted.log_id] = hosted.where
        self._state.outbox.append(Open(log=hosted.log_id, settings=settings))

    def opened(self, log: LogId, found: LogState, created: int | None) -> HostedLog | None:
        """A log was recovered, or made; the log, if it is that of its topic and lacks nothing.

        `created` is the version at which the topic was created; None if it is gone.
        """
        opened_for = self._opening.pop(log, None)
        hosted = self._by_id.get(log)
        if hosted is None:
            # Its topic was deleted, or the partition moved away, while it was opened.
            self._remove(log, opened_for)
            return None
        assert hosted.partition is None, "a log is opened once"
        epoch = found.epochs[0][0] if found.epochs and found.end > found.start else None
        if created is not None and epoch is not None and epoch < created:
            self._remove(log, None)
            return None
        noted = self._ends.newest(hosted.where)
        if found.end < noted and not hosted.is_observed:
            self._lose(hosted, found, noted)
            return None
        self._admit(hosted, found)
        return hosted

    def _lose(self, hosted: HostedLog, found: LogState, noted: Offset) -> None:
        """It opened shorter than it was: say so; others decide who counts on it."""
        hosted.lost = found
        log = hosted.log_id
        reason = "this node's copy lost records that it had confirmed"
        missing = DamagedRange(first=found.end, below=noted, reason=reason)
        self._state.storage.record_damage(log, (missing,))
        report = ReplicaLost(topic=log.topic, partition=log.partition, end=found.end, noted=noted)
        self._state.outbox.append(Report(report=report))

    def restore(self, hosted: HostedLog) -> None:
        """Nobody counts on what a log lost: it goes on with what is left."""
        found, hosted.lost = hosted.lost, None
        assert found is not None
        self._admit(hosted, found)

    def _admit(self, hosted: HostedLog, found: LogState) -> None:
        log = hosted.log_id
        topic = self._state.catalog.numbered(hosted.where.topic)
        assert topic is not None, "a hosted log belongs to a topic"
        settings = self._state.catalog.log_settings(topic)
        recovered = Log(log, settings, found, Replica(ReplicaRole.FOLLOWER))
        hosted.partition = Partition(log, recovered)
        self._state.partitions.add(hosted.partition)
        self._state.storage.record_damage(log, recovered.damaged)

    def _remove(self, log: LogId, where: PartitionId | None) -> None:
        """Remove a log, and the note about it; without `where` that is about another one."""
        self._leaving[log] = where
        self._state.outbox.append(Reshape(log=log, change=Delete()))

    def drop(self, where: PartitionId) -> HostedLog | None:
        """The topic was deleted, or others keep it: the log goes; what it was, if it was open."""
        hosted = self._logs.pop(where, None)
        if hosted is None:
            return None
        self._by_id.pop(hosted.log_id, None)
        if hosted.lost is not None:
            self._state.storage.record_damage(hosted.log_id, ())
            self._remove(hosted.log_id, where)
            return None
        if hosted.partition is None:
            # It is being opened, or an older one is being removed.
            return None
        self._remove(hosted.log_id, where)
        return hosted

    def removed(self, log: LogId) -> None:
        """A log is gone, or could not be removed: then the next start moves it out of the way."""
        if log not in self._leaving:
            return
        where = self._leaving.pop(log)
        if where is not None:
            self._ends.forget(where)
        hosted = self._by_id.get(log)
        if hosted is not None and hosted.partition is None:
            self._open(hosted)
