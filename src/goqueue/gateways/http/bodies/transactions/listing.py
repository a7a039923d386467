"""Transactions as operators see them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.scalars import Count, DurationText, TimeText
from goqueue.gateways.http.bodies.transactions.scalars import Epoch, TransactionId
from goqueue.model.requests import TransactionState

__all__ = ["TransactionOut", "TransactionPartition", "TransactionStats", "TransactionsOut"]


class TransactionPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that a transaction has written to."""

    topic: str
    partition: int


class TransactionOut(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction; a prepared one waits for the decision of a group."""

    transaction_id: TransactionId
    # Empty, and the number 0, for what the broker moves by itself.
    transactional_id: str
    producer_id: Annotated[int, Meta(ge=0)]
    epoch: Epoch
    state: TransactionState
    started_at: TimeText
    timeout_ms: Count
    partitions: list[TransactionPartition]
    prepared: bool


class TransactionsOut(msgspec.Struct, frozen=True, kw_only=True):
    """A page of those that have not ended, the oldest first; `total` is of all."""

    transactions: list[TransactionOut]
    count: Count
    total: Count
    limit: Count
    skip: Count


class TransactionStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the node started, and what is open now."""

    active_transactions: Count
    committed_total: Count
    aborted_total: Count
    avg_duration: DurationText
    active_producers: Count
