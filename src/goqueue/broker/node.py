"""The node: one function from an event and the time to effects.

Composes the machines: it calls each in turn, and they never call each other's callers. Whatever
the shell reports comes in here, whatever is to be done goes out from here.

Invariants
- A refusal changes nothing, and every command is answered exactly once.
- Nothing leaves that depends on a change which is not committed: each turn ends by handing its
  changes to the journals, which hold back what waits for them.
"""

from collections.abc import Iterator
from typing import assert_never

from goqueue.broker.components import Components, dispatch_table
from goqueue.broker.disk_reads import (
    CancelledFetch,
    DueFetch,
    JournalFetch,
    LagFetch,
    MoveFetch,
    PriorityFetch,
    ReadAheadFetch,
    ReadSearch,
    RedriveFetch,
    ReplayFetch,
    ResetSearch,
)
from goqueue.broker.groups.membership import GROUP_RETENTION_NS
from goqueue.broker.journal import JournalLimits
from goqueue.broker.metrics.node_metrics import families_of, health_families
from goqueue.broker.metrics.request_metrics import RequestMetrics
from goqueue.broker.outbox import (
    BeginServing,
    CarryOver,
    CreateLogs,
    DeleteLogs,
    DescribeAltered,
    Later,
    Prune,
    PublishAnnounced,
    Rebalanced,
    ServeCounted,
    WriteMarkers,
)
from goqueue.broker.partitions import (
    ForMarker,
    ForMove,
    InTransaction,
    Partition,
    Publication,
)
from goqueue.broker.recovery.start import GROUPS_LOG, TOPICS_LOG, Opened
from goqueue.broker.state import Absence, NodeState
from goqueue.broker.storage_health import StorageHealth
from goqueue.broker.turns import (
    TURN_UNITS,
    Errand,
    ForCensus,
    ForDelays,
    ForGroup,
    ForLog,
    ForQueue,
    ForRequest,
    ForTransaction,
    Steps,
    Subject,
    TurnBudget,
)
from goqueue.metrics import Family
from goqueue.model import (
    MILLISECOND,
    SECOND,
    Asked,
    Code,
    Compacted,
    Created,
    Damaged,
    Deleted,
    DiskEvent,
    Failed,
    Fetched,
    Filled,
    Found,
    Instant,
    Left,
    Loaded,
    NodeEffect,
    Now,
    Offset,
    Refused,
    RequestId,
    Synced,
    Truncated,
    Woke,
)
from goqueue.model.requests import (
    CheckHealth,
    DeleteTopic,
    DescribeNode,
    Published,
    Reply,
)
from goqueue.tracing import Note, Tracer

__all__ = ["Node", "NodeEvent"]

NodeEvent = (
    Asked
    | Left
    | Woke
    | Fetched
    | Found
    | Loaded
    | Opened
    | Synced
    | Failed
    | Filled
    | Damaged
    | Truncated
    | Compacted
    | Created
    | Deleted
)

# Upkeep that is so much later than it should be: the node was away.
_LATE_NS = 500 * MILLISECOND
# How long those who hold something may be heard then.
_HEARING_NS = SECOND


class Node:
    """One broker node as a pure machine."""

    def __init__(
        self,
        node_id: str,
        secret: bytes,
        limits: JournalLimits | None = None,
        *,
        sampling: float = 1.0,
        turn_units_max: int = TURN_UNITS,
        group_retention_ns: int | None = GROUP_RETENTION_NS,
    ) -> None:
        """`secret` seals receipts; with another one, those that were given out become invalid.

        `sampling` is the share of messages whose journeys are noted, `turn_units_max` how much
        work a turn chooses to do. Groups that are empty for longer than their retention are
        forgotten, without one never.
        """
        budget = TurnBudget(turn_units_max)
        state = self._state = NodeState(node_id, Tracer(sampling), budget)
        self._parts = Components(state, secret, limits or JournalLimits(), group_retention_ns)
        self._watching = RequestMetrics(state)
        # Leases and sessions that were put off because the node was away.
        self._put_off: dict[Subject, None] = {}
        self._takes = dispatch_table(self._parts)
        self._takes[DeleteTopic] = self._delete_topic  # type: ignore[assignment]  # by type

    def start(self) -> list[NodeEffect]:
        """The first effects; the node serves once they and what follows from them is done."""
        self._parts.starting.begin()
        return self._state.outbox.take()

    def stop(self, now: Now) -> list[NodeEffect]:
        """Take no more commands and let nobody wait; what is on its way still ends."""
        was_serving = self.is_serving
        self._state.not_ready = "stopping"
        if was_serving:
            self._parts.reading.end_all()
            self._parts.delivering.end_all()
            self._parts.memory.snapshot_all(now)
            self._parts.delaying.save_all()
            self._parts.remembering.save_all()
        return self._end_turn(now)

    @property
    def is_serving(self) -> bool:
        """Whether commands are taken."""
        return self._state.not_ready is None

    @property
    def storage(self) -> StorageHealth:
        """Which logs the disk does not serve as it should."""
        return self._state.storage

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits to be committed in the journals."""
        state = self._state
        return not state.has_journals or (
            state.topics_journal.is_quiet
            and state.groups_journal.is_quiet
            and not self._parts.memory.is_stating
        )

    @property
    def turn_units(self) -> int:
        """How many units of work the last turn did: see `TurnBudget`."""
        return self._state.budget.spent

    def next_deadline(self) -> Instant | None:
        """When the node wants `Woke`; a deadline that has passed: as soon as others were served."""
        return self._state.alarms.next_deadline()

    def handle(self, event: NodeEvent, now: Now) -> list[NodeEffect]:
        """Learn one thing and decide what follows from it."""
        self._state.budget.begin()
        self._note_absence(now)
        match event:
            case Asked():
                self._ask(event, now)
            case Synced() | Failed() | Filled() | Damaged() | Truncated() | Compacted():
                self._take_disk(event, now)
            case Fetched():
                self._fetched(event, now)
            case Woke():
                self._wake(now)
            case Found():
                self._found(event, now)
            case Left():
                self._watching.give_up(event.request)
                self._give_up(event.request, is_gone=True)
            case Created():
                self._created(event, None, now)
            case Deleted():
                self._parts.topics.deleted(event.log)
            case Opened():
                self._parts.starting.opened(event, now)
            case Loaded():
                self._parts.starting.loaded(event.name, event.data, now)
        return self._end_turn(now)

    def served(self, request: RequestId, reply: Reply | Refused, now: Now) -> None:
        """Hear what became of a `Serve`: only the bytes tell what it brought."""
        self._watching.served(request, reply, now)

    def metrics(self, *, by_partition: bool = False) -> Iterator[Family]:
        """What was counted and what there is; turns may be taken between any two samples."""
        yield from health_families(self._state, self._parts.redriving.letters_kept)
        yield from families_of(self._state, by_partition=by_partition)

    def export_notes(self) -> None:
        """From now on somebody takes what is noted of the journeys of messages."""
        self._state.journeys.tracer.export()

    def take_notes(self) -> list[Note]:
        """What was noted since the last time."""
        return self._state.journeys.tracer.take()

    # Commands

    def _ask(self, event: Asked, now: Now) -> None:
        command = event.command
        not_ready = self._state.not_ready
        if not_ready is not None and not isinstance(command, DescribeNode | CheckHealth):
            refusal = Refused(Code.BROKER_UNAVAILABLE, reason=not_ready)
            self._state.outbox.answer(event.request, refusal)
            return
        self._watching.begin(event.request, command, now)
        try:
            self._takes[type(command)](event.request, command, now)
        except Refused as refused:
            self._watching.refuse(event.request, command)
            self._state.refuse(event.request, refused)

    def _delete_topic(self, request: RequestId, command: DeleteTopic, now: Now) -> None:
        logs = self._state.catalog.find_for_writing(command.name).logs
        self._parts.topics.delete(request, command)
        gone = Refused(Code.TOPIC_NOT_FOUND, topic=command.name)
        partitions = self._state.partitions.remove_all(logs)
        self._state.storage.forget_logs(logs)
        self._parts.delaying.forget_logs(logs)
        self._parts.coordinator.forget_logs(logs)
        self._parts.remembering.forget_logs(logs)
        self._parts.counting.forget_logs(logs)
        for partition in partitions:
            if partition.is_awaited:
                self._parts.reading.refuse_all(partition, gone)
                for publication, published in partition.taken_back(Offset(0), Code.TOPIC_NOT_FOUND):
                    self._published(publication, published, now)
        # To free thousands of logs takes longer than to forget them.
        self._state.stepwise.begin(None, _free(partitions), now)
        self._state.counts.forget_topic(command.name)
        self._state.journeys.forget(command.name, logs)
        self._parts.positions.forget_logs(logs)
        self._parts.transaction_offsets.check_again()
        self._parts.membership.rebalance(command.name, now)

    # The disk

    def _take_disk(self, event: DiskEvent, now: Now) -> None:
        state = self._state
        if isinstance(event, Filled):
            state.storage.record_full(event.log, now)
        elif isinstance(event, Synced) and event.log in state.internal:
            state.storage.record_written(event.log)
        if event.log in {GROUPS_LOG, TOPICS_LOG}:
            is_groups = event.log == GROUPS_LOG
            journal = state.groups_journal if is_groups else state.topics_journal
            self._release(journal.take(event, now), now)
            state.alarms.bring_forward(Errand.JOURNALS, journal.next_deadline())
            self._parts.reading.wake(state.internal[event.log], now)
            self._parts.memory.resume(now)
        else:
            partition = state.partitions.get(event.log)
            if partition is not None:
                self._take_partition(partition, event, now)
            elif isinstance(event, Failed):
                self._parts.topics.deleted(event.log, event.reason)

    def _take_partition(self, partition: Partition, event: DiskEvent, now: Now) -> None:
        if isinstance(event, Failed):
            self._state.storage.failed[event.log] = None
            self._created(Created(log=event.log), event.reason, now)
        known, committed = partition.log.damaged, partition.log.high_watermark
        self._state.outbox.extend(partition.log.take(event, now))
        self._state.storage.record_damage(event.log, partition.log.damaged)
        if partition.log.high_watermark > committed:
            self._state.storage.record_written(event.log)
        self._state.arm_flush(partition)
        if isinstance(event, Damaged) and partition.log.damaged == known:
            # It is set aside when the writes on their way are done: until then to look again
            # would only find the same.
            return
        if isinstance(event, Filled):
            outcomes = list(partition.taken_back(event.offset, Code.STORAGE_FULL))
            self._parts.remembering.taken_back(event.log)
            self._parts.delaying.taken_back(partition, event.offset, Code.STORAGE_FULL, now)
        elif isinstance(event, Failed):
            outcomes = list(partition.taken_back(Offset(0), Code.STORAGE_FAILED))
            self._parts.delaying.taken_back(partition, Offset(0), Code.STORAGE_FAILED, now)
        else:
            outcomes = list(partition.committed())
            self._parts.delaying.committed(partition, now)
            for ending in partition.log.take_ended():
                self._state.hide_ending(event.log, ending)
                self._state.journeys.ended(ending.key, event.log, now, is_commit=ending.is_commit)
                self._parts.delaying.ended(partition, ending, now)
            self._parts.coordinator.log_durable(partition)
            self._parts.remembering.durable(partition)
        for publication, published in outcomes:
            self._published(publication, published, now)
        if isinstance(event, Compacted):
            self._parts.delivering.relearn(partition)
        if partition.readers:
            self._parts.reading.wake(partition, now)
        self._parts.delivering.wake(partition, now)

    def _published(self, publication: Publication, published: Published, now: Now) -> None:
        purpose = publication.purpose
        if publication.story is not None:
            transaction = purpose.transaction if isinstance(purpose, InTransaction) else None
            self._state.journeys.published(publication.story, published, now, transaction)
        match purpose:
            case ForMove(batch):
                self._parts.moving.copied(batch, published.placed[0].refused, now)
            case ForMarker() as purpose:
                placed = published.placed[0]
                upto = Offset(placed.first + placed.count)
                self._parts.coordinator.marker_appended(purpose, upto, placed.refused, now)
            case InTransaction(transaction):
                self._state.transactions.landed(transaction)
        if publication.request is not None:
            self._state.outbox.answer(publication.request, published)

    def _created(self, event: Created, failure: str | None, now: Now) -> None:
        topic = self._parts.topics.created(event.log, failure, now)
        if topic is not None:
            self._parts.membership.rebalance(topic.name, now)
            self._parts.moving.resume_all()

    def _fetched(self, event: Fetched, now: Now) -> None:
        purpose = self._state.fetches.pop(event.token)
        match purpose:
            case ReadAheadFetch():
                self._parts.delivering.surveyed(purpose, event.data, now)
            case MoveFetch():
                self._parts.moving.carried(purpose, event.data, now)
            case PriorityFetch():
                self._parts.counting.scouted(purpose, event.data, now)
            case DueFetch():
                self._parts.delaying.fetched(purpose, event.data, now)
            case CancelledFetch():
                self._parts.delaying.recalled(purpose, event.data, now)
            case RedriveFetch():
                self._parts.redriving.sifted(purpose, event.data, now)
            case LagFetch():
                self._parts.positions.probed(purpose, event.data, now)
            case JournalFetch():
                self._parts.starting.replayed(purpose, event.data, now)
            case ReplayFetch():
                self._parts.starting.records_replayed(purpose, event.data, now)
            case _:
                assert_never(purpose)

    def _found(self, event: Found, now: Now) -> None:
        purpose = self._state.searches.pop(event.token)
        match purpose:
            case ReadSearch():
                self._parts.reading.found(purpose, event.offset, now)
            case ResetSearch():
                self._parts.positions.found(purpose, event.offset, now)
            case _:
                assert_never(purpose)

    # Time

    def _wake(self, now: Now) -> None:
        budget = self._state.budget
        for subject in self._state.alarms.due(now.instant, budget):
            if self._is_put_off(subject, now):
                continue
            match subject:
                case ForRequest(request):
                    self._give_up(request)
                case ForQueue(group, log):
                    self._parts.settling.expire(group, log, now)
                case ForGroup(group):
                    self._parts.membership.expire(group, now)
                case ForLog(log):
                    partition = self._state.partitions.get(log)
                    if partition is not None:
                        self._state.outbox.extend(partition.log.expire(now))
                        self._state.arm_flush(partition)
                case ForCensus(log):
                    self._parts.counting.scout(log)
                case ForDelays(log):
                    self._parts.delaying.wake(log, now)
                case ForTransaction(transaction):
                    self._parts.coordinator.expire(transaction, now)
                case Errand():
                    self._run(subject, now)
                case _:
                    assert_never(subject)

    def _note_absence(self, now: Now) -> None:
        """See whether the node was away: stopped, or busy with a long turn."""
        missed = self._parts.upkeep.missed(now, _LATE_NS)
        if missed is not None:
            until = Instant(now.instant + _HEARING_NS)
            self._state.absence = Absence(since=missed, until=until)

    def _is_put_off(self, subject: Subject, now: Now) -> bool:
        """Whether leases and sessions end a little later, once, because the node was away.

        What their holders sent meanwhile waits in sockets, and is heard before anything is taken
        from them.
        """
        if not isinstance(subject, ForQueue | ForGroup):
            return False
        until = self._state.absence.until
        if self._put_off.pop(subject, 0) is None or until <= now.instant:
            return False
        self._put_off[subject] = None
        self._state.alarms.set(subject, until)
        return True

    def _give_up(self, request: RequestId, *, is_gone: bool = False) -> None:
        """Somebody has waited long enough, or is gone."""
        parts = self._parts
        if self._state.stepwise.give_up(request):
            return
        for part in (parts.reading, parts.delivering, parts.transaction_offsets):
            if part.give_up(request, is_gone=is_gone):
                return

    def _run(self, errand: Errand, now: Now) -> None:
        match errand:
            case Errand.JOURNALS:
                self._retry_journals(now)
            case Errand.MARKERS:
                self._parts.coordinator.resume_markers(now)
            case Errand.MOVES:
                self._parts.moving.resume(now)
            case Errand.POLLS:
                self._parts.delivering.serve_stirred(now)
            case Errand.PROGRESS:
                self._parts.coordinator.progress.resume(now)
            case Errand.REBALANCES:
                self._parts.membership.rebalance_more(now)
            case Errand.START:
                self._parts.starting.go_on(now)
            case Errand.STATEMENTS:
                self._parts.memory.go_on(now)
            case Errand.STEPS:
                self._state.stepwise.resume(now)
            case Errand.UPKEEP:
                self._parts.upkeep.do_a_share(now)
            case _:
                assert_never(errand)

    def _retry_journals(self, now: Now) -> None:
        for journal in (self._state.topics_journal, self._state.groups_journal):
            journal.expire(now, self._state.budget)
            self._state.alarms.bring_forward(Errand.JOURNALS, journal.next_deadline())

    # Turns

    def _end_turn(self, now: Now) -> list[NodeEffect]:
        """Hand what was decided to the journals; all that is to be done now."""
        if self._state.has_journals:
            self._finish_turn(now)
        effects = self._state.outbox.take()
        self._state.budget.spend(len(effects))
        self._watching.note(effects, now)
        return effects

    def _finish_turn(self, now: Now) -> None:
        """Take the steps that need not wait, until none is left."""
        journals = (self._state.topics_journal, self._state.groups_journal)
        self._finish_parts(now)
        while any(journal.has_notes for journal in journals):
            for journal in journals:
                self._state.budget.spend(journal.noted)
                self._release(journal.flush(now), now)
                self._state.alarms.bring_forward(Errand.JOURNALS, journal.next_deadline())
            self._finish_parts(now)

    def _finish_parts(self, now: Now) -> None:
        """What one part found out and another has to do."""
        self._parts.settling.dead_letter_exhausted(now)
        self._parts.coordinator.finish_turn(now)
        self._parts.moving.finish_turn(now)
        self._parts.redriving.take_ended()
        self._parts.transaction_offsets.answer_decided(now)

    def _release(self, released: list[Later], now: Now) -> None:
        for later in released:
            match later:
                case CarryOver():
                    self._parts.moving.announced(later)
                case CreateLogs(topic):
                    self._parts.topics.create_logs(topic, now)
                case DeleteLogs():
                    self._parts.topics.delete_logs(later, now)
                case DescribeAltered():
                    self._parts.topics.describe_altered(later, now)
                case Prune(journal=journal, offset=offset):
                    is_groups = journal == GROUPS_LOG
                    state = self._state
                    (state.groups_journal if is_groups else state.topics_journal).drop_below(offset)
                case BeginServing():
                    self._begin_serving(now)
                case PublishAnnounced():
                    self._parts.publishing.publish_announced(later, now)
                case Rebalanced():
                    self._rebalanced(later, now)
                case ServeCounted():
                    self._parts.delivering.serve_counted(later)
                case WriteMarkers(transaction):
                    self._parts.coordinator.write_markers(transaction, now)
                case _:
                    self._state.outbox.append(later)

    def _rebalanced(self, rebalanced: Rebalanced, now: Now) -> None:
        if self._state.groups.get(rebalanced.group) is not None:
            counts = self._state.counts.group(rebalanced.group)
            counts.rebalance_latency.observe(now.instant - rebalanced.began)

    def _begin_serving(self, now: Now) -> None:
        state = self._state
        if state.not_ready == "stopping":
            return
        state.not_ready = None
        for group in state.groups:
            group.hear_all(now)
            state.alarms.set(ForGroup(group.number), group.next_deadline())
        self._parts.delaying.arm_all(now)
        self._parts.membership.catch_up(now)
        self._parts.coordinator.begin_serving(now)
        self._parts.retention.begin(now)
        self._parts.upkeep.begin(now)


def _free(partitions: list[Partition]) -> Steps:
    while partitions:
        partitions.pop()
        yield 1
