"""What a node does every second whether somebody asks or not.

Retention and compaction, a share of the logs at a time, so that ten thousand of them cost little in
any one second, and in as many turns as that takes; journals and snapshots of delays are kept short
and young; what a jump of the wall clock or a passing lack of something left undone is taken up.

A node whose clock is moved by a test, over months at once, may do it less and less often while
nobody asks anything (`idle_every_ns`), and thoroughly before it is asked again. So whoever asks
sees what a node would show that had done it every second.

Upkeep that comes late says that the node itself was away: then nobody loses a lease or a session
before what was sent meanwhile was heard.
"""

from collections import deque

from goqueue.broker.delayed.delays import DelayedMessages
from goqueue.broker.groups.membership import GroupRetention
from goqueue.broker.groups.polls import Polls
from goqueue.broker.partitions import Partition
from goqueue.broker.recovery.journaled_state import JournaledState
from goqueue.broker.state import Absence, NodeState
from goqueue.broker.transactions.producer_snapshots import ProducerSnapshots
from goqueue.broker.turns import Errand, ForGroup, ForQueue, Subject
from goqueue.broker.usage_journal import UsageJournal
from goqueue.model import MILLISECOND, SECOND, Instant, LogId, Now, Offset

__all__ = ["Absences", "Upkeep"]

_EVERY_NS = SECOND
# Upkeep that is so much later than it should be: the node was away.
_LATE_NS = 500 * MILLISECOND
# How long those who hold something may be heard then.
_HEARING_NS = SECOND
# Every log is looked at once in so many turns.
_ROUNDS = 30
# How many old keys of group commits are forgotten at once, and how many of them cost one unit.
_KEYS_PER_TURN = 5_000
_KEYS_PER_UNIT = 20


class Upkeep:
    """Looks after logs, journals and snapshots."""

    def __init__(
        self,
        state: NodeState,
        journaled_state: JournaledState,
        polls: Polls,
        delayed_messages: DelayedMessages,
        producer_snapshots: ProducerSnapshots,
        *,
        retention: GroupRetention,
        usage_journal: UsageJournal,
        idle_every_ns: int = _EVERY_NS,
    ) -> None:
        self._state = state
        self._usage_journal = usage_journal
        self._retention = retention
        self._producer_snapshots = producer_snapshots
        self._journaled_state = journaled_state
        self._polls = polls
        self._delayed_messages = delayed_messages
        self._from = 0
        # What is left of this second's share.
        self._logs: deque[LogId] = deque()
        self._delayed: deque[LogId] = deque()
        self._is_under_way = False
        self._every_ns = _EVERY_NS
        self._idle_every_ns = idle_every_ns
        self._is_hastened = False
        self._due: Instant | None = None

    def begin(self, now: Now) -> None:
        self._due = Instant(now.instant + self._every_ns)
        self._state.alarms.set(Errand.UPKEEP, self._due)

    def missed(self, now: Now, late_ns: int) -> Instant | None:
        """Since when nothing was done, if upkeep is so much later than it should be."""
        if self._due is None or now.instant - self._due <= late_ns:
            return None
        return Instant(self._due - self._every_ns)

    def hasten(self, now: Now) -> None:
        """Before a command: do all that was put off because nobody asked."""
        if self._every_ns > _EVERY_NS and not self._is_under_way:
            self._from, self._every_ns = 0, _ROUNDS * _EVERY_NS
            self._state.alarms.set(Errand.UPKEEP, now.instant)
            self._is_hastened = True

    def do_a_share(self, now: Now) -> None:
        """One second's part of the work."""
        if not self._is_under_way:
            self._is_under_way = True
            # It came; how many turns it takes says nothing about whether the node was away.
            self._due = None
            self._begin_share()
        if not self._visit_logs(now):
            # The rest of it is for the next turns.
            self._state.alarms.set(Errand.UPKEEP, now.instant)
            return
        self._is_under_way = False
        self._polls.retry_unreadable(now)
        forgotten = self._state.transactions.forget_keys(now, _KEYS_PER_TURN)
        self._state.budget.spend(forgotten // _KEYS_PER_UNIT)
        self._retention.do_a_share(now)
        self._usage_journal.do_a_share(now)
        self._journaled_state.keep_short(now)
        self._state.storage.expire(now)
        self._every_ns = min(2 * self._every_ns, self._idle_every_ns)
        if self._is_hastened:
            self._is_hastened, self._every_ns = False, _EVERY_NS
        self.begin(now)

    def _begin_share(self) -> None:
        """Choose the logs that are looked at, and the delays: a clock may have jumped."""
        partitions = list(self._state.partitions)
        rounds = max(1, _ROUNDS * _EVERY_NS // self._every_ns)
        share = -(-len(partitions) // rounds)
        first = self._from if self._from < len(partitions) else 0
        self._from = first + share
        self._logs.extend(each.log_id for each in partitions[first : first + share])
        self._delayed.extend(self._state.delays)

    def _visit_logs(self, now: Now) -> bool:
        """Look at as many of the chosen logs as the turn allows; whether that was all."""
        budget = self._state.budget
        while self._logs and not budget.is_spent:
            partition = self._state.partitions.get(self._logs.popleft())
            budget.spend()
            if partition is not None:
                self._maintain(partition, now)
        while self._delayed and not budget.is_spent:
            log = self._delayed.popleft()
            budget.spend()
            self._delayed_messages.wake_if_due(log, now)
            self._delayed_messages.save_if_due(log, now)
        return not self._logs and not self._delayed

    def _maintain(self, partition: Partition, now: Now) -> None:
        if self._may_remove(partition, now):
            may_retire = self._state.cluster is None or partition.leader is not None
            needed = self._needed_from(partition)
            self._state.outbox.extend(partition.log.maintain(now, needed, may_retire=may_retire))
        self._producer_snapshots.save_if_due(partition)
        log, start = partition.log_id, partition.log.start
        self._state.storage.record_damage(log, partition.log.damaged)
        for kept in (self._state.delays.get(log), self._state.priority_indexes.get(log)):
            if kept is not None:
                kept.drop_below(start)

    def _may_remove(self, partition: Partition, now: Now) -> bool:
        """Whether retention and compaction may begin: not while a backup needs the segments."""
        topic = partition.log_id.topic
        spared_until = self._state.spared_until.get(topic)
        if spared_until is not None and now.instant >= spared_until:
            del self._state.spared_until[topic]
            spared_until = None
        return spared_until is None and not self._state.holds_segments

    def _needed_from(self, partition: Partition) -> Offset | None:
        """Nothing from here on may be removed: a queue or a delayed message still needs it."""
        delays = self._state.delays.get(partition.log_id)
        durable = partition.log.watermarks.durable
        pending = None if delays is None else delays.needed_from(durable)
        # A copy must not lose to compaction what it does not know to be pending yet.
        known = None if partition.fold is None else partition.fold.delays_known
        needs = (self._polls.needed_from(partition), pending, known)
        return min((need for need in needs if need is not None), default=None)


class Absences:
    """Notices that the node was away: stopped, or busy with a long turn."""

    def __init__(self, state: NodeState, upkeep: Upkeep) -> None:
        self._state = state
        self._upkeep = upkeep
        # Leases and sessions that were put off for that.
        self._postponed: dict[Subject, None] = {}

    def detect(self, now: Now) -> None:
        missed = self._upkeep.missed(now, _LATE_NS)
        if missed is not None:
            until = Instant(now.instant + _HEARING_NS)
            self._state.absence = Absence(since=missed, until=until)

    def postpone(self, subject: Subject, now: Now) -> bool:
        """Whether leases and sessions end a little later, once, because the node was away.

        What their holders sent meanwhile waits in sockets, and is heard before anything is taken
        from them.
        """
        if not isinstance(subject, ForQueue | ForGroup):
            return False
        until = self._state.absence.until
        if self._postponed.pop(subject, 0) is None or until <= now.instant:
            return False
        self._postponed[subject] = None
        self._state.alarms.set(subject, until)
        return True
