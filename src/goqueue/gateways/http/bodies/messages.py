"""Bodies of the publish and read routes: a message going in, its result, a message coming out."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.scalars import (
    INT32_MAX,
    INT64_MAX,
    OffsetNumber,
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
        description="a name in any case, or 0 to 4",
        examples=["normal"],
    ),
]
EncodingIn = Annotated[str, Meta(extra_json_schema={"enum": ["base64"]})]
DelayIn = Annotated[
    str | float,
    Meta(description="Go syntax, or a number of seconds; 0 is at once", examples=["30s"]),
]
TimeIn = Annotated[
    str,
    Meta(
        description="RFC 3339 instead of `delay`; a time that has passed is at once",
        examples=["2025-01-31T12:00:00Z"],
    ),
]
OtherTimeIn = Annotated[str, Meta(description="the same as `deliverAt`, which is not given then")]


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
    """A message to publish. What is wrong in it is the error of this message alone.

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


class PublishOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one message: where it went, or only `error` and `code`.

    Only a delayed one has `delayed` and `deliverAt`: until then it waits, under this place.
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
    """Messages in offset order, and where to go on."""

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


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll got; empty when nothing came in time."""

    messages: list[DeliveredMessage]


class RawPlaced(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the records of one partition went; without an offset they were not taken.

    A duplicate was taken before, and is told where it went then.
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
