"""One stream of an HTTP/2 connection: where it stands, its windows, and its end of the application.

The connection owns the streams and the socket; a stream keeps what belongs to one request. `Sink`
is the application's side of it. `StreamState` says what may still happen:

    OPEN ──end of input──▶ INPUT_ENDED ──trailers or reset──▶ CLOSED
      └──────────────────trailers or reset────────────────────▶

Invariant: after CLOSED nothing is sent on the stream, and its sink hears of nothing more.
"""

import asyncio
import enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from goqueue.gateways.connection_limits import ConnectionBytes
from goqueue.gateways.grpc.http2.frames import ErrorCode, StreamFault
from goqueue.gateways.peer import Peer

if TYPE_CHECKING:
    from goqueue.gateways.grpc.http2.http2_connection import Http2Connection

__all__ = [
    "NO_SINK",
    "WINDOW_BYTES",
    "Application",
    "ConnectionScope",
    "Http2Limits",
    "Http2Stream",
    "Sink",
    "StreamEnded",
    "StreamState",
]

# How much a client may send on a stream before the application has taken it.
WINDOW_BYTES = 512 * 1024


class Http2Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one connection."""

    streams_max: int = 100
    tick_s: float = 10.0
    # Without a call; a ping counts as a sign of life.
    idle_s: float = 300.0
    # A silent client with open calls is asked after this time, and cut after half of it more.
    silence_s: float = 60.0
    stall_s: float = 30.0
    # How long a client whose connection was ended may go on sending before it is cut.
    linger_s: float = 2.0
    # Per tick: resets of calls by either side, pings between two data frames of this side,
    # and other frames that carry nothing.
    resets_max: int = 1000
    pings_max: int = 100
    empty_max: int = 1000
    # Per tick, and beyond what the bytes that were sent allow.
    updates_max: int = 5000
    write_buffer_bytes_max: int = 256 * 1024


class StreamEnded(Exception):
    """The client is gone, or does not want the rest."""


class StreamState(enum.Enum):
    """Where a stream stands."""

    OPEN = enum.auto()
    INPUT_ENDED = enum.auto()
    CLOSED = enum.auto()


class Sink(Protocol):
    """What the application does with a request."""

    def receive(self, data: memoryview) -> None:
        """Bytes of the body; valid during the call only."""
        ...

    def end_input(self) -> None:
        """The client has sent everything."""
        ...

    def cancel(self) -> None:
        """The stream is over: by the client, or with the connection."""
        ...

    def stop(self) -> None:
        """The node stops: end soon, and tell the client."""
        ...


class _NoSink:
    """Hears of a request that was refused by its headers."""

    def receive(self, data: memoryview) -> None:
        """It is dropped."""

    def end_input(self) -> None:
        """Nothing to do."""

    def cancel(self) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to do."""


NO_SINK: Sink = _NoSink()


class Http2Stream:
    """One request and its response."""

    __slots__ = (
        "connection",
        "headers",
        "number",
        "receive_window",
        "returned",
        "send_window",
        "sink",
        "state",
        "unsent",
        "waiter",
    )

    def __init__(
        self,
        connection: "Http2Connection",
        number: int,
        headers: dict[bytes, bytes],
        send_window: int,
    ) -> None:
        self.connection = connection
        self.number = number
        self.headers = headers
        self.state = StreamState.OPEN
        self.send_window = send_window
        self.receive_window = WINDOW_BYTES
        # Bytes that were taken and are not yet given back to the window of the client.
        self.returned = 0
        self.sink: Sink | None = None
        # What waits until the client takes more, and how much that is.
        self.waiter: asyncio.Future[None] | None = None
        self.unsent = 0

    @property
    def peer(self) -> Peer:
        """The client."""
        return self.connection.peer

    @property
    def held(self) -> ConnectionBytes:
        """What its connection holds of the bytes of all."""
        return self.connection.held

    @property
    def is_closed(self) -> bool:
        return self.state is StreamState.CLOSED

    @property
    def has_input_ended(self) -> bool:
        return self.state is not StreamState.OPEN

    def wake(self) -> None:
        """Let what waits to be sent look again whether it may be."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def take_window(self, size: int) -> None:
        """Bytes came; raises StreamFault if they were not allowed."""
        self.receive_window -= size
        if self.receive_window < 0:
            raise StreamFault(self.number, ErrorCode.FLOW_CONTROL_ERROR)

    def give_back(self, size: int) -> None:
        """The application has taken bytes: the client may send as many again, once it pays."""
        self.returned += size
        if self.returned >= WINDOW_BYTES // 2 and self.state is StreamState.OPEN:
            size, self.returned = self.returned, 0
            self.receive_window += size
            self.connection.open_window(self.number, size)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes can be sent without waiting."""
        return self.connection.has_room(self, size)

    def send_at_once(self, data: bytes) -> None:
        """Send a part of the body for which there is room."""
        self.connection.send_at_once(self, data)

    async def send(self, data: bytes | bytearray) -> None:
        """Send a part of the body; waits while the client takes nothing. Raises StreamEnded."""
        await self.connection.send(self, data)

    def send_headers(self, block: bytes, *, is_last: bool) -> None:
        """Send headers, or the trailers that end the response; nothing if the stream is over."""
        self.connection.send_headers(self, block, is_last=is_last)

    def reset(self, code: ErrorCode) -> None:
        """End the stream without trailers."""
        self.connection.reset(self, code)


class ConnectionScope(Protocol):
    """One connection, as the application sees it."""

    @property
    def held(self) -> ConnectionBytes:
        """What it holds of the bytes of all connections, and of those of its tenant."""
        ...

    @property
    def is_unproven(self) -> bool:
        """Whether a key is asked for, and none was proved yet."""
        ...

    def close(self) -> None:
        """The connection is gone."""
        ...


class Application(Protocol):
    """What answers requests."""

    def connected(self, connection: "Http2Connection") -> ConnectionScope:
        """A connection was made; it is closed once."""
        ...

    def open(self, scope: ConnectionScope, stream: Http2Stream) -> Sink:
        """The headers of a request came."""
        ...

    def refuse(self, stream: Http2Stream, reason: str) -> None:
        """Answer a request whose headers are too large or malformed."""
        ...
