"""The effects of one turn, in the order in which they were decided.

`Later` is what may wait for a journal: effects, and steps that the node takes by itself once
something is committed.
"""

import msgspec

from goqueue.broker.journal_changes import TopicChange
from goqueue.model import (
    Answer,
    Instant,
    LogId,
    NodeEffect,
    Offset,
    Refused,
    RequestId,
    Serve,
    TransactionKey,
)
from goqueue.model.requests import Publish, Receive, Reply
from goqueue.transactions import Admission

__all__ = [
    "AuditDurable",
    "BeginReceive",
    "BeginServing",
    "CarryOver",
    "ContinueRestore",
    "CopiesAnnounced",
    "CreateLogs",
    "DeleteLogs",
    "DescribeAltered",
    "JournalReached",
    "Later",
    "MetadataCommitted",
    "Outbox",
    "Prune",
    "PublishAnnounced",
    "Rebalanced",
    "ServeCounted",
    "TenantEmptied",
    "WriteMarkers",
]


class AuditDurable(msgspec.Struct, frozen=True):
    """A journal has the audit record of this number: the audit log may have it."""

    number: int


class BeginReceive(msgspec.Struct, frozen=True):
    """A group, named by its number, is durable: receive for it, and wait until a deadline."""

    request: RequestId
    command: Receive
    group: int
    deadline: Instant


class BeginServing(msgspec.Struct, frozen=True):
    """The start of this life is committed."""


class CarryOver(msgspec.Struct, frozen=True):
    """That a topic may hold copies which do not count is committed: bring messages there."""

    topic: int


class ContinueRestore(msgspec.Struct, frozen=True):
    """What a restore has stated so far is committed: take its next step."""

    restore: int


class CopiesAnnounced(msgspec.Struct, frozen=True):
    """That a move has begun is committed: append its copies where others may lead."""

    move: int


class CreateLogs(msgspec.Struct, frozen=True):
    """That a topic exists is committed: create its logs. `topic` is its number."""

    topic: int


class DeleteLogs(msgspec.Struct, frozen=True):
    """That a topic is gone is committed: delete its logs. Its name stays taken until then."""

    topic: str
    partitions: int


class DescribeAltered(msgspec.Struct, frozen=True):
    """Other settings of a topic are committed: answer with its description."""

    request: RequestId
    topic: int


class JournalReached(msgspec.Struct, frozen=True):
    """One of several journals has committed what something waits for: see `Journals.hold`."""

    wait: int


class MetadataCommitted(msgspec.Struct, frozen=True):
    """Changes of the metadata image are committed: see `MetadataStore`."""

    changes: tuple[TopicChange, ...]


class Prune(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in a journal was stated again: drop what is below."""

    journal: LogId
    offset: Offset


class PublishAnnounced(msgspec.Struct, frozen=True):
    """That the topic has delayed messages, or producers, is committed: publish the first of it.

    `topic` is its number: another of the same name may be there by then.
    """

    request: RequestId
    command: Publish
    admission: Admission | None
    topic: int
    has_delays: bool
    has_producers: bool


class Rebalanced(msgspec.Struct, frozen=True):
    """Another assignment of a group is committed; it was decided at `began`."""

    group: str
    began: Instant


class ServeCounted(msgspec.Struct, frozen=True):
    """The deliveries of a poll are counted, so its messages may be handed out.

    `topics` are the numbers of the topics of its partitions: others of the same names may exist
    by then.
    """

    serve: Serve
    topics: tuple[int, ...]


class TenantEmptied(msgspec.Struct, frozen=True):
    """That nothing is known of the producers of a deleted tenant is committed: it may leave."""

    tenant: str


class WriteMarkers(msgspec.Struct, frozen=True):
    """What becomes of a transaction is committed: tell every partition."""

    transaction: TransactionKey


Later = (
    NodeEffect
    | AuditDurable
    | BeginReceive
    | BeginServing
    | CarryOver
    | ContinueRestore
    | CopiesAnnounced
    | CreateLogs
    | DeleteLogs
    | DescribeAltered
    | JournalReached
    | MetadataCommitted
    | Prune
    | PublishAnnounced
    | Rebalanced
    | ServeCounted
    | TenantEmptied
    | WriteMarkers
)


class Outbox:
    """Gathers effects until the turn ends."""

    def __init__(self) -> None:
        self._effects: list[NodeEffect] = []
        self.append = self._effects.append
        self.extend = self._effects.extend

    def answer(self, request: RequestId, reply: Reply | Refused) -> None:
        self.append(Answer(request=request, reply=reply))

    def drain(self) -> list[NodeEffect]:
        """Everything gathered so far; the outbox is empty then."""
        taken = self._effects.copy()
        self._effects.clear()
        return taken
