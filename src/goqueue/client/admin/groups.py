"""Consumer groups: listed, described, deleted, and their positions."""

import datetime as dt
from collections.abc import Mapping

import msgspec

from goqueue.client.admin.replies import (
    GroupDescription,
    GroupLag,
    GroupOffsets,
    GroupSummary,
    ResetOffsets,
)
from goqueue.client.transport import Request, Transport, get, post, target

__all__ = ["Groups"]


class _Groups(msgspec.Struct, frozen=True):
    group_details: tuple[GroupSummary, ...]


_GROUPS = msgspec.json.Decoder(_Groups)
_DESCRIPTIONS = msgspec.json.Decoder(GroupDescription)
_LAGS = msgspec.json.Decoder(GroupLag)
_OFFSETS = msgspec.json.Decoder(GroupOffsets)
_RESETS = msgspec.json.Decoder(ResetOffsets)


class Groups:
    """`q.groups`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> tuple[GroupSummary, ...]:
        """Every group, sorted by name."""
        return (await self._transport.read(get("groups"), _GROUPS)).group_details

    async def describe(self, group: str) -> GroupDescription:
        return await self._transport.read(get("groups", group), _DESCRIPTIONS)

    async def delete(self, group: str) -> None:
        """Remove a group with its members, positions and leases."""
        await self._transport.ask(Request(method="DELETE", target=target("groups", group)))

    async def lag(self, group: str) -> GroupLag:
        return await self._transport.read(get("groups", group, "lag"), _LAGS)

    async def offsets(self, group: str, *, topic: str | None = None) -> GroupOffsets:
        """The next offset of the group wherever it has a position."""
        return await self._transport.read(get("groups", group, "offsets", topic=topic), _OFFSETS)

    async def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Move positions forward, by topic and partition, for a group without members.

        For a program that keeps its positions elsewhere and wants them seen. A lower offset leaves
        the position as it is; a group that nobody knows is made.
        """
        by_topic = {
            topic: {str(partition): offset for partition, offset in each.items()}
            for topic, each in offsets.items()
        }
        fields: dict[str, object] = {"offsets": by_topic}
        request = post("groups", group, "offsets", fields=fields, is_repeatable=True)
        await self._transport.ask(request)

    async def reset(
        self,
        group: str,
        topic: str,
        to: str | int | dt.datetime,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> ResetOffsets:
        """Move positions to "earliest", "latest", an offset or a time; also back."""
        fields: dict[str, object] = {"topic": topic, "partition": partition, "dry_run": dry_run}
        if isinstance(to, str):
            fields["strategy"] = to
        elif isinstance(to, int):
            fields |= {"strategy": "offset", "offset": to}
        else:
            fields |= {"strategy": "timestamp", "timestamp": to}
        request = post("groups", group, "offsets", "reset", fields=fields)
        return await self._transport.read(request, _RESETS)
