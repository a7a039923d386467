"""One server: its address, the connections to it, and the exchange of one request.

- `Pool` keeps open connections to one server. Callers above the limit wait for a free one.
- `Endpoint` adds the head of requests and the time limit of one attempt. It never repeats a
  request, never follows a redirect and never logs the key.

Invariant: there are never more connections than allowed.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from goqueue.client.address import Address
from goqueue.client.call_timeout import remaining_s
from goqueue.client.connection_settings import Settings
from goqueue.client.credentials import Credentials
from goqueue.client.errors import Closed, ServerUnreachable, TimedOut, TlsError
from goqueue.client.http_connection import HttpConnection, Response
from goqueue.client.http_request import Request, refused
from goqueue.client.in_process import InProcessNode
from goqueue.client.tls import connection_error, speaks_tls

__all__ = ["Endpoint", "Pool"]


class Pool:
    """Connections, the one used last first: the others grow old and are closed."""

    def __init__(
        self,
        address: Address,
        tls: ssl.SSLContext | None,
        *,
        connections_max: int,
        idle_s_max: float,
        response_bytes_max: int,
        node: InProcessNode | None = None,
    ) -> None:
        """With a `node` its connections do not leave the process."""
        self._address = address
        self._tls = tls
        self._node = node
        self._idle_s_max = idle_s_max
        self._response_bytes_max = response_bytes_max
        self._room = asyncio.Semaphore(connections_max)
        self._idle: list[HttpConnection] = []
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def link(self) -> AsyncIterator[HttpConnection]:
        """A connection for one exchange."""
        async with self._room:
            link = self._reuse() or await self._open()
            try:
                yield link
            finally:
                if link.is_usable and not self._is_closed:
                    link.idle_since = asyncio.get_running_loop().time()
                    self._idle.append(link)
                else:
                    link.abort()

    def close(self) -> None:
        """Hang up; a connection in use is closed when it is given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().abort()

    def _reuse(self) -> HttpConnection | None:
        oldest = asyncio.get_running_loop().time() - self._idle_s_max
        while self._idle:
            link = self._idle.pop()
            if link.is_usable and link.idle_since >= oldest:
                return link
            link.abort()
        return None

    async def _open(self) -> HttpConnection:
        address = self._address
        if self._node is not None:
            link = HttpConnection(self._response_bytes_max, self._node.clock)
            self._node.attach(link)
            return link
        try:
            _, link = await asyncio.get_running_loop().create_connection(
                lambda: HttpConnection(self._response_bytes_max),
                address.host,
                address.port,
                ssl=self._tls,
            )
        except OSError as error:
            raise await connection_error(error, address.host, address.port, self._tls) from error
        return link


class Endpoint:
    """A server to which requests are sent, one attempt at a time."""

    def __init__(
        self,
        address: Address,
        settings: Settings,
        tls: ssl.SSLContext | None,
        node: InProcessNode | None = None,
    ) -> None:
        self.address = address
        self._settings = settings
        self._tls = tls
        self._node = node
        self._prompt = self._pool(settings.connections_max)
        self._waiting = self._pool(settings.waiting_connections_max)
        self._asking = self._pool(settings.waiting_connections_max)
        self._is_closed = False
        # Whether the server has ever answered.
        self._has_answer = False

    def close(self) -> None:
        self._is_closed = True
        self._prompt.close()
        self._waiting.close()
        self._asking.close()

    async def exchange(
        self, request: Request, credentials: Credentials | None, attempt_s_max: float | None = None
    ) -> Response:
        """The answer to one attempt, if it is a success."""
        if self._is_closed:
            raise Closed("the connection is closed")
        pool = self._waiting if request.wait_s else self._prompt
        if request.awaits_client:
            pool = self._asking
        timeout_s = self._settings.timeout_s
        if attempt_s_max is not None:
            timeout_s = min(timeout_s, attempt_s_max)
        timeout_s += request.wait_s
        left_s = remaining_s()
        is_ours = left_s is None or left_s > timeout_s
        if left_s is not None and not is_ours:
            timeout_s = left_s
        was_sent = False
        try:
            async with asyncio.timeout(timeout_s), pool.link() as link:
                was_sent = True
                response = await link.ask(self._head(request, credentials), request.body)
        except TimeoutError:
            words = f"no answer within {timeout_s:.3g} s"
            kind = ServerUnreachable if is_ours else TimedOut
            raise kind(words, was_sent=was_sent) from None
        except ServerUnreachable as error:
            if was_sent and await self._is_plain_to_tls():
                raise TlsError(f"{self.address.authority} expects TLS: use https://") from error
            raise
        self._has_answer = True
        if not 200 <= response.status < 300 and response.status not in request.answers:
            raise refused(response)
        return response

    async def _is_plain_to_tls(self) -> bool:
        """Whether a server that has never answered closes connections because they lack TLS."""
        if self._has_answer or self.address.is_tls or self._node is not None:
            return False
        return await speaks_tls(self.address.host, self.address.port)

    def _head(self, request: Request, credentials: Credentials | None) -> bytes:
        address = self.address
        head = f"{request.method} {address.prefix}{request.target} HTTP/1.1\r\n"
        head += f"Host: {address.authority}\r\nUser-Agent: goqueue-python\r\n"
        if credentials is not None:
            head += f"X-API-Key: {credentials.key.reveal()}\r\n"
        if request.body:
            head += f"Content-Type: {request.content_type}\r\n"
        if request.body or request.method != "GET":
            head += f"Content-Length: {len(request.body)}\r\n"
        return f"{head}\r\n".encode()

    def _pool(self, connections_max: int) -> Pool:
        settings = self._settings
        return Pool(
            self.address,
            self._tls,
            connections_max=connections_max,
            idle_s_max=settings.idle_s_max,
            response_bytes_max=settings.response_bytes_max,
            node=self._node,
        )
