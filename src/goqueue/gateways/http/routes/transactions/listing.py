"""Transactions for operators: which are open, how one stands, and what became of all of them."""

from goqueue.gateways.http.bodies import (
    TransactionOut,
    TransactionPartition,
    TransactionsOut,
    TransactionStats,
)
from goqueue.gateways.http.table import Call, ParameterLocation, Route, integer, name
from goqueue.model import MILLISECOND, Code, format_duration, format_time
from goqueue.model.requests import (
    DescribeTransaction,
    DescribeTransactions,
    ListTransactions,
    TransactionDescription,
    TransactionList,
    TransactionStatistics,
)

__all__ = ["LISTING_ROUTES"]

_SECTION = "Producers and transactions"
_LIMIT = integer(
    "limit", "how many transactions at most", default=100, minimum=1, maximum=1000, is_cut=True
)
_SKIP = integer("skip", "how many to pass over", default=0, minimum=0, maximum=1 << 53)
_TRANSACTION = name("transaction_id", "id of the transaction", location=ParameterLocation.PATH)


async def _list(call: Call) -> TransactionsOut:
    limit, skip = call[_LIMIT], call[_SKIP]
    found = await call.ask(ListTransactions(limit=limit, skip=skip), TransactionList)
    listed = [_transaction(each) for each in found.transactions]
    return TransactionsOut(
        transactions=listed, count=len(listed), total=found.total, limit=limit, skip=skip
    )


async def _describe(call: Call) -> TransactionOut:
    command = DescribeTransaction(transaction_id=call[_TRANSACTION])
    return _transaction(await call.ask(command, TransactionDescription))


async def _statistics(call: Call) -> TransactionStats:
    counts = await call.ask(DescribeTransactions(), TransactionStatistics)
    return TransactionStats(
        active_transactions=counts.active,
        committed_total=counts.committed,
        aborted_total=counts.aborted,
        avg_duration=format_duration(counts.average_duration_ns),
        active_producers=counts.active_producers,
    )


def _transaction(described: TransactionDescription) -> TransactionOut:
    return TransactionOut(
        transaction_id=described.transaction_id,
        transactional_id=described.transactional_id,
        producer_id=described.producer_id,
        epoch=described.epoch,
        state=described.state,
        started_at=format_time(described.started_at),
        timeout_ms=described.timeout_ns // MILLISECOND,
        partitions=[
            TransactionPartition(topic=log.topic, partition=log.partition)
            for log in described.partitions
        ],
        prepared=described.is_prepared,
    )


LISTING_ROUTES = (
    Route(
        method="GET",
        path="/transactions",
        section=_SECTION,
        summary="List the transactions that have not ended, the oldest first",
        run=_list,
        parameters=(_LIMIT, _SKIP),
        answer=TransactionsOut,
    ),
    Route(
        method="GET",
        path="/transactions/stats",
        section=_SECTION,
        summary="Counts of transactions and producers",
        run=_statistics,
        answer=TransactionStats,
    ),
    Route(
        method="GET",
        path="/transactions/{transaction_id}",
        section=_SECTION,
        summary="Tell how a transaction stands: one that is open, or the last of a producer",
        run=_describe,
        parameters=(_TRANSACTION,),
        answer=TransactionOut,
        errors=(Code.TRANSACTION_NOT_FOUND,),
    ),
)
