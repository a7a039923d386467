"""What a refusal looks like over HTTP: a status, a sentence, and facts to rely on.

Owns the table from code to status; it is total, and a test holds it so. Never decides that
something is refused. Facts that the contract does not name stay inside.
"""

import msgspec

from goqueue.model import Code, Refused

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
    """How a code is told: its status, what is wrong, what to do, and which facts are details."""

    status: int
    what: str
    advice: str = ""
    details: tuple[str, ...] = ()


ERRORS: dict[Code, ErrorSpec] = {
    Code.REQUEST_INVALID: ErrorSpec(
        status=400,
        what="The request cannot be understood",
        details=("field", "minimum", "maximum", "position", "reason"),
    ),
    Code.NAME_INVALID: ErrorSpec(
        status=400,
        what="This cannot be a name",
        advice="It has 1 to 249 characters out of A-Z a-z 0-9 . _ - and is neither `.` nor `..`",
        details=("field",),
    ),
    Code.PERMISSION_DENIED: ErrorSpec(status=403, what="The caller may not do this"),
    Code.ROUTE_NOT_FOUND: ErrorSpec(
        status=404, what="There is no such route", advice="GET /docs lists all of them"
    ),
    Code.METHOD_NOT_ALLOWED: ErrorSpec(
        status=405,
        what="The route exists but does not take this method",
        advice="The Allow header names those that it takes",
    ),
    Code.BODY_TOO_LARGE: ErrorSpec(
        status=413,
        what="The body is larger than this route takes",
        advice="Send fewer messages at once",
        details=("limit",),
    ),
    Code.QUOTA_EXCEEDED: ErrorSpec(
        status=403,
        what="A quota is used up",
        advice="Delete something, or have the quota raised",
        details=("quota", "limit", "used"),
    ),
    Code.STORAGE_FULL: ErrorSpec(
        status=507,
        what="The disk is full and nothing was written",
        advice="Free space and repeat the request; reads and acknowledgements go on",
    ),
    Code.STORAGE_FAILED: ErrorSpec(
        status=500,
        what="The disk failed to store data, and the partition takes no more writes",
        advice="Have the disk looked at and restart the node; its log has the cause",
    ),
    Code.RECORDS_DAMAGED: ErrorSpec(
        status=500,
        what="The records at this offset are damaged on disk",
        advice="Continue at `next_offset`; `goqueue log verify` shows the damage",
        details=("next_offset",),
    ),
    Code.REQUEST_TIMEOUT: ErrorSpec(
        status=504,
        what="The request took too long, and whether a write took place is not known",
        advice="Look before repeating it",
    ),
    Code.INTERNAL_ERROR: ErrorSpec(
        status=500,
        what="The broker failed to answer",
        advice="Its log has the cause under the X-Request-ID of this response",
    ),
    Code.TOPIC_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such topic",
        advice="GET /topics lists them, POST /topics makes one",
    ),
    Code.TOPIC_EXISTS: ErrorSpec(status=409, what="A topic of this name exists already"),
    Code.PARTITION_NOT_FOUND: ErrorSpec(
        status=404,
        what="The topic has no such partition",
        advice="They are numbered from 0",
        details=("partitions",),
    ),
    Code.PARTITION_INVALID: ErrorSpec(
        status=400,
        what="This cannot be a partition",
        advice="A number is not negative, and a new count is above the present one",
    ),
    Code.OFFSET_OUT_OF_RANGE: ErrorSpec(
        status=400,
        what="The offset lies outside of what the partition holds",
        details=("earliest", "end"),
    ),
    Code.LOG_BUSY: ErrorSpec(
        status=409,
        what="Another change of this topic is under way",
        advice="Repeat the request in a moment",
    ),
    Code.TOPIC_INTERNAL: ErrorSpec(
        status=403,
        what="Names that begin with `__` belong to the broker",
        advice="Nobody creates, writes or deletes such a topic",
    ),
    Code.GROUP_NOT_FOUND: ErrorSpec(
        status=404, what="There is no such group", advice="Its first join or commit makes it"
    ),
    Code.MEMBER_NOT_FOUND: ErrorSpec(
        status=404,
        what="The member never joined, has left or was evicted",
        advice="Join again without `member_id`",
    ),
    Code.GENERATION_STALE: ErrorSpec(
        status=409,
        what="The group has moved on to another generation",
        advice="A heartbeat tells what to adopt",
        details=("generation",),
    ),
    Code.PARTITION_NOT_ASSIGNED: ErrorSpec(
        status=409,
        what="The partition belongs to another member of the group",
        advice="A heartbeat tells which partitions are yours",
    ),
    Code.GROUP_MISMATCH: ErrorSpec(
        status=409,
        what="The members of this group use another mode or protocol",
        advice="Join with theirs, or wait until all have left",
    ),
    Code.MESSAGE_TOO_LARGE: ErrorSpec(
        status=413, what="The message is larger than allowed", details=("limit", "size")
    ),
    Code.MESSAGE_INVALID: ErrorSpec(status=400, what="The message cannot be taken"),
    Code.RECEIPT_INVALID: ErrorSpec(
        status=400,
        what="This is no receipt handle that a poll gave out",
        advice="Send it back unchanged",
    ),
    Code.RECEIPT_STALE: ErrorSpec(
        status=410,
        what="The lease is over: it expired, was settled or was reset. Nothing was changed",
        advice="The message comes again with another handle unless it is settled",
    ),
    Code.MESSAGE_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such delayed message",
        advice="It is named by the partition and offset that its publish result gave",
    ),
    Code.ALREADY_DELIVERED: ErrorSpec(
        status=409,
        what="The message was delivered before it could be cancelled",
        details=("delivered_offset",),
    ),
    Code.DELAY_TOO_LONG: ErrorSpec(
        status=400, what="The delay is longer than the broker keeps messages back"
    ),
    Code.DEAD_LETTER_LOOP: ErrorSpec(
        status=409,
        what="A dead-letter topic has no dead-letter topic of its own",
        advice="Name another topic",
    ),
    Code.TRANSACTION_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such transaction",
        advice="GET /transactions lists those that have not ended",
        details=("transaction_id",),
    ),
    Code.TRANSACTION_TIMEOUT: ErrorSpec(
        status=409,
        what="The transaction took too long, or its producer was silent, and it was aborted",
        advice="Begin another and do its work again",
    ),
    Code.PRODUCER_FENCED: ErrorSpec(
        status=409,
        what="A newer producer has taken over: this epoch is over",
        advice="Stop, or POST /producers/init to take over in turn",
    ),
    Code.TRANSACTION_STATE_INVALID: ErrorSpec(
        status=409,
        what="The transaction is not in a state in which this can be done",
        advice="Begin one first, or end the one that is open",
        details=("state", "transaction_id"),
    ),
    Code.PRODUCER_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such producer",
        advice="POST /producers/init makes one; one that was idle for a day is forgotten",
    ),
    Code.SEQUENCE_OUT_OF_ORDER: ErrorSpec(
        status=409,
        what="The sequence leaves a gap, or repeats what is too old to be remembered",
        advice="`expected` is what comes next",
        details=("expected",),
    ),
    Code.BROKER_UNAVAILABLE: ErrorSpec(
        status=503,
        what="The broker is starting or stopping",
        advice="Repeat the request in a moment",
    ),
    Code.TRACE_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such trace",
        advice="Only the newest spans are kept; older ones are where the node exports them",
    ),
}


def describe(code: Code, facts: dict[str, Fact]) -> str:
    """Sentences for people: what was wrong with this very request, then what to do."""
    verdict = ERRORS[code]
    told = _told(facts)
    what = f"{verdict.what}: {told}." if told else f"{verdict.what}."
    return f"{what} {verdict.advice}." if verdict.advice else what


def error_body(refused: Refused) -> ErrorBody:
    """The body that tells a refusal, with those of its facts that the contract names."""
    verdict = ERRORS[refused.code]
    details = {name: refused.facts[name] for name in verdict.details if name in refused.facts}
    return ErrorBody(
        error=describe(refused.code, refused.facts),
        code=refused.code.value,
        status=verdict.status,
        details=details or None,
    )


def _told(facts: dict[str, Fact]) -> str:
    """The facts as a clause; a reason already says what the others would."""
    field, reason = facts.get("field"), facts.get("reason")
    if reason is not None:
        return f"`{field}` {reason}" if field is not None else str(reason)
    if "minimum" in facts and "maximum" in facts:
        return f"`{field}` must be from {facts['minimum']} to {facts['maximum']}"
    told = [] if field is None else [f"`{field}`"]
    told += [
        f"{name} {value}" for name, value in facts.items() if value is not None and name != "field"
    ]
    return ", ".join(told)
