"""Accepts connections of one listener, and starts the TLS handshake of each in its turn.

A handshake costs the server a signature before it knows anything about the client, and the event
loop's own servers begin it before they report the connection. So sockets are accepted here, counted
and, for TLS, put into the queue of handshakes that all listeners share (see `handshakes.py`):

    accepted ──▶ waiting ──▶ handshake ──▶ protocol
        └── plain, at once ───────────────────▲

At a bound nothing is accepted: the kernel's backlog holds what comes. Plain sockets wait for a turn
as well if their address failed to prove a key lately: what is over the bounds is closed, at a tenth
of the cost of another failure.

Invariants: a socket is in one place, and whoever holds it closes it. At most
`accepts_per_turn_max` sockets are accepted before the loop does other work, fewer if they take
longer than `_TURN_S`. The TLS context is
asked for when a handshake begins, never kept.

Cost per connection: a system call and a task that lives until the protocol is connected.
"""

import asyncio
import errno
import logging
import select
import socket
import ssl
import time
from collections.abc import Callable

from goqueue.gateways.connection_limits import Capacity
from goqueue.gateways.handshakes import WaitingSocket
from goqueue.gateways.peer import network_of

__all__ = ["Acceptor"]

_logger = logging.getLogger(__name__)

# What the system says when it has no room for another socket; it is asked again after a pause.
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_S = 0.1
# How long a turn may accept: a flood must not keep requests of others waiting.
_TURN_S = 0.0005
# The client was gone before it was accepted, or its network is.
_GONE = frozenset(
    {
        errno.ECONNABORTED,
        errno.EPROTO,
        errno.EPERM,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENOPROTOOPT,
        errno.EOPNOTSUPP,
    }
)


class Acceptor:
    """The accept loop of one listener.

    `connect` creates the protocol of a connection, `tls` returns the context for a new one: the
    current one, asked for each connection, so that a new certificate needs no restart.
    """

    def __init__(
        self,
        sockets: tuple[socket.socket, ...],
        connect: Callable[[], asyncio.Protocol],
        capacity: Capacity,
        tls: Callable[[], ssl.SSLContext] | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._sockets = sockets
        self._connect = connect
        self._capacity = capacity
        self._tls = tls
        self._queue = capacity.handshakes
        self._limits = capacity.handshakes.limits
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_accepting = False
        self._is_stopped = False

    def start(self) -> None:
        """Accept from now on."""
        self._resume()

    async def stop(self) -> None:
        """Accept nothing more; sockets without a protocol are closed, also during a handshake."""
        self._is_stopped = True
        self._pause()
        if self._timer is not None:
            self._timer.cancel()
        for each in self._sockets:
            each.close()
        for waiting in self._queue.drop(self._begin):
            waiting.peer.close()
        if self._tls is not None:
            for task in self._connecting:
                task.cancel()
        # A plain socket is with its protocol within two turns, and cancelled in between it may
        # never be reported as lost.
        if self._connecting:
            await asyncio.wait(self._connecting)

    # ---- accepting -------------------------------------------------------------------------

    def _resume(self) -> None:
        if not self._is_accepting and not self._is_stopped:
            self._is_accepting = True
            for each in self._sockets:
                self._loop.add_reader(each, self._accept, each)

    def _pause(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            for each in self._sockets:
                self._loop.remove_reader(each)

    def _accept(self, listening: socket.socket) -> None:
        until = self._clock() + _TURN_S
        for _ in range(self._limits.accepts_per_turn_max):
            if self._queue.is_saturated and self._tls is not None:
                # Everybody who waits has one socket: the next waits in the kernel.
                self._pause()
                break
            try:
                peer, name = listening.accept()
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if error.errno in _GONE:
                    continue
                if error.errno not in _NO_ROOM:
                    raise
                _logger.warning("no connection is accepted for a moment: %s", error.strerror)
                self._pause()
                self._loop.call_later(_PAUSE_S, self._resume)
                break
            self._receive(peer, network_of(str(name[0])))
            if self._clock() >= until:
                # The others have waited long enough; the loop calls again.
                break
        if self._tls is not None or self._queue.waiting_count:
            self._begin_handshakes()

    def _receive(self, peer: socket.socket, address: str) -> None:
        peer.setblocking(False)
        if not self._capacity.has_room(address, len(self._connecting)):
            self._capacity.connections_refused_total += 1
            peer.close()
            return
        if self._tls is None:
            if not self._capacity.suspects.includes(address, self._loop.time()):
                self._spawn(peer, address, is_queued=False)
                return
            if self._queue.is_saturated:
                self._capacity.connections_refused_total += 1
                peer.close()
                return
        leaving = self._queue.put(WaitingSocket(peer, address, self._begin))
        if leaving is not None:
            self._capacity.connections_refused_total += 1
            leaving.peer.close()

    # ---- handshakes ------------------------------------------------------------------------

    def _begin_handshakes(self) -> None:
        """Begin all that may begin; those of other listeners too, as they share the bounds."""
        queue = self._queue
        for _ in range(self._limits.accepts_per_turn_max):
            next_one = queue.start(self._loop.time())
            if next_one is None:
                break
            if _has_gone(next_one.peer):
                # Whoever left while waiting costs no signature, and no start of others.
                queue.cancel(next_one.address)
                self._capacity.handshakes_failed_total += 1
                next_one.peer.close()
            else:
                next_one.begin(next_one.peer, next_one.address)
        if queue.waits_for_time and self._timer is None:
            delay_s = queue.delay_s(self._loop.time())
            self._timer = self._loop.call_later(delay_s, self._begin_later)

    def _begin_later(self) -> None:
        self._timer = None
        self._begin_handshakes()

    def _begin(self, peer: socket.socket, address: str) -> None:
        if self._is_stopped:
            self._queue.end(address)
            peer.close()
            return
        self._spawn(peer, address, is_queued=True)

    def _spawn(self, peer: socket.socket, address: str, *, is_queued: bool) -> None:
        task = self._loop.create_task(self._connect_protocol(peer, address, is_queued))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect_protocol(self, peer: socket.socket, address: str, is_queued: bool) -> None:
        """Hand the socket to its protocol; the handshake, if there is one, is part of that."""
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(self._connect, peer)
            else:
                await self._loop.connect_accepted_socket(
                    self._connect,
                    peer,
                    ssl=self._tls(),
                    ssl_handshake_timeout=self._limits.handshake_timeout_s,
                )
        except (OSError, asyncio.CancelledError):
            # A failed handshake says nothing about this node, and there may be thousands; the
            # transport has closed the socket unless it never had it.
            self._capacity.handshakes_failed_total += self._tls is not None
            peer.close()
        finally:
            if is_queued:
                self._queue.end(address)
                self._begin_handshakes()
                self._resume()


def _has_gone(peer: socket.socket) -> bool:
    """Whether the client has ended its side: none does so before its handshake is over."""
    poll = select.poll()
    poll.register(peer, select.POLLRDHUP)
    return bool(poll.poll(0))
