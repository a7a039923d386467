"""A client as thin as can be, so that the figures are the broker's: prepared bytes over asyncio.

Knows just enough of HTTP/1.1 to find the end of an answer with a Content-Length.
"""

import asyncio
import json
import ssl
from typing import Any, cast

__all__ = ["Wire", "request"]


def request(method: str, target: str, body: bytes = b"", key: str = "") -> bytes:
    """The bytes of one request; `key` is an API key."""
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    proof = f"X-API-Key: {key}\r\n" if key else ""
    return f"{head}{proof}\r\n".encode() + body


class Wire(asyncio.BufferedProtocol):
    """One keep-alive connection with one request on it at a time."""

    def __init__(self) -> None:
        # The loop receives into it: otherwise it allocates 256 KiB for each record of TLS.
        self._received = memoryview(bytearray(64 * 1024))
        self._buffer = bytearray()
        self._missing = -1
        self._body_from = 0
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int, tls: ssl.SSLContext | None = None) -> "Wire":
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(cls, "127.0.0.1", port, ssl=tls)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods without being of the class.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("closed"))

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer += self._received[:nbytes]
        if self._missing < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            place = head.index(b"content-length:") + 15
            length = int(head[place:].split(b"\r\n", 1)[0])
            self._body_from = end + 4
            self._missing = self._body_from + length
        if len(self._buffer) >= self._missing:
            answer, self._answer = self._answer, None
            whole, self._buffer = self._buffer, bytearray()
            self._missing = -1
            assert answer is not None
            if not whole.startswith(b"HTTP/1.1 2"):
                answer.set_exception(RuntimeError(whole[:400].decode("utf-8", "replace")))
            else:
                answer.set_result(bytes(memoryview(whole)[self._body_from :]))

    async def send(self, prepared: bytes) -> bytes:
        """The body of the answer."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(prepared)
        return await self._answer

    async def ask(self, method: str, target: str, body: object = None) -> Any:  # noqa: ANN401 - whatever the JSON says
        encoded = b"" if body is None else json.dumps(body).encode()
        return json.loads(await self.send(request(method, target, encoded)))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
