"""Open connections to one server, kept for the next request.

Invariant: never more connections than allowed; who comes later waits for one to be given back.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from goqueue.client.errors import ServerUnreachable
from goqueue.client.transport.address import Address
from goqueue.client.transport.link import HttpConnection

__all__ = ["Pool"]


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
    ) -> None:
        self._address = address
        self._tls = tls
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
        try:
            _, link = await asyncio.get_running_loop().create_connection(
                lambda: HttpConnection(self._response_bytes_max),
                address.host,
                address.port,
                ssl=self._tls,
            )
        except OSError as error:
            words = f"cannot connect to {address.authority}: {error.strerror or error}"
            raise ServerUnreachable(words) from error
        return link
