"""One connection to an endpoint of etcd: HTTP/1.1, one request at a time.

A reply is read whole, up to a limit; or, of a watch, each piece of it is reported as it comes.

Invariant: a connection is usable only while nothing is under way and etcd will keep it open.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools
import msgspec

__all__ = ["EtcdConnection", "EtcdReply", "EtcdUnreachable"]

_REPLY_BYTES_MAX = 8 << 20
_HEAD = (
    "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    "Content-Length: {length}\r\n\r\n"
)


class EtcdUnreachable(Exception):
    """There is no reply; one sentence."""


class EtcdReply(msgspec.Struct, frozen=True):
    """A reply of etcd."""

    status: int
    body: bytes


class EtcdConnection(asyncio.Protocol):
    """Our end of a connection."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[EtcdReply] | None = None
        self._report: Callable[[bytes], None] | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_open = False

    @property
    def is_usable(self) -> bool:
        return self._is_open and self._waiter is None

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        report: Callable[[bytes], None] | None = None,
    ) -> EtcdReply:
        """Send a request and wait for its reply; `report` hears each piece instead."""
        if self._transport is None or not self.is_usable:
            raise EtcdUnreachable("the connection was closed")
        head = _HEAD.format(method=method, path=path, host=self._host, length=len(body))
        self._waiter = asyncio.get_running_loop().create_future()
        self._report = report
        try:
            self._transport.write(head.encode() + body)
            return await self._waiter
        except BaseException:
            # A reply may still come: nobody else may get it.
            self.abort()
            raise
        finally:
            self._waiter = None

    def abort(self) -> None:
        self._is_open = False
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are no instances of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._is_open = True

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"it does not speak HTTP ({error}): is TLS on at one end alone?")

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        self._transport = None
        self._fail(f"the connection was lost: {exc or 'closed by etcd'}")

    # What the parser calls

    def on_message_begin(self) -> None:
        self._pieces, self._size = [], 0

    def on_body(self, body: bytes) -> None:
        if self._report is not None and self._parser.get_status_code() == 200:
            self._report(body)
            return
        self._size += len(body)
        if self._size > _REPLY_BYTES_MAX:
            self._fail(f"a reply is larger than {_REPLY_BYTES_MAX} bytes")
        else:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if not self._parser.should_keep_alive():
            self._is_open = False
        if self._waiter is not None and not self._waiter.done():
            status = self._parser.get_status_code()
            self._waiter.set_result(EtcdReply(status, b"".join(self._pieces)))

    def _fail(self, reason: str) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(EtcdUnreachable(reason))
        self.abort()
