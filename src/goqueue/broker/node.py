"""The node: one function from an event and the time to effects.

Composes the machines: it calls each in turn, and they never call each other's callers. Whatever
the shell reports comes in here, whatever is to be done goes out from here.

Invariants
- A refusal changes nothing, and every command is answered exactly once.
- Nothing leaves that depends on a change which is not committed: each turn ends by handing its
  changes to the journals, which hold back what waits for them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import assert_never

from goqueue.broker.audit import AUDIT_LOG, NO_FACTS, AuditConfig
from goqueue.broker.caller_waits import CallerWaits
from goqueue.broker.cluster import ClusterConfig, ClusterMember, ClusterReports
from goqueue.broker.cluster.cluster_metrics import cluster_families
from goqueue.broker.cluster.cluster_schemas import ClusterSchemas
from goqueue.broker.cluster.cluster_transactions import ClusterTransactions
from goqueue.broker.cluster.edge import ClusterEdge
from goqueue.broker.cluster.node_answers import NodeQuestions
from goqueue.broker.committed_steps import CommittedSteps
from goqueue.broker.components import (
    Components,
    NodeSettings,
    begin_serving,
    dispatch_table,
    errand_table,
)
from goqueue.broker.conversion import Conversion
from goqueue.broker.coordinator.coordinators import Coordinators
from goqueue.broker.coordinator.member_handlers import MemberParts, limit_to_members
from goqueue.broker.coordinator.remote_copies import CopyServer
from goqueue.broker.groups.membership import GROUP_RETENTION_NS
from goqueue.broker.journal import JournalLimits
from goqueue.broker.member_turns import MemberTurns
from goqueue.broker.metrics.node_metrics import families_of, health_families
from goqueue.broker.metrics.request_metrics import RequestMetrics
from goqueue.broker.node_events import NodeEvent, RareEvent
from goqueue.broker.partition_events import PartitionEvents
from goqueue.broker.publication_ends import PublicationEnds
from goqueue.broker.read_results import ReadResults
from goqueue.broker.recovery.start import Opened
from goqueue.broker.state import NodeState
from goqueue.broker.storage_health import StorageHealth
from goqueue.broker.turns import (
    TURN_UNITS,
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
    TurnBudget,
)
from goqueue.metrics import Family
from goqueue.model import (
    LOCAL,
    SECOND,
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
    LogId,
    NodeEffect,
    Now,
    Observed,
    PeerConnected,
    PeerDisconnected,
    PeerMessageReceived,
    Refused,
    Repaired,
    RequestId,
    SchemaChecked,
    SchemaCompiled,
    StoreEvent,
    Synced,
    Truncated,
    Woke,
)
from goqueue.model.requests import CheckHealth, DeleteTopic, DescribeNode, Reply
from goqueue.schedules import Zones
from goqueue.security import ApiKeys, SecurityRegistry
from goqueue.tracing import TraceEntry, Tracer

__all__ = ["Node"]

# How many events share a turn, and which part of its budget they may use before it ends.
_EVENTS_MAX = 16
_TOGETHER_SHARE = 4


class Node:
    """One broker node as a pure machine."""

    def __init__(  # noqa: PLR0913 - each is one setting of the node, and has a default
        self,
        node_id: str,
        secret: bytes,
        limits: JournalLimits | None = None,
        *,
        sampling: float = 1.0,
        turn_units_max: int = TURN_UNITS,
        group_retention_ns: int | None = GROUP_RETENTION_NS,
        zones: Zones | None = None,
        upkeep_idle_ns: int = SECOND,
        acl_enabled: bool = False,
        audit: AuditConfig = NO_FACTS,
        cluster: ClusterConfig | None = None,
    ) -> None:
        """`secret` seals receipts; with another one, those that were given out become invalid.

        `sampling` is the share of messages whose traces are recorded, `turn_units_max` how much
        work a turn chooses to do. Groups that are empty for longer than their retention are
        forgotten, without one never. Schedules may name `zones`, without them only UTC. With
        `acl_enabled` keys that are not admins need an ACL for what they do. Upkeep comes every
        second; less and less often, up to `upkeep_idle_ns`, if the shell calls `hasten_upkeep`
        before it passes on commands. With `cluster` the node is a member of one.
        """
        parts = Tracer(sampling), TurnBudget(turn_units_max), zones
        state = self._state = NodeState(node_id, *parts, acl_enabled=acl_enabled, audit=audit)
        settings = NodeSettings(
            secret=secret,
            limits=limits or JournalLimits(),
            group_retention_ns=group_retention_ns,
            upkeep_idle_ns=upkeep_idle_ns,
        )
        components = self._components = Components(state, settings)
        self.cluster = None if cluster is None else ClusterMember(state, cluster)
        self._request_metrics = RequestMetrics(state)
        ends = PublicationEnds(state, self._components, self._request_metrics)
        self._caller_waits = CallerWaits(state, partial(self._cancel_wait, is_gone=True))
        self.coordinators = None
        if self.cluster is not None:
            self.coordinators = Coordinators(state, self.cluster, self._caller_waits, settings)
        self._partition_events = PartitionEvents(
            state, self._components, ends, self.cluster, self.coordinators
        )
        self._committed_steps = CommittedSteps(
            state, self._components, self._caller_waits, self._begin_serving
        )
        self._handlers = dispatch_table(self._components, ClusterReports(state, self.cluster))
        delete_topic = self._partition_events.delete_topic
        self._handlers[DeleteTopic] = delete_topic  # type: ignore[assignment]  # by type
        # These serve a command on this node; `_handlers` of a cluster may forward it.
        self._here = self._handlers
        self._edge: ClusterEdge | None = None
        self._turns: MemberTurns | None = None
        if self.cluster is not None and self.coordinators is not None:
            self._open_edge(self.cluster, self.coordinators)
        self._results = ReadResults(state, components, self.cluster, self._edge, self.coordinators)
        self._errands = self._errand_table()

    def _errand_table(self) -> dict[Errand, Callable[[Now], None]]:
        delete_topic = self._partition_events.delete_topic
        tenant_deletion = self._components.tenant_deletion
        errands: dict[Errand, Callable[[Now], None]] = {
            Errand.AUDIT: self._state.audit.resume,
            Errand.CALLERS: self._caller_waits.end_refused,
            Errand.CLUSTER: self._wake_cluster,
            Errand.FORWARDING: (lambda _: None) if self._turns is None else self._turns.wake,
            Errand.TENANTS: partial(tenant_deletion.resume, delete_topic=delete_topic),
            **errand_table(self._components, self._state),
        }
        assert set(errands) == set(Errand)
        return errands

    def _open_edge(self, member: ClusterMember, coordinators: Coordinators) -> None:
        """Let commands of clients go to the brokers that serve them."""
        self._state.audit.home = lambda: self._state.journals.of_topics
        publisher, check = self._components.publisher, self._caller_waits.check
        transactions = ClusterTransactions(self._state, publisher, check)
        turns = MemberTurns(member, coordinators, transactions, self._partition_events, self._ask)
        schemas = ClusterSchemas(member, self._components.schemas)
        edge = ClusterEdge(
            self._state,
            member,
            publisher,
            ask=self._ask,
            cancel=self._withdraw,
            metrics=self._request_metrics,
            answered=turns.take_answer,
            led=transactions.led,
        )
        turns.connect(edge)
        self._edge, self._turns = edge, turns
        parts = MemberParts(member, coordinators, CopyServer(self._state, edge.routes), schemas)
        limit_to_members(self._handlers, self._components, self._state, parts)
        questions = NodeQuestions(self._state, edge, self._components.replies)
        handlers = questions.around(edge.around(self._here, schemas), self._here)
        self._handlers = transactions.around(handlers, self._here)

    def start(self) -> list[NodeEffect]:
        """The first effects; the node serves once they and what follows from them is done."""
        self._components.node_start.begin()
        if self.cluster is not None:
            self.cluster.begin()
        return self._state.outbox.drain()

    def leave(self, now: Now) -> list[NodeEffect]:
        """The node is about to stop: it serves on, and others lead first what it leads."""
        if self._turns is not None and self.is_serving:
            self._turns.leave(now)
        return self._end_turn(now)

    @property
    def may_stop(self) -> bool:
        """Whether nobody needs this node any more, after `leave`."""
        return self._turns is None or self._turns.may_stop

    def stop(self, now: Now) -> list[NodeEffect]:
        """Take no more commands and let nobody wait; what is on its way still ends."""
        was_serving = self.is_serving
        self._state.not_ready = "stopping"
        if was_serving:
            if self._turns is not None:
                self._turns.end_all()
            self._components.stop(now)
        if self.cluster is not None:
            self.cluster.stop(now)
        return self._end_turn(now)

    def hasten_upkeep(self, now: Now) -> None:
        """Commands are about to come: do first what was put off because none came."""
        self._components.upkeep.hasten(now)

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
        if self.cluster is not None and not self.cluster.has_left:
            return False
        return not state.journals.are_open or (
            state.journals.are_quiet
            and state.audit.is_quiet
            and not self._components.journaled_state.is_stating
        )

    @property
    def turn_units(self) -> int:
        """How many units of work the last turn did: see `TurnBudget`."""
        return self._state.budget.spent

    def next_deadline(self) -> Instant | None:
        """When the node wants `Woke`; a deadline that has passed: as soon as others were served."""
        own = self._state.alarms.next_deadline()
        coordinated = None if self.coordinators is None else self.coordinators.next_deadline()
        return min((each for each in (own, coordinated) if each is not None), default=None)

    def handle(self, event: NodeEvent, now: Now) -> list[NodeEffect]:
        """Learn one thing and decide what follows from it."""
        return self.handle_some(deque((event,)), now)

    def handle_some(self, events: deque[NodeEvent], now: Now) -> list[NodeEffect]:
        """Take the next few events and handle them in one turn.

        At least one, and as many as come to little work: a turn costs the same for all of them.
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
            case (
                Synced() | Failed() | Filled() | Damaged() | Repaired() | Truncated() | Compacted()
            ):
                self._handle_disk(event, now)
            case Dropped():
                # Retention moves the start of a log as well, and nobody waits for that.
                self._partition_events.dropped(event)
            case Fetched():
                self._results.fetched(event, now)
            case Woke():
                self._wake(now)
            case Found():
                self._results.found(event, now)
            case Left():
                self._withdraw(event.request)
            case Created():
                self._created(event, None, now)
            case Deleted():
                self._deleted(event.log, None)
            case _:
                self._learn_rare(event, now)

    def _learn_rare(self, event: RareEvent, now: Now) -> None:
        match event:
            case Observed():
                self._state.audit.observe_shell(event, now)
            case PeerConnected() | PeerDisconnected() | PeerMessageReceived():
                assert self.cluster is not None, "only a node of a cluster has peers"
                assert self._edge is not None
                if not self._edge.handle_peer(event, now):
                    self.cluster.handle_peer(event, now)
            case Opened(log=log) if self.cluster is not None and self.cluster.hosts(log):
                self.cluster.opened(log, event.state, now)
            case Opened():
                self._components.node_start.opened(event, now)
            case SchemaChecked() | SchemaCompiled():
                self._components.validation.handle(event, now)
                if self.coordinators is not None and isinstance(event, SchemaCompiled):
                    self.coordinators.compiled(event, now)
            case StoreEvent():
                assert self.cluster is not None, "only a node of a cluster has a store"
                self.cluster.handle_store(event, now)
            case Loaded(name=name) if self.cluster is not None and (
                self.cluster.replicas.expects(name)
            ):
                self.cluster.replicas.loaded(name, event.data, now)
            case Loaded():
                self._components.node_start.loaded(event.name, event.data, now)
            case _:
                self._components.restores.handle(event, now)

    def served(self, request: RequestId, reply: Reply | Refused, now: Now) -> None:
        """Hear what became of a `Serve`: only the bytes tell what it brought."""
        self._request_metrics.served(request, reply, now)

    def metrics(self, *, by_partition: bool = False) -> Iterator[Family]:
        """What was counted and what there is; turns may be taken between any two samples."""
        parts = self._components if self.coordinators is None else self.coordinators.components
        yield from health_families(self._state, parts)
        yield from families_of(self._state, by_partition=by_partition)
        if self.cluster is not None:
            yield from cluster_families(self.cluster)

    @property
    def keys(self) -> ApiKeys:
        """The keys that the node accepts: asked by the shell, changed by commands only."""
        return self._state.security.keys

    @property
    def conversion(self) -> Conversion:
        """What the node keeps alone, for the first node of a cluster."""
        return Conversion(self._state, self._components.journaled_state)

    @property
    def security(self) -> SecurityRegistry:
        """Keys and limits of tenants: asked by the shell, changed by commands only."""
        return self._state.security

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
            # A broker that passes on a command of its client lets it wait for another leader.
            is_passed_on = event.request < 0
            code = Code.LEADER_UNAVAILABLE if is_passed_on else Code.BROKER_UNAVAILABLE
            refusal = Refused(code, reason=not_ready)
            self._state.outbox.answer(event.request, refusal)
            return
        self._request_metrics.begin(event.request, command, now)
        try:
            self._state.audit.expect(event.request, event.caller, command, now)
            handlers = self._handlers if event.request > 0 else self._here
            handler = handlers[type(command)]
            if event.caller is LOCAL:
                handler(event.request, command, now)
            else:
                self._caller_waits.handle(event, handler, now)
        except Refused as refused:
            self._state.audit.cancel(event.request)
            self._request_metrics.refuse(event.request, command)
            self._state.refuse(event.request, refused)

    def _withdraw(self, request: RequestId) -> None:
        """Whoever asked is gone."""
        self._request_metrics.cancel(request)
        self._caller_waits.forget(request)
        self._cancel_wait(request, is_gone=True)

    # The disk

    def _handle_disk(self, event: DiskEvent, now: Now) -> None:
        state = self._state
        if self.cluster is not None and event.log in self.cluster.logs:
            self.cluster.handle_disk(event, now)
            return
        if isinstance(event, Filled):
            state.storage.record_full(event.log, now)
        elif isinstance(event, Synced) and event.log in state.internal:
            state.storage.record_written(event.log)
        journal = state.journals.get(event.log)
        if journal is not None:
            self._committed_steps.run(journal.handle(event, now), now)
            state.arm_journal(journal)
            self._components.stream_reads.wake(state.internal[event.log], now)
            self._components.journaled_state.resume(now)
        elif event.log == AUDIT_LOG:
            if isinstance(event, Failed):
                state.storage.record_failed(event.log, event.reason)
            state.audit.handle(event, now)
            self._components.stream_reads.wake(state.internal[event.log], now)
        else:
            partition = state.partitions.get(event.log)
            if partition is not None:
                if isinstance(event, Failed):
                    self._created(Created(log=event.log), event.reason, now)
                self._partition_events.handle(partition, event, now)
            elif isinstance(event, Failed):
                self._deleted(event.log, event.reason)

    def _deleted(self, log: LogId, failure: str | None) -> None:
        if self.cluster is None:
            self._components.topics.deleted(log, failure)
        else:
            self.cluster.replicas.hosted.removed(log)

    def _created(self, event: Created, failure: str | None, now: Now) -> None:
        topics = self._components.topics
        is_new = topics.is_creating(event.log.topic)
        topic = topics.created(event.log, failure, now)
        if topic is not None:
            self._topic_opened(topic.name, now)
        elif is_new and failure is not None:
            self._components.dead_letter_mover.creation_failed(event.log.topic, failure)

    def _topic_opened(self, name: str, now: Now) -> None:
        """A topic can be used: those who waited for it go on."""
        self._components.membership.rebalance(name, now)
        self._components.dead_letter_mover.topic_opened(name)
        self._components.tick_sender.topic_opened(now)

    # Time

    def _wake(self, now: Now) -> None:
        budget = self._state.budget
        if self.coordinators is not None:
            self.coordinators.wake(now)
        for subject in self._state.alarms.due(now.instant, budget):
            if self._components.absences.postpone(subject, now):
                continue
            match subject:
                case ForRequest(request):
                    self._cancel_wait(request)
                case ForQueue(group, log):
                    self._components.acks.expire(group, log, now)
                case ForGroup() | ForQuota():
                    self._wake_group(subject, now)
                case ForLog() | ForJournal():
                    self._wake_log(subject, now)
                case ForPriorityIndex(log):
                    self._components.priority_indexer.index_more(log)
                case ForDelays(log):
                    self._components.delayed_messages.wake(log, now)
                case ForTransaction(transaction):
                    self._components.coordinator.expire(transaction, now)
                case Errand():
                    self._errands[subject](now)
                case _:
                    assert_never(subject)

    def _wake_cluster(self, now: Now) -> None:
        if self.cluster is not None:
            self.cluster.wake(now)
            self._partition_events.end_overdue(now)

    def _wake_log(self, subject: ForLog | ForJournal, now: Now) -> None:
        state = self._state
        if isinstance(subject, ForJournal):
            journal = state.journals.get(subject.log)
            if journal is not None:
                journal.expire(now, state.budget)
                state.arm_journal(journal)
            return
        partition = state.partitions.get(subject.log)
        if partition is not None:
            state.outbox.extend(partition.log.expire(now))
            state.arm_flush(partition)

    def _wake_group(self, subject: ForGroup | ForQuota, now: Now) -> None:
        if isinstance(subject, ForQuota):
            self._components.polls.wake_allowed(subject.group, now)
        else:
            self._components.membership.expire(subject.group, now)

    def _cancel_wait(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """Somebody has waited long enough, or is gone; False if nothing waited for that."""
        components = self._components
        components.record_deletion.cancel(request)
        if self._state.stepwise.cancel(request):
            self._state.audit.cancel(request)
            return True
        waiting = (
            components.stream_reads,
            components.receives,
            components.polls,
            components.heartbeats,
            components.replies,
            components.transaction_offsets,
            components.validation,
        )
        if any(each.cancel(request, is_gone=is_gone) for each in waiting):
            return True
        return self._turns is not None and self._turns.cancel(request, is_gone=is_gone)

    # Turns

    def _end_turn(self, now: Now) -> list[NodeEffect]:
        """Hand what was decided to the journals; all that is to be done now."""
        if self._turns is not None:
            self._turns.finish(now)
        effects = self._finish_turn(now)
        if self._turns is not None:
            # What ran for others may answer requests of this node, which ends others.
            effects = self._turns.take(effects, now, self._finish_turn)
        return effects

    def _finish_turn(self, now: Now) -> list[NodeEffect]:
        """Take the steps of this node alone that need not wait; what follows from all."""
        if self._state.journals.are_open:
            self._take_steps(now)
        effects = self._state.audit.hold_back(self._state.outbox.drain())
        self._state.budget.spend(len(effects))
        self._request_metrics.note(effects, now)
        self._caller_waits.note(effects)
        return effects

    def _take_steps(self, now: Now) -> None:
        """Take the steps that need not wait, until none is left."""
        journals = self._state.journals
        self._finish_components(now)
        while journals.have_notes:
            for journal in journals.take_unwritten():
                self._state.budget.spend(journal.noted)
                self._committed_steps.run(journal.flush(now), now)
                self._state.arm_journal(journal)
            self._finish_components(now)

    def _finish_components(self, now: Now) -> None:
        """What one part found out and another has to do."""
        self._caller_waits.follow(now)
        if not any(self._state.follow_ups):
            return
        self._components.polls.serve_woken(now)
        self._components.acks.dead_letter_exhausted(now)
        self._components.coordinator.finish_turn(now)
        completed = self._components.coordinator.take_completed_moves()
        self._components.dead_letter_mover.finish_turn(completed, now)
        self._components.tick_sender.completed(completed, now)
        self._components.redriver.finish_turn()
        self._components.transaction_offsets.answer_decided(now)
        opened = self._components.node_start.take_opened()
        for name in self._components.restores.logs_opened(opened, now) if opened else ():
            self._topic_opened(name, now)

    def _begin_serving(self, now: Now) -> None:
        if self._state.not_ready != "stopping":
            self._state.not_ready = None
            self._state.has_served = True
            if self.cluster is not None:
                self.cluster.serve()
            begin_serving(self._components, self._state, now)
