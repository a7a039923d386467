"""Who a producer is to the broker: an id that was never given before, and an epoch.

Owns the asking for it, which happens when the first batch is to leave. Never numbers a batch.
"""

import asyncio
from typing import Protocol

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.transport import Transport, post

__all__ = ["Fixed", "Identity", "Registration", "Registry"]


class Identity(msgspec.Struct, frozen=True):
    """A producer that the broker knows."""

    producer_id: int
    epoch: int


class Registry(Protocol):
    """Where lanes learn who they are. Without `is_renewable` they are that for good."""

    @property
    def is_renewable(self) -> bool: ...

    async def identity(self) -> Identity: ...

    async def renew(self, old: Identity) -> Identity: ...


_GRANTED = msgspec.json.Decoder(Identity)


class Registration:
    """A producer without transactions: any number of ids, one after the other."""

    is_renewable = True

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._asking = asyncio.Lock()
        self._identity: Identity | None = None

    async def identity(self) -> Identity:
        return self._identity or await self.renew(None)

    async def renew(self, old: Identity | None) -> Identity:
        """Another than `old`: the one that was granted meanwhile, or a new one."""
        async with self._asking:
            if self._identity is None or self._identity == old:
                # An id that was granted and whose answer was lost is nobody's: no harm done.
                request = post("producers", "init", fields={}, is_repeatable=True)
                try:
                    self._identity = await self._transport.read(request, _GRANTED)
                except GoQueueError as error:
                    # Of whoever asks for an id to send something with, nothing was sent.
                    error.is_outcome_unknown = False
                    raise
            return self._identity


class Fixed:
    """The holder of a transactional id, as long as its epoch lasts."""

    is_renewable = False

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def identity(self) -> Identity:
        return self._identity

    async def renew(self, old: Identity) -> Identity:
        raise AssertionError(f"the epoch of {old} is not a lane's to end")
