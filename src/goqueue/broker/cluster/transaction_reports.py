"""What leaders tell the transaction coordinator by themselves: who published, and what stays open.

A transaction whose marker does not come would hold back the readers of a partition for good: its
decision may be lost with an unclean election, or it was never known. So whoever begins to lead
reports all that is open at once, and everybody what is open every ten seconds. The coordinator
decides; nothing is presumed here.

Producers are heard by their publishes, which their coordinator does not see: they are reported
every five seconds.

Bounds: 1,000 transactions and 1,000 producers in a report; the rest follows with the next one.
Cost: a dictionary operation for each batch, and one message each five seconds while there are any.
"""

from itertools import islice

from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG
from goqueue.broker.cluster.forward_parts import OneReply, Part, Request, RequestNumbers
from goqueue.broker.cluster.forwarder import Forwarder
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.model import LOCAL, SECOND, Instant, LogId, Now, Refused, RequestId
from goqueue.model.requests import (
    HeardProducer,
    OpenTransaction,
    ProducerStamp,
    ReportTransactions,
)

__all__ = ["TransactionReports"]

_OPEN_NS = 10 * SECOND
_HEARD_NS = 5 * SECOND
_PAUSE_NS = SECOND
_REPORTED_MAX = 1_000
_HEARD_MAX = 10_000


class TransactionReports:
    """Reports to whoever coordinates transactions."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        # Logs that a transaction writes to, and when they are looked at; those that are due first.
        self._watched: dict[LogId, Instant] = {}
        self._due: dict[LogId, None] = {}
        self._heard: dict[int, int] = {}
        self._heard_at = Instant(0)
        self._next_at = Instant(0)
        self._asked: dict[RequestId, None] = {}
        self._forwarder: Forwarder
        self._numbers: RequestNumbers

    def connect(self, forwarder: Forwarder, numbers: RequestNumbers) -> None:
        """Reports go out by the forwarder."""
        self._forwarder = forwarder
        self._numbers = numbers

    def heard(self, log: LogId, stamp: ProducerStamp, now: Now) -> None:
        """A producer is about to write to a log in a transaction."""
        if stamp.producer_id in self._heard or len(self._heard) < _HEARD_MAX:
            if not self._heard:
                self._heard_at = Instant(now.instant + _HEARD_NS)
                self._arm(self._heard_at)
            self._heard[stamp.producer_id] = stamp.epoch
        if log not in self._watched:
            self._watch(log, now)

    def _watch(self, log: LogId, now: Now) -> None:
        self._watched[log] = Instant(now.instant + _OPEN_NS)
        self._arm(self._watched[log])

    def led(self, log: LogId, now: Now) -> None:
        """This broker serves a log from now on."""
        partition = self._state.partitions.get(log)
        if partition is not None and any(True for _ in partition.log.producers.open):
            self._watched.pop(log, None)
            self._due[log] = None
            self._arm(now.instant)

    def _arm(self, at: Instant) -> None:
        self._state.alarms.bring_forward(Errand.FORWARDING, max(at, self._next_at))

    def wake(self, now: Now) -> None:
        """Report what is due."""
        if now.instant >= self._next_at and (self._due or self._heard or self._watched):
            self._report(now)
        if self._due:
            self._arm(now.instant)
        if self._heard:
            self._arm(self._heard_at)
        if self._watched:
            self._arm(next(iter(self._watched.values())))

    def _report(self, now: Now) -> None:
        for log, at in self._watched.items():
            # In the order in which they are due.
            if at > now.instant:
                break
            self._due[log] = None
        for log in self._due:
            self._watched.pop(log, None)
        found: list[OpenTransaction] = []
        budget = self._state.budget
        while self._due and len(found) < _REPORTED_MAX and not budget.is_spent:
            budget.spend()
            log = next(iter(self._due))
            del self._due[log]
            there = self._open_in(log)
            if there:
                found += there
                self._watch(log, now)
        heard: dict[int, int] = {}
        if self._heard and now.instant >= self._heard_at:
            heard = dict(islice(self._heard.items(), _REPORTED_MAX))
            for producer in heard:
                del self._heard[producer]
        if found or heard:
            self._next_at = Instant(now.instant + _PAUSE_NS)
            self._send(found, heard, now)

    def _open_in(self, log: LogId) -> list[OpenTransaction]:
        """What has no marker in a log that this broker leads."""
        partition = self._state.partitions.get(log)
        topic = self._state.catalog.get(log.topic)
        if partition is None or partition.leader is None or topic is None:
            return []
        keys = islice(partition.log.producers.open, _REPORTED_MAX)
        return [OpenTransaction(topic.number, log.partition, *key) for key in keys]

    def _send(self, found: list[OpenTransaction], heard: dict[int, int], now: Now) -> None:
        named = tuple(HeardProducer(*each) for each in heard.items())
        report = ReportTransactions(heard=named, open=tuple(found))
        number = self._numbers.take_here()
        self._asked[number] = None
        whole = Request(number, report, LOCAL, OneReply(), now.instant)
        try:
            part = Part(whole, report, COORDINATOR_LOG, is_repeatable=True)
            self._forwarder.begin(whole, [part], now)
        except Refused:
            # The next one says the same of what is open then.
            del self._asked[number]

    def take_answer(self, request: RequestId) -> bool:
        """The coordinator heard a report, or nobody did; False if it was not one of these."""
        return self._asked.pop(request, self) is None
