"""A transport on an ephemeral port of the loopback, an application that echoes, and raw clients."""

import asyncio
import contextvars
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
import uvloop

from goqueue.gateways import (
    Capacity,
    ConnectionLimits,
    Endpoint,
    HandshakeLimits,
    TcpListener,
)
from goqueue.gateways.connection_limits import ConnectionBytes
from goqueue.gateways.http import http_listener
from goqueue.gateways.http.server.application import (
    Guard,
    HttpLimits,
    HttpRequest,
    HttpResponse,
    HttpStream,
    StreamSink,
    Target,
)
from goqueue.model import Code, ProvenKey

__all__ = [
    "LOOPS",
    "TLS",
    "Echo",
    "EchoTarget",
    "Reply",
    "Served",
    "TlsContexts",
    "Wire",
    "get",
    "post",
    "run",
    "serving",
]

TEST_S = 60.0

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "stock": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class HandMovedLoop(asyncio.SelectorEventLoop):
    """A loop whose time a test holds and moves: no load of the machine lets a deadline pass."""

    _held_at: float | None = None
    _ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self._ahead_s if self._held_at is None else self._held_at

    def move(self, seconds: float) -> None:
        """From now on time passes only by this."""
        self._held_at = self.time() + seconds

    def let_go(self) -> None:
        assert self._held_at is not None
        # Time never goes back.
        self._ahead_s = max(self._ahead_s, self._held_at - super().time())
        self._held_at = None


def run(main: Coroutine[Any, Any, T], loop: str = "uvloop") -> T:
    """Run a test on the loop named, or on one whose time is moved by hand; nothing may hang."""

    async def timed() -> T:
        async with asyncio.timeout(TEST_S):
            return await main

    with asyncio.Runner(loop_factory=LOOPS.get(loop, HandMovedLoop)) as runner:
        return runner.run(timed())


class EchoTarget(msgspec.Struct, frozen=True):
    """The limits of a path."""

    body_bytes_max: int = 1024
    may_be_large: bool = False
    handling_s: float = float("inf")
    keeps_body: bool = True
    is_last: bool = False


class Unlimited:
    """A connection without a tenant, or with one that has no limits."""

    def __init__(self, held: ConnectionBytes, tenant: str = "") -> None:
        held.assign(tenant)

    def admit(self, target: Target, _: ProvenKey | None) -> Target:
        return target

    def close(self) -> None:
        """Nothing was counted."""


class Echo:
    """Answers with what it was asked; some paths wait, fail or say a lot."""

    def __init__(self) -> None:
        self.guard: Guard | None = None
        # Whose the connections are that are made from now on.
        self.tenant = ""
        self.requests: list[HttpRequest] = []
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go = asyncio.Event()
        self.sent = 0

    def connected(self, held: ConnectionBytes) -> Unlimited:
        return Unlimited(held, self.tenant)

    def resolve(self, _method: str, path: bytes) -> EchoTarget:
        match path:
            case b"/large":
                return EchoTarget(body_bytes_max=16 * 1024 * 1024)
            case b"/much":
                return EchoTarget(may_be_large=True)
            case b"/forgotten":
                return EchoTarget(body_bytes_max=16 * 1024 * 1024, keeps_body=False)
            case b"/slow":
                return EchoTarget(handling_s=0.01)
        return EchoTarget()

    async def answer(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        match request.path:
            case b"/wait":
                await self._wait()
            case b"/slow":
                return await self._wait_in_time()
            case b"/fail":
                raise LookupError("as the test wants it")
            case b"/cancel":
                raise asyncio.CancelledError
            case b"/forge":
                return HttpResponse(200, headers=((b"X-Request-ID", b"a\r\nSet-Cookie: b"),))
            case b"/none":
                return HttpResponse(204)
            case b"/much":
                part = bytes(1024 * 1024)
                return HttpResponse(200, (part, bytearray(part), memoryview(part)), b"text/plain")
            case b"/large":
                return HttpResponse(200, b"%d" % len(request.body))
            case b"/stream":
                return HttpResponse(200, b"", b"text/plain", stream=HttpStream(self._say, b"?"))
            case b"/break":
                return HttpResponse(200, b"", b"text/plain", stream=HttpStream(_break_off, b"?"))
            case b"/flood":
                return HttpResponse(200, b"", b"text/plain", stream=HttpStream(self._flood, b"?"))
        seen = {
            "method": request.method,
            "path": request.path.decode(),
            "query": request.query.decode(),
            "body": request.body.decode(),
            "client": request.client,
            "headers": {name.decode(): text.decode() for name, text in request.headers.items()},
        }
        extra = ((b"X-Request-ID", request.headers.get(b"x-request-id", b"none")),)
        return HttpResponse(200, json.dumps(seen).encode(), headers=extra)

    def refusal(
        self,
        status: int,
        code: Code,
        sentence: str,
        details: Mapping[str, int],
        headers: Mapping[bytes, bytes],
        *,
        client: str,  # noqa: ARG002 - named by the protocol
    ) -> HttpResponse:
        body = {"error": sentence, "code": code, "status": status, "details": dict(details)}
        named = headers.get(b"x-request-id", b"none")
        return HttpResponse(status, json.dumps(body).encode(), headers=((b"X-Request-ID", named),))

    async def _say(self, sink: StreamSink) -> None:
        await sink.send(b"one")
        await self._wait()
        await sink.send(b"two")

    async def _flood(self, sink: StreamSink) -> None:
        """Send without end; `sent` counts what the connection took."""
        try:
            while True:
                await sink.send(bytes(8 * 1024))
                self.sent += 8 * 1024
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def _wait(self) -> None:
        self.waiting.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def _wait_in_time(self) -> HttpResponse:
        try:
            await self._wait()
        except TimeoutError:
            return HttpResponse(504, b"{}")
        return HttpResponse(200, b"{}")


async def _break_off(sink: StreamSink) -> None:
    await sink.send(b"one")
    raise LookupError("as the test wants it")


class Reply(msgspec.Struct, frozen=True):
    """A response as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return str(self.json["code"])

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the server said
        return json.loads(self.body)


class TlsContexts(msgspec.Struct, frozen=True):
    """Both sides of TLS."""

    server: ssl.SSLContext
    client: ssl.SSLContext


# Servers and clients of a test speak TLS while it is set.
TLS: contextvars.ContextVar[TlsContexts | None] = contextvars.ContextVar("TLS", default=None)

# A flood of handshakes is another test.
_UNBOUNDED = HandshakeLimits(
    handshakes_max=256, handshakes_per_address_max=256, starts_per_s_max=100_000
)


class TlsWriter:
    """TLS over streams that, unlike the loop's own, can end its half and still read."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext
    ) -> None:
        self._plain_reader = reader
        self._plain_writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = tls.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.reader = asyncio.StreamReader(limit=1 << 26)
        self._pump: asyncio.Task[None] | None = None

    async def open(self) -> None:
        while True:
            try:
                self._session.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                data = await self._plain_reader.read(1 << 16)
                if not data:
                    raise ConnectionResetError("closed during the handshake") from None
                self._incoming.write(data)
        self._flush()
        self._pump = asyncio.get_running_loop().create_task(self._receive())

    async def _receive(self) -> None:
        try:
            while True:
                self._decrypt()
                data = await self._plain_reader.read(1 << 16)
                if not data:
                    break
                self._incoming.write(data)
        except (OSError, ssl.SSLZeroReturnError):
            pass
        self.reader.feed_eof()

    def _decrypt(self) -> None:
        try:
            while data := self._session.read(1 << 16):
                self.reader.feed_data(data)
            raise ssl.SSLZeroReturnError
        except ssl.SSLWantReadError:
            self._flush()

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._plain_writer.write(data)

    def write(self, data: bytes) -> None:
        self._session.write(data)
        self._flush()

    async def drain(self) -> None:
        await self._plain_writer.drain()

    def write_eof(self) -> None:
        with suppress(ssl.SSLError):
            self._session.unwrap()
        self._flush()

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._plain_writer.transport

    def get_extra_info(self, name: str) -> Any:  # noqa: ANN401 - as the stream has it
        return self._plain_writer.get_extra_info(name)

    def close(self) -> None:
        self._plain_writer.close()

    async def wait_closed(self) -> None:
        if self._pump is not None:
            await self._pump
        with suppress(ConnectionError):
            await self._plain_writer.wait_closed()


class Wire:
    """A client that sends exactly the bytes it is given."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter | TlsWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def reply(self, *, has_body: bool = True) -> Reply:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")[:-2]
        headers = {name.lower(): text for name, _, text in (each.partition(": ") for each in lines)}
        size = int(headers.get("content-length", "0")) if has_body else 0
        return Reply(int(first.split()[1]), headers, await self._reader.readexactly(size))

    async def ask(self, data: bytes) -> Reply:
        await self.send(data)
        return await self.reply()

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, which a reset also is."""
        gathered = bytearray()
        try:
            while part := await self._reader.read(1 << 16):
                gathered += part
        except ConnectionError:
            pass
        return bytes(gathered)

    async def part(self, size: int) -> bytes:
        return await self._reader.readexactly(size)

    def half_close(self) -> None:
        self._writer.write_eof()

    def reset(self) -> None:
        """End with RST instead of FIN."""
        peer = self._writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Served:
    """A started server, its application and the clients that were opened to it."""

    def __init__(self, server: TcpListener, echo: Echo, port: int) -> None:
        self.server = server
        self.echo = echo
        self.port = port
        self._wires: list[Wire] = []

    async def open(self) -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)
        wire = Wire(reader, writer)
        tls = TLS.get()
        if tls is not None:
            secured = TlsWriter(reader, writer, tls.client)
            try:
                await secured.open()
            except BaseException:
                await wire.close()
                raise
            wire = Wire(secured.reader, secured)
        self._wires.append(wire)
        return wire

    def dial(self) -> socket.socket:
        """A bare socket, which reads only when told to."""
        plain = socket.create_connection(("127.0.0.1", self.port))
        tls = TLS.get()
        return plain if tls is None else tls.client.wrap_socket(plain, server_hostname="localhost")

    async def ask(self, data: bytes) -> Reply:
        """One connection, one request, one answer."""
        wire = await self.open()
        try:
            return await wire.ask(data)
        finally:
            await wire.close()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Let the loop go round until something is so; the test's time limit is the bound."""
        while not condition():  # noqa: ASYNC110 - counters have no event
            await asyncio.sleep(0)

    async def wait_for_connections(self, count: int) -> None:
        await self.wait_for(lambda: self.server.connections_active == count)

    async def close(self) -> None:
        for wire in self._wires:
            await wire.close()


@asynccontextmanager
async def serving(
    limits: HttpLimits | None = None,
    together: ConnectionLimits | None = None,
    handshakes: HandshakeLimits = _UNBOUNDED,
) -> AsyncIterator[Served]:
    """A server on the loopback; stopped at the end, with everything that is open."""
    echo = Echo()
    tls = TLS.get()
    endpoint = Endpoint("127.0.0.1", 0, None if tls is None else lambda: tls.server)
    capacity = Capacity(together, handshakes)
    server = http_listener(echo, endpoint, limits=limits, capacity=capacity)
    _, port = await server.open()
    await server.serve()
    served = Served(server, echo, port)
    try:
        yield served
    finally:
        await server.stop(grace_s=0)
        await served.close()


def get(path: str = "/", *lines: str, version: str = "1.1") -> bytes:
    head = (f"GET {path} HTTP/{version}", "Host: localhost", *lines)
    return "\r\n".join((*head, "", "")).encode()


def post(body: bytes, path: str = "/", *lines: str) -> bytes:
    length = f"Content-Length: {len(body)}"
    head = (f"POST {path} HTTP/1.1", "Host: localhost", length, *lines)
    return "\r\n".join((*head, "", "")).encode() + body
