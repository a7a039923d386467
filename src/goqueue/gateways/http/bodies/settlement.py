"""Bodies of the routes that settle messages and deal with dead letters."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.scalars import (
    INT64_MAX,
    Count,
    Delay,
    Lease,
    Name,
    OffsetNumber,
    TimeText,
)

__all__ = [
    "LETTERS_MAX",
    "AckBatchBody",
    "AckBatchOut",
    "AckBody",
    "AckOut",
    "AckResult",
    "DeadLetterCauses",
    "ExtendBatchBody",
    "ExtendBatchOut",
    "ExtendBody",
    "ExtendOut",
    "ExtendResult",
    "Handle",
    "NackBody",
    "NackOut",
    "RedriveBody",
    "RedriveFilter",
    "RedriveOut",
    "RejectBody",
    "RejectOut",
    "ReleaseBody",
    "ReliabilityOut",
]

Handle = Annotated[
    str,
    Meta(
        max_length=1024,
        description="as a poll gave it out",
        examples=["orders:0:42:1:c2f1"],
    ),
]
Reason = Annotated[str, Meta(max_length=1024)]
LETTERS_MAX = 10_000


class AckBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settle one message."""

    receipt_handle: Handle


class AckOut(msgspec.Struct, frozen=True, kw_only=True):
    """The message will not come again to this group."""

    acknowledged: bool
    topic: str
    partition: int
    offset: OffsetNumber
    committed_offset: OffsetNumber
    offset_advanced: bool
    in_flight_count: Count


class AckBatchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settle many messages."""

    receipt_handles: Annotated[list[Handle], Meta(min_length=1, max_length=1000)]


class AckResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one handle."""

    receipt_handle: str
    success: bool
    error: str | None = None
    code: str | None = None


class AckBatchOut(msgspec.Struct, frozen=True, kw_only=True):
    """One result per handle, in order."""

    results: list[AckResult]


class ReleaseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Give leases back whose messages were not begun."""

    receipt_handles: Annotated[list[Handle], Meta(min_length=1, max_length=1000)]


class NackBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Give a message back; `delay` replaces the backoff."""

    receipt_handle: Handle
    delay: Delay | None = None
    reason: Reason | None = None


class NackOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message comes again at `next_visible_at`, or went to `dlq_topic`."""

    requeued: bool
    topic: str
    partition: int
    offset: OffsetNumber
    delivery_count: int
    next_visible_at: TimeText | None = None
    dlq_topic: str | None = None


class RejectBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send a message to the dead letters."""

    receipt_handle: Handle
    reason: Reason | None = None


class RejectOut(msgspec.Struct, frozen=True, kw_only=True):
    """The message is in `dlq_topic`."""

    rejected: bool
    topic: str
    partition: int
    offset: OffsetNumber
    dlq_topic: str


class ExtendBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep a message for this long from now."""

    receipt_handle: Handle
    timeout: Lease


class ExtendOut(msgspec.Struct, frozen=True, kw_only=True):
    """The lease is held until then."""

    extended: bool
    new_deadline: TimeText


class ExtendBatchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep many messages for this long from now."""

    receipt_handles: Annotated[list[Handle], Meta(min_length=1, max_length=1000)]
    timeout: Lease


class ExtendResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Until when one lease is held, or why it is not."""

    receipt_handle: str
    success: bool
    new_deadline: TimeText | None = None
    error: str | None = None
    code: str | None = None


class ExtendBatchOut(msgspec.Struct, frozen=True, kw_only=True):
    """One result per handle, in order."""

    results: list[ExtendResult]


PartitionKey = Annotated[str, Meta(extra_json_schema={"pattern": "^(0|[1-9][0-9]{0,3})$"})]
Offsets = Annotated[list[Annotated[int, Meta(ge=0, le=INT64_MAX)]], Meta(max_length=LETTERS_MAX)]


class RedriveFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters: those whose cause or reason equals this, and that are named.

    `letters` names offsets of the dead-letter topic by partition, at most 10,000 in all.
    """

    reason: Reason | None = None
    letters: Annotated[dict[PartitionKey, Offsets], Meta(max_length=10_000)] | None = None


class RedriveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Put dead letters back, oldest first."""

    max: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    to_topic: Name | None = None
    filter: RedriveFilter | None = None


class RedriveOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many were put back; repeat until it is 0."""

    moved: Count


class DeadLetterCauses(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters by why they died."""

    rejected: Count
    max_deliveries: Count


class ReliabilityOut(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the node started, and what is held now."""

    acks_total: Count
    nacks_total: Count
    rejects_total: Count
    releases_total: Count
    dlq_messages: Count
    visibility_extensions: Count
    redeliveries_total: Count
    lease_expirations_total: Count
    in_flight: Count
    dlq_by_cause: DeadLetterCauses
    dlq_by_topic: Annotated[
        dict[str, Count],
        Meta(description="dead letters kept and not redriven, by the topic with them"),
    ]
