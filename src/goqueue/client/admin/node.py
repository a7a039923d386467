"""The node that answers: whether it is well, which build it is, how much it holds."""

import msgspec

from goqueue.client.admin.replies import Health, NodeStats, PriorityStats, Version
from goqueue.client.transport import Transport, get

__all__ = ["Node"]

_HEALTH = msgspec.json.Decoder(Health)
_VERSIONS = msgspec.json.Decoder(Version)
_STATS = msgspec.json.Decoder(NodeStats)
_PRIORITIES = msgspec.json.Decoder(PriorityStats)


class Node:
    """What `q.health()`, `q.version()`, `q.stats()` and `q.priorities()` ask."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def health(self) -> Health:
        return await self._transport.read(get("health"), _HEALTH)

    async def version(self) -> Version:
        return await self._transport.read(get("version"), _VERSIONS)

    async def stats(self) -> NodeStats:
        return await self._transport.read(get("stats"), _STATS)

    async def priorities(self) -> PriorityStats:
        return await self._transport.read(get("priority", "stats"), _PRIORITIES)
