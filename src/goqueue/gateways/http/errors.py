"""What a refusal looks like over HTTP: a status, a sentence, and facts to rely on.

Owns the table from code to status; it is total, and a test holds it so. Never decides that
something is refused. Facts that the contract does not name stay inside.
"""

from typing import cast

import msgspec

from goqueue.model import Code, Facts, Refused

__all__ = ["ERRORS", "ErrorBody", "ErrorSpec", "ItemError", "describe", "error_body"]

Fact = str | int | None


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every failure."""

    error: str
    code: str
    status: int
    details: dict[str, Fact] | None = None


class ItemError(msgspec.Struct, frozen=True, kw_only=True):
    """Why one item of a batch was not taken."""

    error: str
    code: str


class ErrorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How a code is told: its status, what is wrong, what to do, and which facts are details.

    `named` is what is wrong with the names of the request in it, for refusals that have them.
    """

    status: int
    what: str
    advice: str = ""
    details: tuple[str, ...] = ()
    named: str = ""


ERRORS: dict[Code, ErrorSpec] = {
    Code.REQUEST_INVALID: ErrorSpec(
        status=400,
        what="The request is not valid",
        details=("field", "minimum", "maximum", "position", "reason"),
    ),
    Code.NAME_INVALID: ErrorSpec(
        status=400,
        what="The name is not valid",
        advice="A name has 1 to 249 characters from A-Z a-z 0-9 . _ - and is neither `.` nor `..`",
        details=("field",),
    ),
    Code.PERMISSION_DENIED: ErrorSpec(status=403, what="The client is not allowed to do this"),
    Code.ROUTE_NOT_FOUND: ErrorSpec(
        status=404, what="There is no such route", advice="GET /docs lists all routes"
    ),
    Code.METHOD_NOT_ALLOWED: ErrorSpec(
        status=405,
        what="The route does not support this method",
        advice="The Allow header lists the methods that it supports",
    ),
    Code.BODY_TOO_LARGE: ErrorSpec(
        status=413,
        what="The body is larger than this route accepts",
        advice="Send fewer messages per request",
        details=("limit",),
    ),
    Code.QUOTA_EXCEEDED: ErrorSpec(
        status=403,
        what="A quota is exhausted",
        advice="Delete something, or raise the quota",
        details=("quota", "limit", "used"),
    ),
    Code.STORAGE_FULL: ErrorSpec(
        status=507,
        what="The disk is full and nothing was written",
        advice="Free space and retry; reads and acknowledgements continue",
    ),
    Code.STORAGE_FAILED: ErrorSpec(
        status=500,
        what="The disk failed to store data, and the partition accepts no more writes",
        advice="Check the disk and restart the node; its log has the cause",
    ),
    Code.RECORDS_DAMAGED: ErrorSpec(
        status=500,
        what="The records at this offset are damaged on disk",
        advice="Continue at `next_offset`; `goqueue log verify` shows the damage",
        details=("next_offset",),
    ),
    Code.REQUEST_TIMEOUT: ErrorSpec(
        status=504,
        what="The request timed out; it is not known whether a write took place",
        advice="Check the outcome before you retry",
    ),
    Code.NO_REPLY: ErrorSpec(
        status=504,
        what="The message was published, and nobody replied to it in time",
        advice="It may still be handled; a reply that comes now is dropped",
        details=("partition", "offset"),
    ),
    Code.INTERNAL_ERROR: ErrorSpec(
        status=500,
        what="The broker failed to answer",
        advice="Its log has the cause under the X-Request-ID of this response",
    ),
    Code.TOPIC_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such topic",
        advice="GET /topics lists all topics, POST /topics creates one",
        named='Topic "{topic}" does not exist',
        details=("topic",),
    ),
    Code.TOPIC_EXISTS: ErrorSpec(
        status=409,
        what="A topic with this name already exists",
        named='Topic "{topic}" already exists',
        details=("topic",),
    ),
    Code.PARTITION_NOT_FOUND: ErrorSpec(
        status=404,
        what="The topic has no such partition",
        advice="Partitions are numbered from 0",
        details=("partitions",),
    ),
    Code.PARTITION_INVALID: ErrorSpec(
        status=400,
        what="The partition is not valid",
        advice="A partition number is at least 0, and the number of partitions can only grow",
    ),
    Code.OFFSET_OUT_OF_RANGE: ErrorSpec(
        status=400,
        what="The offset is outside the partition's range",
        details=("earliest", "end"),
    ),
    Code.LOG_BUSY: ErrorSpec(
        status=409,
        what="Another change to this topic is in progress",
        advice="Retry in a moment",
    ),
    Code.TOPIC_INTERNAL: ErrorSpec(
        status=403,
        what="Names that begin with `__` belong to the broker",
        advice="Clients cannot create, write or delete such a topic",
    ),
    Code.GROUP_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such group",
        advice="The first join or commit creates a group",
        named='Group "{group}" does not exist',
        details=("group",),
    ),
    Code.MEMBER_NOT_FOUND: ErrorSpec(
        status=404,
        what="The member never joined, has left, or was removed",
        advice="Join again without `member_id`",
    ),
    Code.GENERATION_STALE: ErrorSpec(
        status=409,
        what="The group is in a newer generation",
        advice="A heartbeat returns the current generation and assignment",
        details=("generation",),
    ),
    Code.PARTITION_NOT_ASSIGNED: ErrorSpec(
        status=409,
        what="The partition belongs to another member of the group",
        advice="A heartbeat returns the partitions of this member",
    ),
    Code.GROUP_MISMATCH: ErrorSpec(
        status=409,
        what="The members of this group use another mode or protocol",
        advice="Join with the same mode and protocol, or wait until all members have left",
    ),
    Code.MESSAGE_TOO_LARGE: ErrorSpec(
        status=413, what="The message is larger than allowed", details=("limit", "size")
    ),
    Code.MESSAGE_INVALID: ErrorSpec(status=400, what="The message is not valid"),
    Code.RECEIPT_INVALID: ErrorSpec(
        status=400,
        what="This is not a receipt handle of a poll",
        advice="Send the handle exactly as the poll returned it",
    ),
    Code.RECEIPT_STALE: ErrorSpec(
        status=410,
        what="The lease has ended: it expired, was settled or was reset; nothing was changed",
        advice="Unless it is settled, the message is delivered again with a new handle",
    ),
    Code.MESSAGE_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such delayed message",
        advice="Use the partition and the offset of its publish result",
    ),
    Code.ALREADY_DELIVERED: ErrorSpec(
        status=409,
        what="The message was delivered before it could be cancelled",
        details=("delivered_offset",),
    ),
    Code.DELAY_TOO_LONG: ErrorSpec(status=400, what="The delay is longer than the broker allows"),
    Code.DEAD_LETTER_LOOP: ErrorSpec(
        status=409,
        what="A dead-letter topic cannot have a dead-letter topic of its own",
        advice="Choose another topic",
    ),
    Code.SCHEDULE_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such schedule",
        advice="GET /schedules lists all schedules, POST /schedules creates one",
    ),
    Code.SCHEDULE_EXISTS: ErrorSpec(
        status=409,
        what="A schedule with this name already exists",
        advice="PUT /schedules/{schedule} replaces it, PATCH changes it",
    ),
    Code.TRANSACTION_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such transaction",
        advice="GET /transactions lists the transactions that have not ended",
        details=("transaction_id",),
    ),
    Code.TRANSACTION_TIMEOUT: ErrorSpec(
        status=409,
        what="The transaction was aborted: it took too long, or its producer sent no heartbeat",
        advice="Begin a new transaction and repeat its work",
    ),
    Code.PRODUCER_FENCED: ErrorSpec(
        status=409,
        what="A newer producer with the same transactional id has taken over",
        advice="Stop this producer, or POST /producers/init to take over again",
    ),
    Code.TRANSACTION_STATE_INVALID: ErrorSpec(
        status=409,
        what="The state of the transaction does not allow this",
        advice="Begin a transaction first, or end the open one",
        details=("state", "transaction_id"),
    ),
    Code.PRODUCER_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such producer",
        advice="POST /producers/init creates one; a producer is forgotten after a day without use",
    ),
    Code.SEQUENCE_OUT_OF_ORDER: ErrorSpec(
        status=409,
        what="The sequence leaves a gap, or repeats a batch that is too old to be recognized",
        advice="`expected` is the next sequence",
        details=("expected",),
    ),
    Code.BROKER_UNAVAILABLE: ErrorSpec(
        status=503,
        what="The broker is starting or stopping",
        advice="Retry in a moment",
    ),
    Code.TRACE_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such trace",
        advice="The node keeps only the newest spans; exporters have the older ones",
    ),
}


def describe(code: Code, facts: Facts) -> str:
    """Sentences for people: what was wrong with this very request, then what to do."""
    verdict = ERRORS[code]
    told = _told(facts)
    what = f"{verdict.what}: {told}." if told else f"{verdict.what}."
    if verdict.named and len(facts) == 1 and f"{{{next(iter(facts))}}}" in verdict.named:
        what = f"{verdict.named.format(**facts)}."
    return f"{what} {verdict.advice}." if verdict.advice else what


def error_body(refused: Refused) -> ErrorBody:
    """The body that tells a refusal, with those of its facts that the contract names."""
    verdict = ERRORS[refused.code]
    facts = cast("dict[str, Fact]", refused.facts)
    details = {name: facts[name] for name in verdict.details if name in facts}
    return ErrorBody(
        error=describe(refused.code, refused.facts),
        code=refused.code.value,
        status=verdict.status,
        details=details or None,
    )


def _told(facts: Facts) -> str:
    """The facts as a clause; a reason already says what the others would."""
    field, reason = facts.get("field"), facts.get("reason")
    if reason is not None:
        return f"`{field}` {reason}" if field is not None else reason
    if "minimum" in facts and "maximum" in facts:
        return f"`{field}` must be from {facts['minimum']} to {facts['maximum']}"
    told = [] if field is None else [f"`{field}`"]
    told += [
        f"{name} {value}" for name, value in facts.items() if value is not None and name != "field"
    ]
    return ", ".join(told)
