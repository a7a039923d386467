"""Refusals: why a command was not carried out, with the facts a caller needs.

A refusal is raised before any change. Faults of the world are events, bugs are assertions.
"""

import enum
from typing import TypedDict, Unpack

__all__ = ["Code", "Facts", "Refused"]


class Code(enum.StrEnum):
    """Why a command was refused. The wire value never changes once released."""

    REQUEST_INVALID = "request_invalid"
    NAME_INVALID = "name_invalid"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission_denied"
    ROUTE_NOT_FOUND = "route_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_TOO_LARGE = "body_too_large"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    STORAGE_FULL = "storage_full"
    STORAGE_FAILED = "storage_failed"
    RECORDS_DAMAGED = "records_damaged"
    REQUEST_TIMEOUT = "request_timeout"
    INTERNAL_ERROR = "internal_error"
    TOPIC_NOT_FOUND = "topic_not_found"
    TOPIC_EXISTS = "topic_exists"
    PARTITION_NOT_FOUND = "partition_not_found"
    PARTITION_INVALID = "partition_invalid"
    OFFSET_OUT_OF_RANGE = "offset_out_of_range"
    LOG_BUSY = "topic_busy"
    TOPIC_INTERNAL = "topic_internal"
    GROUP_NOT_FOUND = "group_not_found"
    MEMBER_NOT_FOUND = "member_not_found"
    GENERATION_STALE = "generation_stale"
    SESSION_EXPIRED = "session_expired"
    PARTITION_NOT_ASSIGNED = "partition_not_assigned"
    REBALANCE_IN_PROGRESS = "rebalance_in_progress"
    GROUP_MISMATCH = "group_mismatch"
    MESSAGE_TOO_LARGE = "message_too_large"
    MESSAGE_INVALID = "message_invalid"
    RECEIPT_INVALID = "receipt_invalid"
    RECEIPT_STALE = "receipt_stale"
    MESSAGE_NOT_FOUND = "message_not_found"
    ALREADY_DELIVERED = "already_delivered"
    DELAY_TOO_LONG = "delay_too_long"
    DEAD_LETTER_LOOP = "dead_letter_loop"
    TRANSACTION_NOT_FOUND = "transaction_not_found"
    TRANSACTION_TIMEOUT = "transaction_timeout"
    PRODUCER_FENCED = "producer_fenced"
    TRANSACTION_STATE_INVALID = "transaction_state_invalid"
    PRODUCER_NOT_FOUND = "producer_not_found"
    SEQUENCE_OUT_OF_ORDER = "sequence_out_of_order"
    BROKER_UNAVAILABLE = "broker_unavailable"
    NOT_LEADER = "not_leader"
    LEADER_UNAVAILABLE = "leader_unavailable"
    NOT_ENOUGH_REPLICAS = "not_enough_replicas"
    NOT_CONTROLLER = "not_controller"
    EPOCH_STALE = "epoch_stale"
    REPLICATION_FAILED = "replication_failed"
    REASSIGNMENT_NOT_FOUND = "reassignment_not_found"
    NODE_NOT_FOUND = "node_not_found"
    NODE_ALIVE = "node_alive"
    SUBJECT_NOT_FOUND = "subject_not_found"
    VERSION_NOT_FOUND = "version_not_found"
    SCHEMA_NOT_FOUND = "schema_not_found"
    SCHEMA_INVALID = "schema_invalid"
    SCHEMA_INCOMPATIBLE = "schema_incompatible"
    COMPATIBILITY_INVALID = "compatibility_invalid"
    SCHEMA_VIOLATION = "schema_violation"
    SCHEMA_REFERENCED = "schema_referenced"
    TENANT_NOT_FOUND = "tenant_not_found"
    TENANT_EXISTS = "tenant_exists"
    TENANT_INACTIVE = "tenant_inactive"
    TENANT_NOT_EMPTY = "tenant_not_empty"
    KEY_NOT_FOUND = "key_not_found"
    ACL_NOT_FOUND = "acl_not_found"
    CERTIFICATE_IN_USE = "certificate_in_use"
    TRACE_NOT_FOUND = "trace_not_found"
    NO_REPLY = "no_reply"
    SCHEDULE_NOT_FOUND = "schedule_not_found"
    SCHEDULE_EXISTS = "schedule_exists"
    BACKUP_NOT_FOUND = "backup_not_found"
    BACKUP_BUSY = "backup_busy"

    @property
    def is_retriable(self) -> bool:
        """Whether the same command, unchanged, may succeed later."""
        return self in _RETRIABLE


_RETRIABLE = frozenset(
    {
        Code.RATE_LIMITED,
        Code.STORAGE_FULL,
        Code.REQUEST_TIMEOUT,
        Code.LOG_BUSY,
        Code.REBALANCE_IN_PROGRESS,
        Code.BROKER_UNAVAILABLE,
        Code.NOT_LEADER,
        Code.LEADER_UNAVAILABLE,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_CONTROLLER,
        Code.REPLICATION_FAILED,
        Code.BACKUP_BUSY,
    }
)


class Facts(TypedDict, total=False):
    """What a refusal may say beside its code; which of them callers see is the gateway's to say."""

    # Which part of a request: `field` is its name in the API, `part` that of a record, `index` the
    # place of the record in its batch.
    field: str
    part: str
    index: int
    position: int
    # What was wrong with it, in words or by its bounds.
    reason: str
    found: int | str
    expected: int
    minimum: int | str
    maximum: int | str
    size: int
    # What it was about.
    topic: str
    partition: int
    partitions: int
    dead_letter_topic: str
    offset: int
    first: int
    earliest: int
    end: int
    next_offset: int
    delivered_offset: int | None
    trace_id: str
    schedule: str
    backup: str
    # Groups.
    group: str
    member_id: str
    generation: int
    mode: str
    assignor: str
    protocol: str
    instance_id: str
    # Producers and transactions.
    producer_id: int
    epoch: int
    current: int
    latest: int
    sequence: int
    transaction_id: str
    transactional_id: str
    state: str
    open: int | None
    ended: int
    # Schemas. `path` is where in a schema or a value, `messages` what is not compatible.
    subject: str
    version: int
    schema_id: int
    path: str
    messages: tuple[str, ...]
    # Quotas.
    quota: str
    limit: int
    used: int
    retry_after_ms: int
    # Keys, ACLs and tenants.
    key: str
    acl: str
    tenant: str
    operation: str
    # Nodes of a cluster.
    node: str
    reassignment: str
    leader: str
    leader_address: str
    replicas: int
    controller_id: str
    controller_address: str


class Refused(Exception):
    """A command that was turned down: a stable code, then facts."""

    def __init__(self, code: Code, **facts: Unpack[Facts]) -> None:
        super().__init__(code, facts)
        self.code = code
        self.facts = facts

    def __str__(self) -> str:
        details = ", ".join(f"{name}={value}" for name, value in self.facts.items())
        return f"{self.code}: {details}" if details else str(self.code)
