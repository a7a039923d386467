"""A transport on an ephemeral port of the loopback, an application that echoes, and raw clients."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
import uvloop

from goqueue.gateways import Capacity, ConnectionLimits, Endpoint, TcpListener
from goqueue.gateways.http import http_listener
from goqueue.gateways.http.server.application import (
    HttpLimits,
    HttpRequest,
    HttpResponse,
    HttpStream,
    StreamSink,
)
from goqueue.model import Code

__all__ = [
    "LOOPS",
    "Echo",
    "EchoTarget",
    "Reply",
    "Served",
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


def run(main: Coroutine[Any, Any, T], loop: str = "uvloop") -> T:
    """Run a test on the loop named; nothing in it may hang."""

    async def timed() -> T:
        async with asyncio.timeout(TEST_S):
            return await main

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(timed())


class EchoTarget(msgspec.Struct, frozen=True):
    """The limits of a path."""

    body_bytes_max: int = 1024
    may_be_large: bool = False
    handling_s: float = float("inf")


class Echo:
    """Answers with what it was asked; some paths wait, fail or say a lot."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go = asyncio.Event()
        self.sent = 0

    def resolve(self, _method: str, path: bytes) -> EchoTarget:
        match path:
            case b"/large":
                return EchoTarget(body_bytes_max=16 * 1024 * 1024)
            case b"/much":
                return EchoTarget(may_be_large=True)
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


class Wire:
    """A client that sends exactly the bytes it is given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        wire = Wire(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26))
        self._wires.append(wire)
        return wire

    def dial(self) -> socket.socket:
        """A bare socket, which reads only when told to."""
        return socket.create_connection(("127.0.0.1", self.port))

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
    limits: HttpLimits | None = None, together: ConnectionLimits | None = None
) -> AsyncIterator[Served]:
    """A server on the loopback; stopped at the end, with everything that is open."""
    echo = Echo()
    endpoint = Endpoint("127.0.0.1", 0)
    server = http_listener(echo, endpoint, limits=limits, capacity=Capacity(together))
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
