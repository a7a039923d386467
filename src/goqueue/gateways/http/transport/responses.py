"""Responses as bytes on the wire: the head in one piece, bodies without a copy when large.

Invariant: what is made here is exactly one message; a header that could end it early is an error.
"""

import functools
import http

from goqueue.gateways.http.transport.application import HttpResponse

__all__ = ["CONTINUE", "encode"]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

# Below this a copy into one buffer is cheaper than a second entry in the write queue.
_JOIN_BYTES_MAX = 16 * 1024

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
    if response.status not in (204, 304):
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
