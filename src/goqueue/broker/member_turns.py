"""The cluster's share of a turn of a node: replicas, the edge, the coordinator, transactions.

One part's answer is another one's question, and some of both are on this broker: a marker that the
coordinator asks for is appended by the leader, which is perhaps here. So the parts take their steps
until none has more to do, within the budget of the turn. Nothing that could leave now waits for the
next event.
"""

from collections.abc import Callable

from goqueue.broker.cluster import ClusterMember
from goqueue.broker.cluster.cluster_transactions import ClusterTransactions
from goqueue.broker.cluster.edge import ClusterEdge
from goqueue.broker.coordinator.coordinators import Coordinators
from goqueue.broker.partition_events import PartitionEvents
from goqueue.model import MILLISECOND, Asked, NodeEffect, Now, Refused, RequestId
from goqueue.model.requests import Reply

__all__ = ["MemberTurns"]

_ROUNDS_MAX = 8
# So long what was passed on may take when others lead already.
_DRAIN_NS = 500 * MILLISECOND


class MemberTurns:
    """Ends the turns of a node that is a member of a cluster."""

    def __init__(
        self,
        member: ClusterMember,
        coordinators: Coordinators,
        transactions: ClusterTransactions,
        partition_events: PartitionEvents,
        ask: Callable[[Asked, Now], None],
    ) -> None:
        self._member = member
        self._coordinators = coordinators
        self._transactions = transactions
        self._partition_events = partition_events
        self._ask = ask
        self._edge: ClusterEdge

    def connect(self, edge: ClusterEdge) -> None:
        """What this broker asks goes out by the edge."""
        self._edge = edge
        self._coordinators.connect(edge)
        self._transactions.connect(edge)
        self._member.producers.connect(self._transactions)

    def leave(self, now: Now) -> None:
        """The node is about to stop: others lead first what it leads."""
        self._member.leave(now)

    @property
    def may_stop(self) -> bool:
        """Whether others lead, and the outcome of nothing that was passed on is open.

        After `leave`; for what is open it lasts half a second longer at most.
        """
        departure = self._member.departure
        if not departure.is_over:
            return not departure.is_begun
        is_late = self._member.ticked_at >= departure.over_at + _DRAIN_NS
        return is_late or not self._edge.forwarder.has_open

    def finish(self, now: Now) -> None:
        """Take the steps that follow from the events of a turn."""
        self._member.finish_turn(now)
        self._take_steps(now)

    def _take_steps(self, now: Now) -> None:
        for _ in range(_ROUNDS_MAX):
            has_run = self._edge.finish_turn(now)
            if self._transactions.publishes.ask_again(self._ask, now) or has_run:
                self._member.replicas.finish_turn(now)
            self._partition_events.follow_replicas(now)
            while self._coordinators.finish_turn(now):
                self._member.replicas.finish_turn(now)
                self._partition_events.follow_replicas(now)
            if not self._edge.can_run:
                return

    def take(
        self, effects: list[NodeEffect], now: Now, finish: Callable[[Now], list[NodeEffect]]
    ) -> list[NodeEffect]:
        """The effects without answers to commands that ran for others; those go to them.

        `finish` ends what the node itself has to do, and returns what follows.
        """
        taken = self._edge.take(effects, now)
        self._transactions.note(taken)
        for _ in range(_ROUNDS_MAX):
            if self._edge.take_news() or self._transactions.publishes.can_ask:
                self._member.replicas.finish_turn(now)
                self._take_steps(now)
            elif not self._edge.has_taken:
                # As in most turns: no answer came from which anything could follow.
                break
            more = finish(now)
            if not more:
                break
            more = self._edge.take(more, now)
            self._transactions.note(more)
            taken += more
        return taken

    # What concerns one of the parts

    def take_answer(self, request: RequestId, reply: Reply | Refused, now: Now) -> bool:
        """The answer to something that this broker asked by itself; False if it did not."""
        return self._transactions.take_answer(request, reply, now) or (
            self._coordinators.take_answer(request, reply, now)
        )

    def wake(self, now: Now) -> None:
        """A deadline of what is forwarded may have come."""
        self._edge.wake(now)
        self._transactions.wake(now)

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """Somebody has waited long enough, or is gone; False if nothing waited for that."""
        if self._coordinators.cancel(request, is_gone=is_gone):
            return True
        if is_gone and self._transactions.cancel(request):
            return True
        return self._edge.cancel(request, is_gone=is_gone)

    def end_all(self) -> None:
        """The node stops."""
        self._coordinators.end_all()
        self._transactions.end_all()
        self._edge.end_all()
