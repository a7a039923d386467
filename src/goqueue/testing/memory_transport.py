"""The two ends of a connection that stays in the process.

What one end writes is handed to the event loop of the other, which may be that of another thread.
Bytes arrive whole and in order. A writer is never slowed down: what is under way is held by the
loop of its reader, as the tests of one program hold little.

Invariant: each end reports its loss once, after everything that was written to it before.
"""

import asyncio
from collections.abc import Callable, Iterable

from goqueue.testing.idle import post_to

__all__ = ["MemoryTransport", "connect_ends"]

# What may read one end: what it gets is handed over, or copied into a buffer that it lends.
Reader = asyncio.Protocol | asyncio.BufferedProtocol
Data = bytes | bytearray | memoryview
# Called in either thread when something is handed to a loop.
Note = Callable[[asyncio.AbstractEventLoop], None]


class MemoryTransport(asyncio.Transport):
    """One end; its methods are called on its own loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, note: Note) -> None:
        super().__init__()
        self._loop = loop
        self._note = note
        self._peer: MemoryTransport | None = None
        self._protocol: Reader | None = None
        self._is_closing = False
        # What arrived before reading began, or while it was paused.
        self._unread: list[bytes] = []
        self._is_paused = True
        self._is_peer_gone = False

    def join(self, peer: "MemoryTransport") -> None:
        self._peer = peer

    def serve(self, protocol: Reader) -> None:
        """Hand what arrives to this protocol, which knows this transport already."""
        self._protocol = protocol
        self.resume_reading()

    # What protocols call

    def write(self, data: Data) -> None:
        if self._is_closing or self._peer is None or not data:
            return
        self._peer.post(self._peer.receive, bytes(data))

    def writelines(self, list_of_data: Iterable[Data]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered here."""

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._deliver)

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._loop.call_soon(self._lose)
        if self._peer is not None:
            self._peer.post(self._peer.peer_gone)

    # What the other end posts

    def post(self, call: Callable[..., None], *given: bytes) -> None:
        """Call on the loop of this end; a loop that is closed has no use for it."""
        self._note(self._loop)
        if not post_to(self._loop, call, *given):
            self._is_closing = True

    def receive(self, data: bytes) -> None:
        self._unread.append(data)
        self._deliver()

    def peer_gone(self) -> None:
        self._is_peer_gone = True
        self._deliver()

    def _deliver(self) -> None:
        while self._unread and self._protocol is not None and self.is_reading():
            self._read(self._protocol)
        if self._is_peer_gone and not self._is_closing and not self._unread:
            self._is_closing = True
            self._lose()

    def _read(self, protocol: Reader) -> None:
        data = self._unread.pop(0)
        if isinstance(protocol, asyncio.BufferedProtocol):
            # What is larger than the buffer follows in parts.
            room = memoryview(protocol.get_buffer(len(data)))
            part = data[: len(room)]
            if len(part) < len(data):
                self._unread.insert(0, data[len(part) :])
            room[: len(part)] = part
            protocol.buffer_updated(len(part))
        else:
            protocol.data_received(data)

    def _lose(self) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(None)


def connect_ends(
    one: asyncio.AbstractEventLoop, other: asyncio.AbstractEventLoop, note: Note
) -> tuple[MemoryTransport, MemoryTransport]:
    """Two ends, each for its loop."""
    ends = MemoryTransport(one, note), MemoryTransport(other, note)
    ends[0].join(ends[1])
    ends[1].join(ends[0])
    return ends
