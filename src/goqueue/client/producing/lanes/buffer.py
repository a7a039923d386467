"""How much a producer may hold that was not answered yet.

Invariant: never more than the bound, except for a single message that alone is larger.
"""

import asyncio

__all__ = ["Buffer"]


class Buffer:
    """Bytes taken, and those who wait for room."""

    __slots__ = ("_bytes_max", "_waiters", "taken")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiters: list[asyncio.Future[None]] = []
        self.taken = 0

    def has_room(self, size_bytes: int) -> bool:
        return self.taken + size_bytes <= self._bytes_max or not self.taken

    async def wait_for_room(self, size_bytes: int) -> None:
        while not self.has_room(size_bytes):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def release(self, size_bytes: int) -> None:
        self.taken -= size_bytes
        assert self.taken >= 0, "released more than was taken"
        # Not at the first free byte: a sender that wakes for every parcel gains nothing.
        if self._waiters and self.taken <= self._bytes_max // 2:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters = []
