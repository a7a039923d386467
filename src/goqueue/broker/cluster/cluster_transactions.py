"""Transactions at a node of a cluster that may lead anything: what clients and leaders have to do.

The coordinator decides (`broker/coordinator`). Around it every node
- passes commands about producers and transactions on to it, the end of one behind its publishes,
- asks it before the first batch of a transaction to a partition that is led here, and
- reports to it who publishes, and what stays open.
"""

from collections.abc import Callable, Iterable

from goqueue.broker.catalog import Topic
from goqueue.broker.cluster.cluster_producers import is_transactional
from goqueue.broker.cluster.edge import ClusterEdge, Handler
from goqueue.broker.cluster.open_publishes import OpenPublishes
from goqueue.broker.cluster.transaction_admissions import TransactionAdmissions
from goqueue.broker.cluster.transaction_reports import TransactionReports
from goqueue.broker.publish import Publisher
from goqueue.broker.state import NodeState
from goqueue.model import Answer, Asked, LogId, NodeEffect, Now, Refused, RequestId
from goqueue.model.requests import (
    Command,
    EndTransaction,
    HeartbeatProducer,
    InitProducer,
    PrepareTransaction,
    Publish,
    Reply,
)
from goqueue.transactions import Admission

__all__ = ["ClusterTransactions"]


class ClusterTransactions:
    """The parts of transactions that are on every node."""

    def __init__(
        self,
        state: NodeState,
        publisher: Publisher,
        check: Callable[[RequestId, Now], Refused | None],
    ) -> None:
        self._state = state
        self.publishes = OpenPublishes(state)
        self.reports = TransactionReports(state)
        self.admissions = TransactionAdmissions(state, publisher, check, self.reports.heard)
        self._edge: ClusterEdge

    def connect(self, edge: ClusterEdge) -> None:
        """Questions go out by the edge."""
        self._edge = edge
        self.admissions.connect(edge.forwarder, edge.numbers)
        self.reports.connect(edge.forwarder, edge.numbers)

    # Clients

    def around(self, edge: dict[type, Handler], here: dict[type, Handler]) -> dict[type, Handler]:
        """The handlers of clients' commands, around those of the edge.

        `here` are those that serve a command on this node.
        """
        handlers = dict(edge)
        for kind in (InitProducer, HeartbeatProducer):
            handlers[kind] = _by_producer(edge[kind], here[kind])
        handlers[Publish] = self._publishing(edge[Publish])
        handlers[EndTransaction] = self._ending(edge[EndTransaction])
        handlers[PrepareTransaction] = self._ending(edge[PrepareTransaction])
        return handlers

    def _publishing(self, publish: Handler) -> Handler:
        def handle(request: RequestId, command: Command, now: Now) -> None:
            assert isinstance(command, Publish)
            if command.producer is None or not is_transactional(command.producer.producer_id):
                publish(request, command, now)
                return
            self.publishes.begin(request, command.producer.producer_id)
            try:
                publish(request, command, now)
            except Refused:
                self.publishes.answered(request)
                raise

        return handle

    def _ending(self, end: Handler) -> Handler:
        def handle(request: RequestId, command: Command, now: Now) -> None:
            assert isinstance(command, EndTransaction | PrepareTransaction)
            if isinstance(command, EndTransaction) and not command.is_commit:
                end(request, command, now)
                return
            asked = Asked(request=request, command=command, caller=self._state.caller)
            if self.publishes.close(asked, command.owner.producer_id):
                self._edge.disown(request)
                return
            try:
                end(request, command, now)
            except Refused:
                self.publishes.answered(request)
                raise

        return handle

    def note(self, effects: Iterable[NodeEffect]) -> None:
        """A turn has ended: what it answers."""
        if self.publishes.is_idle:
            return
        for effect in effects:
            if isinstance(effect, Answer):
                self.publishes.answered(effect.request)

    # Leaders

    def admit(
        self, request: RequestId, command: Publish, topic: Topic, now: Now
    ) -> Admission | None:
        """The transaction of a batch; None if that has to be asked. Raises Refused."""
        return self.admissions.admit(request, command, topic, now)

    def led(self, logs: Iterable[LogId], now: Now) -> None:
        """This node serves logs from now on."""
        for log in logs:
            self.reports.led(log, now)

    def take_answer(self, request: RequestId, reply: Reply | Refused, now: Now) -> bool:
        """The coordinator answered; False if nobody here asked."""
        return self.admissions.take_answer(request, reply, now) or self.reports.take_answer(request)

    # Turns

    def wake(self, now: Now) -> None:
        """A deadline may have come."""
        self.reports.wake(now)

    def cancel(self, request: RequestId) -> bool:
        """The caller of a request is gone; False if it does not wait here."""
        return self.publishes.cancel(request) or self.admissions.cancel(request)

    def end_all(self) -> None:
        """The node stops."""
        self.publishes.end_all()
        self.admissions.end_all()


def _by_producer(coordinated: Handler, here: Handler) -> Handler:
    """By the coordinator if it is about a transactional id, else on this node."""

    def handle(request: RequestId, command: Command, now: Now) -> None:
        assert isinstance(command, InitProducer | HeartbeatProducer)
        named = (
            command.transactional_id is not None
            if isinstance(command, InitProducer)
            else is_transactional(command.producer_id)
        )
        (coordinated if named else here)(request, command, now)

    return handle
