"""One epoch of the coordinator of groups and transactions, over a replicated journal.

Invariants
- Nothing is answered that a later coordinator may not know: what changes something, or must be
  current, is answered when it is committed in this epoch. So is what a poll leases: a broker that
  was deposed and does not know it hands out nothing.
- A request is answered once, also when the epoch ends: then with `leader_unavailable` if it
  changed nothing, so that it is sent again, else with `replication_failed`.
- Leases end with the epoch; positions and delivery counts do not.

Crash points: change decided | appended | synced here | synced on the ISR | committed | answered. Up
to `committed` a new coordinator may know of it or not, and nobody was told.

Cost: that of the same command on a single node, and one round trip to the ISR for each group of
changes that is committed together.
"""

from collections.abc import Callable, Collection, Iterable
from hashlib import sha256
from typing import assert_never

import msgspec

from goqueue.broker.caller_waits import CallerWaits
from goqueue.broker.catalog import Topic
from goqueue.broker.committed_steps import CommittedSteps
from goqueue.broker.components import (
    Components,
    HandlerTable,
    NodeSettings,
    errand_table,
    group_handlers,
    pass_fetched,
    pass_found,
)
from goqueue.broker.coordinator.coordinator_replay import CoordinatorReplay
from goqueue.broker.coordinator.coordinator_state import coordinator_state
from goqueue.broker.coordinator.participants import Participants
from goqueue.broker.coordinator.remote_copies import Forward, RemoteCopies
from goqueue.broker.disk_reads import (
    ClusterFetch,
    FoldFetch,
    ForwardFetch,
    JournalFetch,
    RepairFetch,
    ReplicaFetch,
)
from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import CHANGES, Change, ReceiptKeyStated
from goqueue.broker.partitions import ForMove, ForTick, Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import (
    Errand,
    ForDelays,
    ForGroup,
    ForJournal,
    ForLog,
    ForPriorityIndex,
    ForQueue,
    ForQuota,
    ForRequest,
    ForTransaction,
    Steps,
    Subject,
)
from goqueue.delivery import LeaseHandles
from goqueue.log import Appended
from goqueue.model import (
    SECOND,
    Answer,
    Code,
    Fetched,
    Found,
    Instant,
    LogId,
    NodeEffect,
    Now,
    Offset,
    Refused,
    RequestId,
    Serve,
)
from goqueue.model.requests import (
    AddOffsets,
    AddParticipants,
    AddPartition,
    BeginTransaction,
    Command,
    CommitGroup,
    CommitOffsets,
    DescribeLag,
    DescribeOffsets,
    DescribeTransaction,
    EndTransaction,
    HeartbeatProducer,
    InitProducer,
    Join,
    PrepareTransaction,
    Redrive,
    Reply,
    ReportTransactions,
    ResetOffsets,
    Start,
)
from goqueue.transactions import Outcome

__all__ = ["CoordinatorReach", "GroupCoordinator"]

_UPKEEP_NS = SECOND
# How often it is found out of which topics copies are needed.
_COUNT_COPIES_NS = 60 * SECOND
# The journal is stated again when it is so long: a new coordinator reads all of it.
_RESTATE_BYTES = 16 * 1024 * 1024
_NO_SNAPSHOTS = 1 << 62
_RECEIPTS = b"receipts of the cluster"
# Commands whose refusals leave when they are sure to be those of the coordinator.
_PROVEN = frozenset(
    {
        AddOffsets,
        AddParticipants,
        AddPartition,
        BeginTransaction,
        CommitGroup,
        DescribeTransaction,
        EndTransaction,
        HeartbeatProducer,
        InitProducer,
        PrepareTransaction,
    }
)


class CoordinatorReach(msgspec.Struct, frozen=True, kw_only=True):
    """What a coordinator does beyond its memory.

    `append` appends to its log, as the leader of that. `forward` passes a command on to the leader
    of a partition, `request_dead_letters` lets the controller create a dead-letter topic.
    `require_copy` has a copy of a partition made on this broker, `keep_copies` names all topics,
    by their numbers, of which copies are needed.
    """

    append: Callable[[bytearray, Now], Appended]
    forward: Forward
    request_dead_letters: Callable[[Topic, str], None]
    require_copy: Callable[[LogId], None]
    keep_copies: Callable[[Collection[int]], None]


class GroupCoordinator:
    """Coordinates groups while this broker leads their log."""

    def __init__(
        self,
        host: NodeState,
        partition: Partition,
        epoch: int,
        reach: CoordinatorReach,
        *,
        settings: NodeSettings,
        caller_waits: CallerWaits,
    ) -> None:
        self.epoch = epoch
        self._host = host
        self._state = state = coordinator_state(host, epoch, reach.require_copy)
        restate_bytes = min(settings.limits.restate_bytes, _RESTATE_BYTES)
        limits = msgspec.structs.replace(
            settings.limits, snapshot_bytes=_NO_SNAPSHOTS, restate_bytes=restate_bytes
        )
        self._journal: Journal[Change] = Journal(
            partition.log, CHANGES, state.outbox, limits, self._append_noted
        )
        state.journals.open_groups(self._journal)
        self._copies = RemoteCopies(state, epoch, reach.forward, reach.request_dead_letters)
        settings = msgspec.structs.replace(settings, limits=limits)
        components = self._components = Components(state, settings, self._copies)
        self._steps = CommittedSteps(state, components, caller_waits, lambda _: None)
        participants = Participants(state, components.coordinator)
        handle = HandlerTable()
        handle.handlers.update(group_handlers(components))
        handle(AddPartition, participants.add_partition)
        handle(AddParticipants, participants.add)
        handle(ReportTransactions, participants.report)
        self._handlers = handle.handlers
        self._errands = errand_table(components, state)
        self._replay = CoordinatorReplay(state, self._journal, components.journaled_state)
        self._is_serving = False
        self._upkeep_at = Instant(0)
        # Requests that are not answered, and whether they may be sent again without harm.
        self._open: dict[RequestId, bool] = {}
        self._has_appended = False
        self._reach = reach
        self._secret = settings.secret
        # Topics, by their numbers, of which this broker had every partition a moment ago.
        self._copied: dict[int, None] = {}
        self._counted_at = Instant(0)
        self._replay.begin()

    @property
    def state(self) -> NodeState:
        """What is known of groups."""
        return self._state

    @property
    def components(self) -> Components:
        return self._components

    @property
    def is_serving(self) -> bool:
        return self._is_serving

    # Commands

    def handle(
        self, request: RequestId, command: Command, now: Now, *, is_repeatable: bool
    ) -> None:
        """Carry out a command about groups; raises Refused."""
        if not self._is_serving:
            reason = self._replay.failure or "the group coordinator is starting"
            raise Refused(Code.LEADER_UNAVAILABLE, reason=reason)
        self._state.caller = self._host.caller
        self._state.absence = self._host.absence
        self._require_copies(command)
        self._open[request] = is_repeatable
        try:
            self._handlers[type(command)](request, command, now)
        except Refused as refused:
            if type(command) not in _PROVEN or refused.code.is_retriable:
                self._open.pop(request, None)
                raise
            # A broker that was deposed and does not know it may be wrong.
            self._open[request] = True
            self._state.journals.answer_current(request, refused)

    def _require_copies(self, command: Command) -> None:
        """Refuse a command that would overlook messages where this broker has no copy yet.

        Polls wait for the copies instead.
        """
        topics: Iterable[str] = ()
        match command:
            case Join() if command.start is Start.LATEST:
                topics = command.topics
            case CommitOffsets() | AddOffsets():
                topics = {log.topic: None for log in command.offsets}
            case ResetOffsets():
                topics = (command.topic,)
            case Redrive():
                origin = self._state.catalog.get(command.topic)
                topics = () if origin is None else (self._state.dead_letters_of(origin),)
            case DescribeOffsets() | DescribeLag():
                group = self._state.groups.get(command.group)
                topics = () if group is None else self._state.topics_of(group)
        for name in topics:
            topic = self._state.catalog.get(name)
            if topic is not None and topic.number not in self._copied:
                for log in topic.logs:
                    self._state.partitions[log]
                self._copied[topic.number] = None

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """Somebody has waited long enough, or is gone; False if nothing waited for that."""
        if request not in self._open:
            return False
        components = self._components
        if is_gone:
            del self._open[request]
        if self._state.stepwise.cancel(request):
            return True
        waiting = (
            components.receives,
            components.polls,
            components.heartbeats,
            components.transaction_offsets,
        )
        return any(each.cancel(request, is_gone=is_gone) for each in waiting)

    def end_all(self) -> None:
        """The broker stops: nobody waits any longer."""
        self._components.polls.end_all()
        self._components.heartbeats.end_all()

    def end(self) -> list[NodeEffect]:
        """Another epoch began: what answers the requests that are open."""
        nothing_done, unknown = Code.LEADER_UNAVAILABLE, Code.REPLICATION_FAILED
        return [
            Answer(request=request, reply=Refused(nothing_done if is_repeatable else unknown))
            for request, is_repeatable in self._open.items()
        ]

    # Logs

    def fetched(self, event: Fetched, now: Now) -> bool:
        """Records were read; False if they were for somebody else."""
        purpose = self._state.fetches.pop(event.token, None)
        if purpose is None:
            return False
        assert not isinstance(
            purpose, ClusterFetch | ReplicaFetch | RepairFetch | FoldFetch | ForwardFetch
        )
        if isinstance(purpose, JournalFetch):
            self._replay.read(purpose, event.data)
            self._serve_if_replayed(now)
        else:
            pass_fetched(self._components, purpose, event.data, now)
        return True

    def _serve_if_replayed(self, now: Now) -> None:
        if self._replay.is_over and not self._is_serving:
            self._begin_serving(now)

    def _begin_serving(self, now: Now) -> None:
        self._is_serving = True
        state = self._state
        if state.receipt_key is None:
            # The first coordinator decides; receipts outlive it.
            state.receipt_key = sha256(_RECEIPTS + self._secret).hexdigest()
            self._journal.note([ReceiptKeyStated(key=state.receipt_key)])
        state.lease_handles = LeaseHandles(bytes.fromhex(state.receipt_key))
        for group in state.groups:
            # Everybody is just heard: who was silent while nobody coordinated is not known.
            group.hear_all(now)
            state.alarms.set(ForGroup(group.number), group.next_deadline())
        self._components.membership.catch_up(now)
        self._components.coordinator.begin_serving(now)
        for move, place in list(state.open_moves.items()):
            # Begun by an earlier coordinator: its copies never count.
            aborted = Outcome.ABORTED
            self._components.coordinator.decide_move(move, aborted, place, self._journal, [])
        self._components.retention.begin(now)
        self._components.tick_sender.begin(now)
        self._counted_at = now.instant
        state.stepwise.begin(None, self._count_copies(), now)
        self._upkeep_at = Instant(now.instant + _UPKEEP_NS)

    def found(self, event: Found, now: Now) -> bool:
        """An offset was found by time; False if somebody else looked for it."""
        purpose = self._state.searches.pop(event.token, None)
        if purpose is None:
            return False
        pass_found(self._components, purpose, event, now)
        return True

    def committed(self, log: LogId, now: Now) -> None:
        """More of a log is known to be committed."""
        if log == self._journal.id:
            self._steps.run(self._journal.committed(), now)
            self._state.arm_journal(self._journal)
            self._components.journaled_state.resume(now)
        partition = self._state.partitions.get(log)
        if partition is not None and self._is_serving:
            self._components.polls.wake(partition, now)

    def compacted(self, log: LogId) -> None:
        """Records of a copy may be gone."""
        partition = self._state.partitions.get(log)
        if partition is not None:
            self._components.polls.relearn(partition)

    def take_answer(self, request: RequestId, reply: Reply | Refused, now: Now) -> bool:
        """A leader answered about copies or a marker; False if nobody asked."""
        ended = self._copies.take_answer(request, reply)
        if ended is None:
            return False
        purpose, placed = ended.purpose, ended.placed
        if isinstance(purpose, ForMove):
            self._components.dead_letter_mover.copied(purpose.batch, placed, now)
        elif isinstance(purpose, ForTick):
            self._components.tick_sender.appended(purpose.batch, placed, now)
        else:
            # What the ISR has committed no crash takes back.
            upto = Offset(0)
            self._components.coordinator.marker_appended(purpose, upto, placed.refused, now)
        return True

    def topic_opened(self, name: str, now: Now) -> None:
        """There is a topic of this name, or it has more partitions."""
        if self._is_serving:
            self._components.membership.rebalance(name, now)
            self._components.dead_letter_mover.topic_opened(name)
            self._components.tick_sender.topic_opened(now)

    def topic_removed(self, name: str, logs: list[LogId], now: Now) -> None:
        """A topic is gone, and what groups knew of it."""
        gone = Refused(Code.TOPIC_NOT_FOUND, topic=name)
        self._components.polls.refuse_receives(name, gone)
        self._components.priority_indexer.forget_logs(logs)
        self._components.positions.forget_logs(logs)
        self._components.coordinator.forget_logs(logs)
        self._components.transaction_offsets.check_again()
        self.topic_opened(name, now)

    # Time

    def next_deadline(self) -> Instant | None:
        deadline = self._state.alarms.next_deadline()
        if not self._is_serving:
            return deadline
        return self._upkeep_at if deadline is None else min(deadline, self._upkeep_at)

    def wake(self, now: Now) -> None:
        """A deadline may have come."""
        self._state.absence = self._host.absence
        if self._is_serving and now.instant >= self._upkeep_at:
            self._maintain(now)
        for subject in self._state.alarms.due(now.instant, self._state.budget):
            if not self._components.absences.postpone(subject, now):
                self._wake(subject, now)

    def _wake(self, subject: Subject, now: Now) -> None:
        match subject:
            case ForRequest(request):
                self.cancel(request)
            case ForQueue(group, log):
                self._components.acks.expire(group, log, now)
            case ForGroup(group):
                self._components.membership.expire(group, now)
            case ForQuota(group):
                self._components.polls.wake_allowed(group, now)
            case ForJournal():
                self._journal.expire(now, self._state.budget)
                self._state.arm_journal(self._journal)
            case ForPriorityIndex(log):
                self._components.priority_indexer.index_more(log)
            case Errand():
                self._errands[subject](now)
            case ForTransaction(transaction):
                self._components.coordinator.expire(transaction, now)
            case ForLog() | ForDelays():
                raise AssertionError(f"{subject} is not the coordinator's")
            case _:
                assert_never(subject)

    def _maintain(self, now: Now) -> None:
        self._upkeep_at = Instant(now.instant + _UPKEEP_NS)
        self._copied.clear()
        if now.instant >= self._counted_at + _COUNT_COPIES_NS:
            self._counted_at = now.instant
            self._state.stepwise.begin(None, self._count_copies(), now)
        self._components.polls.retry_unreadable(now)
        self._components.tick_sender.look_at_clock(now)
        self._components.retention.do_a_share(now)
        self._components.journaled_state.keep_groups_short(now)

    def _count_copies(self) -> Steps:
        """Find out which topics are read by groups: copies of others are not needed here."""
        state = self._state
        topics: dict[int, None] = {}
        for number in state.group_partitions.groups:
            group = state.groups.numbered(number)
            names = dict.fromkeys(() if group is None else group.known_topics)
            places = state.group_partitions.of_group(number)
            names.update((place.log.topic, None) for place in places)
            for topic in filter(None, map(state.catalog.get, names)):
                topics[topic.number] = None
                for log in topic.logs:
                    # A copy that is not there is made by looking for it.
                    state.partitions.get(log)
                yield len(topic.logs)
            yield 1 + len(places)
        self._reach.keep_copies(topics)

    # Turns

    def _append_noted(self, batch: bytearray, now: Now) -> Appended:
        appended = self._reach.append(batch, now)
        self._has_appended = True
        return appended

    def take_appended(self) -> bool:
        """Whether something was appended since the last call: it is sent before the turn ends."""
        has_appended, self._has_appended = self._has_appended, False
        return has_appended

    def finish_turn(self, now: Now) -> list[NodeEffect]:
        """Hand what was decided to the journal; all that is to be done now."""
        self._serve_if_replayed(now)
        journals = self._state.journals
        self._finish_components(now)
        while journals.have_notes:
            for journal in journals.take_unwritten():
                self._state.budget.spend(journal.noted)
                self._steps.run(journal.flush(now), now)
                self._state.arm_journal(journal)
            self._finish_components(now)
        effects = self._state.outbox.drain()
        for effect in effects:
            if isinstance(effect, Answer | Serve):
                self._open.pop(effect.request, None)
        return effects

    def _finish_components(self, now: Now) -> None:
        """What one component found out and another has to do: as in `Node`."""
        components = self._components
        if not self._is_serving or not any(self._state.follow_ups):
            return
        components.polls.serve_woken(now)
        components.acks.dead_letter_exhausted(now)
        components.coordinator.finish_turn(now)
        completed = components.coordinator.take_completed_moves()
        components.dead_letter_mover.finish_turn(completed, now)
        components.tick_sender.completed(completed, now)
        components.redriver.finish_turn()
        components.transaction_offsets.answer_decided(now)
