"""Listeners: what a node starts and stops, and the one that most gateways need, over TCP.

`Listener` is all that the runtime knows of a gateway: an address that is taken, a moment from
which connections are accepted, a graceful stop. A library that owns its sockets (a gRPC server)
implements it directly. `TcpListener` implements it for gateways that bring an `asyncio.Protocol`
per connection: it accepts connections, admits them against the node's capacity and ends them.

Invariant: every connection between `admit` and `forget` is open and will be told when the
listener stops, and none is outside.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from goqueue.gateways.connection_limits import Admission, Capacity

__all__ = ["Address", "Connection", "Endpoint", "Listener", "TcpListener", "Traffic"]

_BACKLOG = 1024
# How long a cancelled response may take to end, before stopping continues without it.
_CANCEL_S = 1.0


class Address(NamedTuple):
    """Where a listener can be reached."""

    host: str
    port: int


class Endpoint(msgspec.Struct, frozen=True):
    """Where a listener is to listen (port 0: any free one), and its certificate, if any."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None


class Traffic:
    """What a listener has carried since it was created; metrics read it."""

    __slots__ = ("bytes_in", "bytes_out", "requests_total")

    def __init__(self) -> None:
        self.requests_total = 0
        self.bytes_in = 0
        self.bytes_out = 0


class Listener(Protocol):
    """One protocol on one address. `open`, `serve` and `stop` are called once each, in order."""

    @property
    def name(self) -> str:
        """The protocol, as it is called in settings and in the names of metrics."""
        ...

    @property
    def waits_for_node(self) -> bool:
        """Whether connections are accepted only when recovery is done."""
        ...

    @property
    def traffic(self) -> Traffic: ...

    async def open(self) -> Address:
        """Take the address without accepting anything; raises OSError if it cannot be had."""
        ...

    async def serve(self) -> None:
        """Start to accept connections."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more, let running requests finish, cut what is left after the grace.

        May be called whether or not `open` and `serve` were, and more than once.
        """
        ...


class Connection(Protocol):
    """One client, as the listener that accepted it sees it."""

    @property
    def worker(self) -> asyncio.Task[None] | None:
        """The task that answers its requests, if there is one."""
        ...

    def drain(self) -> None:
        """Answer what has been asked, then close; at once if nothing has."""
        ...

    def cut(self) -> None:
        """Close without waiting for anything."""
        ...


class TcpListener:
    """Accepts connections on one endpoint until it is stopped.

    `connect` creates the `asyncio.Protocol` of a new connection. That protocol calls `admit` when
    the connection is made and `forget` when it is lost.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        connect: "Callable[[TcpListener], asyncio.Protocol]",
        capacity: Capacity,
        *,
        waits_for_node: bool = False,
    ) -> None:
        self.name = name
        self.waits_for_node = waits_for_node
        self.capacity = capacity
        self.traffic = Traffic()
        self._endpoint = endpoint
        self._connect = connect
        self._connections: dict[Connection, None] = {}
        self._server: asyncio.Server | None = None
        self._is_stopping = False
        # Tasks that ended with their connection while stopping: not yet done when it has gone.
        self._cancelled: list[asyncio.Task[None]] = []
        self._emptied = asyncio.Event()

    @property
    def connections_active(self) -> int:
        return len(self._connections)

    async def open(self) -> Address:
        """Take the address without accepting anything; raises OSError if it cannot be had."""
        assert self._server is None, "a listener is opened once"
        endpoint = self._endpoint
        self._server = await asyncio.get_running_loop().create_server(
            lambda: self._connect(self),
            endpoint.host,
            endpoint.port,
            backlog=_BACKLOG,
            ssl=endpoint.tls,
            start_serving=False,
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    async def serve(self) -> None:
        """Start to accept connections; does nothing if the listener was stopped meanwhile."""
        if self._server is not None:
            await self._server.start_serving()

    def attach(self, transport: asyncio.Transport) -> asyncio.Protocol:
        """Serve a connection that was made in another way than by the endpoint."""
        protocol = self._connect(self)
        protocol.connection_made(transport)
        return protocol

    def cut_all(self) -> None:
        """Close every connection without waiting for anything, and accept others."""
        for connection in list(self._connections):
            connection.cut()

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more, let running requests finish, cut what is left after the grace."""
        if self._is_stopping:
            return
        server, self._server = self._server, None
        self._is_stopping = True
        if server is not None:
            server.close()
        for connection in list(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(grace_s):
                await self._wait_until_empty()
        except TimeoutError:
            self.cut_all()
            await self._wait_until_empty()
        if self._cancelled:
            await asyncio.wait(self._cancelled, timeout=_CANCEL_S)
        if server is not None:
            await server.wait_closed()

    async def _wait_until_empty(self) -> None:
        while self._connections:
            self._emptied.clear()
            await self._emptied.wait()

    def admit(self, connection: Connection, address: str) -> Admission:
        """Count a new connection, and say whether it may stay."""
        self._connections[connection] = None
        admission = self.capacity.admit(address)
        return Admission.STOPPING if self._is_stopping else admission

    def forget(self, connection: Connection, address: str) -> None:
        """The connection has ended."""
        del self._connections[connection]
        self.capacity.release(address)
        if self._is_stopping and connection.worker is not None:
            self._cancelled.append(connection.worker)
        if not self._connections:
            self._emptied.set()
