"""Connections that are accepted: in the clear and over TLS, counted before they cost anything."""

import asyncio
import contextlib
import errno
import hashlib
import itertools
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.gateways import Capacity, ConnectionLimits, HandshakeLimits, Peer
from goqueue.gateways.acceptor import Acceptor
from goqueue.gateways.http import HttpLimits
from goqueue.gateways.peer import normal_address
from goqueue.runtime.tls import build_context
from tests.certificates import DAY, NEEDS_OPENSSL, Authority, Issued
from tests.unit.gateways.loopback import (
    LOOPS,
    TLS,
    TlsContexts,
    TlsWriter,
    get,
    post,
    run,
    serving,
)

pytestmark = NEEDS_OPENSSL

BOTH = pytest.mark.parametrize("loop", LOOPS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue()


def contexts(authority: Authority, issued: Issued, own: Issued | None = None) -> TlsContexts:
    settings = issued.settings(ca_file=str(authority.ca_file), client_auth="verify")
    server, _ = build_context(settings, ("http/1.1",))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cafile=str(authority.ca_file))
    if own is not None:
        client.load_cert_chain(own.cert, own.key)
    return TlsContexts(server, client)


@pytest.fixture(name="tls")
def tls_contexts(authority: Authority, issued: Issued) -> Iterator[TlsContexts]:
    both = contexts(authority, issued)
    token = TLS.set(both)
    yield both
    TLS.reset(token)


@pytest.mark.usefixtures("tls")
@BOTH
def test_a_request_knows_that_its_connection_is_secure(loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            assert (await served.ask(get())).status == 200
            (request,) = served.echo.requests
            assert request.peer == Peer(address="127.0.0.1", is_tls=True)
            assert request.client == "127.0.0.1"

    run(main(), loop)


@pytest.mark.usefixtures("tls")
@BOTH
def test_a_refusal_over_tls_does_not_try_to_end_one_side_of_the_connection(loop: str) -> None:
    """TLS in the event loop has no half-closed connections: `write_eof` would raise."""
    reported: list[object] = []

    async def main() -> None:
        current = asyncio.get_running_loop()
        current.set_exception_handler(lambda _, context: reported.append(context))
        async with serving(HttpLimits(linger_timeout_s=0.05)) as served:
            wire = await served.open()
            await wire.send(b"nonsense\r\n\r\n")
            assert (await wire.reply()).status == 400
            assert await wire.rest() == b""
            await served.wait_for_connections(0)

    run(main(), loop)
    assert reported == []


@BOTH
def test_a_verified_certificate_comes_with_the_request(
    authority: Authority, issued: Issued, loop: str
) -> None:
    names = "URI:spiffe://prod/billing,DNS:billing.internal,email:a@b.example"
    own = authority.issue("common name", names, usage="clientAuth")
    both = contexts(authority, issued, own)
    encoded = ssl.PEM_cert_to_DER_cert(Path(own.cert).read_text())

    async def main() -> None:
        async with serving() as served:
            await served.ask(get())
            (request,) = served.echo.requests
            certificate = request.peer.certificate
            assert certificate is not None
            assert certificate.names == (
                "uri:spiffe://prod/billing",
                "dns:billing.internal",
                "email:a@b.example",
            )
            assert certificate.sha256 == hashlib.sha256(encoded).hexdigest()

    token = TLS.set(both)
    try:
        run(main(), loop)
    finally:
        TLS.reset(token)


def test_a_certificate_that_has_expired_since_is_not_served(
    authority: Authority, issued: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed session is not verified again; the date that it keeps is looked at."""
    both = contexts(authority, issued, authority.issue("app", usage="clientAuth", ends=DAY))

    async def main() -> None:
        async with serving() as served:
            assert (await served.ask(get())).status == 200
            monkeypatch.setattr("goqueue.gateways.listener.time.time", lambda: 2e10)
            wire = await served.open()
            await wire.send(get())
            assert await wire.rest() == b""
            assert len(served.echo.requests) == 1
            await served.wait_for_connections(0)

    token = TLS.set(both)
    try:
        run(main())
    finally:
        TLS.reset(token)


@pytest.mark.usefixtures("tls")
@BOTH
def test_handshakes_that_never_end_keep_nobody_out(loop: str) -> None:
    limits = HandshakeLimits(
        handshakes_max=4, handshakes_per_address_max=2, handshake_timeout_s=0.2
    )

    async def main() -> None:
        async with serving(handshakes=limits) as served:
            silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(10)]
            # They time out two by two, and the request has its turn.
            assert (await served.ask(get())).status == 200
            assert served.server.connections_active <= 1
            assert served.server.capacity.handshakes_failed_total >= 8
            for each in silent:
                each.close()

    run(main(), loop)


@pytest.mark.usefixtures("tls")
def test_a_client_that_left_while_it_waited_costs_no_handshake() -> None:
    limits = HandshakeLimits(
        handshakes_max=1, handshakes_per_address_max=1, handshake_timeout_s=0.5
    )

    async def main() -> None:
        async with serving(handshakes=limits) as served:
            queue = served.server.capacity.handshakes
            silent = socket.create_connection(("127.0.0.1", served.port))
            await served.wait_for(lambda: queue.running_count == 1)
            for _ in range(20):
                socket.create_connection(("127.0.0.1", served.port)).close()
            await served.wait_for(lambda: queue.waiting_count == 20)
            assert (await served.ask(get())).status == 200
            # The silent one, by time, and all that had gone, without a task for each.
            assert served.server.capacity.handshakes_failed_total == 21
            silent.close()

    run(main())


@pytest.mark.usefixtures("tls")
@BOTH
def test_stopping_closes_what_waits_and_what_is_in_its_handshake(loop: str) -> None:
    limits = HandshakeLimits(handshakes_max=2, handshakes_per_address_max=2)

    async def main() -> None:
        async with serving(handshakes=limits) as served:
            silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(5)]
            queue = served.server.capacity.handshakes
            await served.wait_for(lambda: (queue.running_count, queue.waiting_count) == (2, 3))
            await served.server.stop(grace_s=0)
            assert (queue.running_count, queue.waiting_count) == (0, 0)
            for reader, writer in silent:
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
                writer.close()

    run(main(), loop)


@pytest.mark.usefixtures("tls")
def test_connections_over_the_limit_cost_no_handshake() -> None:
    async def main() -> None:
        together = ConnectionLimits(connections_max=2)
        async with serving(together=together) as served:
            opened = 0
            with contextlib.suppress(ConnectionError):
                for _ in range(2 + 64 + 1):
                    await served.open()
                    opened += 1
            # Two are served, and at most so many are told why they are not.
            assert 2 < opened <= 2 + 64
            assert served.server.capacity.connections_refused_total == opened - 2 + 1

    run(main())


@pytest.mark.usefixtures("tls")
@BOTH
@pytest.mark.parametrize("data", [get(), b"\0" * 300, b"\x16\x03\x01\xff\xff" + b"\1" * 400])
def test_what_is_not_tls_is_closed_and_others_are_served(data: bytes, loop: str) -> None:
    async def main() -> None:
        async with serving() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(data)
            writer.write_eof()
            try:
                answer = await reader.read()
            except ConnectionError:
                answer = b""
            # Nothing, or an alert of TLS.
            assert answer == b"" or answer[0] == 0x15
            writer.close()
            assert (await served.ask(post(b"well"))).json["body"] == "well"
            assert len(served.echo.requests) == 1

    run(main(), loop)


def test_tls_to_a_plain_port_is_refused_as_any_other_noise(tls: TlsContexts) -> None:
    async def main() -> None:
        token = TLS.set(None)
        async with serving() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            secured = TlsWriter(reader, writer, tls.client)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await secured.open()
            writer.close()
            assert (await served.ask(get())).status == 200
        TLS.reset(token)

    run(main())


def test_without_descriptors_accepting_pauses_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [errno.EMFILE, errno.ECONNABORTED]
    accept = socket.socket.accept

    def failing(self: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise OSError(failures.pop(), "planted")
        return accept(self)

    async def main() -> None:
        async with serving() as served:
            monkeypatch.setattr(socket.socket, "accept", failing)
            assert (await served.ask(get())).status == 200
            assert not failures

    run(main())


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::FFFF:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("::ffff:nonsense", "::ffff:nonsense"),
        ("", ""),
    ],
)
def test_an_ipv4_client_has_one_address(given: str, counted: str) -> None:
    assert normal_address(given) == counted


@BOTH
def test_a_turn_of_accepting_ends_when_its_time_is_over(loop: str) -> None:
    """However many wait, requests of others come in between."""

    async def main(accept_s: float) -> list[int]:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        clients = [socket.create_connection(listening.getsockname()) for _ in range(6)]
        ticks = itertools.count()
        accepted: list[int] = []
        capacity = Capacity(ConnectionLimits())
        acceptor = Acceptor(
            (listening,), lambda: Counted(accepted), capacity, None, lambda: next(ticks) * accept_s
        )
        counts: list[int] = []
        acceptor.start()
        while len(accepted) < len(clients):
            await asyncio.sleep(0)
            counts.append(len(accepted))
        await acceptor.stop()
        for client in clients:
            client.close()
        return [later - earlier for earlier, later in itertools.pairwise([0, *counts])]

    assert max(run(main(1.0), loop)) == 1
    assert max(run(main(0.0), loop)) == 6


class Counted(asyncio.Protocol):
    """Counts the connections that are made."""

    def __init__(self, made: list[int]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(1)
        transport.close()
