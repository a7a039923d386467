"""Hands large answers to a TLS transport piece by piece.

What is written to a TLS transport is encrypted at once, into a buffer that belongs to the session
and keeps the size of the largest write until the connection ends. Whole answers of 16 MiB would
cost as much memory for each connection that ever read one, and stall the loop while they are
encrypted. So they wait here, as they are, and the next piece follows when the transport has room.

Invariants: bytes leave in the order in which they were written; at most `PIECE_BYTES` are in one
write, and at most `_PIECES_PER_TURN_MAX` pieces in one turn of the loop.

Cost: small writes pass through; a large one costs a view and a call for each piece.
"""

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["PIECE_BYTES", "PacedWriter"]

# Four TLS records, and as much as a transport of uvloop takes before it sends.
PIECE_BYTES = 64 * 1024
_PIECES_PER_TURN_MAX = 16


class PacedWriter:
    """The writing side of one connection; `drained` is called when a large write has left it."""

    __slots__ = (
        "_drained",
        "_is_closing",
        "_is_paused",
        "_is_scheduled",
        "_loop",
        "_pending",
        "_pending_bytes",
        "_transport",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        drained: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._drained = drained
        self._pending: deque[memoryview] = deque()
        self._pending_bytes = 0
        self._is_paused = False
        self._is_scheduled = False
        self._is_closing = False

    @property
    def is_pending(self) -> bool:
        """Whether something waits here."""
        return bool(self._pending)

    def get_write_buffer_size(self) -> int:
        """What waits here and in the transport."""
        return self._pending_bytes + self._transport.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._pending and len(data) <= PIECE_BYTES:
            self._transport.write(data)
            return
        self._pending.append(memoryview(data))
        self._pending_bytes += len(data)
        if len(self._pending) == 1 and not self._is_paused:
            self._hand_over()

    def pause(self) -> None:
        """The transport has enough."""
        self._is_paused = True

    def resume(self) -> bool:
        """The transport has room. True if something waits here; it follows in a later turn."""
        self._is_paused = False
        self._schedule()
        return bool(self._pending)

    def close(self) -> None:
        """Close the transport when everything was handed to it."""
        self._is_closing = True
        if not self._pending:
            self._transport.close()

    def clear(self) -> None:
        """Forget what waits here: nobody will read it."""
        self._pending.clear()
        self._pending_bytes = 0

    def _schedule(self) -> None:
        if self._pending and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._is_scheduled = False
        if not self._pending or self._is_paused:
            return
        self._hand_over()
        if not self._pending and not self._is_closing and not self._is_paused:
            self._drained()

    def _hand_over(self) -> None:
        """Write pieces until the transport has enough, nothing is left, or the turn is over."""
        for _ in range(_PIECES_PER_TURN_MAX):
            head = self._pending[0]
            piece = head[:PIECE_BYTES]
            if len(piece) == len(head):
                self._pending.popleft()
            else:
                self._pending[0] = head[PIECE_BYTES:]
            self._pending_bytes -= len(piece)
            # Pauses this writer, or clears it, if the transport has enough or has failed.
            self._transport.write(piece)
            if not self._pending or self._is_paused:
                break
        if self._pending:
            if not self._is_paused:
                self._schedule()
        elif self._is_closing:
            self._transport.close()
