"""Delayed messages: which wait, what became of one, and how to cancel it."""

import msgspec

from goqueue.client.admin.replies import DelayedMessage, DelayStats
from goqueue.client.transport import Request, Transport, get, target

__all__ = ["DelayedMessages"]


class _Page(msgspec.Struct, frozen=True):
    messages: tuple[DelayedMessage, ...]


_PAGES = msgspec.json.Decoder(_Page)
_MESSAGES = msgspec.json.Decoder(DelayedMessage)
_STATS = msgspec.json.Decoder(DelayStats)


class DelayedMessages:
    """`q.delayed`; a message is named by the place that its publishing answered."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, topic: str, *, limit: int = 100, skip: int = 0
    ) -> tuple[DelayedMessage, ...]:
        """Those that wait, by the time they are due; at most 1000 at once."""
        request = get("topics", topic, "delayed", limit=limit, skip=skip)
        return (await self._transport.read(request, _PAGES)).messages

    async def get(self, topic: str, offset: int, *, partition: int | None = None) -> DelayedMessage:
        """One message, also when it was delivered or cancelled; `NotFound` if there is none."""
        request = get("topics", topic, "delayed", offset, partition=partition)
        return await self._transport.read(request, _MESSAGES)

    async def cancel(self, topic: str, partition: int, offset: int) -> None:
        """Never deliver it; may be repeated. `AlreadyDelivered` if this comes too late."""
        place = target("topics", topic, "delayed", partition, offset)
        await self._transport.ask(Request(method="DELETE", target=place, is_repeatable=True))

    async def stats(self) -> DelayStats:
        """Counts over all topics of the node."""
        return await self._transport.read(get("delay", "stats"), _STATS)
