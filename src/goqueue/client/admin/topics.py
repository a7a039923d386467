"""Topics: made, listed, described, changed, deleted."""

import msgspec

from goqueue.client.admin.replies import Partition, Topic
from goqueue.client.transport import Request, Transport, get, post, target

__all__ = ["Topics"]


class _Names(msgspec.Struct, frozen=True):
    topics: tuple[str, ...]


class _Partitions(msgspec.Struct, frozen=True):
    partitions: tuple[Partition, ...]


_TOPICS = msgspec.json.Decoder(Topic)
_NAMES = msgspec.json.Decoder(_Names)
_PARTITIONS = msgspec.json.Decoder(_Partitions)


class Topics:
    """`q.topics`. Settings are given by the names of the contract, `visibility_timeout="1m"`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, name: str, *, partitions: int | None = None, **config: object) -> Topic:
        """Make a topic; `TopicExists` if there is one of this name."""
        fields: dict[str, object] = {"name": name, "num_partitions": partitions, **config}
        return await self._transport.read(post("topics", fields=fields), _TOPICS)

    async def list(self) -> tuple[str, ...]:
        """Names, sorted."""
        return (await self._transport.read(get("topics"), _NAMES)).topics

    async def describe(self, name: str) -> Topic:
        return await self._transport.read(get("topics", name), _TOPICS)

    async def alter(self, name: str, **config: object) -> Topic:
        """Change settings; what is not named stays as it is."""
        request = Request(
            method="PATCH",
            target=target("topics", name),
            body=msgspec.json.encode(config),
            is_repeatable=True,
        )
        return await self._transport.read(request, _TOPICS)

    async def delete(self, name: str) -> None:
        """Remove a topic, its messages and every group's place in it."""
        await self._transport.ask(Request(method="DELETE", target=target("topics", name)))

    async def partitions(self, name: str) -> tuple[Partition, ...]:
        request = get("topics", name, "partitions")
        return (await self._transport.read(request, _PARTITIONS)).partitions
