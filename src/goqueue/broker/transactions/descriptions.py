"""What can be asked about transactions."""

import heapq

from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.model import LogId, Now, RequestId, Timestamp
from goqueue.model.requests import (
    DescribeTransaction,
    ListTransactions,
    TransactionDescription,
    TransactionList,
    TransactionState,
    TransactionStatistics,
)
from goqueue.transactions import SILENCE_NS, Producer, Transaction, ended_state

__all__ = ["TransactionDescriptions"]

# To pass over a transaction costs little.
_PASSED_PER_UNIT = 10


class TransactionDescriptions:
    """Answers questions; changes nothing."""

    def __init__(self, state: NodeState) -> None:
        self._state = state

    def list(self, request: RequestId, command: ListTransactions, now: Now) -> None:
        tenant = self._state.access.own_tenant
        self._state.stepwise.begin(request, self._list(request, command, tenant), now)

    def _list(self, request: RequestId, command: ListTransactions, tenant: str | None) -> Steps:
        transactions = self._state.transactions
        # The broker's own are nobody's to see.
        finishing = [each for each in transactions.finishing if each.producer > 0]
        finishing.sort(key=_age)
        ongoing = list(transactions.open)
        if tenant is not None:
            yield 1 + (len(finishing) + len(ongoing)) // _PASSED_PER_UNIT
            finishing = [each for each in finishing if self._is_of(each, tenant)]
            ongoing = [each for each in ongoing if self._is_of(each, tenant)]
        shown: list[TransactionDescription] = []
        # Those that are open are in the order of their begin already.
        oldest_first = heapq.merge(finishing, ongoing, key=_age)
        for place, each in enumerate(oldest_first):
            if len(shown) == command.limit:
                break
            if place >= command.skip:
                yield 1 + len(each.partitions)
                shown.append(self._described(each))
            elif not place % _PASSED_PER_UNIT:
                yield 1
        total = len(finishing) + len(ongoing)
        reply = TransactionList(transactions=tuple(shown), total=total)
        self._state.journals.answer_current(request, reply)

    def describe(self, request: RequestId, command: DescribeTransaction) -> None:
        """One that has not ended, or the last of its producer."""
        self._state.require_transaction(command.transaction_id)
        producer, found = self._state.transactions.find_named(command.transaction_id)
        described = _ended(producer) if found is None else self._described(found)
        self._state.journals.answer_current(request, described)

    def statistics(self, request: RequestId, now: Now) -> None:
        transactions, tenant = self._state.transactions, self._state.access.own_tenant
        tallies = self._state.tally.transactions
        counted = [tallies[each] for each in tallies if tenant in (None, each)]
        committed = sum(each.committed for each in counted)
        aborted = sum(each.aborted for each in counted)
        active = transactions.open_count
        if tenant is not None:
            active = sum(self._is_of(each, tenant) for each in transactions.open)
        reply = TransactionStatistics(
            active=active,
            committed=committed,
            aborted=aborted,
            average_duration_ns=sum(each.ns_sum for each in counted) // max(1, committed + aborted),
            active_producers=sum(
                now.instant - each.heard_at <= SILENCE_NS and tenant in (None, each.tenant)
                for each in transactions.producers
            ),
        )
        self._state.journals.answer_current(request, reply)

    def _is_of(self, transaction: Transaction, tenant: str) -> bool:
        producer = self._state.transactions.producers.get(transaction.producer)
        return producer is not None and producer.tenant == tenant

    def _described(self, transaction: Transaction) -> TransactionDescription:
        producer = self._state.transactions.producers.get(transaction.producer)
        logs = [
            LogId(topic.name, partition)
            for number, partition in transaction.partitions
            for topic in [self._state.catalog.numbered(number)]
            if topic is not None
        ]
        return TransactionDescription(
            transaction_id=transaction.id,
            transactional_id=(producer and producer.transactional_id) or "",
            producer_id=transaction.producer,
            epoch=transaction.epoch,
            state=transaction.state,
            started_at=transaction.began_at,
            timeout_ns=0 if producer is None else producer.timeout_ns,
            partitions=tuple(sorted(logs)),
            is_prepared=transaction.is_prepared and transaction.state is TransactionState.ONGOING,
            updated_at=transaction.updated_at,
        )


def _age(transaction: Transaction) -> tuple[int, int]:
    return transaction.began_at, transaction.producer


def _ended(producer: Producer) -> TransactionDescription:
    """The last transaction of a producer: where it wrote is no longer known."""
    assert producer.outcome is not None
    return TransactionDescription(
        transaction_id=str(producer.last_key),
        transactional_id=producer.transactional_id or "",
        producer_id=producer.id,
        epoch=producer.epoch,
        state=ended_state(producer.outcome),
        started_at=Timestamp(producer.began_at),
        timeout_ns=producer.timeout_ns,
        partitions=(),
        updated_at=Timestamp(producer.began_at),
    )
