"""What each kind of span is called: in files, and by OpenTelemetry's messaging conventions.

The names are read by others and never change once released.
"""

import enum

import msgspec

from goqueue.tracing import Kind

__all__ = ["WORDS", "Role", "Words"]


class Role(enum.StrEnum):
    """Whose part of a journey a span is."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    INTERNAL = "internal"


class Words(msgspec.Struct, frozen=True):
    """The words of one kind of span; `operation_type` is empty where the conventions have none.

    `failure` is what the conventions call `error.type`, empty where nothing has failed. A refusal
    brings the code of its own.
    """

    name: str
    role: Role = Role.INTERNAL
    operation: str = ""
    operation_type: str = ""
    failure: str = ""


WORDS: dict[Kind, Words] = {
    Kind.PUBLISH: Words("publish", Role.PRODUCER, "send", "send"),
    Kind.REFUSE: Words("refuse", Role.PRODUCER, "send", "send", "refused"),
    Kind.FETCH: Words("consume", Role.CONSUMER, "receive", "receive"),
    Kind.ACK: Words("ack", Role.INTERNAL, "ack", "settle"),
    Kind.NACK: Words("nack", Role.INTERNAL, "nack", "settle", "nacked"),
    Kind.REJECT: Words("reject", Role.INTERNAL, "reject", "settle", "rejected"),
    Kind.RELEASE: Words("release", Role.INTERNAL, "release", "settle"),
    Kind.EXTEND: Words("extend", operation="extend"),
    Kind.EXPIRE: Words("expire", operation="expire", failure="visibility_expired"),
    Kind.FIRE: Words("fire", operation="fire"),
    Kind.CANCEL: Words("cancel", operation="cancel"),
    Kind.LETTER: Words("dead_letter", operation="dead_letter", failure="dead_letter"),
    Kind.REDRIVE: Words("redrive", operation="redrive"),
    Kind.ABORT: Words("abort", operation="abort", failure="transaction_aborted"),
    Kind.REBALANCE: Words("rebalance", operation="rebalance"),
    Kind.REPLICATE: Words("replicate", operation="replicate"),
}
