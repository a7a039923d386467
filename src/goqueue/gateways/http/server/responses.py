"""HTTP/1.1 responses as bytes, and the refusals that the server sends by itself.

The head is one piece; large bodies are not copied. Each code has one status. Where HTTP has a more
exact status for a fault of the wire (431, 501, 505), that one is used with the code
`request_invalid`. A client that is too slow gets 504 `request_timeout`, not 408: clients may send a
request again by themselves after a 408.

Invariant: what is encoded here is exactly one message; a header that could end it early is an
error.
"""

import functools
import http
from types import MappingProxyType

import msgspec

from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import Code

__all__ = [
    "BODIES_FULL",
    "BODY_SLOW",
    "CONTINUE",
    "CUT_SHORT",
    "FAULT",
    "HEAD_SLOW",
    "HEAD_TOO_LARGE",
    "LAST_CHUNK",
    "STOPPING",
    "TOO_MANY_CONNECTIONS",
    "UNAUTHENTICATED",
    "UNSENT_FULL",
    "UNSUPPORTED_CODING",
    "UNSUPPORTED_VERSION",
    "Buffer",
    "Refusal",
    "body_too_large",
    "chunk",
    "encode",
    "malformed",
]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

# Below this a copy into one buffer is cheaper than a second entry in the write queue.
_JOIN_BYTES_MAX = 16 * 1024

_CHUNKED = b"Transfer-Encoding: chunked\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_CLOSE = b"Connection: close\r\n\r\n"
_STAY = b"Connection: keep-alive\r\n\r\n"

Buffer = bytes | bytearray | memoryview


def encode(
    response: HttpResponse, *, is_head: bool, is_last: bool, version: str
) -> tuple[Buffer, ...]:
    """The buffers to write, in order; a HEAD keeps the length of the body it does not get."""
    body = response.body
    buffers = body if isinstance(body, tuple) else (body,)
    size = sum(map(_size, buffers))
    lines: list[Buffer] = [_opening(response.status, response.content_type)]
    if response.stream is not None:
        # Of HTTP/1.0 the end of the connection is the end of the body.
        lines.append(_CHUNKED if version == "1.1" else b"")
    elif response.status not in (204, 304):
        lines.append(b"Content-Length: %d\r\n" % size)
    for name, value in response.headers:
        lines.append(_line(name, value))
    if is_last:
        lines.append(_CLOSE)
    elif version == "1.0":
        lines.append(_STAY)
    else:
        lines.append(b"\r\n")
    if is_head or not size:
        return (b"".join(lines),)
    if response.status in (204, 304):
        raise ValueError(f"a response with status {response.status} has no body")
    if size <= _JOIN_BYTES_MAX:
        lines.extend(buffers)
        return (b"".join(lines),)
    return (b"".join(lines), *buffers)


def chunk(data: bytes | bytearray) -> bytes:
    """A piece of a body whose length nobody knows yet; an empty one would be the last."""
    assert data
    return b"".join((b"%x\r\n" % len(data), data, b"\r\n"))


@functools.lru_cache(maxsize=256)
def _opening(status: int, content_type: bytes) -> bytes:
    phrase = http.HTTPStatus(status).phrase.encode()
    opening = b"HTTP/1.1 %d %b\r\nCache-Control: no-store\r\n" % (status, phrase)
    if status in (204, 304):
        return opening
    return opening + _line(b"Content-Type", content_type)


def _line(name: bytes, value: bytes) -> bytes:
    line = b"%b: %b\r\n" % (name, value)
    if line.count(b"\n") != 1 or line.count(b"\r") != 1 or 0 in line:
        raise ValueError("a header of the response holds a line break or NUL")
    return line


def _size(buffer: Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


class Refusal(msgspec.Struct, frozen=True):
    """A refusal before the application has put it into a response."""

    status: int
    code: Code
    sentence: str
    limit: int | None = None

    @property
    def details(self) -> MappingProxyType[str, int]:
        return MappingProxyType({} if self.limit is None else {"limit": self.limit})


def malformed(reason: str) -> Refusal:
    return Refusal(400, Code.REQUEST_INVALID, f"This is not a valid HTTP request: {reason}.")


def body_too_large(limit: int) -> Refusal:
    sentence = f"The body is larger than the {limit} bytes allowed here."
    return Refusal(413, Code.BODY_TOO_LARGE, sentence, limit)


# One sentence for every reason: a caller must not learn which it was.
UNAUTHENTICATED = Refusal(
    401, Code.UNAUTHENTICATED, "A valid API key is needed: send it as Authorization: Bearer <key>."
)
CUT_SHORT = malformed("it ended before it was complete")
HEAD_TOO_LARGE = Refusal(431, Code.REQUEST_INVALID, "The head of the request is too large.")
UNSUPPORTED_CODING = Refusal(
    501, Code.REQUEST_INVALID, "The only supported transfer coding is chunked."
)
UNSUPPORTED_VERSION = Refusal(
    505, Code.REQUEST_INVALID, "Only HTTP/1.1 and HTTP/1.0 are supported."
)
HEAD_SLOW = Refusal(
    504, Code.REQUEST_TIMEOUT, "The head of the request took too long to arrive; nothing was done."
)
BODY_SLOW = Refusal(
    504, Code.REQUEST_TIMEOUT, "The body of the request took too long to arrive; nothing was done."
)
TOO_MANY_CONNECTIONS = Refusal(503, Code.BROKER_UNAVAILABLE, "Too many connections are open.")
BODIES_FULL = Refusal(
    503, Code.BROKER_UNAVAILABLE, "Too many request bodies are in progress; nothing was done."
)
UNSENT_FULL = Refusal(
    503, Code.BROKER_UNAVAILABLE, "Too many responses wait to be read; nothing was done."
)
STOPPING = Refusal(503, Code.BROKER_UNAVAILABLE, "The node is stopping; nothing was done.")
FAULT = Refusal(500, Code.INTERNAL_ERROR, "The broker failed to handle the request.")
