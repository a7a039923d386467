"""Messages in JSON bodies: a message to publish, its result, a message that was read.

Also the bodies of producers. The messages of reads and polls
are written by `goqueue.records.json_messages` in the form of `ReadMessage` and `DeliveredMessage`.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import (
    INT32_MAX,
    INT64_MAX,
    Epoch,
    Name,
    OffsetNumber,
    PartitionNumber,
    ProducerId,
    SequenceNumber,
    TimeText,
)

__all__ = [
    "PRIORITY_NAMES",
    "DelayIn",
    "DelayedResult",
    "DeliveredMessage",
    "Delivery",
    "EncodingIn",
    "HeadersIn",
    "MessageBody",
    "MessageFields",
    "OtherTimeIn",
    "PriorityIn",
    "PriorityName",
    "ProducerBeatBody",
    "ProducerBeatOut",
    "ProducerBody",
    "ProducerFields",
    "ProducerOut",
    "ProducerPublishBody",
    "ProducerPublishOut",
    "PublishBody",
    "PublishOut",
    "PublishOutcome",
    "PublishResult",
    "RawPlaced",
    "RawPublishOut",
    "ReadMessage",
    "ReadOut",
    "Text",
    "TimeIn",
]

PriorityName = Literal["critical", "high", "normal", "low", "background"]
PRIORITY_NAMES: tuple[PriorityName, ...] = ("critical", "high", "normal", "low", "background")
Text = Annotated[str, Meta(description="text; base64 where `encoding` says so")]
# The rest of a message is checked message by message: here the schema only tells.
HeadersIn = Annotated[
    dict[str, str],
    Meta(
        description="names of at most 249 bytes, values of at most 4 KiB",
        extra_json_schema={"maxProperties": 64},
    ),
]
PriorityIn = Annotated[
    str | int,
    Meta(
        description="a name, in upper or lower case, or 0 to 4",
        examples=["normal"],
    ),
]
EncodingIn = Annotated[str, Meta(extra_json_schema={"enum": ["base64"]})]
DelayIn = Annotated[
    str | float,
    Meta(
        description="a duration such as `30s`, or a number of seconds; 0 is no delay",
        examples=["30s"],
    ),
]
TimeIn = Annotated[
    str,
    Meta(
        description="RFC 3339, instead of `delay`; a time in the past is no delay",
        examples=["2025-01-31T12:00:00Z"],
    ),
]
OtherTimeIn = Annotated[str, Meta(description="another name of `deliverAt`")]


class MessageFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a message is made of. `value` must be given: a tombstone is an explicit `null`."""

    value: Text | None
    key: Text | None = None
    partition: Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    headers: HeadersIn | None = None
    priority: PriorityIn | None = None
    encoding: EncodingIn | None = None
    delay: DelayIn | None = None
    deliverAt: TimeIn | None = None  # noqa: N815 - the name that the contract gave it


class MessageBody(MessageFields, frozen=True):
    """A message to publish. An error in it concerns this message alone.

    `value` must be given: a tombstone is an explicit `null`.
    """

    deliver_at: OtherTimeIn | None = None


class PublishBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages to append, in order."""

    messages: Annotated[list[MessageBody], Meta(min_length=1, max_length=10_000)]


class PublishResult(msgspec.Struct, frozen=True):
    """Where a message went."""

    partition: Annotated[int, Meta(ge=0, le=INT32_MAX)]
    offset: OffsetNumber
    timestamp: TimeText
    priority: PriorityName


class DelayedResult(msgspec.Struct, frozen=True):
    """Where a delayed message waits; its place names it until it is due."""

    partition: int
    offset: int
    timestamp: str
    priority: PriorityName
    delayed: bool
    deliverAt: str  # noqa: N815 - the name that the contract gave it


class AcceptedResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a message will be stored, if nothing goes wrong: the answer with `acks=none`."""

    partition: int
    timestamp: str
    priority: PriorityName
    delayed: bool = False
    deliverAt: str = ""  # noqa: N815 - as in `MessageBody`


class PublishOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one message: where it was stored, or only `error` and `code`.

    Only a delayed message has `delayed` and `deliverAt`; its offset identifies it until then. With
    `acks=none` there is no offset.
    """

    partition: Annotated[int, Meta(ge=0, le=INT32_MAX)] | msgspec.UnsetType = msgspec.UNSET
    offset: OffsetNumber | msgspec.UnsetType = msgspec.UNSET
    timestamp: TimeText | msgspec.UnsetType = msgspec.UNSET
    priority: PriorityName | msgspec.UnsetType = msgspec.UNSET
    delayed: bool | msgspec.UnsetType = msgspec.UNSET
    deliverAt: TimeText | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - as in `MessageBody`
    error: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET


class PublishOut(msgspec.Struct, frozen=True, kw_only=True):
    """One result per message, in request order."""

    results: list[PublishOutcome]


class ReadMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message as it was stored."""

    topic: str
    partition: int
    offset: OffsetNumber
    timestamp: TimeText
    value: Text | None
    priority: PriorityName
    key: Text | None = None
    headers: dict[str, str] | None = None
    encoding: Literal["base64"] | None = None
    base64_headers: list[str] | None = None
    trace_id: str | None = None


class ReadOut(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in offset order, and where the next read starts."""

    messages: list[ReadMessage]
    next_offset: OffsetNumber


class DeliveredMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that is leased to the member until `deadline`."""

    topic: str
    partition: int
    offset: OffsetNumber
    timestamp: TimeText
    value: Text | None
    priority: PriorityName
    receipt_handle: str
    delivery_count: int
    deadline: TimeText
    key: Text | None = None
    headers: dict[str, str] | None = None
    encoding: Literal["base64"] | None = None
    base64_headers: list[str] | None = None
    trace_id: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Messages of a poll; empty if none arrived in time.

    Empty, too, if the member of a cooperative group has to send a heartbeat first.
    """

    messages: list[DeliveredMessage]
    rebalance_required: bool | None = None


class RawPlaced(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the records of one partition were stored; with `error` and `code` they were refused.

    With `acks=none` nothing has an offset. A duplicate was stored before; the offset is that of
    the first time.
    """

    partition: int
    count: int
    base_offset: OffsetNumber | None = None
    error: str | None = None
    code: str | None = None
    duplicate: bool = False


class RawPublishOut(msgspec.Struct, frozen=True, kw_only=True):
    """One entry per partition."""

    results: list[RawPlaced]
    timestamp: TimeText


class ProducerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Create a producer; without a transactional id it is idempotent, but has no transactions."""

    transactional_id: Name | None = None
    transaction_timeout_ms: (
        Annotated[int, Meta(ge=1000, le=900_000, extra_json_schema={"default": 60_000})] | None
    ) = None


class ProducerOut(msgspec.Struct, frozen=True, kw_only=True):
    """The producer; the previous one with the same transactional id is fenced."""

    producer_id: ProducerId
    epoch: Epoch


class ProducerBeatBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A heartbeat of a producer."""

    epoch: Epoch


class ProducerBeatOut(msgspec.Struct, frozen=True, kw_only=True):
    """The producer is known and not fenced."""

    success: bool


class ProducerFields(msgspec.Struct, frozen=True, kw_only=True):
    """Who publishes a message, and where. The message itself is read by itself."""

    producer_id: ProducerId
    epoch: Epoch
    topic: Name
    sequence: SequenceNumber | None = None


class ProducerPublishBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class ProducerPublishOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the message was stored; a duplicate was stored there before, and not again."""

    partition: Annotated[int, Meta(ge=0, le=INT32_MAX)]
    offset: OffsetNumber
    timestamp: TimeText
    duplicate: bool
    delayed: bool | msgspec.UnsetType = msgspec.UNSET
    deliverAt: TimeText | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - as in the request
