"""One transaction, from its begin until every marker of it is durable, and leave to publish in it.

Owns what the journal says of the transaction, and for this life its deadlines and how many of its
publications are not committed.
"""

import enum
from collections.abc import Iterable

import msgspec

from goqueue.model import Instant, Timestamp, TransactionKey
from goqueue.model.requests import TransactionState
from goqueue.transactions.changes import ProgressAdded

__all__ = ["Admission", "Outcome", "Transaction", "ended_state"]


class Outcome(enum.StrEnum):
    """How a transaction ended. The names are stored."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    TIMED_OUT = "timed_out"
    FENCED = "fenced"
    ORPHANED = "orphaned"

    @property
    def is_commit(self) -> bool:
        return self is Outcome.COMMITTED


class Transaction:
    """What is known of a transaction; changed by what the journal says, but for its deadlines."""

    __slots__ = (
        "_progress",
        "began_at",
        "began_instant",
        "deadline",
        "epoch",
        "in_flight",
        "is_closing",
        "is_prepared",
        "key",
        "outcome",
        "participants",
        "partitions",
        "prepared_until",
        "updated_at",
    )

    def __init__(self, key: TransactionKey, epoch: int, began_at: int) -> None:
        self.key = key
        self.epoch = epoch
        self.began_at = Timestamp(began_at)
        self.outcome: Outcome | None = None
        self.is_prepared = False
        self.prepared_until = Timestamp(0)
        # Topic number and partition; which there are the logs know, too.
        self.partitions: dict[tuple[int, int], None] = {}
        # Those of them that the journal names: in a cluster all, on a single node none.
        self.participants: dict[tuple[int, int], None] = {}
        self._progress: dict[tuple[int, ...], ProgressAdded] = {}
        # For this life of the node only: when it last changed, publications on their way, and
        # whether it waits for them and takes no more.
        self.updated_at = self.began_at
        self.in_flight = 0
        self.is_closing = False
        self.deadline = Instant(0)
        self.began_instant = Instant(0)

    @property
    def producer(self) -> int:
        return self.key.producer

    @property
    def number(self) -> int:
        return self.key.number

    @property
    def id(self) -> str:
        """How callers know it."""
        return str(self.key)

    @property
    def state(self) -> TransactionState:
        if self.outcome is None:
            return TransactionState.ONGOING
        if self.outcome.is_commit:
            return TransactionState.PREPARING_COMMIT
        return TransactionState.PREPARING_ABORT

    @property
    def progress(self) -> list[ProgressAdded]:
        """What groups have done as part of it."""
        return list(self._progress.values())

    @property
    def progress_count(self) -> int:
        return len(self._progress)

    def add_progress(self, added: ProgressAdded) -> None:
        """Take progress in; the same said again changes nothing."""
        first = added.offsets[0] if added.offsets else ()
        key = (added.group, added.topic, added.partition, added.floor, *first)
        self._progress[key] = added

    def touches(self, topic: int, partition: int) -> None:
        """It has written, or will write, to a partition."""
        self.partitions[topic, partition] = None

    def add_participants(self, partitions: Iterable[tuple[int, int]]) -> None:
        """The journal names partitions that it may write to."""
        for topic, partition in partitions:
            self.participants[topic, partition] = None
            self.touches(topic, partition)


def ended_state(outcome: Outcome) -> TransactionState:
    """The state of a transaction whose markers are all written."""
    if outcome.is_commit:
        return TransactionState.COMPLETED_COMMIT
    return TransactionState.COMPLETED_ABORT


class Admission(msgspec.Struct, frozen=True):
    """A producer that may publish now."""

    producer: int
    epoch: int
    sequence: int | None
    transaction: Transaction | None

    @property
    def is_marked(self) -> bool:
        """Whether the batch must say in the log who wrote it."""
        return self.sequence is not None or self.transaction is not None
