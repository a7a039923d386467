"""What a poll answers, as messages."""

import base64
from collections.abc import Callable

import msgspec

from goqueue.client.consuming.queues.lease import Grant, HeldLease
from goqueue.client.errors import GoQueueError
from goqueue.client.message import Message
from goqueue.client.values import nanoseconds
from goqueue.model import Priority
from goqueue.records import encode_headers

__all__ = ["Polled", "read_messages"]


class _Delivered(msgspec.Struct, frozen=True):
    """One message of a poll, as the contract words it."""

    topic: str
    partition: int
    offset: int
    timestamp: str
    value: str | None
    receipt_handle: str
    delivery_count: int
    deadline: str
    key: str = ""
    priority: str = "normal"
    headers: dict[str, str] = {}
    encoding: str = ""
    base64_headers: list[str] = []
    trace_id: str = ""


class Polled(msgspec.Struct, frozen=True):
    """The body of an answer to a poll."""

    messages: list[_Delivered]


def read_messages(polled: Polled, grant_for: Callable[[str], Grant]) -> list[Message]:
    """The messages, each with its lease, which is granted by topic."""
    grants: dict[str, Grant] = {}
    for delivered in polled.messages:
        if delivered.topic not in grants:
            grants[delivered.topic] = grant_for(delivered.topic)
    try:
        return [_message(delivered, grants[delivered.topic]) for delivered in polled.messages]
    except (KeyError, ValueError) as error:
        words = f"a message of the answer cannot be read: {error}"
        raise GoQueueError("response_invalid", words) from error


def _message(delivered: _Delivered, grant: Grant) -> Message:
    is_base64 = delivered.encoding == "base64"
    lease = HeldLease(delivered.receipt_handle, delivered.delivery_count, delivered.deadline, grant)
    return Message(
        delivered.topic,
        delivered.partition,
        delivered.offset,
        nanoseconds(delivered.timestamp),
        int(Priority[delivered.priority.upper()]),
        _bytes(delivered.key, is_base64),
        None if delivered.value is None else _bytes(delivered.value, is_base64),
        _block(delivered),
        lease,
        delivered.trace_id or None,
    )


def _bytes(text: str, is_base64: bool) -> bytes:
    return base64.b64decode(text, validate=True) if is_base64 else text.encode()


def _block(delivered: _Delivered) -> bytes:
    if not delivered.headers:
        return b""
    encoded = delivered.base64_headers
    return encode_headers(
        (name, _bytes(value, name in encoded)) for name, value in delivered.headers.items()
    )
