"""What the node does by itself once a change is committed: the steps that a journal held back.

Effects among them leave as they are; a step of a component continues there. Never decides what is
committed: the journals release in the order in which things were noted.
"""

from collections.abc import Callable

from goqueue.broker.caller_waits import CallerWaits
from goqueue.broker.components import Components
from goqueue.broker.outbox import (
    AuditDurable,
    BeginReceive,
    BeginServing,
    CarryOver,
    ContinueRestore,
    CopiesAnnounced,
    CreateLogs,
    DeleteLogs,
    DescribeAltered,
    JournalReached,
    Later,
    MetadataCommitted,
    Prune,
    PublishAnnounced,
    Rebalanced,
    ServeCounted,
    TenantEmptied,
    WriteMarkers,
)
from goqueue.broker.state import NodeState
from goqueue.model import NodeEffect, Now

__all__ = ["CommittedSteps"]

_InternalStep = (
    AuditDurable
    | CarryOver
    | ContinueRestore
    | CopiesAnnounced
    | JournalReached
    | MetadataCommitted
    | Prune
    | TenantEmptied
    | WriteMarkers
)


class CommittedSteps:
    """Continues what waited for a journal."""

    def __init__(
        self,
        state: NodeState,
        components: Components,
        caller_waits: CallerWaits,
        begin_serving: Callable[[Now], None],
    ) -> None:
        self._state = state
        self._components = components
        self._caller_waits = caller_waits
        self._begin_serving = begin_serving

    def run(self, released: list[Later], now: Now) -> None:
        for later in released:
            match later:
                case BeginServing():
                    self._begin_serving(now)
                case CreateLogs() | DeleteLogs() | DescribeAltered():
                    self._components.topics.resume(later, now)
                case BeginReceive():
                    self._components.receives.begin(later, now)
                case ServeCounted():
                    self._components.polls.serve_counted(later)
                case PublishAnnounced():
                    refusal = self._caller_waits.check(later.request, now)
                    self._components.publisher.publish_announced(later, now, refusal)
                case Rebalanced():
                    self._count_rebalance(later, now)
                case _:
                    self._run_internal(later, now)

    def _run_internal(self, later: _InternalStep | NodeEffect, now: Now) -> None:
        """A step of the broker's own transactions, journals and restores; or an effect."""
        match later:
            case AuditDurable(number):
                self._state.audit.durable(number, now)
            case CopiesAnnounced(move):
                self._components.copies.announced(move, now)
            case CarryOver():
                self._components.dead_letter_mover.announced(later)
                self._components.tick_sender.announced(later, now)
            case JournalReached(wait):
                self.run(self._state.journals.reached(wait), now)
            case MetadataCommitted():
                self._state.metadata.committed(later)
            case WriteMarkers(transaction):
                self._components.coordinator.write_markers(transaction, now)
            case ContinueRestore():
                self._components.restores.resume(later, now)
            case TenantEmptied(tenant):
                self._components.tenant_deletion.end(tenant)
            case Prune():
                journal = self._state.journals.get(later.journal)
                assert journal is not None, "it was stated again, so it is open"
                journal.drop_below(later.offset)
            case _:
                self._state.outbox.append(later)

    def _count_rebalance(self, rebalanced: Rebalanced, now: Now) -> None:
        if self._state.groups.get(rebalanced.group) is not None:
            counts = self._state.counts.group(rebalanced.group)
            duration_ns = now.instant - rebalanced.began
            counts.rebalance_latency.observe(duration_ns)
            counts.end_rebalance(duration_ns, now)
