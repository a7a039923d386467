"""A leased message for a thread: what `Message` is, settled without await."""

import datetime as dt
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, overload

from goqueue.client.message import Message, T
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.values import Delay, Headers, Value
from goqueue.model import Priority

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

__all__ = ["SyncMessage"]


class SyncMessage:
    """One message and its lease; see `Message`."""

    __slots__ = ("_loop", "_message")

    def __repr__(self) -> str:
        return f"Sync{self._message!r}"

    @property
    def message(self) -> Message:
        """The message as the loop knows it."""
        return self._message

    def ack(self, *, wait: bool = True) -> None:
        """Done: the group will not get this message again.

        Without `wait` it is on its way when this returns; closing the consumer waits for it.
        """
        if wait:
            self._loop.call(self._ack())
        else:
            self._loop.post(self._message.ack)

    async def _ack(self) -> None:
        await self._message.ack()

    # Generated from Message by `make sync-client`.

    def __init__(self, loop: LoopThread, message: Message) -> None:
        self._loop = loop
        self._message = message

    @property
    def topic(self) -> str:
        return self._message.topic

    @property
    def partition(self) -> int:
        return self._message.partition

    @property
    def offset(self) -> int:
        return self._message.offset

    @property
    def timestamp(self) -> int:
        return self._message.timestamp

    @property
    def priority(self) -> int:
        return self._message.priority

    @property
    def key(self) -> bytes:
        return self._message.key

    @property
    def value(self) -> bytes | None:
        return self._message.value

    @property
    def text(self) -> str:
        """The value as text; a tombstone is empty. `DecodeError` if it is not UTF-8."""
        return self._message.text

    @property
    def key_text(self) -> str | None:
        """The key as text; None if the message has none. `DecodeError` if it is not UTF-8."""
        return self._message.key_text

    @overload
    def json(self) -> object: ...

    @overload
    def json(self, type: type[T]) -> T: ...

    def json(self, type: type[T] | None = None) -> T | object:
        """The value as JSON, checked against `type` if one is given; a tombstone is None.

        `DecodeError` if it is not JSON, or not of the type.
        """
        json: Callable[..., T | object] = self._message.json
        return json(type)

    @property
    def payload(self) -> Any:
        """The value as the `serializer` of the consumer reads it; a tombstone is None.

        Decoded when it is first asked for, and kept. `DecodeError` if it cannot be read, which the
        message survives: it can still be acked or rejected.
        """
        return self._message.payload

    @property
    def headers(self) -> dict[str, bytes]:
        """Headers by name; the last of equal names."""
        return self._message.headers

    def header(self, name: str) -> str | None:
        """One header as text; None if there is no such header. `DecodeError` if it is not UTF-8."""
        return self._message.header(name)

    @property
    def time(self) -> dt.datetime:
        """The timestamp in UTC, to the microsecond."""
        return self._message.time

    @property
    def lane(self) -> Priority:
        """The priority by name."""
        return self._message.lane

    @property
    def traceparent(self) -> str:
        """The trace context as the W3C writes it; empty if nobody follows this message.

        The one that the message carries, else that of its publication. Of a message of a page that
        carries none, only the trace is known: its last 16 digits stand for the span.
        """
        return self._message.traceparent

    @property
    def trace_id(self) -> str:
        """What names its journey, see `q.traces`; empty if nobody follows it."""
        return self._message.trace_id

    def context(self) -> "Context | None":
        """The present context of OpenTelemetry with the message as the parent of new spans.

        None if the program does not use OpenTelemetry, or nobody follows the message.
        """
        return self._message.context()

    def span(self) -> "AbstractContextManager[Span | None]":
        """A span of the work on it: `with message.span(): ...`, in coroutines, too.

        Part of the trace of its sender, and current within the block, so that what is
        published there continues the trace. Nothing at all without OpenTelemetry.
        """
        return self._message.span()

    @property
    def delivery_count(self) -> int:
        """Which delivery of the message to its group this is, from 1."""
        return self._message.delivery_count

    @property
    def deadline(self) -> int:
        """When the lease ends, in nanoseconds since 1970."""
        return self._message.deadline

    @property
    def group(self) -> str:
        """The group that it was delivered to."""
        return self._message.group

    @property
    def receipt_handle(self) -> str:
        """What names this delivery to the broker."""
        return self._message.receipt_handle

    def nack(
        self, *, delay: Delay | None = None, reason: str = "", delay_s: float | None = None
    ) -> None:
        """Give it back, to be delivered again after `delay`, or after the usual backoff.

        A delay is a number of seconds, a timedelta, or text such as "1m30s". `delay_s` is its
        former name.
        """
        self._loop.call(self._message.nack(delay=delay, reason=reason, delay_s=delay_s))

    def reject(self, reason: str = "") -> None:
        """Send it to the dead letters now."""
        self._loop.call(self._message.reject(reason))

    def extend(self, timeout_s: float) -> None:
        """Keep it for `timeout_s` from now; leases are also renewed without this."""
        self._loop.call(self._message.extend(timeout_s))

    @property
    def reply_to(self) -> str:
        """Where a reply is expected; empty if nobody waits for one."""
        return self._message.reply_to

    def reply(self, value: Value, *, headers: Headers | None = None) -> bool:
        """Reply to the requester; False if it no longer waits, and the reply was dropped.

        The message is still to be settled: reply first, then ack.
        """
        return self._loop.call(self._message.reply(value, headers=headers))
