"""A message as its reader gets it.

One small object per message: bytes as they came, everything else worked out when asked for.
A message that was polled carries its lease; one that was read as a stream does not.
"""

import datetime as dt
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import msgspec

from goqueue.client.errors import DecodeError, GoQueueError
from goqueue.client.tracing import Origin, Work, parent_of, processing, remote_context
from goqueue.client.values import Delay, Headers, Value, seconds_of
from goqueue.model import REPLY_TO_HEADER, TRACESTATE_HEADER, Priority
from goqueue.records import decode_headers

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

__all__ = ["Lease", "Message", "PayloadSource", "moment"]

T = TypeVar("T")

_ANYTHING = msgspec.json.Decoder(object)


def moment(timestamp: int) -> dt.datetime:
    """A time in nanoseconds since 1970, in UTC and to the microsecond."""
    whole = dt.datetime.fromtimestamp(timestamp // 1_000_000_000, dt.UTC)
    return whole.replace(microsecond=timestamp // 1000 % 1_000_000)


class Lease(Protocol):
    """The right to settle one delivery, until its deadline."""

    @property
    def group(self) -> str: ...

    @property
    def receipt_handle(self) -> str: ...

    @property
    def delivery_count(self) -> int: ...

    @property
    def deadline(self) -> int: ...

    def ack(self) -> Awaitable[None]: ...

    async def nack(self, delay_s: float | None, reason: str) -> None: ...

    async def reject(self, reason: str) -> None: ...

    async def extend(self, timeout_s: float) -> None: ...

    async def reply(self, reply_to: str, value: Value, headers: Headers | None) -> bool: ...

    def end(self) -> None: ...


class PayloadSource(Protocol):
    """What decodes the value of one message."""

    def read(self) -> object: ...


class Message(msgspec.Struct, frozen=True, eq=False):
    """One message. `timestamp` is in nanoseconds since 1970; an empty key is no key.

    `value` and `key` are bytes: see `text`, `json`, `payload` and `key_text`. A value of None is a
    tombstone.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    priority: int
    key: bytes
    value: bytes | None
    header_block: bytes = b""
    lease: Lease | None = None
    origin: Origin = None
    payload_source: PayloadSource | None = None

    def __repr__(self) -> str:
        key = f", key={self.key!r}" if self.key else ""
        size = "tombstone" if self.value is None else f"{len(self.value)} bytes"
        lease = "" if self.lease is None else f", delivery {self.lease.delivery_count}"
        return f"Message({self._place}{key}, {size}{lease})"

    @property
    def _place(self) -> str:
        return f"{self.topic} {self.partition}:{self.offset}"

    @property
    def text(self) -> str:
        """The value as text; a tombstone is empty. `DecodeError` if it is not UTF-8."""
        try:
            return (self.value or b"").decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"the value of {self._place} is not text: {error}") from error

    @property
    def key_text(self) -> str | None:
        """The key as text; None if the message has none. `DecodeError` if it is not UTF-8."""
        try:
            return self.key.decode() if self.key else None
        except UnicodeDecodeError as error:
            raise DecodeError(f"the key of {self._place} is not text: {error}") from error

    @overload
    def json(self) -> object: ...

    @overload
    def json(self, type: type[T]) -> T: ...

    def json(self, type: type[T] | None = None) -> T | object:  # noqa: A002 - named as in msgspec
        """The value as JSON, checked against `type` if one is given; a tombstone is None.

        `DecodeError` if it is not JSON, or not of the type.
        """
        if self.value is None:
            return None
        try:
            if type is None:
                return _ANYTHING.decode(self.value)
            return msgspec.json.decode(self.value, type=type)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DecodeError(f"the value of {self._place} cannot be read: {error}") from error

    @property
    def payload(self) -> Any:  # noqa: ANN401 - of the type that the serializer reads
        """The value as the `serializer` of the consumer reads it; a tombstone is None.

        Decoded when it is first asked for, and kept. `DecodeError` if it cannot be read, which the
        message survives: it can still be acked or rejected.
        """
        if self.payload_source is None:
            words = "the message was read without a serializer: give one to the consumer"
            raise GoQueueError("request_invalid", words)
        return self.payload_source.read()

    @property
    def headers(self) -> dict[str, bytes]:
        """Headers by name; the last of equal names."""
        return dict(decode_headers(self.header_block))

    def header(self, name: str) -> str | None:
        """One header as text; None if there is no such header. `DecodeError` if it is not UTF-8."""
        value = self.headers.get(name)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError as error:
            words = f"the header {name!r} of {self._place} is not text: {error}"
            raise DecodeError(words) from error

    @property
    def time(self) -> dt.datetime:
        """The timestamp in UTC, to the microsecond."""
        return moment(self.timestamp)

    @property
    def lane(self) -> Priority:
        """The priority by name."""
        return Priority(self.priority)

    @property
    def traceparent(self) -> str:
        """The trace context as the W3C writes it; empty if nobody follows this message.

        The one that the message carries, else that of its publication. Of a message of a page that
        carries none, only the trace is known: its last 16 digits stand for the span.
        """
        return parent_of(decode_headers(self.header_block), self.offset, self.origin)

    @property
    def trace_id(self) -> str:
        """What names its journey, see `q.traces`; empty if nobody follows it."""
        return self.traceparent[3:35]

    def context(self) -> "Context | None":
        """The present context of OpenTelemetry with the message as the parent of new spans.

        None if the program does not use OpenTelemetry, or nobody follows the message.
        """
        return remote_context(self.traceparent, self._trace_state())

    def span(self) -> "AbstractContextManager[Span | None]":
        """A span of the work on it: `with message.span(): ...`, in coroutines, too.

        Part of the trace of its sender, and current within the block, so that what is
        published there continues the trace. Nothing at all without OpenTelemetry.
        """
        group = "" if self.lease is None else self.lease.group
        work = Work(topic=self.topic, partition=self.partition, offset=self.offset, group=group)
        return processing(work, self.traceparent, self._trace_state())

    def _trace_state(self) -> str:
        return self.headers.get(TRACESTATE_HEADER, b"").decode(errors="replace")

    @property
    def delivery_count(self) -> int:
        """Which delivery of the message to its group this is, from 1."""
        return self.held().delivery_count

    @property
    def deadline(self) -> int:
        """When the lease ends, in nanoseconds since 1970."""
        return self.held().deadline

    @property
    def group(self) -> str:
        """The group that it was delivered to."""
        return self.held().group

    @property
    def receipt_handle(self) -> str:
        """What names this delivery to the broker."""
        return self.held().receipt_handle

    def ack(self) -> Awaitable[None]:
        """Done: the group will not get this message again.

        The acknowledgement is on its way even if the answer is not awaited; the log tells of those
        that failed. Those given while one request is under way travel together in the next.
        """
        return self.held().ack()

    async def nack(
        self, *, delay: Delay | None = None, reason: str = "", delay_s: float | None = None
    ) -> None:
        """Give it back, to be delivered again after `delay`, or after the usual backoff.

        A delay is a number of seconds, a timedelta, or text such as "1m30s". `delay_s` is its
        former name.
        """
        if delay is not None:
            delay_s = seconds_of(delay)
        await self.held().nack(delay_s, reason)

    async def reject(self, reason: str = "") -> None:
        """Send it to the dead letters now."""
        await self.held().reject(reason)

    async def extend(self, timeout_s: float) -> None:
        """Keep it for `timeout_s` from now; leases are also renewed without this."""
        await self.held().extend(timeout_s)

    @property
    def reply_to(self) -> str:
        """Where a reply is expected; empty if nobody waits for one."""
        return self.headers.get(REPLY_TO_HEADER, b"").decode(errors="replace")

    async def reply(self, value: Value, *, headers: Headers | None = None) -> bool:
        """Reply to the requester; False if it no longer waits, and the reply was dropped.

        The message is still to be settled: reply first, then ack.
        """
        if not self.reply_to:
            raise GoQueueError("request_invalid", "nobody waits for a reply to this message")
        return await self.held().reply(self.reply_to, value, headers)

    def held(self) -> Lease:
        """The lease; raises where there is none."""
        if self.lease is None:
            raise GoQueueError(
                "receipt_invalid", "this message was read as a stream: there is no lease to settle"
            )
        return self.lease
