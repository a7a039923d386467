"""One connection to a server: a request at a time, and its response.

Knows no pool, retry or clock of its own. A response over its limit, or one that was not requested,
ends the connection.

Invariant: a connection is usable only while nothing is under way and the server will keep it open.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from typing import cast

import httptools
import msgspec

from goqueue.client.clock import SYSTEM_CLOCK, Clock
from goqueue.client.errors import GoQueueError, ServerUnreachable, TlsError
from goqueue.client.tls import is_tls_alert, session_error

__all__ = ["HttpConnection", "Response"]

_HEADERS_MAX = 100
_RECEIVED_BYTES_MAX = 64 * 1024
# On, and for no time: to close is to reset.
_RESET = struct.pack("ii", 1, 0)


class Response(msgspec.Struct, frozen=True):
    """An answer. Names of headers are in lower case.

    `asked_at` is when its request was sent, by the clock of the connection; of several attempts
    the last.
    """

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    asked_at: float = 0.0


class HttpConnection(asyncio.BufferedProtocol):
    """The client's end of one connection.

    It lends the loop a buffer to receive into: without one, the loop allocates 256 KiB for each
    record of TLS, and gives most of it back.
    """

    def __init__(self, bytes_max: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._bytes_max = bytes_max
        self._time = clock.time
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._received = memoryview(bytearray(_RECEIVED_BYTES_MAX))
        self._waiter: asyncio.Future[Response] | None = None
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_open = False
        self._asked_at = 0.0
        self._is_tls = False
        self._has_answer = False
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        return self._is_open and self._waiter is None

    async def ask(self, head: bytes, body: bytes | bytearray) -> Response:
        """Send one request and wait for its answer."""
        if self._transport is None or not self.is_usable:
            raise ServerUnreachable("the connection was closed")
        self._waiter = asyncio.get_running_loop().create_future()
        self._asked_at = self._time()
        try:
            # Together: one call to the system, and one packet for whatever fits into one.
            self._transport.writelines((head, body) if body else (head,))
            return await self._waiter
        except BaseException:
            # Whatever ended the wait, an answer may still come: nobody else may get it.
            self._reset()
            raise
        finally:
            self._waiter = None

    def abort(self) -> None:
        self._is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _reset(self) -> None:
        """Close so that the server notices at once that nobody waits for its answer.

        A plain close looks like the end of what the client sends, and a request that waits for
        messages would go on waiting, and lease some, until the server has found out.
        """
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are no instances of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._is_open = True
        self._is_tls = transport.get_extra_info("ssl_object") is not None

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        data = self._received[:nbytes]
        if self._waiter is None or self._waiter.done():
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if is_tls_alert(bytes(data)):
                self._fail(TlsError("the server expects TLS on this port: use https://"))
            else:
                self._fail(ServerUnreachable(f"the answer is not HTTP ({error})", was_sent=True))

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        # It refers to this connection, and under TLS it is large.
        self._transport = None
        if isinstance(exc, ssl.SSLError) and "ALERT" in (exc.reason or ""):
            # With TLS 1.3 a server looks at the client's certificate when the client is done.
            self._fail(session_error(exc, "the server"))
            return
        words = f"the connection was lost: {exc or 'closed by the server'}"
        if self._is_tls and not self._has_answer:
            words += "; it may require a client certificate (client_cert), or be stopping"
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
        self._has_answer = True
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
