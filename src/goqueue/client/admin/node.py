"""The node that answers: whether it is well, which build it is, how much it holds."""

import msgspec

from goqueue.client.admin.replies import (
    Health,
    NodeStats,
    PriorityStats,
    Readiness,
    ReliabilityStats,
    Version,
)
from goqueue.client.transport import Transport, get

__all__ = ["Node"]

_HEALTH = msgspec.json.Decoder(Health)
_VERSIONS = msgspec.json.Decoder(Version)
_STATS = msgspec.json.Decoder(NodeStats)
_PRIORITIES = msgspec.json.Decoder(PriorityStats)
_READINESS = msgspec.json.Decoder(Readiness)
_RELIABILITY = msgspec.json.Decoder(ReliabilityStats)
# A node that is not ready says so with this status, and why in the body.
_NOT_READY = frozenset({503})


class Node:
    """What `q.health()`, `q.version()`, `q.stats()` and their like ask."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def health(self) -> Health:
        return await self._transport.read(get("health"), _HEALTH)

    async def readiness(self) -> Readiness:
        request = msgspec.structs.replace(get("readyz", verbose="true"), answers=_NOT_READY)
        return await self._transport.read(request, _READINESS)

    async def version(self) -> Version:
        return await self._transport.read(get("version"), _VERSIONS)

    async def stats(self) -> NodeStats:
        return await self._transport.read(get("stats"), _STATS)

    async def priorities(self) -> PriorityStats:
        return await self._transport.read(get("priority", "stats"), _PRIORITIES)

    async def reliability(self) -> ReliabilityStats:
        return await self._transport.read(get("reliability", "stats"), _RELIABILITY)
