"""Lines of a file, a pipe or a terminal, as they come and without holding up the event loop.

Invariant: no more than one line and one piece is held; a line that is too long is noted as such
and never held whole.
"""

import asyncio
import os
from collections.abc import AsyncIterator

import msgspec

from goqueue.cli.asking import Stop

__all__ = ["Line", "Lines", "read_pieces"]

_PIECE_BYTES = 256 * 1024
# The largest body that a server may be set up to take is far below.
_LINE_BYTES_MAX = 64 * 1024 * 1024


class Line(msgspec.Struct, frozen=True):
    """A line without its line feed, and its number from 1; `text` None was too long."""

    number: int
    text: bytes | None


class Lines:
    """Cuts pieces into lines; pure."""

    def __init__(self, bytes_max: int = _LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._number = 0

    def feed(self, piece: bytes) -> list[Line]:
        """The lines that this piece ends."""
        first, *rest = piece.split(b"\n")
        self._keep(first)
        lines: list[Line] = []
        for part in rest:
            lines.append(self._take())
            self._keep(part)
        return lines

    def end(self) -> list[Line]:
        """The last line, if it has no line feed."""
        return [self._take()] if self._size else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._bytes_max:
            self._parts = []
        elif part:
            self._parts.append(part)

    def _take(self) -> Line:
        self._number += 1
        text = None if self._size > self._bytes_max else b"".join(self._parts)
        self._parts, self._size = [], 0
        return Line(self._number, text)


async def read_pieces(descriptor: int, stop: Stop) -> AsyncIterator[bytes]:
    """What can be read, until its end or until told to stop."""
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, is_readable.set)
    except OSError:
        # A plain file, which is always readable and cannot be waited for.
        while not stop.is_asked and (piece := os.read(descriptor, _PIECE_BYTES)):
            yield piece
        return
    stop.tell(is_readable.set)
    try:
        while True:
            await is_readable.wait()
            is_readable.clear()
            if stop.is_asked or not (piece := os.read(descriptor, _PIECE_BYTES)):
                return
            yield piece
    finally:
        loop.remove_reader(descriptor)
