"""Topics: made, listed, described, changed, deleted."""

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

import msgspec

from goqueue.client.admin.keywords import check_keywords
from goqueue.client.admin.replies import Partition, Topic
from goqueue.client.transport import Request, Transport, get, post, target

__all__ = ["TopicSettings", "Topics"]


class TopicSettings(TypedDict, total=False):
    """The settings of a topic that can be changed at any time, by their names in the contract.

    A duration is text such as "1m30s", or a number of seconds.
    """

    min_insync_replicas: int
    retention_hours: int
    retention_bytes: int
    segment_bytes: int
    cleanup_policy: Literal["delete", "compact"]
    flush_policy: Literal["commit", "interval"]
    flush_interval_ms: int
    visibility_timeout: str | float
    max_deliveries: int
    max_message_bytes: int
    dead_letter_topic: str
    schema_validation: bool
    priority_weights: Sequence[int]
    priority_boost: str | float


_NAMES_OF_SETTINGS = tuple(TopicSettings.__annotations__)
_NAMES_AT_CREATION = ("partitions", "replication_factor", *_NAMES_OF_SETTINGS)


class _Names(msgspec.Struct, frozen=True):
    topics: tuple[str, ...]


class _Partitions(msgspec.Struct, frozen=True):
    partitions: tuple[Partition, ...]


_TOPICS = msgspec.json.Decoder(Topic)
_NAMES = msgspec.json.Decoder(_Names)
_PARTITIONS = msgspec.json.Decoder(_Partitions)


class Topics:
    """`q.topics`. Settings are named as in `TopicSettings`: `visibility_timeout="1m"`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        **settings: Unpack[TopicSettings],
    ) -> Topic:
        """Create a topic; `TopicExists` if there is one of this name."""
        check_keywords("create", settings, _NAMES_AT_CREATION)
        fields: dict[str, object] = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            **settings,
        }
        return await self._transport.read(post("topics", fields=fields), _TOPICS)

    async def list(self) -> tuple[str, ...]:
        """Names, sorted."""
        return (await self._transport.read(get("topics"), _NAMES)).topics

    async def describe(self, name: str) -> Topic:
        return await self._transport.read(get("topics", name), _TOPICS)

    async def alter(self, name: str, **settings: Unpack[TopicSettings]) -> Topic:
        """Change settings; what is not named stays as it is."""
        check_keywords("alter", settings, _NAMES_OF_SETTINGS)
        request = Request(
            method="PATCH",
            target=target("topics", name),
            body=msgspec.json.encode(settings),
            is_repeatable=True,
        )
        return await self._transport.read(request, _TOPICS)

    async def delete(self, name: str) -> None:
        """Remove a topic, its messages and every group's place in it."""
        await self._transport.ask(Request(method="DELETE", target=target("topics", name)))

    async def partitions(self, name: str) -> tuple[Partition, ...]:
        request = get("topics", name, "partitions")
        return (await self._transport.read(request, _PARTITIONS)).partitions
