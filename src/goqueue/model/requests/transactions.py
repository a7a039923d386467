"""Producers and transactions: commands and replies.

A producer has an id that is never assigned twice, and an epoch that rises each time its
transactional id is initialised; a producer with an older epoch is fenced. The broker numbers the
transactions of each producer. So there are three ids: the *transactional id* that the program
chose, the *producer id* of this incarnation, and the *transaction id* of one transaction.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.model.ids import SECOND, LogId, Offset, Timestamp

__all__ = [
    "AddOffsets",
    "AddPartition",
    "BeginTransaction",
    "CommitGroup",
    "DescribeTransaction",
    "DescribeTransactions",
    "EndTransaction",
    "GroupCommitted",
    "HeartbeatProducer",
    "InitProducer",
    "Isolation",
    "ListTransactions",
    "Owner",
    "PrepareTransaction",
    "ProducerGranted",
    "ProducerStamp",
    "TransactionBegan",
    "TransactionDescription",
    "TransactionEnded",
    "TransactionList",
    "TransactionPrepared",
    "TransactionState",
    "TransactionStatistics",
]


class Isolation(enum.StrEnum):
    """What a reader sees of transactions.

    READ_COMMITTED: nothing of open or aborted ones, and nothing after the first open one.
    """

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class ProducerStamp(msgspec.Struct, frozen=True, kw_only=True):
    """Who publishes a batch: retries are recognised, and fenced producers refused.

    `sequence` is the number of the first message of the batch among all that this producer and
    epoch sent to the partition; without it nothing is deduplicated. Messages of a producer with an
    open transaction belong to it.
    """

    producer_id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    epoch: Annotated[int, Meta(ge=0, le=32_767)]
    sequence: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Names the open transaction of a producer."""

    producer_id: int
    epoch: int
    transactional_id: str


# Commands


class InitProducer(msgspec.Struct, frozen=True, kw_only=True):
    """Get a producer id and epoch; answered by `ProducerGranted`.

    With a transactional id the earlier holder is fenced, and its open transaction is ended first.
    """

    transactional_id: str | None = None
    timeout_ns: int = 60 * SECOND


class HeartbeatProducer(msgspec.Struct, frozen=True, kw_only=True):
    """Keep a producer and its open transaction alive; answered by `Done`."""

    producer_id: int
    epoch: int


class BeginTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TransactionBegan`."""

    owner: Owner


class AddPartition(msgspec.Struct, frozen=True, kw_only=True):
    """Add a partition to the transaction; publishing to it does the same. Answered by `Done`."""

    owner: Owner
    log: LogId


class AddOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Commit a group's offsets and acks with the transaction; answered by `Done`.

    `offsets` are committed and `receipts` acknowledged when it commits, all or none of them.
    """

    owner: Owner
    group: str
    offsets: dict[LogId, Offset] = {}
    receipts: tuple[str, ...] = ()
    member_id: str | None = None
    generation: int | None = None


class PrepareTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """Close the transaction and wait for `CommitGroup`; answered by `TransactionPrepared`."""

    owner: Owner


class CommitGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Commit prepared transactions by one decision under a key; answered by `GroupCommitted`."""

    key: str
    transaction_ids: tuple[str, ...]


class EndTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """Commit or abort; answered by `TransactionEnded`.

    With a transaction id only that transaction is ended, whatever the producer began since.
    """

    owner: Owner
    is_commit: bool
    transaction_id: str | None = None


class ListTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """A page of those that have not ended; answered by `TransactionList`."""

    limit: int = 1000
    skip: int = 0


class DescribeTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """One that is open, or the last of a producer; answered by `TransactionDescription`."""

    transaction_id: str


class DescribeTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TransactionStatistics`."""


# Replies


class ProducerGranted(msgspec.Struct, frozen=True, kw_only=True):
    """The id and epoch of a producer."""

    producer_id: int
    epoch: int


class TransactionBegan(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction is open."""

    transaction_id: str


class TransactionPrepared(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction waits for its decision, also across restarts."""

    transaction_id: str


class TransactionEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a transaction; every reader sees it from now on."""

    is_commit: bool


class GroupCommitted(msgspec.Struct, frozen=True, kw_only=True):
    """All were committed; with `is_repeat` the key was used before, and these were aborted."""

    is_repeat: bool


class TransactionState(enum.StrEnum):
    """The state of a transaction; from PREPARING on its decision is durable."""

    ONGOING = "ongoing"
    PREPARING_COMMIT = "preparing_commit"
    PREPARING_ABORT = "preparing_abort"
    COMPLETED_COMMIT = "completed_commit"
    COMPLETED_ABORT = "completed_abort"


class TransactionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction. `is_prepared` tells that it waits for the decision of a group.

    It was last written to, prepared or decided at `updated_at`; a restart forgets that.
    """

    transaction_id: str
    transactional_id: str
    producer_id: int
    epoch: int
    state: TransactionState
    started_at: Timestamp
    timeout_ns: int
    partitions: tuple[LogId, ...]
    is_prepared: bool = False
    updated_at: Timestamp = Timestamp(0)


class TransactionList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the transactions that have not ended, the oldest first; `total` is of all."""

    transactions: tuple[TransactionDescription, ...]
    total: int = 0


class TransactionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the process started, and what is open now."""

    active: int
    committed: int
    aborted: int
    average_duration_ns: int
    active_producers: int
