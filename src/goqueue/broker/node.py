"""The node: one function from an event and the time to effects.

Composes the machines: it calls each in turn, and they never call each other's callers. Whatever
the shell reports comes in here, whatever is to be done goes out from here.

Invariants
- A refusal changes nothing, and every command is answered exactly once.
- Nothing leaves that depends on a change which is not committed: each turn ends by handing its
  changes to the journals, which hold back what waits for them.
"""

from collections import deque
from collections.abc import Iterator
from typing import assert_never

from goqueue.broker.components import Components, dispatch_table, pass_fetched, pass_found
from goqueue.broker.groups.membership import GROUP_RETENTION_NS
from goqueue.broker.journal import JournalLimits
from goqueue.broker.metrics.node_metrics import families_of, health_families
from goqueue.broker.metrics.request_metrics import RequestMetrics
from goqueue.broker.outbox import (
    BeginReceive,
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
    ForTick,
    InTransaction,
    Partition,
    Publication,
)
from goqueue.broker.publish import PARTS_AT_ONCE
from goqueue.broker.recovery.start import GROUPS_LOG, TOPICS_LOG, Opened
from goqueue.broker.state import NodeState
from goqueue.broker.storage_health import StorageHealth
from goqueue.broker.turns import (
    TURN_UNITS,
    Errand,
    ForDelays,
    ForGroup,
    ForLog,
    ForPriorityIndex,
    ForQueue,
    ForRequest,
    ForTransaction,
    Steps,
    TurnBudget,
)
from goqueue.metrics import Family
from goqueue.model import (
    Asked,
    Code,
    Compacted,
    Created,
    Damaged,
    Deleted,
    DiskEvent,
    Dropped,
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
from goqueue.schedules import Zones
from goqueue.tracing import TraceEntry, Tracer

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
    | Dropped
    | Compacted
    | Created
    | Deleted
)

# How many events share a turn, and which part of its budget they may use before it ends.
_EVENTS_MAX = 16
_TOGETHER_SHARE = 4


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
        zones: Zones | None = None,
    ) -> None:
        """`secret` seals receipts; with another one, those that were given out become invalid.

        `sampling` is the share of messages whose traces are recorded, `turn_units_max` how much
        work a turn chooses to do. Groups that are empty for longer than their retention are
        forgotten, without one never. Schedules may name `zones`, without them only UTC.
        """
        budget = TurnBudget(turn_units_max)
        state = self._state = NodeState(node_id, Tracer(sampling), budget, zones)
        self._components = Components(state, secret, limits or JournalLimits(), group_retention_ns)
        self._request_metrics = RequestMetrics(state)
        self._handlers = dispatch_table(self._components)
        self._handlers[DeleteTopic] = self._delete_topic  # type: ignore[assignment]  # by type

    def start(self) -> list[NodeEffect]:
        """The first effects; the node serves once they and what follows from them is done."""
        self._components.node_start.begin()
        return self._state.outbox.drain()

    def stop(self, now: Now) -> list[NodeEffect]:
        """Take no more commands and let nobody wait; what is on its way still ends."""
        was_serving = self.is_serving
        self._state.not_ready = "stopping"
        if was_serving:
            self._components.stream_reads.end_all()
            self._components.polls.end_all()
            self._components.replies.end_all()
            self._components.journaled_state.snapshot_all(now)
            self._components.delayed_messages.save_all()
            self._components.producer_snapshots.save_all()
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
            and not self._components.journaled_state.is_stating
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
        return self.handle_some(deque((event,)), now)

    def handle_some(self, events: deque[NodeEvent], now: Now) -> list[NodeEffect]:
        """Take the next few events and handle them in one turn.

        At least one, and as many as come to little work: what a turn costs besides its events is
        then paid once for all of them.
        """
        budget = self._state.budget
        budget.begin()
        self._components.absences.detect(now)
        for _ in range(min(len(events), _EVENTS_MAX)):
            self._learn(events.popleft(), now)
            if budget.spent * _TOGETHER_SHARE >= budget.units:
                break
        return self._end_turn(now)

    def _learn(self, event: NodeEvent, now: Now) -> None:
        match event:
            case Asked():
                self._ask(event, now)
            case Synced() | Failed() | Filled() | Damaged() | Truncated() | Compacted():
                self._handle_disk(event, now)
            case Dropped():
                # Retention moves the start of a log as well, and nobody waits for that.
                self._components.record_deletion.dropped(event.log, event.start)
            case Fetched():
                purpose = self._state.fetches.pop(event.token)
                pass_fetched(self._components, purpose, event.data, now)
            case Woke():
                self._wake(now)
            case Found():
                pass_found(self._components, self._state.searches.pop(event.token), event, now)
            case Left():
                self._request_metrics.cancel(event.request)
                self._cancel_wait(event.request, is_gone=True)
            case Created():
                self._created(event, None, now)
            case Deleted():
                self._components.topics.deleted(event.log)
            case Opened():
                self._components.node_start.opened(event, now)
            case Loaded():
                self._components.node_start.loaded(event.name, event.data, now)
            case _:
                assert_never(event)

    def served(self, request: RequestId, reply: Reply | Refused, now: Now) -> None:
        """Hear what became of a `Serve`: only the bytes tell what it brought."""
        self._request_metrics.served(request, reply, now)

    def metrics(self, *, by_partition: bool = False) -> Iterator[Family]:
        """What was counted and what there is; turns may be taken between any two samples."""
        yield from health_families(self._state, self._components.redriver.dead_letters_kept)
        yield from families_of(self._state, by_partition=by_partition)

    def export_trace_entries(self) -> None:
        """Collect trace entries for `take_trace_entries` from now on."""
        self._state.traces.tracer.export()

    def take_trace_entries(self) -> list[TraceEntry]:
        """The trace entries recorded since the last call."""
        return self._state.traces.tracer.take()

    # Commands

    def _ask(self, event: Asked, now: Now) -> None:
        command = event.command
        not_ready = self._state.not_ready
        if not_ready is not None and not isinstance(command, DescribeNode | CheckHealth):
            refusal = Refused(Code.BROKER_UNAVAILABLE, reason=not_ready)
            self._state.outbox.answer(event.request, refusal)
            return
        self._request_metrics.begin(event.request, command, now)
        try:
            self._handlers[type(command)](event.request, command, now)
        except Refused as refused:
            self._request_metrics.refuse(event.request, command)
            self._state.refuse(event.request, refused)

    def _delete_topic(self, request: RequestId, command: DeleteTopic, now: Now) -> None:
        logs = self._state.catalog.find_for_writing(command.name).logs
        self._components.topics.delete(request, command)
        gone = Refused(Code.TOPIC_NOT_FOUND, topic=command.name)
        self._components.polls.refuse_receives(command.name, gone)
        partitions = self._state.partitions.remove_all(logs)
        self._state.storage.forget_logs(logs)
        self._components.delayed_messages.forget_logs(logs)
        self._components.coordinator.forget_logs(logs)
        self._components.producer_snapshots.forget_logs(logs)
        self._components.priority_indexer.forget_logs(logs)
        self._components.record_deletion.forget_logs(logs)
        for partition in partitions:
            if partition.is_awaited:
                self._components.stream_reads.refuse_all(partition, gone)
                for publication, published in partition.taken_back(Offset(0), Code.TOPIC_NOT_FOUND):
                    self._publication_done(publication, published, now)
        # To free thousands of logs takes longer than to forget them.
        self._state.stepwise.begin(None, _free(partitions), now)
        self._state.counts.forget_topic(command.name)
        self._state.traces.forget(command.name, logs)
        self._components.positions.forget_logs(logs)
        self._components.transaction_offsets.check_again()
        self._components.membership.rebalance(command.name, now)

    # The disk

    def _handle_disk(self, event: DiskEvent, now: Now) -> None:
        state = self._state
        if isinstance(event, Filled):
            state.storage.record_full(event.log, now)
        elif isinstance(event, Synced) and event.log in state.internal:
            state.storage.record_written(event.log)
        if event.log in {GROUPS_LOG, TOPICS_LOG}:
            is_groups = event.log == GROUPS_LOG
            journal = state.groups_journal if is_groups else state.topics_journal
            self._run_committed(journal.handle(event, now), now)
            state.alarms.bring_forward(Errand.JOURNALS, journal.next_deadline())
            self._components.stream_reads.wake(state.internal[event.log], now)
            self._components.journaled_state.resume(now)
        else:
            partition = state.partitions.get(event.log)
            if partition is not None:
                self._handle_partition(partition, event, now)
            elif isinstance(event, Failed):
                self._components.topics.deleted(event.log, event.reason)

    def _handle_partition(self, partition: Partition, event: DiskEvent, now: Now) -> None:
        if isinstance(event, Failed):
            self._state.storage.record_failed(event.log, event.reason)
            self._created(Created(log=event.log), event.reason, now)
            self._components.record_deletion.failed(event.log)
        known, committed = partition.log.damaged, partition.log.high_watermark
        self._state.outbox.extend(partition.log.handle(event, now))
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
            self._components.producer_snapshots.taken_back(event.log)
            self._components.delayed_messages.taken_back(
                partition, event.offset, Code.STORAGE_FULL, now
            )
        elif isinstance(event, Failed):
            outcomes = list(partition.taken_back(Offset(0), Code.STORAGE_FAILED))
            self._components.delayed_messages.taken_back(
                partition, Offset(0), Code.STORAGE_FAILED, now
            )
        else:
            outcomes = list(partition.committed())
            self._components.delayed_messages.committed(partition, now)
            for ending in partition.log.take_ended():
                self._state.hide_ending(event.log, ending)
                self._state.traces.ended(ending.key, event.log, now, is_commit=ending.is_commit)
                self._components.delayed_messages.ended(partition, ending, now)
            self._components.coordinator.log_durable(partition)
            self._components.producer_snapshots.durable(partition)
        for publication, published in outcomes:
            self._publication_done(publication, published, now)
        if isinstance(event, Compacted):
            self._components.polls.relearn(partition)
        if partition.readers:
            self._components.stream_reads.wake(partition, now)
        self._components.polls.wake(partition, now)

    def _publication_done(self, publication: Publication, published: Published, now: Now) -> None:
        purpose = publication.purpose
        if publication.trace is not None:
            transaction = purpose.transaction if isinstance(purpose, InTransaction) else None
            notes = self._state.traces.published(publication.trace, published, now, transaction)
            if len(published.placed) <= PARTS_AT_ONCE:
                self._state.budget.spend(sum(notes))
            else:
                self._state.stepwise.begin(None, notes, now)
        match purpose:
            case ForMove(batch):
                self._components.dead_letter_mover.copied(batch, published.placed[0].refused, now)
            case ForTick(batch):
                self._components.tick_sender.appended(batch, published.placed[0].refused, now)
            case ForMarker() as purpose:
                placed = published.placed[0]
                upto = Offset(placed.first + placed.count)
                self._components.coordinator.marker_appended(purpose, upto, placed.refused, now)
            case InTransaction(transaction):
                self._state.transactions.publication_ended(transaction)
        if publication.request is not None:
            self._state.outbox.answer(publication.request, published)

    def _created(self, event: Created, failure: str | None, now: Now) -> None:
        topic = self._components.topics.created(event.log, failure, now)
        if topic is not None:
            self._components.membership.rebalance(topic.name, now)
            self._components.dead_letter_mover.resume_all()
            self._components.tick_sender.topic_opened(now)

    # Time

    def _wake(self, now: Now) -> None:
        budget = self._state.budget
        for subject in self._state.alarms.due(now.instant, budget):
            if self._components.absences.postpone(subject, now):
                continue
            match subject:
                case ForRequest(request):
                    self._cancel_wait(request)
                case ForQueue(group, log):
                    self._components.acks.expire(group, log, now)
                case ForGroup(group):
                    self._components.membership.expire(group, now)
                case ForLog(log):
                    partition = self._state.partitions.get(log)
                    if partition is not None:
                        self._state.outbox.extend(partition.log.expire(now))
                        self._state.arm_flush(partition)
                case ForPriorityIndex(log):
                    self._components.priority_indexer.index_more(log)
                case ForDelays(log):
                    self._components.delayed_messages.wake(log, now)
                case ForTransaction(transaction):
                    self._components.coordinator.expire(transaction, now)
                case Errand():
                    self._run(subject, now)
                case _:
                    assert_never(subject)

    def _cancel_wait(self, request: RequestId, *, is_gone: bool = False) -> None:
        """Somebody has waited long enough, or is gone."""
        components = self._components
        components.record_deletion.cancel(request)
        if self._state.stepwise.cancel(request):
            return
        for component in (
            components.stream_reads,
            components.receives,
            components.polls,
            components.replies,
            components.transaction_offsets,
        ):
            if component.cancel(request, is_gone=is_gone):
                return

    def _run(self, errand: Errand, now: Now) -> None:
        match errand:
            case Errand.JOURNALS:
                self._retry_journals(now)
            case Errand.MARKERS:
                self._components.coordinator.resume_markers(now)
            case Errand.MOVES:
                self._components.dead_letter_mover.resume(now)
            case Errand.POLLS:
                self._components.polls.wake_more(now)
            case Errand.PROGRESS:
                self._components.coordinator.progress.resume(now)
            case Errand.REBALANCES:
                self._components.membership.rebalance_more(now)
            case Errand.SCHEDULES:
                self._components.tick_sender.wake(now)
            case Errand.START:
                self._components.node_start.resume(now)
            case Errand.STATEMENTS:
                self._components.journaled_state.continue_statements(now)
            case Errand.STEPS:
                self._state.stepwise.resume(now)
            case Errand.UPKEEP:
                self._components.upkeep.do_a_share(now)
                self._components.tick_sender.look_at_clock(now)
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
        effects = self._state.outbox.drain()
        self._state.budget.spend(len(effects))
        self._request_metrics.note(effects, now)
        return effects

    def _finish_turn(self, now: Now) -> None:
        """Take the steps that need not wait, until none is left."""
        topics, groups = self._state.topics_journal, self._state.groups_journal
        self._finish_components(now)
        while topics.has_notes or groups.has_notes:
            for journal in (topics, groups):
                self._state.budget.spend(journal.noted)
                self._run_committed(journal.flush(now), now)
                self._state.alarms.bring_forward(Errand.JOURNALS, journal.next_deadline())
            self._finish_components(now)

    def _finish_components(self, now: Now) -> None:
        """What one part found out and another has to do."""
        self._components.acks.dead_letter_exhausted(now)
        self._components.coordinator.finish_turn(now)
        completed = self._components.coordinator.take_completed_moves()
        self._components.dead_letter_mover.finish_turn(completed, now)
        self._components.tick_sender.completed(completed, now)
        self._components.redriver.finish_turn()
        self._components.transaction_offsets.answer_decided(now)

    def _run_committed(self, released: list[Later], now: Now) -> None:
        for later in released:
            match later:
                case CarryOver():
                    self._components.dead_letter_mover.announced(later)
                    self._components.tick_sender.announced(later, now)
                case CreateLogs() | DeleteLogs():
                    self._components.topics.change_logs(later, now)
                case DescribeAltered():
                    self._components.topics.describe_altered(later, now)
                case Prune():
                    self._prune(later)
                case BeginReceive():
                    self._components.receives.begin(later, now)
                case BeginServing():
                    self._begin_serving(now)
                case PublishAnnounced():
                    self._components.publisher.publish_announced(later, now)
                case Rebalanced():
                    self._rebalanced(later, now)
                case ServeCounted():
                    self._components.polls.serve_counted(later)
                case WriteMarkers(transaction):
                    self._components.coordinator.write_markers(transaction, now)
                case _:
                    self._state.outbox.append(later)

    def _prune(self, prune: Prune) -> None:
        state, is_groups = self._state, prune.journal == GROUPS_LOG
        (state.groups_journal if is_groups else state.topics_journal).drop_below(prune.offset)

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
        self._components.delayed_messages.arm_all(now)
        self._components.membership.catch_up(now)
        self._components.coordinator.begin_serving(now)
        self._components.retention.begin(now)
        self._components.upkeep.begin(now)
        self._components.tick_sender.begin(now)


def _free(partitions: list[Partition]) -> Steps:
    while partitions:
        partitions.pop()
        yield 1
