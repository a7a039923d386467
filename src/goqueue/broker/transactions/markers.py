"""The marker writer: appends the marker of a decision to every partition of its transaction.

A helper of the coordinator. Begins when the decision is committed, and may begin any number of
times: a partition that has the marker has nothing left to end. A transaction is *complete* when
every marker is committed, so that readers see its end everywhere, and *durable* when no crash can
take a marker back.

Cost per transaction: one record in each of its partitions, over as many turns as that takes.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from goqueue.broker.partitions import ForMarker, Partition, Publication
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.copies import Copies
from goqueue.broker.turns import Errand, take_all
from goqueue.log import Marker
from goqueue.model import SECOND, Code, Instant, LogId, Now, Offset, Refused, TransactionKey
from goqueue.transactions import Transaction

__all__ = ["MarkerWriter"]

_RETRY_NS = SECOND
# Decided, and not to be waited for: after a restart the log may be well again.
_UNREACHABLE = {Code.STORAGE_FAILED, Code.TOPIC_NOT_FOUND}


class _MarkerSet:
    """The markers of one transaction: which are not committed, which are not durable."""

    __slots__ = ("is_complete", "missing", "not_durable", "stalled", "transaction", "unwritten")

    def __init__(self, transaction: Transaction, logs: list[LogId]) -> None:
        self.transaction = transaction
        self.missing = dict.fromkeys(logs)
        # Those that are still to be told, and those that must be told again: there was no space.
        self.unwritten = dict.fromkeys(logs)
        self.stalled: dict[LogId, None] = {}
        # The offset behind each marker that a power cut could still take.
        self.not_durable: dict[LogId, Offset] = {}
        self.is_complete = False


class MarkerWriter:
    """Appends markers and waits for them."""

    def __init__(self, state: NodeState, copies: Copies) -> None:
        self._state = state
        self._copies = copies
        self._sets: dict[TransactionKey, _MarkerSet] = {}
        # Those with partitions that are to be told, in this order; and those that are told again.
        self._unwritten: dict[TransactionKey, None] = {}
        self._stalled: dict[TransactionKey, Instant] = {}
        # By log: which transactions have a marker to be committed there, and which wait, up to
        # which offset, for it to become durable.
        self._missing: dict[LogId, dict[TransactionKey, None]] = {}
        self._not_durable: dict[LogId, list[tuple[int, TransactionKey]]] = {}
        self._completed: list[Transaction] = []
        self._durable: list[Transaction] = []
        state.follow_ups += (self._completed, self._durable)

    def take_completed(self) -> list[Transaction]:
        """Those that readers see as ended since the last call."""
        return take_all(self._completed)

    def take_durable(self) -> list[Transaction]:
        """Those whose markers no crash can take back, since the last call."""
        return take_all(self._durable)

    # Appending

    def begin(self, key: TransactionKey, now: Now) -> None:
        """The decision is committed: tell every partition."""
        transaction = self._state.transactions.find(key)
        if transaction is None or key in self._sets:
            return
        logs = [
            LogId(topic.name, partition)
            for number, partition in transaction.partitions
            for topic in [self._state.catalog.numbered(number)]
            if topic is not None
        ]
        current = self._sets[key] = _MarkerSet(transaction, logs)
        for log in logs:
            self._missing.setdefault(log, {})[key] = None
        self._unwritten[key] = None
        self._append_more(now)
        self._check(current)

    def repeat(self, key: TransactionKey, log: LogId, now: Now) -> None:
        """A partition says that it lacks a marker: tell it, once more if need be."""
        current = self._sets.get(key)
        # Without a set the decision is not committed yet: all partitions are told then.
        if current is not None and log not in current.missing:
            current.missing[log] = None
            self._missing.setdefault(log, {})[key] = None
            current.unwritten[log] = None
            self._unwritten[key] = None
            self._append_more(now)
            self._check(current)

    def _append_more(self, now: Now) -> None:
        """Append markers as far as the turn allows."""
        budget = self._state.budget
        while self._unwritten:
            current = self._sets.get(next(iter(self._unwritten)))
            if current is None or not current.unwritten:
                del self._unwritten[next(iter(self._unwritten))]
                continue
            if budget.is_spent:
                self._state.alarms.bring_forward(Errand.MARKERS, now.instant)
                return
            budget.spend()
            log = next(iter(current.unwritten))
            del current.unwritten[log]
            self._append(current, log, now)
            if not current.unwritten:
                self._check(current)

    def _append(self, current: _MarkerSet, log: LogId, now: Now) -> None:
        transaction = current.transaction
        assert transaction.outcome is not None
        marker = Marker(
            producer=transaction.producer,
            epoch=transaction.epoch,
            transaction=transaction.number,
            is_commit=transaction.outcome.is_commit,
        )
        publication = Publication(None, [], 1, now.wall, purpose=ForMarker(transaction.key, log))
        try:
            is_coming = self._copies.end(log, marker, publication, now)
        except Refused as refused:
            self._refused(current, log, refused.code, now)
            return
        if not is_coming:
            # It has the marker, or nothing to end, or is gone.
            partition = self._state.partitions.get(log)
            upto = Offset(0) if partition is None else partition.log.high_watermark
            self._committed(current, log, upto)

    def _refused(self, current: _MarkerSet, log: LogId, code: Code, now: Now) -> None:
        if code in _UNREACHABLE:
            self._remove(current, log)
            if code is Code.STORAGE_FAILED:
                # Never durable in this life: the next one finds the decision and tells again.
                self._await_durable(current, log, Offset(1 << 62))
            return
        current.stalled[log] = None
        deadline = Instant(now.instant + _RETRY_NS)
        self._stalled.setdefault(current.transaction.key, deadline)
        self._state.alarms.bring_forward(Errand.MARKERS, deadline)

    def _remove(self, current: _MarkerSet, log: LogId) -> None:
        """A log has the marker, or will never have it."""
        if log in current.missing:
            del current.missing[log]
            waiting = self._missing[log]
            del waiting[current.transaction.key]
            if not waiting:
                del self._missing[log]

    def resume(self, now: Now) -> None:
        """Go on where there was no time, and try again where there was no space."""
        while self._stalled:
            key, deadline = next(iter(self._stalled.items()))
            if deadline > now.instant:
                self._state.alarms.bring_forward(Errand.MARKERS, deadline)
                break
            del self._stalled[key]
            current = self._sets.get(key)
            if current is not None:
                current.unwritten.update(current.stalled)
                current.stalled = {}
                self._unwritten[key] = None
        self._append_more(now)

    # What became of them

    def marked(self, purpose: ForMarker, upto: Offset, refused: Code | None, now: Now) -> None:
        """A marker is committed, or was taken back by the disk."""
        current = self._sets.get(purpose.transaction)
        if current is None:
            return
        if refused is not None:
            self._refused(current, purpose.log, refused, now)
        else:
            self._committed(current, purpose.log, upto)
        self._check(current)

    def _committed(self, current: _MarkerSet, log: LogId, upto: Offset) -> None:
        self._remove(current, log)
        partition = self._state.partitions.get(log)
        if partition is not None and partition.log.watermarks.durable < upto:
            self._await_durable(current, log, upto)

    def _await_durable(self, current: _MarkerSet, log: LogId, upto: Offset) -> None:
        """Wait until a log is durable up to here, or deleted."""
        current.not_durable[log] = upto
        heappush(self._not_durable.setdefault(log, []), (upto, current.transaction.key))

    def durable(self, partition: Partition) -> None:
        """More of a log is durable."""
        log = partition.log_id
        waiting = self._not_durable.get(log)
        if not waiting:
            return
        durable = partition.log.watermarks.durable
        while waiting and waiting[0][0] <= durable:
            upto, key = heappop(waiting)
            current = self._sets.get(key)
            if current is not None and current.not_durable.get(log) == upto:
                del current.not_durable[log]
                self._check(current)
        if not waiting:
            del self._not_durable[log]

    def forget_logs(self, logs: Iterable[LogId]) -> None:
        """The logs are gone, and with them the markers that they had to get."""
        for log in logs:
            if log in self._missing or log in self._not_durable:
                self._forget(log)

    def _forget(self, log: LogId) -> None:
        not_durable = [key for _, key in self._not_durable.pop(log, ())]
        for key in (*self._missing.get(log, ()), *not_durable):
            current = self._sets.get(key)
            if current is not None:
                self._remove(current, log)
                current.unwritten.pop(log, None)
                current.stalled.pop(log, None)
                current.not_durable.pop(log, None)
                self._check(current)

    def _check(self, current: _MarkerSet) -> None:
        """Go on when all markers are committed, and end when all are durable."""
        transaction = current.transaction
        if current.missing:
            return
        if not current.is_complete:
            current.is_complete = True
            self._completed.append(transaction)
        if not current.not_durable and self._sets.pop(transaction.key, None) is not None:
            self._durable.append(transaction)
