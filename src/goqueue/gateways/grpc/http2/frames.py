"""HTTP/2 frames (RFC 9113): cut out of the bytes of a connection, and written.

Never knows what a frame means. A frame that is larger than was allowed is a fault before any of its
payload is kept, so a reader holds at most one frame.

Cost per frame: one unpacking of its head; payloads are views into what was received, and copied
only where a frame is spread over several reads.
"""

import enum
import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "FRAME_BYTES_MAX",
    "PREFACE",
    "WINDOW_MAX",
    "ConnectionFault",
    "ErrorCode",
    "Flag",
    "Frame",
    "FrameReader",
    "FrameType",
    "SettingId",
    "StreamFault",
    "go_away",
    "head_of_data",
    "reset_stream",
    "settings",
    "unpadded",
    "window_update",
    "write_frame",
]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# The largest payload that this side accepts.
FRAME_BYTES_MAX = 64 * 1024
WINDOW_MAX = 2**31 - 1

_HEAD = struct.Struct(">HBBBL")
_HEAD_BYTES = 9
_STREAM_MASK = 2**31 - 1


class FrameType(enum.IntEnum):
    """What a frame is; unknown ones are ignored."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag(enum.IntFlag):
    """Flags of frames; ACK and END_STREAM share a bit, in frames of different types."""

    END_STREAM = 0x1
    ACK = 0x1
    END_HEADERS = 0x4
    PADDED = 0x8
    PRIORITY = 0x20


class ErrorCode(enum.IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class SettingId(enum.IntEnum):
    """Settings that a side announces."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ConnectionFault(Exception):
    """The client broke the protocol in a way that ends the connection."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class StreamFault(Exception):
    """The client broke the protocol in a way that ends one stream."""

    def __init__(self, stream: int, code: ErrorCode) -> None:
        super().__init__(stream, code)
        self.stream = stream
        self.code = code


class Frame(NamedTuple):
    """One frame; the payload is valid until the next bytes are fed."""

    kind: int
    flags: int
    stream: int
    payload: memoryview


class FrameReader:
    """Cuts frames out of bytes as they come."""

    def __init__(self, preface: bytes = b"") -> None:
        # What has to come before the first frame, as far as it has not.
        self._preface = preface
        # What is there of a frame that has not come whole.
        self._partial = bytearray()

    @property
    def has_begun(self) -> bool:
        """Whether the other side has said that it speaks HTTP/2."""
        return not self._preface

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now; raises ConnectionFault for one that is too large."""
        if self._preface:
            data = self._without_preface(data)
        view = memoryview(data)
        position, end = 0, len(data)
        partial = self._partial
        if partial:
            position = min(self._missing(), end)
            partial += view[:position]
            if len(partial) >= _HEAD_BYTES and (missing := self._missing()):
                more = min(missing, end - position)
                partial += view[position : position + more]
                position += more
            if self._missing():
                return
            whole, self._partial = memoryview(partial), bytearray()
            yield self._frame(whole, 0, len(whole))
        while end - position >= _HEAD_BYTES:
            following = position + _HEAD_BYTES + _payload_size(view, position)
            if following > end:
                break
            yield self._frame(view, position, following)
            position = following
        if position < end:
            self._partial += view[position:]

    def _without_preface(self, data: bytes) -> bytes:
        size = min(len(self._preface), len(data))
        if data[:size] != self._preface[:size]:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this is not HTTP/2")
        self._preface = self._preface[size:]
        return data[size:]

    def _missing(self) -> int:
        """How many bytes the head that has begun lacks, or else the frame."""
        have = len(self._partial)
        if have < _HEAD_BYTES:
            return _HEAD_BYTES - have
        return _HEAD_BYTES + _payload_size(self._partial, 0) - have

    def _frame(self, view: memoryview, position: int, following: int) -> Frame:
        _, _, kind, flags, stream = _HEAD.unpack_from(view, position)
        return Frame(kind, flags, stream & _STREAM_MASK, view[position + _HEAD_BYTES : following])


def _payload_size(view: memoryview | bytearray, position: int) -> int:
    size = view[position] << 16 | view[position + 1] << 8 | view[position + 2]
    if size > FRAME_BYTES_MAX:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame has {size} bytes")
    return size


def write_frame(kind: FrameType, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """The bytes of a frame."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def head_of_data(flags: int, stream: int, size: int) -> bytes:
    """The head of a DATA frame whose payload follows."""
    return _HEAD.pack(size >> 8, size & 0xFF, FrameType.DATA, flags, stream)


def settings(values: dict[SettingId, int]) -> bytes:
    """A SETTINGS frame."""
    payload = b"".join(struct.pack(">HL", name, value) for name, value in values.items())
    return write_frame(FrameType.SETTINGS, 0, 0, payload)


def window_update(stream: int, size: int) -> bytes:
    """A WINDOW_UPDATE frame, for the connection if the stream is 0."""
    return write_frame(FrameType.WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big"))


def reset_stream(stream: int, code: ErrorCode) -> bytes:
    """A RST_STREAM frame."""
    return write_frame(FrameType.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def go_away(last_stream: int, code: ErrorCode, reason: str = "") -> bytes:
    """A GOAWAY frame: streams above the last one were not looked at."""
    payload = last_stream.to_bytes(4, "big") + code.to_bytes(4, "big") + reason.encode()
    return write_frame(FrameType.GOAWAY, 0, 0, payload)


def unpadded(frame: Frame) -> memoryview:
    """The payload without its padding."""
    if not frame.flags & Flag.PADDED:
        return frame.payload
    payload = frame.payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the padding is larger than the frame")
    return payload[1 : len(payload) - payload[0]]
