"""What the transport and the routes say to each other: a request, a response, four questions.

Owns no behaviour. The transport calls the application from one event loop, and per connection
answers one request at a time, in the order of arrival.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from goqueue.model import Code

__all__ = ["Application", "HttpRequest", "HttpResponse"]


class HttpRequest(msgspec.Struct, frozen=True):
    """One request, whole: head and body have arrived and are within their limits."""

    method: str
    # As it came: not decoded, without query; `*` only for OPTIONS.
    path: bytes
    query: bytes
    # Names in lower case; repeated fields joined by a comma, unless repeating makes them ambiguous.
    headers: dict[bytes, bytes]
    # Given away: the application may keep and change it.
    body: bytearray
    client: str
    version: str = "1.1"


class HttpResponse(msgspec.Struct, frozen=True):
    """An answer; its buffers are given away and must not change afterwards."""

    status: int
    body: bytes | bytearray | tuple[bytes | bytearray | memoryview, ...] = b""
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Application(Protocol):
    """The routes, as the transport sees them."""

    def body_limit(self, method: str, path: bytes) -> int:
        """The largest body in bytes; asked when the head is complete, before a byte is kept."""
        ...

    def may_be_large(self, method: str, path: bytes) -> bool:
        """Whether an answer may be much larger than its request; asked when memory is short."""
        ...

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer; is cancelled when the client has gone. A HEAD is answered like its GET."""
        ...

    def refusal(
        self,
        status: int,
        code: Code,
        sentence: str,
        details: Mapping[str, int],
        headers: Mapping[bytes, bytes],
    ) -> HttpResponse:
        """Put a refusal of the transport into the contract's words.

        `headers` are those of the request as far as they are beyond doubt.
        """
        ...
