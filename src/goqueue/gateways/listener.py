"""Listeners: what a node starts and stops, and the one that most gateways need, over TCP.

`Listener` is all that the runtime knows of a gateway: an address that is taken, a moment from
which connections are accepted, a graceful stop. A library that owns its sockets (a gRPC server)
implements it directly. `TcpListener` implements it for gateways that bring an `asyncio.Protocol`
per connection: it accepts connections, admits them against the node's capacity and ends them.

Invariant: every connection between `admit` and `forget` is open and will be told when the
listener stops, and none is outside.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from goqueue.gateways.acceptor import Acceptor
from goqueue.gateways.connection_limits import Admission, Capacity
from goqueue.gateways.peer import Peer, network_of

__all__ = ["Address", "Connection", "Endpoint", "Listener", "TcpListener", "Traffic"]

_BACKLOG = 1024
# How long a cancelled response may take to end, before stopping continues without it.
_CANCEL_S = 1.0


class Address(NamedTuple):
    """Where a listener can be reached."""

    host: str
    port: int


class Endpoint(msgspec.Struct, frozen=True):
    """Where a listener is to listen (port 0: any free one), and its TLS context, if any.

    `tls` is called for every new connection, so that a certificate can be replaced.
    """

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None


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
        self._sockets: tuple[socket.socket, ...] = ()
        self._acceptor: Acceptor | None = None
        self._is_stopping = False
        # Tasks that ended with their connection while stopping: not yet done when it has gone.
        self._cancelled: list[asyncio.Task[None]] = []
        self._emptied = asyncio.Event()

    @property
    def connections_active(self) -> int:
        return len(self._connections)

    async def open(self) -> Address:
        """Take the address without accepting anything; raises OSError if it cannot be had."""
        assert not self._sockets, "a listener is opened once"
        self._sockets = await _bind(self._endpoint.host, self._endpoint.port)
        host, port = self._sockets[0].getsockname()[:2]
        return Address(host, port)

    async def serve(self) -> None:
        """Start to accept connections; does nothing if the listener was stopped meanwhile."""
        if not self._sockets or self._is_stopping:
            return
        for each in self._sockets:
            each.listen(_BACKLOG)
        self._acceptor = Acceptor(
            self._sockets, lambda: self._connect(self), self.capacity, self._endpoint.tls
        )
        self._acceptor.start()

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
        self._is_stopping = True
        for each in self._sockets:
            if self._acceptor is None:
                each.close()
        if self._acceptor is not None:
            await self._acceptor.stop()
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

    async def _wait_until_empty(self) -> None:
        while self._connections:
            self._emptied.clear()
            await self._emptied.wait()

    def admit(self, connection: Connection, peer: Peer) -> Admission:
        """Count a new connection, and say whether it may stay."""
        self._connections[connection] = None
        admission = self.capacity.admit(network_of(peer.address))
        if peer.has_expired(time.time()):
            return Admission.EXPIRED
        return Admission.STOPPING if self._is_stopping else admission

    def forget(self, connection: Connection, peer: Peer) -> None:
        """The connection has ended."""
        del self._connections[connection]
        self.capacity.release(network_of(peer.address))
        if self._is_stopping and connection.worker is not None:
            self._cancelled.append(connection.worker)
        if not self._connections:
            self._emptied.set()


async def _bind(host: str, port: int) -> tuple[socket.socket, ...]:
    """A socket for each address of the host, none of which accepts yet."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            each = socket.socket(family, kind, protocol)
            bound.append(each)
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Inherited by the connections: a response must not wait for another one.
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(address)
    except BaseException:
        for each in bound:
            each.close()
        raise
    return tuple(bound)
