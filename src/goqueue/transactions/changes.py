"""What the journal holds of producers and transactions. Past tense, no clock.

The shapes are stored: fields are only ever added, at the end, with a default. Topics and groups are
named by numbers that are never used twice.
"""

import msgspec

from goqueue.model import TransactionKey

__all__ = [
    "Begun",
    "Decided",
    "Ended",
    "KeyKept",
    "ParticipantsAdded",
    "Prepared",
    "ProducerStated",
    "ProgressAdded",
    "TenantForgotten",
    "TransactionChange",
]


class ProducerStated(msgspec.Struct, frozen=True, kw_only=True, tag="producer", omit_defaults=True):
    """A producer in full, after it was initialised; `last` is its newest transaction so far.

    `outcome` says how that one ended: see `Decided`; empty if there was none or it is open. It was
    begun with `ended_epoch`.
    """

    producer: int
    epoch: int
    transactional_id: str | None = None
    timeout_ns: int = 0
    last: int = 0
    outcome: str = ""
    began_at: int = 0
    ended_epoch: int = 0
    # When it was last heard of, in wall time, as far as the journal knows.
    heard_at: int = 0
    # Transactional ids are separate by tenant.
    tenant: str = "default"


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """A transaction is open."""

    producer: int
    number: int
    at: int

    @property
    def key(self) -> TransactionKey:
        return TransactionKey(self.producer, self.number)


class ParticipantsAdded(msgspec.Struct, frozen=True, kw_only=True, tag="participants"):
    """A transaction may write to these partitions, named by topic and number.

    Stated in a cluster only, before anything is written: on a single node the logs say it.
    """

    producer: int
    number: int
    partitions: list[tuple[int, int]]

    @property
    def key(self) -> TransactionKey:
        return TransactionKey(self.producer, self.number)


class ProgressAdded(msgspec.Struct, frozen=True, kw_only=True, tag="progress", omit_defaults=True):
    """What a group has done with messages takes effect with the transaction, or not at all.

    All below `floor`, and these ranges of offsets, are settled when it commits.
    """

    producer: int
    number: int
    group: int
    topic: int
    partition: int
    floor: int = 0
    offsets: list[tuple[int, int]] = []

    @property
    def key(self) -> TransactionKey:
        return TransactionKey(self.producer, self.number)


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared"):
    """A transaction takes no more and waits for the decision of a group, until a wall time."""

    producer: int
    number: int
    until: int

    @property
    def key(self) -> TransactionKey:
        return TransactionKey(self.producer, self.number)


class Decided(msgspec.Struct, frozen=True, kw_only=True, tag="decided", omit_defaults=True):
    """What becomes of a transaction: from now on nothing else can.

    `outcome` is `committed`, or why it was aborted. `epoch` goes into the markers, which the
    partitions get that are named by topic and number.
    """

    producer: int
    number: int
    epoch: int
    outcome: str
    partitions: list[tuple[int, int]]
    began_at: int = 0

    @property
    def key(self) -> TransactionKey:
        return TransactionKey(self.producer, self.number)


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """Every marker of a transaction is durable."""

    producer: int
    number: int

    @property
    def key(self) -> TransactionKey:
        return TransactionKey(self.producer, self.number)


class KeyKept(msgspec.Struct, frozen=True, kw_only=True, tag="key", omit_defaults=True):
    """A group of transactions was committed under this key, by this tenant."""

    key: str
    at: int
    tenant: str = "default"


class TenantForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="tenant-forgotten"):
    """A tenant was deleted: its producers and keys are gone, whoever gets its id next."""

    tenant: str


TransactionChange = (
    ProducerStated
    | Begun
    | ParticipantsAdded
    | ProgressAdded
    | Prepared
    | Decided
    | Ended
    | KeyKept
    | TenantForgotten
)
