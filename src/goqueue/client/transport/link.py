"""One HTTP/1.1 connection: a request goes out, its answer comes in, one at a time.

Owns the parsing of answers. Knows no pool, no retry and no clock. Bounded: an answer that grows
over its limit, or that nobody asked for, ends the connection.

Invariant: `is_usable` only while nothing is under way and the server will keep the line open.
"""

import asyncio
import time
from typing import cast

import httptools
import msgspec

from goqueue.client.errors import GoQueueError, ServerUnreachable

__all__ = ["HttpConnection", "Response"]

_HEADERS_MAX = 100


class Response(msgspec.Struct, frozen=True):
    """An answer. Names of headers are in lower case.

    `asked_at` is when its request was sent, by `time.monotonic`; of several attempts the last.
    """

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    asked_at: float = 0.0


class HttpConnection(asyncio.Protocol):
    """The client's end of one connection."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Response] | None = None
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_open = False
        self._asked_at = 0.0
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        return self._is_open and self._waiter is None

    async def ask(self, head: bytes, body: bytes | bytearray) -> Response:
        """Send one request and wait for its answer."""
        if self._transport is None or not self.is_usable:
            raise ServerUnreachable("the connection was closed")
        self._waiter = asyncio.get_running_loop().create_future()
        self._asked_at = time.monotonic()
        try:
            # Together: one call to the system, and one packet for whatever fits into one.
            self._transport.writelines((head, body) if body else (head,))
            return await self._waiter
        except BaseException:
            # Whatever ended the wait, an answer may still come: nobody else may get it.
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
            self._fail(ServerUnreachable(f"the answer is not HTTP: {error}", was_sent=True))

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        words = f"the connection was lost: {exc or 'closed by the server'}"
        self._fail(ServerUnreachable(words, was_sent=True))

    # What the parser calls

    def on_message_begin(self) -> None:
        if self._waiter is None or self._waiter.done():
            self.abort()
        self._headers, self._pieces, self._size = {}, [], 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self._headers) < _HEADERS_MAX:
            self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._bytes_max:
            words = f"the answer is larger than {self._bytes_max} bytes"
            self._fail(GoQueueError("response_too_large", words, is_outcome_unknown=True))
        else:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        if not self._parser.should_keep_alive():
            self._is_open = False
        if self._waiter is not None and not self._waiter.done():
            pieces = self._pieces
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._waiter.set_result(Response(status, self._headers, body, self._asked_at))

    def _fail(self, error: GoQueueError) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()
