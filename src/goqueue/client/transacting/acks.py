"""Receipts that are to be acknowledged by a transaction, on their way to it.

They travel many at a time: when there are enough, with every heartbeat, and before the commit. What
was added is held for the transaction, so its lease does not run out any more and is not renewed.
"""

import asyncio

from goqueue.client.message import Lease
from goqueue.client.transacting.coordinator import Coordinator
from goqueue.model.requests import Owner

__all__ = ["Acks"]

_BATCH_MAX = 1000


class Acks:
    """What one transaction acknowledges, by group."""

    def __init__(self, coordinator: Coordinator, owner: Owner) -> None:
        self._coordinator = coordinator
        self._owner = owner
        self._waiting: dict[str, list[Lease]] = {}
        self._adding = asyncio.Lock()

    async def add(self, lease: Lease) -> None:
        waiting = self._waiting.setdefault(lease.group, [])
        waiting.append(lease)
        if len(waiting) >= _BATCH_MAX:
            await self.flush()

    async def flush(self) -> None:
        """Add what waits; raises if the broker will not have it, and then again next time."""
        async with self._adding:
            while self._waiting:
                group = next(iter(self._waiting))
                waiting = self._waiting[group]
                batch = waiting[:_BATCH_MAX]
                receipt_handles = [lease.receipt_handle for lease in batch]
                await self._coordinator.add_acks(self._owner, group, receipt_handles)
                for lease in batch:
                    lease.end()
                # Only now: a call that is cancelled has acknowledged nothing.
                del waiting[: len(batch)]
                if not waiting:
                    del self._waiting[group]
