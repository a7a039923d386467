"""Frames of a link between brokers: bytes to frames and back, without IO.

    length u32 · crc32c u32 of the rest · kind u16 · header length u32 · header · attachments

Big-endian; `length` counts what follows it. Each attachment is its size (u32) and its bytes. The
checksum covers everything behind it: those of records leave out what a frame says about them.

Hostile input: a length is checked before anything is kept, what is kept grows only with what came,
and the first invalid frame is the last thing that is read. Cost: attachments are never joined when
they are sent; one that arrives is a view of the received bytes if it is large, else a copy, so that
a small one does not keep a large buffer in memory.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from goqueue.cluster import Confirm, Hello, LinkMessage, Ping, Refuse, Welcome
from goqueue.model import PEER_MESSAGES, PeerMessage

__all__ = [
    "ATTACHMENTS_MAX",
    "FRAME_BYTES_MAX",
    "HANDSHAKE_BYTES_MAX",
    "HEADER_BYTES_MAX",
    "Buffer",
    "Frame",
    "FrameDecoder",
    "FrameInvalid",
    "decode_message",
    "encode_frame",
    "encode_message",
    "kind_of",
]

Buffer = bytes | bytearray | memoryview

HANDSHAKE_BYTES_MAX = 64 * 1024
FRAME_BYTES_MAX = 16 * 1024 * 1024 + HANDSHAKE_BYTES_MAX
HEADER_BYTES_MAX = 1024 * 1024
ATTACHMENTS_MAX = 1024

_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">IIHI")
_BODY = struct.Struct(">HI")
_SIZE = struct.Struct(">I")
# What a frame without header and attachments counts.
_LENGTH_MIN = _HEAD.size - _LENGTH.size
# An attachment of this size is worth keeping its whole frame in memory.
_VIEW_BYTES_MIN = 64 * 1024


class FrameInvalid(Exception):
    """What came is not a frame of this protocol; the connection cannot be used any more."""


class Frame(NamedTuple):
    """One frame: its kind, its header (MessagePack), and what is attached."""

    kind: int
    header: memoryview
    data: tuple[bytes | memoryview, ...]


def encode_frame(kind: int, header: bytes, data: Sequence[Buffer] = ()) -> tuple[list[Buffer], int]:
    """The buffers of a frame, in order, and the number of their bytes."""
    assert len(header) <= HEADER_BYTES_MAX, "the header of a frame is bounded by its sender"
    assert len(data) <= ATTACHMENTS_MAX
    if not data:
        length = _LENGTH_MIN + len(header)
        body = _BODY.pack(kind, len(header)) + header
        return [_LENGTH.pack(length) + _SIZE.pack(crc32c(body)) + body], _LENGTH.size + length
    body = _BODY.pack(kind, len(header)) + header
    crc = crc32c(body)
    length = _LENGTH_MIN + len(header)
    buffers: list[Buffer] = [b""]
    for each in data:
        size = each.nbytes if isinstance(each, memoryview) else len(each)
        prefix = _SIZE.pack(size)
        crc = crc32c(each, crc32c(prefix, crc))
        length += len(prefix) + size
        buffers += (prefix, each)
    assert length <= FRAME_BYTES_MAX, "a frame is bounded by its sender"
    buffers[0] = _LENGTH.pack(length) + _SIZE.pack(crc) + body
    return buffers, _LENGTH.size + length


class FrameDecoder:
    """Frames from what a socket brings, in pieces of any size.

    `bytes_max` bounds the length of a frame; it may be raised between two frames.
    """

    def __init__(self, bytes_max: int = HANDSHAKE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        # The frame that has begun, its length included, and how much of it is missing.
        self._partial = bytearray()
        self._missing = 0

    @property
    def is_between_frames(self) -> bool:
        """Whether nothing of an incomplete frame is kept."""
        return not self._partial

    @property
    def bytes_kept(self) -> int:
        return len(self._partial)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now; raises FrameInvalid.

        Each is checked when it is asked for, so the bound may be raised before the next. All have
        to be asked for.
        """
        view = memoryview(data)
        position = 0
        while position < len(view):
            if self._partial:
                taken = min(self._missing, len(view) - position)
                self._partial += view[position : position + taken]
                position += taken
                whole = self._complete(taken)
                if whole is not None:
                    yield _decode(whole[_LENGTH.size :])
                continue
            if len(view) - position < _LENGTH.size:
                self._keep(view[position:], _LENGTH.size)
                break
            length = self._check_length(_LENGTH.unpack_from(view, position)[0])
            end = position + _LENGTH.size + length
            if end > len(view):
                self._keep(view[position:], _LENGTH.size + length)
                break
            start, position = position + _LENGTH.size, end
            yield _decode(view[start:end])

    def _keep(self, rest: memoryview, needed: int) -> None:
        self._partial = bytearray(rest)
        self._missing = needed - len(rest)

    def _complete(self, taken: int) -> memoryview | None:
        """The frame that has begun, if these bytes were the last of it."""
        self._missing -= taken
        if self._missing:
            return None
        if len(self._partial) == _LENGTH.size:
            # So far only its length was awaited.
            self._missing = self._check_length(_LENGTH.unpack(self._partial)[0])
            return None
        # Not used again: the frame has views of it.
        whole, self._partial = memoryview(self._partial), bytearray()
        return whole

    def _check_length(self, length: int) -> int:
        if length < _LENGTH_MIN:
            raise FrameInvalid(f"a frame of {length} bytes is too short")
        if length > self.bytes_max:
            raise FrameInvalid(f"a frame of {length} bytes is above {self.bytes_max}")
        return length


def _decode(rest: memoryview) -> Frame:
    """A frame from what follows its length."""
    (expected,) = _SIZE.unpack_from(rest)
    body = rest[_SIZE.size :]
    if crc32c(body) != expected:
        raise FrameInvalid("the checksum of a frame is wrong")
    kind, header_size = _BODY.unpack_from(body)
    end = _BODY.size + header_size
    if header_size > HEADER_BYTES_MAX or end > len(body):
        raise FrameInvalid(f"a header of {header_size} bytes does not fit")
    header = body[_BODY.size : end]
    return Frame(kind, header, _attachments(body[end:]) if end < len(body) else ())


def _attachments(rest: memoryview) -> tuple[bytes | memoryview, ...]:
    found: list[bytes | memoryview] = []
    position = 0
    while position < len(rest):
        if len(found) == ATTACHMENTS_MAX:
            raise FrameInvalid(f"a frame has more than {ATTACHMENTS_MAX} attachments")
        if len(rest) - position < _SIZE.size:
            raise FrameInvalid("the size of an attachment is cut off")
        (size,) = _SIZE.unpack_from(rest, position)
        position += _SIZE.size
        if size > len(rest) - position:
            raise FrameInvalid(f"an attachment of {size} bytes does not fit")
        each = rest[position : position + size].toreadonly()
        found.append(each if size >= _VIEW_BYTES_MIN else bytes(each))
        position += size
    return tuple(found)


_MESSAGES: tuple[type[LinkMessage | PeerMessage], ...] = (
    Hello,
    Welcome,
    Confirm,
    Refuse,
    Ping,
    *PEER_MESSAGES,
)
_DECODERS = {each.__struct_config__.tag: msgspec.msgpack.Decoder(each) for each in _MESSAGES}


def kind_of(message: LinkMessage | PeerMessage) -> int:
    """The kind of the frame of a message."""
    tag = type(message).__struct_config__.tag
    assert isinstance(tag, int)
    return tag


def decode_message(frame: Frame) -> LinkMessage | PeerMessage:
    """The message of a frame; raises FrameInvalid."""
    decoder = _DECODERS.get(frame.kind)
    if decoder is None:
        raise FrameInvalid(f"no message has the number {frame.kind}")
    try:
        message: LinkMessage | PeerMessage = decoder.decode(frame.header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise FrameInvalid(f"the message {frame.kind} is invalid: {error}") from None
    return message


_encoder = msgspec.msgpack.Encoder()


def encode_message(
    message: LinkMessage | PeerMessage, data: Sequence[Buffer] = ()
) -> tuple[list[Buffer], int]:
    """The buffers of the frame of a message, and the number of their bytes."""
    return encode_frame(kind_of(message), _encoder.encode(message), data)
