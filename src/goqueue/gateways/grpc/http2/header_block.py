"""The header block of a request that is being received, which may take several frames.

Owns the bytes until the block is whole. Bounds: its size, and the frames that continue it.

Invariant: while a block is open, no frame but its continuation may come.
"""

from goqueue.gateways.grpc.http2.frames import (
    ConnectionFault,
    ErrorCode,
    Flag,
    Frame,
    FrameType,
    unpadded,
)

__all__ = ["HeaderBlock"]

_BLOCK_BYTES_MAX = 64 * 1024
_CONTINUATIONS_MAX = 16
_PRIORITY_BYTES = 5


class HeaderBlock:
    """Gathers one block after the other; each method raises ConnectionFault."""

    __slots__ = ("_block", "_continuations", "_frame")

    def __init__(self) -> None:
        self._block = bytearray()
        self._continuations = 0
        self._frame: Frame | None = None

    def check(self, frame: Frame) -> None:
        """Refuse a frame that interrupts a block."""
        if self._frame is not None and frame.kind != FrameType.CONTINUATION:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")

    def begin(self, frame: Frame) -> bool:
        """Take the first part; whether the block is whole."""
        if not frame.stream % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream has an even number")
        payload = unpadded(frame)
        if frame.flags & Flag.PRIORITY:
            if len(payload) < _PRIORITY_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a priority is cut short")
            payload = payload[_PRIORITY_BYTES:]
        self._frame = Frame(frame.kind, frame.flags, frame.stream, memoryview(b""))
        self._block = bytearray(payload)
        self._continuations = 0
        return bool(frame.flags & Flag.END_HEADERS)

    def append(self, frame: Frame) -> bool:
        """Take a further part; whether the block is whole."""
        if self._frame is None or self._frame.stream != frame.stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a continuation of nothing")
        self._block += frame.payload
        self._continuations += 1
        if len(self._block) > _BLOCK_BYTES_MAX or self._continuations > _CONTINUATIONS_MAX:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the headers are too large")
        return bool(frame.flags & Flag.END_HEADERS)

    def take(self) -> tuple[Frame, bytes]:
        """The frame that began the block, and its bytes; the next may begin."""
        frame, self._frame = self._frame, None
        assert frame is not None
        block, self._block = bytes(self._block), bytearray()
        return frame, block
