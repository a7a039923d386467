"""A gRPC client as thin as can be, so that the figures are the node's: prepared bytes over asyncio.

Keeps the windows of both sides, and nothing else that a client should.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from goqueue.gateways.grpc.http2.frames import (
    PREFACE,
    FrameReader,
    FrameType,
    SettingId,
    settings,
    window_update,
    write_frame,
)
from goqueue.gateways.grpc.http2.header_codec import encode_headers
from goqueue.gateways.grpc.message_reader import MessageReader, framed

__all__ = ["RawCall", "RawConnection"]

_WINDOW = 8 * 1024 * 1024
_END_STREAM, _END_HEADERS = 0x1, 0x4
_MESSAGE_MAX = 64 * 1024 * 1024


class RawCall:
    """One call: `received` is told its messages, `ended` is set with its trailers."""

    def __init__(self, number: int, window: int, received: Callable[[list[bytes]], None]) -> None:
        self.number = number
        self.window = window
        self.reader = MessageReader(_MESSAGE_MAX, b"identity")
        self.received = received
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.opened = asyncio.Event()


class RawConnection(asyncio.Protocol):
    """One connection to a node."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._calls: dict[int, RawCall] = {}
        self._number = -1
        self._window = 65_535
        self._initial = 65_535
        self._taken = 0

    @classmethod
    async def open(cls, port: int) -> "RawConnection":
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(cls, "127.0.0.1", port)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        hello = settings({SettingId.INITIAL_WINDOW_SIZE: _WINDOW})
        self._transport.write(PREFACE + hello + window_update(0, _WINDOW))

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            if frame.kind == FrameType.DATA:
                self._take(self._calls[frame.stream], frame.payload)
            elif frame.kind == FrameType.WINDOW_UPDATE:
                self._open_window(frame.stream, int.from_bytes(frame.payload, "big"))
            elif frame.kind == FrameType.SETTINGS and not frame.flags & 1:
                self._adopt(bytes(frame.payload))
            elif frame.kind == FrameType.PING and not frame.flags & 1:
                self._transport.write(write_frame(FrameType.PING, 1, 0, bytes(frame.payload)))
            elif frame.kind == FrameType.HEADERS and frame.flags & _END_STREAM:
                call = self._calls.pop(frame.stream)
                if not call.ended.done():
                    call.ended.set_result(None)

    def _take(self, call: RawCall, payload: memoryview) -> None:
        call.reader.feed(payload)
        self._taken += len(payload)
        self._transport.write(window_update(call.number, len(payload)))
        if self._taken >= _WINDOW // 4:
            self._transport.write(window_update(0, self._taken))
            self._taken = 0
        messages = call.reader.take(1_000_000)
        if messages:
            call.received(messages)

    def _open_window(self, stream: int, size: int) -> None:
        if stream:
            call = self._calls.get(stream)
            if call is not None:
                call.window += size
        else:
            self._window += size
        for call in self._calls.values():
            call.opened.set()

    def _adopt(self, payload: bytes) -> None:
        for place in range(0, len(payload), 6):
            if int.from_bytes(payload[place : place + 2], "big") == SettingId.INITIAL_WINDOW_SIZE:
                size = int.from_bytes(payload[place + 2 : place + 6], "big")
                change, self._initial = size - self._initial, size
                for call in self._calls.values():
                    call.window += change
                    call.opened.set()

    def begin(self, method: str, received: Callable[[list[bytes]], None]) -> RawCall:
        """Begin a call of `Service/Method`."""
        self._number += 2
        head = encode_headers(
            [
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", f"/goqueue.v1.{method}".encode()),
                (b":authority", b"node"),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
            ]
        )
        self._transport.write(write_frame(FrameType.HEADERS, _END_HEADERS, self._number, head))
        call = self._calls[self._number] = RawCall(self._number, self._initial, received)
        return call

    def unary(
        self, method: str, request: bytes, received: Callable[[list[bytes]], None]
    ) -> RawCall:
        """A call with one message."""
        call = self.begin(method, received)
        data = framed([request])
        self._window -= len(data)
        self._transport.write(write_frame(FrameType.DATA, _END_STREAM, call.number, data))
        return call

    async def send(self, call: RawCall, frames: bytes, size: int) -> None:
        """Send frames that are written already, once the windows have room for `size` bytes."""
        while min(self._window, call.window) < size:
            call.opened.clear()
            await call.opened.wait()
        self._window -= size
        call.window -= size
        self._transport.write(frames)

    def close(self) -> None:
        self._transport.close()
