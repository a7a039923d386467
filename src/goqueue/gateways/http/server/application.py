"""What the server and its application exchange: requests, responses, and the server's limits.

Owns no behaviour. The server calls the application from one event loop, and answers the requests
of one connection one at a time, in the order of arrival. The defaults of the limits are the
documented ones; tests pass smaller numbers.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from goqueue.gateways.connection_limits import ConnectionBytes
from goqueue.gateways.credentials import Hold
from goqueue.gateways.peer import Peer
from goqueue.model import JSON_MEDIA, Code, ProvenKey

if TYPE_CHECKING:
    from goqueue.gateways.http.server.responses import Refusal

__all__ = [
    "Application",
    "Guard",
    "HttpLimits",
    "HttpRequest",
    "HttpResponse",
    "HttpStream",
    "StreamSink",
    "Target",
]

KIB = 1024
MIB = 1024 * KIB


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one connection; the application bounds each body, by route."""

    head_bytes_max: int = 64 * KIB
    headers_max: int = 100
    head_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    idle_timeout_s: float = 60.0
    # A reader that takes less than this rate for this long is cut off.
    write_timeout_s: float = 30.0
    write_bytes_per_s_min: int = KIB
    # How long a refused peer may go on sending before the connection is cut: closing at once would
    # make its kernel throw the refusal away unread.
    linger_timeout_s: float = 2.0
    # Requests parsed and not yet begun, on one connection; at this number reading pauses.
    pipelined_max: int = 16
    # The same in bytes of their bodies, where more than one has not begun.
    pipelined_bytes_max: int = MIB
    write_buffer_bytes_max: int = 256 * KIB
    # The same for a stream, of which there may be thousands.
    stream_buffer_bytes_max: int = 32 * KIB


class Target(Protocol):
    """What a method on a path leads to, as far as the transport has to know."""

    @property
    def body_bytes_max(self) -> int:
        """The largest body; nothing of a larger one is kept."""
        ...

    @property
    def may_be_large(self) -> bool:
        """Whether an answer may be much larger than its request."""
        ...

    @property
    def handling_s(self) -> float:
        """How long an answer may take; infinite for requests that wait for something."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether the connection ends with the answer."""
        ...

    @property
    def keeps_body(self) -> bool:
        """Whether the body matters: one that will not be read is received and forgotten."""
        ...


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
    # What the application made of method and path.
    target: Target
    version: str = "1.1"
    # The other end of the connection, with its certificate if it has proved one.
    peer: Peer = Peer()
    # What the headers or the certificate proved; None: nothing, or authentication is off.
    key: ProvenKey | None = None


class StreamSink(Protocol):
    """Where a stream goes."""

    async def send(self, data: bytes | bytearray) -> None:
        """Send a piece of the body; waits while the client does not keep up."""
        ...


class HttpStream(msgspec.Struct, frozen=True):
    """A body that is sent as it comes into being.

    `run` writes it, and ends with it; it is cancelled when the client has gone. `probe` is what may
    be sent between two pieces without a meaning, to see whether a silent client is still there.
    """

    run: Callable[[StreamSink], Coroutine[Any, None, None]]
    probe: bytes


class HttpResponse(msgspec.Struct, frozen=True):
    """An answer; its buffers are given away and must not change afterwards.

    With a `stream` that is the body, and the connection ends with it. `code` and `reason` are what
    the log says of an answer that reports a failure and is no refusal.
    """

    status: int
    body: bytes | bytearray | tuple[bytes | bytearray | memoryview, ...] = b""
    content_type: bytes = JSON_MEDIA.encode()
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: HttpStream | None = None
    code: str = ""
    reason: str = ""


class Guard(Protocol):
    """Proves who sends a request."""

    def authenticate(
        self, method: str, target: Target, headers: dict[bytes, bytes], peer: Peer
    ) -> "ProvenKey | Refusal | None":
        """The key of a request, or why it is refused; takes the secret out of the headers.

        None: it has none and needs none. Then it has no body either.
        """
        ...

    def hold(self, address: str, headers: Mapping[bytes, bytes]) -> Hold | None:
        """Hold back the answer to a failed attempt; None if too many are held back."""
        ...


class Connected(Protocol):
    """One connection, as the application sees it."""

    def admit(self, target: Target, proven: ProvenKey | None) -> Target:
        """The target for a key that was proved; without authentication there is none.

        Called once per request, after `resolve`; a target that refuses keeps no body.
        """
        ...

    def close(self) -> None:
        """The connection is gone."""
        ...


class Application(Protocol):
    """The routes, as the transport sees them."""

    def resolve(self, method: str, path: bytes) -> Target:
        """What is asked for; called once per request, when its head is complete. Never fails."""
        ...

    @property
    def guard(self) -> Guard | None:
        """Who checks the keys of requests; None: nobody, authentication is off."""
        ...

    def connected(self, held: ConnectionBytes, /) -> Connected:
        """A connection was made; it is closed once.

        What it holds is counted for its tenant, too, once the application knows that.
        """
        ...

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request; a HEAD is answered like its GET.

        Runs without a task, see `request_runner.py`. Is cancelled when the client has gone. When
        the time of its target is over, TimeoutError is raised in it, and it still answers.
        """
        ...

    def refusal(
        self,
        status: int,
        code: Code,
        sentence: str,
        details: Mapping[str, int],
        headers: Mapping[bytes, bytes],
        *,
        client: str,
    ) -> HttpResponse:
        """Put a refusal of the transport into the contract's words.

        `headers` are those of the request as far as they are beyond doubt.
        """
        ...
