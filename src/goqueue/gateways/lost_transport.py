"""What a connection holds in place of its transport after the connection was lost.

A connection is part of reference cycles with its own timers and parsers, so it lives until the next
collection of cycles, and a node collects rarely. A TLS transport costs some 300 KiB, which a lost
connection would keep for as long; without a reference to it, it is freed at once.
"""

import asyncio

__all__ = ["LOST"]


class LostTransport(asyncio.Transport):
    """Is closing, holds nothing and sends nothing."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is left to close."""

    def abort(self) -> None:
        """Nothing is left to abort."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nobody reads it."""

    def get_write_buffer_size(self) -> int:
        return 0


LOST = LostTransport()
