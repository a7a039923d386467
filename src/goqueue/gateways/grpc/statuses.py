"""What a refusal looks like over gRPC: a status, and an `Error` with the same code as on HTTP.

Owns the table from code to status and number; it is total, and a test holds it so.
"""

import base64
import enum

from goqueue.gateways.errors import describe, error_body
from goqueue.gateways.grpc import protocol
from goqueue.model import MILLISECOND, SECOND, Code, Facts, Refused

__all__ = ["STATUSES", "Status", "error_number", "error_of", "trailers_of"]


class Status(enum.IntEnum):
    """Statuses of gRPC, as far as they are used."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# The codes of each status, those to come included.
_CODES: dict[Status, str] = {
    Status.INVALID_ARGUMENT: (
        "request_invalid name_invalid partition_invalid message_too_large message_invalid "
        "receipt_invalid delay_too_long schema_invalid compatibility_invalid "
        "schema_violation"
    ),
    Status.UNAUTHENTICATED: "unauthenticated",
    Status.PERMISSION_DENIED: "permission_denied topic_internal tenant_inactive",
    Status.UNIMPLEMENTED: "route_not_found method_not_allowed",
    Status.RESOURCE_EXHAUSTED: "body_too_large rate_limited quota_exceeded storage_full",
    Status.DEADLINE_EXCEEDED: "request_timeout no_reply",
    Status.INTERNAL: "internal_error storage_failed",
    Status.NOT_FOUND: (
        "topic_not_found partition_not_found group_not_found member_not_found "
        "message_not_found transaction_not_found producer_not_found "
        "reassignment_not_found subject_not_found version_not_found schema_not_found "
        "tenant_not_found key_not_found acl_not_found backup_not_found trace_not_found "
        "node_not_found schedule_not_found"
    ),
    Status.ALREADY_EXISTS: "topic_exists tenant_exists schedule_exists certificate_in_use",
    Status.OUT_OF_RANGE: "offset_out_of_range",
    Status.ABORTED: (
        "topic_busy rebalance_in_progress generation_stale session_expired "
        "transaction_timeout epoch_stale backup_busy"
    ),
    Status.FAILED_PRECONDITION: (
        "partition_not_assigned group_mismatch receipt_stale already_delivered "
        "dead_letter_loop producer_fenced transaction_state_invalid sequence_out_of_order "
        "schema_incompatible schema_referenced tenant_not_empty node_alive"
    ),
    Status.UNAVAILABLE: (
        "not_leader leader_unavailable broker_unavailable replication_failed "
        "not_enough_replicas not_controller"
    ),
    Status.DATA_LOSS: "records_damaged",
}
_BY_CODE = {code: status for status, codes in _CODES.items() for code in codes.split()}

STATUSES: dict[Code, Status] = {code: _BY_CODE[code.value] for code in Code}

_MESSAGE_BYTES_MAX = 1024
_UNESCAPED = frozenset(range(0x20, 0x7F)) - {ord("%")}


def error_number(code: Code) -> int:
    """The value of a code in the enum of the protocol."""
    number: int = getattr(protocol, f"ERROR_CODE_{code.value.upper()}")
    return number


_NUMBERS = {code: error_number(code) for code in Code}


def error_of(refused: Refused) -> protocol.Error:
    """The error that tells a refusal, with those of its facts that callers see."""
    details = error_body(refused).details or {}
    error = protocol.Error(
        code=_NUMBERS[refused.code],
        message=describe(refused.code, refused.facts),
        details={name: str(value) for name, value in details.items() if value is not None},
    )
    retry_ms = _retry_after_ms(refused.facts)
    if retry_ms:
        seconds, rest = divmod(retry_ms * MILLISECOND, SECOND)
        error.retry_after.CopyFrom(protocol.Duration(seconds=seconds, nanos=rest))
    return error


def _retry_after_ms(facts: Facts) -> int:
    return facts.get("retry_after_ms", 0)


def trailers_of(refused: Refused | None) -> list[tuple[bytes, bytes]]:
    """How a call ends: well, or with a refusal."""
    if refused is None:
        return [(b"grpc-status", b"0")]
    error = error_of(refused)
    encoded = base64.b64encode(error.SerializeToString()).rstrip(b"=")
    return [
        (b"grpc-status", b"%d" % STATUSES[refused.code]),
        (b"grpc-message", _escaped(error.message)),
        (b"goqueue-error-bin", encoded),
    ]


def _escaped(text: str) -> bytes:
    """A text for a header: what is not plain ASCII is percent-encoded."""
    encoded = text.encode()[:_MESSAGE_BYTES_MAX]
    return b"".join(bytes((byte,)) if byte in _UNESCAPED else b"%%%02X" % byte for byte in encoded)
