"""What a refusal looks like: a sentence, facts to rely on, and its status over HTTP.

Owns the table from code to words and status; it is total, and a test holds it so. Never decides
that something is refused. Facts that callers are not told stay inside.
"""

from typing import cast

import msgspec

from goqueue.model import Code, Facts, Refused

__all__ = ["ERRORS", "ErrorBody", "ErrorSpec", "ItemError", "describe", "error_body"]

Fact = str | int | tuple[str, ...] | None


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every failure."""

    error: str
    code: str
    status: int
    details: dict[str, Fact] | None = None


class ItemError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why one item of a batch was not taken; `path` is where in a value that does not conform."""

    error: str
    code: str
    path: str | None = None
    reason: str | None = None


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
    Code.UNAUTHENTICATED: ErrorSpec(
        status=401,
        what="The request has no valid API key",
        advice="Send one in the header `Authorization: Bearer <key>` or `X-API-Key: <key>`",
    ),
    Code.PERMISSION_DENIED: ErrorSpec(status=403, what="The client is not allowed to do this"),
    Code.ROUTE_NOT_FOUND: ErrorSpec(
        status=404, what="There is no such route", advice="GET /docs lists all routes"
    ),
    Code.METHOD_NOT_ALLOWED: ErrorSpec(
        status=405,
        what="The route does not support this method",
    ),
    Code.BODY_TOO_LARGE: ErrorSpec(
        status=413,
        what="The body is larger than this route accepts",
        advice="Send fewer messages per request",
        details=("limit",),
    ),
    Code.RATE_LIMITED: ErrorSpec(
        status=429,
        what="The tenant sends or reads more than its quota allows",
        advice="Retry after the time that Retry-After names, or raise the quota",
        details=("quota", "retry_after_ms"),
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
        advice="Join again without `member_id`, unless `instance_id` is given: then another "
        "process took the place of this one",
        details=("instance_id",),
    ),
    Code.REBALANCE_IN_PROGRESS: ErrorSpec(
        status=409,
        what="The member has no partitions yet: others have to give them up first",
        advice="A heartbeat returns the assignment once there is one",
    ),
    Code.GENERATION_STALE: ErrorSpec(
        status=409,
        what="The group is in a newer generation",
        advice="A heartbeat returns the current generation and assignment",
        details=("generation",),
    ),
    Code.SESSION_EXPIRED: ErrorSpec(
        status=409,
        what="The member of this stream was removed from its group",
        advice="Subscribe again",
        details=("group",),
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
        details=("protocol",),
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
    Code.BACKUP_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such backup",
        advice="GET /admin/backup lists all backups",
    ),
    Code.BACKUP_BUSY: ErrorSpec(
        status=409,
        what="Another backup or restore is running",
        advice="Retry when it has ended; GET /admin/backup shows how far it is",
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
    Code.NOT_LEADER: ErrorSpec(
        status=503,
        what="This node does not lead the partition",
        advice="Retry at once: leadership moved while the request was on its way",
        details=("leader", "leader_address"),
    ),
    Code.LEADER_UNAVAILABLE: ErrorSpec(
        status=503,
        what="The partition has no leader at present, and nothing was done",
        advice="Retry in a moment; `goqueue topic describe` shows leaders and replicas",
        details=("partition",),
    ),
    Code.NOT_ENOUGH_REPLICAS: ErrorSpec(
        status=503,
        what="Fewer replicas are in sync than `min_insync_replicas`, and nothing was written",
        advice="Retry when more nodes are alive; `goqueue cluster nodes` shows which are not",
        details=("partition", "replicas", "expected"),
    ),
    Code.NOT_CONTROLLER: ErrorSpec(
        status=503,
        what="This node is not the controller of its cluster",
        advice="Ask the controller; GET /cluster/state tells which node that is",
        details=("controller_id", "controller_address"),
    ),
    Code.EPOCH_STALE: ErrorSpec(
        status=409,
        what="The epoch is older than one that this node has seen, and nothing was done",
        advice="Learn the epoch of the controller first: GET /cluster/state",
        details=("epoch",),
    ),
    Code.REPLICATION_FAILED: ErrorSpec(
        status=503,
        what="Written, and not confirmed by enough nodes in time: the outcome is unknown",
        advice="Look whether it took effect, then retry",
    ),
    Code.REASSIGNMENT_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such reassignment",
        named="There is no reassignment `{reassignment}`",
        advice="GET /admin/reassignment lists those that run and the last that ended",
    ),
    Code.NODE_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such node in the cluster",
        named="There is no node `{node}` in the cluster",
        advice="GET /cluster/state lists the nodes",
    ),
    Code.NODE_ALIVE: ErrorSpec(
        status=409,
        what="The node is alive",
        named="The node `{node}` is alive",
        advice="Stop it first, and wait until its status is `dead`",
    ),
    Code.TENANT_NOT_FOUND: ErrorSpec(
        status=404, what="There is no such tenant", named="There is no tenant `{tenant}`"
    ),
    Code.TENANT_EXISTS: ErrorSpec(
        status=409,
        what="The tenant exists already",
        named="The tenant `{tenant}` exists already",
    ),
    Code.TENANT_INACTIVE: ErrorSpec(
        status=403,
        what="The tenant is suspended or disabled",
        advice="An admin of the tenant `default` can activate it",
    ),
    Code.TENANT_NOT_EMPTY: ErrorSpec(
        status=409,
        what="There are topics or groups with the prefix of the tenant",
        advice="Give `adopt` to create it with them, or `force` to delete it with them",
    ),
    Code.KEY_NOT_FOUND: ErrorSpec(
        status=404, what="There is no such key", named="There is no key `{key}`"
    ),
    Code.ACL_NOT_FOUND: ErrorSpec(
        status=404, what="There is no such ACL", named="There is no ACL `{acl}`"
    ),
    Code.CERTIFICATE_IN_USE: ErrorSpec(
        status=409,
        what="The certificate proves another key already",
        advice="Revoke that key first, or give this one another certificate",
    ),
    Code.SUBJECT_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such subject",
        advice="GET /schemas/subjects lists all subjects",
        named='Subject "{subject}" does not exist',
        details=("subject",),
    ),
    Code.VERSION_NOT_FOUND: ErrorSpec(
        status=404,
        what="The subject has no such version",
        advice="GET /schemas/subjects/{subject}/versions lists its versions",
        details=("subject", "version"),
    ),
    Code.SCHEMA_NOT_FOUND: ErrorSpec(
        status=404,
        what="There is no such schema",
        advice="POST /schemas/subjects/{subject}/versions registers one",
    ),
    Code.SCHEMA_INVALID: ErrorSpec(
        status=422, what="The schema is not valid", details=("path", "reason")
    ),
    Code.SCHEMA_INCOMPATIBLE: ErrorSpec(
        status=409,
        what="The schema is not compatible with the registered versions",
        advice="`messages` lists what breaks, and with which version",
        details=("messages",),
    ),
    Code.COMPATIBILITY_INVALID: ErrorSpec(
        status=422,
        what="This is not a compatibility level",
        advice="Use NONE, BACKWARD, FORWARD, FULL, or one of the last three with _TRANSITIVE",
    ),
    Code.SCHEMA_VIOLATION: ErrorSpec(
        status=422,
        what="The value does not conform to the schema of the topic",
        details=("path", "reason"),
    ),
    Code.SCHEMA_REFERENCED: ErrorSpec(
        status=422,
        what="Another schema refers to this one",
        advice="Delete that one first",
        details=("subject", "version"),
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
    what = _sentence(f"{verdict.what}: {told}" if told else verdict.what)
    if verdict.named and len(facts) == 1 and f"{{{next(iter(facts))}}}" in verdict.named:
        what = f"{verdict.named.format(**facts)}."
    # What makes a name invalid for a reason of its own is not how names of topics are spelled.
    is_told = code is Code.NAME_INVALID and "reason" in facts
    return f"{what} {verdict.advice}." if verdict.advice and not is_told else what


def _sentence(words: str) -> str:
    return words if words.endswith("?") else f"{words}."


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
