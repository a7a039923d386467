"""How a node comes to know what it knew: journals first, then the logs that they name.

Snapshots only save time: each holds what its journal says below an offset, and the rest is
replayed. A journal that is damaged stops the node, because going on would forget what was
promised.

Order: topics are replayed before groups, since a position of a topic that is gone means nothing;
logs are opened when it is known which there are; nothing is served before the start of this life
is committed, so no receipt of an earlier life can be taken for one of this.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from goqueue.broker.audit import AUDIT_LOG
from goqueue.broker.disk_reads import AuditFetch, JournalFetch, ReplayFetch
from goqueue.broker.groups.dead_letters import DEAD_LETTERS_GROUP
from goqueue.broker.journal import JOURNAL_SETTINGS, Journal, JournalLimits
from goqueue.broker.journal_changes import (
    CHANGES,
    Change,
    PositionCut,
    Started,
    TopicChange,
)
from goqueue.broker.outbox import BeginServing
from goqueue.broker.partitions import Partition
from goqueue.broker.recovery.journaled_state import JournaledState
from goqueue.broker.recovery.partition_replay import PartitionReplay
from goqueue.broker.recovery.snapshot_reader import SnapshotReader
from goqueue.broker.restore_journal import undo_restore
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.turns import Errand, take_all
from goqueue.delivery import LeaseHandles
from goqueue.log import Log, LogState
from goqueue.model import Halt, Load, LogId, NodeRecovered, Now, Offset, Open, Report, Sweep
from goqueue.security import DEFAULT_TENANT

__all__ = [
    "GROUPS_LOG",
    "TOPICS_LOG",
    "NodeStart",
    "Opened",
]

TOPICS_LOG = LogId("__topics", 0)
GROUPS_LOG = LogId("__groups", 0)
# Kept also while the node is no member of a cluster: they hold what it promised as one.
CLUSTER_LOGS = ("__broker_state", "__metadata")
_REPLAY_BYTES = 256 * 1024
_POSITIONS_PER_TURN = 2_000
_WAYS_IN = (
    "To make it the first node of a new cluster, run goqueue cluster convert. To bring it into a "
    "cluster that exists, start this node alone, copy its topics, and join with an empty directory"
)
_TOPIC_CHANGES = msgspec.json.Decoder(list[TopicChange])


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A log was recovered; `state` is what came of it."""

    log: LogId
    state: LogState


class NodeStart:
    """Brings a node from nothing to serving."""

    def __init__(
        self,
        state: NodeState,
        journaled_state: JournaledState,
        recollecting: PartitionReplay,
        coordinator: TransactionCoordinator,
        *,
        secret: bytes,
        limits: JournalLimits,
    ) -> None:
        self._state = state
        self._limits = limits
        self._journaled_state = journaled_state
        self._recollecting = recollecting
        self._snapshots = SnapshotReader(state, journaled_state)
        self._coordinator = coordinator
        self._secret = secret
        self._missing: dict[LogId, None] = {}
        self._opened_since: list[LogId] = []
        state.follow_ups.append(self._opened_since)
        # What is left of looking at every position, once all logs are open.
        self._checks: Iterator[None] | None = None

    def begin(self) -> None:
        self._state.outbox.append(Open(log=TOPICS_LOG, settings=JOURNAL_SETTINGS))

    def opened(self, event: Opened, now: Now) -> None:
        if event.log in {TOPICS_LOG, GROUPS_LOG} and event.state.damaged:
            ranges = ", ".join(f"{each.first}-{each.below}" for each in event.state.damaged)
            reason = f"the journal {event.log} is damaged (offsets {ranges})"
            self._state.outbox.append(Halt(reason=reason))
        elif event.log == TOPICS_LOG:
            self._state.journals.open_topics(
                Journal(self._journal_log(event), _TOPIC_CHANGES, self._state.outbox, self._limits)
            )
            self._state.outbox.append(Load(name=event.log.topic))
        elif event.log == GROUPS_LOG:
            self._state.journals.open_groups(
                Journal(self._journal_log(event), CHANGES, self._state.outbox, self._limits)
            )
            self._state.outbox.append(Load(name=event.log.topic))
        elif event.log == AUDIT_LOG:
            self._open_audit(event, now)
        else:
            self._open_partition(event, now)

    def _journal_log(self, event: Opened) -> Log:
        log = Log(event.log, JOURNAL_SETTINGS, event.state)
        self._state.internal[event.log] = Partition(event.log, log)
        return log

    # Replay

    def loaded(self, name: str, data: bytes | None, now: Now) -> None:
        """A snapshot came, or there is none: replay what is behind it."""
        if self._snapshots.expects(name):
            start = self._snapshots.loaded(data, now)
            self._replay_from(start, self._snapshots.journal)
            return
        if name not in {TOPICS_LOG.topic, GROUPS_LOG.topic}:
            self._opened(self._recollecting.loaded(name, data, now), now)
            return
        journal = self._journal(name)
        self._replay_from(self._snapshots.begin(journal, data), journal.id)

    def resume(self, now: Now) -> None:
        """Take in more of a snapshot, or look at more positions."""
        if self._checks is None:
            self._replay_from(self._snapshots.apply_piece(now), self._snapshots.journal)
        elif sum(1 for _ in islice(self._checks, _POSITIONS_PER_TURN)) < _POSITIONS_PER_TURN:
            self._begin_life(now)
        else:
            self._state.alarms.set(Errand.START, now.instant)

    def _replay_from(self, start: Offset | None, log: LogId) -> None:
        """A snapshot was taken in, or there is none that can be used; None: not yet."""
        if start is not None:
            self._replay(log, start)

    def _replay(self, log: LogId, offset: Offset) -> None:
        wanted = self._journal(log.topic).log.read(offset, _REPLAY_BYTES)
        if wanted is not None:
            self._state.fetch(wanted, JournalFetch(log, wanted.below))
        elif log == TOPICS_LOG:
            self._state.outbox.append(Open(log=GROUPS_LOG, settings=JOURNAL_SETTINGS))
        else:
            self._open_logs()

    def replayed(self, purpose: JournalFetch, data: memoryview | None) -> None:
        if data is None:
            self._state.outbox.append(Halt(reason=f"the journal {purpose.log} cannot be read"))
            return
        following = purpose.upto
        for turn in self._journal(purpose.log.topic).decode(data):
            for change in turn.changes:
                self._journaled_state.apply(change, turn.at)
            following = Offset(turn.offset + 1)
        self._replay(purpose.log, following)

    def _journal(self, name: str) -> "Journal[TopicChange] | Journal[Change]":
        if name == TOPICS_LOG.topic:
            return self._state.journals.of_topics
        return self._state.journals.of_groups

    # Logs

    def _open_logs(self) -> None:
        undo_restore(self._state)
        topics = self._state.catalog.all
        names = sorted(topic.name for topic in topics)
        if self._state.cluster is not None:
            self._open_in_cluster(names)
            return
        internal = (TOPICS_LOG.topic, GROUPS_LOG.topic, AUDIT_LOG.topic, *CLUSTER_LOGS)
        self._state.outbox.append(Sweep(topics=(*internal, *names)))
        self._missing[AUDIT_LOG] = None
        self._state.outbox.append(Open(log=AUDIT_LOG, settings=self._state.audit.settings))
        for topic in topics:
            settings = self._state.catalog.log_settings(topic)
            for log in topic.logs:
                self._missing[log] = None
                self._state.outbox.append(Open(log=log, settings=settings))

    def _open_in_cluster(self, names: list[str]) -> None:
        """A member of a cluster learns its topics, and with them its logs, from the image."""
        security = self._state.security
        kept = {
            "topics": names,
            "groups": [group.name for group in self._state.groups],
            "schedules": [schedule.spec.name for schedule in self._state.schedules],
            "schemas": self._state.schemas.subjects,
            "keys": [str(key.id) for key in security.keys],
            "ACLs": security.acls.ids,
            "tenants": [each.id for each in security.tenants if each.id != DEFAULT_TENANT],
        }
        found = [f"{len(each)} {what} (such as {each[0]})" for what, each in kept.items() if each]
        if found:
            reason = f"the data directory is that of a single node: it holds {', '.join(found)}. "
            self._state.outbox.append(Halt(reason=reason + _WAYS_IN, is_misconfigured=True))
            return
        self._missing[AUDIT_LOG] = None
        self._state.outbox.append(Open(log=AUDIT_LOG, settings=self._state.audit.settings))

    def _open_audit(self, event: Opened, now: Now) -> None:
        log = Log(event.log, self._state.audit.settings, event.state)
        self._state.internal[event.log] = Partition(event.log, log)
        self._state.storage.record_damage(event.log, log.damaged)
        last = self._state.audit.open(log)
        if last is None:
            self._opened(AUDIT_LOG, now)
        else:
            self._state.fetch(last, AuditFetch())

    def audit_fetched(self, data: memoryview | None, now: Now) -> None:
        """The last record of the audit log was read, or cannot be."""
        self._state.audit.learn_last(data)
        self._opened(AUDIT_LOG, now)

    def _open_partition(self, event: Opened, now: Now) -> None:
        topic = self._state.catalog.get(event.log.topic)
        assert topic is not None
        log = Log(event.log, self._state.catalog.log_settings(topic), event.state)
        self._state.partitions.add(Partition(event.log, log))
        self._state.storage.record_damage(event.log, log.damaged)
        if not self._recollecting.begin(self._state.partitions[event.log]):
            self._opened(event.log, now)

    def records_replayed(self, purpose: ReplayFetch, data: memoryview | None, now: Now) -> None:
        self._opened(self._recollecting.replayed(purpose, data), now)

    def _opened(self, log: LogId | None, now: Now) -> None:
        """A log can be used; None: not yet."""
        if log is None:
            return
        if self._state.not_ready is None:
            self._opened_since.append(log)
            return
        del self._missing[log]
        if not self._missing:
            self._finish(now)

    def take_opened(self) -> list[LogId]:
        """The logs that were opened since the last call, while the node served."""
        return take_all(self._opened_since)

    def _finish(self, now: Now) -> None:
        for topic in self._state.catalog.all:
            topic.is_open = True
            topic.may_delay = topic.stated.has_delays
            topic.may_mark = topic.stated.has_producers
        self._checks = self._forget_what_was_lost()
        self.resume(now)

    def _begin_life(self, now: Now) -> None:
        self._coordinator.join_logs(now)
        self._state.audit.begin(now)
        started = Started(
            epoch=self._journaled_state.epoch + 1,
            topics_upto=self._state.catalog.next_number,
            restored=self._state.catalog.last_restore,
        )
        self._journaled_state.apply(started, now.wall)
        state = self._state
        state.lease_handles = LeaseHandles(self._secret)
        state.incarnation = started.epoch
        state.metadata.elect(started.epoch)
        recovered = NodeRecovered(
            topics=len(state.catalog.all),
            partitions=len(state.partitions),
            groups=len(state.groups),
            data_bytes=sum(partition.log.size for partition in state.partitions),
        )
        state.journals.of_topics.note([started], [BeginServing(), Report(report=recovered)])

    def _forget_what_was_lost(self) -> Iterator[None]:
        """A log of `flush=interval` may have lost its end: new messages will stand there.

        What groups knew of the lost ones must not be taken for theirs. One position at a time. What
        was said of groups that are gone is dropped first: see `Positions.apply`.
        """
        state = self._state
        for group in state.group_partitions.groups:
            if group != DEAD_LETTERS_GROUP and state.groups.numbered(group) is None:
                state.group_partitions.remove_group(group)
                yield
                continue
            for place in state.group_partitions.of_group(group):
                yield
                log = place.log
                partition = state.partitions.get(log)
                topic = state.catalog.get(log.topic)
                if partition is None or topic is None or not place.position.cut(partition.log.end):
                    continue
                cut = PositionCut(
                    group=group,
                    topic=topic.number,
                    partition=log.partition,
                    end=partition.log.end,
                )
                state.journals.of_partition(log).note([cut])
