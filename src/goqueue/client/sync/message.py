"""A leased message for a thread: what `Message` is, settled without await."""

import datetime as dt
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar, overload

from goqueue.client.message import Message
from goqueue.client.sync.loop_thread import LoopThread

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

__all__ = ["SyncMessage"]

T = TypeVar("T")


class SyncMessage:
    """One message and its lease; see `Message`."""

    __slots__ = ("_loop", "_message")

    def __init__(self, loop: LoopThread, message: Message) -> None:
        self._loop = loop
        self._message = message

    def __repr__(self) -> str:
        return f"Sync{self._message!r}"

    @property
    def message(self) -> Message:
        """The message as the loop knows it."""
        return self._message

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
    def time(self) -> dt.datetime:
        return self._message.time

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
        return self._message.text

    @property
    def headers(self) -> dict[str, bytes]:
        return self._message.headers

    def header(self, name: str) -> str | None:
        return self._message.header(name)

    @property
    def trace_id(self) -> str:
        return self._message.trace_id

    @property
    def traceparent(self) -> str:
        return self._message.traceparent

    def context(self) -> "Context | None":
        return self._message.context()

    def span(self) -> "AbstractContextManager[Span | None]":
        """A span of the work on it: `with message.span(): ...`."""
        return self._message.span()

    @property
    def delivery_count(self) -> int:
        return self._message.delivery_count

    @property
    def deadline(self) -> int:
        return self._message.deadline

    @overload
    def json(self) -> object: ...

    @overload
    def json(self, type: type[T]) -> T: ...

    def json(self, type: type[T] | None = None) -> T | object:  # noqa: A002 - named as in msgspec
        """The value as JSON, checked against `type` if one is given."""
        return self._message.json() if type is None else self._message.json(type)

    def ack(self, *, wait: bool = True) -> None:
        """Done: the group will not get this message again.

        Without `wait` it is on its way when this returns; closing the consumer waits for it.
        """
        if wait:
            self._loop.call(self._ack())
        else:
            self._loop.post(self._message.ack)

    def nack(self, *, delay_s: float | None = None, reason: str = "") -> None:
        """Give it back, to be delivered again later."""
        self._loop.call(self._message.nack(delay_s=delay_s, reason=reason))

    def reject(self, reason: str = "") -> None:
        """Send it to the dead letters now."""
        self._loop.call(self._message.reject(reason))

    def extend(self, timeout_s: float) -> None:
        """Keep it for `timeout_s` from now."""
        self._loop.call(self._message.extend(timeout_s))

    async def _ack(self) -> None:
        await self._message.ack()
