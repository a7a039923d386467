"""Bodies of a transaction's life: begun, prepared, and ended alone or with others.

`producer_id`, `epoch` and `transactional_id` together say whose transaction is meant: a producer
has one at a time.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.scalars import Name
from goqueue.gateways.http.bodies.transactions.scalars import Epoch, ProducerId, TransactionId

__all__ = ["BegunOut", "CommitGroupBody", "EndBody", "OwnerBody", "PreparedOut", "StatusOut"]

Status = Literal["added", "prepared", "committed", "already_committed", "aborted"]


class OwnerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose transaction is meant."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Name


class EndBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose transaction ends; with its id only that one, whatever was begun since."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Name
    transaction_id: TransactionId | None = None


class BegunOut(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction is open."""

    transaction_id: TransactionId


class PreparedOut(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction waits for a decision, over restarts, too."""

    status: Status
    transaction_id: TransactionId


class CommitGroupBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prepared transactions that commit together or not at all; each key decides once."""

    key: Annotated[str, Meta(min_length=1, max_length=249, examples=["sink-1/42"])]
    transaction_ids: Annotated[list[TransactionId], Meta(min_length=1, max_length=1000)]


class StatusOut(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    status: Status
