"""Limits of one address: a client of IPv6 has as many addresses as it likes, and counts as one."""

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable
from typing import Any

from goqueue.gateways.acceptor import Acceptor
from goqueue.gateways.connection_limits import (
    Admission,
    Capacity,
    ConnectionLimits,
    UnprovenConnections,
)
from goqueue.gateways.handshakes import HandshakeLimits
from goqueue.gateways.listener import Endpoint, TcpListener
from goqueue.gateways.peer import Peer
from tests.unit.gateways.loopback import run


class _Silent:
    """A connection that nobody uses."""

    worker = None

    def drain(self) -> None: ...

    def cut(self) -> None: ...


def test_connections_from_one_network_count_together() -> None:
    async def admissions() -> list[Admission]:
        capacity = Capacity(ConnectionLimits(connections_per_address_max=2))
        endpoint = Endpoint("127.0.0.1", 0)
        listener = TcpListener("http", endpoint, lambda _: asyncio.Protocol(), capacity)
        peers = [Peer(address=f"2001:db8::{number}") for number in range(1, 4)]
        first, second, third = (_Silent() for _ in peers)
        found = [listener.admit(first, peers[0]), listener.admit(second, peers[1])]
        found.append(listener.admit(third, peers[2]))
        listener.forget(first, peers[0])
        listener.forget(second, peers[1])
        found.append(listener.admit(first, peers[1]))
        return found

    accepted = Admission.ACCEPTED
    assert asyncio.run(admissions()) == [accepted, accepted, Admission.FULL, accepted]


def test_connections_without_a_key_from_one_network_push_out_each_other() -> None:
    limits = ConnectionLimits(unproven_max=10, unproven_per_address_max=2)
    unproven = UnprovenConnections(limits, lambda _: False)
    other, first, second, third = (_Silent() for _ in range(4))
    assert unproven.add(other, "2001:db8:1::1") is None
    assert unproven.add(first, "2001:db8::1") is None
    assert unproven.add(second, "2001:db8::2") is None
    assert unproven.add(third, "2001:db8::3") is first


async def _wait_for(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # a queue reports nothing
        await asyncio.sleep(0)


class _FarClients(socket.socket):
    """Accepts clients as if each had another address of one network."""

    numbers = itertools.count(1)

    def accept(self) -> tuple[socket.socket, Any]:
        peer, _ = super().accept()
        return peer, (f"2001:db8::{next(self.numbers):x}", 1, 0, 0)


def test_handshakes_of_one_network_leave_room_for_others() -> None:
    async def running() -> int:
        limits = HandshakeLimits(handshakes_per_address_max=2)
        capacity = Capacity(handshakes=limits)
        listening = _FarClients()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        acceptor = Acceptor((listening,), asyncio.Protocol, capacity, lambda: context)
        acceptor.start()
        clients = [socket.create_connection(listening.getsockname()) for _ in range(5)]
        queue = capacity.handshakes
        await _wait_for(lambda: queue.running_count + queue.waiting_count == len(clients))
        count = queue.running_count
        for client in clients:
            client.close()
        await _wait_for(lambda: queue.running_count + queue.waiting_count == 0)
        await acceptor.stop()
        return count

    assert run(running()) == 2
