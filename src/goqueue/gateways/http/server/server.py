"""The listening side: accepts connections, counts them, and brings them to an end.

Owns the set of open connections and the counters that metrics read. Never answers a request
itself. Invariant: every connection in the set is open, and none is outside it.
"""

import asyncio
from collections import Counter

from goqueue.gateways.http.server.application import Application, HttpLimits
from goqueue.gateways.http.server.connection import Connection
from goqueue.gateways.http.server.reader import BodyBudget
from goqueue.gateways.http.server.responses import STOPPING, TOO_MANY_CONNECTIONS, Refusal

__all__ = ["HttpServer"]

_BACKLOG = 1024
# Connections over the limit that may be open at once, to be told why they are refused.
_REFUSED_MAX = 64
# How long a cancelled answer may take to end, before stopping goes on without it.
_CANCEL_S = 1.0


class HttpServer:
    """Serves an application on one address until it is stopped."""

    def __init__(self, application: Application, limits: HttpLimits | None = None) -> None:
        self.application = application
        self.limits = HttpLimits() if limits is None else limits
        self.budget = BodyBudget(self.limits.bodies_bytes_max)
        self.requests_total = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.unsent_bytes = 0
        self.connections_refused_total = 0
        self._connections: dict[Connection, None] = {}
        self._per_address: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._is_stopping = False
        # Answers that ended with their connection while stopping: not yet done when it has gone.
        self._cancelled: list[asyncio.Task[None]] = []
        self._emptied: asyncio.Event = asyncio.Event()

    @property
    def connections_active(self) -> int:
        return len(self._connections)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address in use. Raises OSError if it cannot be had."""
        assert self._server is None, "a server is started once"
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self, loop), host, port, backlog=_BACKLOG
        )
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self, grace_s: float = 10.0) -> None:
        """Accept nothing more, let running requests finish, cut what is left after the grace."""
        if self._server is None:
            return
        server, self._server = self._server, None
        self._is_stopping = True
        server.close()
        for connection in list(self._connections):
            connection.wind_down()
        try:
            async with asyncio.timeout(grace_s):
                await self._wait_for_emptiness()
        except TimeoutError:
            for connection in list(self._connections):
                connection.cut()
            await self._wait_for_emptiness()
        if self._cancelled:
            await asyncio.wait(self._cancelled, timeout=_CANCEL_S)
        await server.wait_closed()

    async def _wait_for_emptiness(self) -> None:
        while self._connections:
            self._emptied.clear()
            await self._emptied.wait()

    # ---- what connections call -------------------------------------------------------------

    def admit(self, connection: Connection, client: str) -> Refusal | None:
        """Count a new connection; a refusal if there is no room for it."""
        refusal: Refusal | None = None
        if self._is_stopping:
            refusal = STOPPING
        elif (
            len(self._connections) >= self.limits.connections_max
            or self._per_address[client] >= self.limits.connections_per_address_max
        ):
            refusal = TOO_MANY_CONNECTIONS
            self.connections_refused_total += 1
            if len(self._connections) >= self.limits.connections_max + _REFUSED_MAX:
                connection.cut()
        self._connections[connection] = None
        self._per_address[client] += 1
        return refusal

    def forget(self, connection: Connection, client: str) -> None:
        del self._connections[connection]
        if self._is_stopping and connection.worker is not None:
            self._cancelled.append(connection.worker)
        self._per_address[client] -= 1
        if not self._per_address[client]:
            del self._per_address[client]
        if not self._connections:
            self._emptied.set()
