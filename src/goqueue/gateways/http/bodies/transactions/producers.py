"""Bodies of producers: to become one, to stay one, and what one publishes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.messages import (
    DelayIn,
    EncodingIn,
    HeadersIn,
    OtherTimeIn,
    PriorityIn,
    Text,
    TimeIn,
)
from goqueue.gateways.http.bodies.scalars import (
    INT32_MAX,
    Name,
    OffsetNumber,
    PartitionNumber,
    TimeText,
)
from goqueue.gateways.http.bodies.transactions.scalars import Epoch, ProducerId, SequenceNumber

__all__ = [
    "AuthorBody",
    "AuthoredBody",
    "AuthoredOut",
    "ProducerBeatBody",
    "ProducerBeatOut",
    "ProducerBody",
    "ProducerOut",
]


class ProducerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Become a producer; without a transactional id one whose retries are known, and no more."""

    transactional_id: Name | None = None
    transaction_timeout_ms: (
        Annotated[int, Meta(ge=1000, le=900_000, extra_json_schema={"default": 60_000})] | None
    ) = None


class ProducerOut(msgspec.Struct, frozen=True, kw_only=True):
    """Who the producer is; whoever had the same transactional id before is fenced."""

    producer_id: ProducerId
    epoch: Epoch


class ProducerBeatBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Say that the producer is still there."""

    epoch: Epoch


class ProducerBeatOut(msgspec.Struct, frozen=True, kw_only=True):
    """The producer is known and not fenced."""

    success: bool


class AuthorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Who publishes a message, and where. The message itself is read by itself."""

    producer_id: ProducerId
    epoch: Epoch
    topic: Name
    sequence: SequenceNumber | None = None


class AuthoredBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message and who publishes it; with a `sequence` it needs a `partition`."""

    producer_id: ProducerId
    epoch: Epoch
    topic: Name
    value: Text | None
    sequence: SequenceNumber | None = None
    key: Text | None = None
    partition: PartitionNumber | None = None
    headers: HeadersIn | None = None
    priority: PriorityIn | None = None
    encoding: EncodingIn | None = None
    delay: DelayIn | None = None
    deliverAt: TimeIn | None = None  # noqa: N815 - the name that the contract gave it
    deliver_at: OtherTimeIn | None = None


class AuthoredOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the message went; a duplicate went there before and was not written again."""

    partition: Annotated[int, Meta(ge=0, le=INT32_MAX)]
    offset: OffsetNumber
    timestamp: TimeText
    duplicate: bool
    delayed: bool | msgspec.UnsetType = msgspec.UNSET
    deliverAt: TimeText | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - as in `AuthoredBody`
