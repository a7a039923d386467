"""One member of one group: joins, says that it lives, leaves.

Owns the member id, the generation and the assignment. Joins again when the broker has forgotten
it. Never reads or commits anything.
"""

import asyncio
import logging

import msgspec

from goqueue.client.consuming.subscription import Subscription
from goqueue.client.errors import GoQueueError
from goqueue.client.transport import Transport, post
from goqueue.client.values import duration
from goqueue.model import LogId

__all__ = ["Membership"]

_log = logging.getLogger("goqueue.client")


class _Joined(msgspec.Struct, frozen=True):
    member_id: str
    generation: int
    assigned_partitions: list[str]


class _Beat(msgspec.Struct, frozen=True):
    rebalance_required: bool
    generation: int
    assigned_partitions: list[str]


# A server that is away notices by itself that a member is gone: closing does not wait for it.
_FAREWELL_S = 2.0

_JOINED = msgspec.json.Decoder(_Joined)
_BEATS = msgspec.json.Decoder(_Beat)


class Membership:
    """Membership in the group of a subscription."""

    def __init__(self, transport: Transport, subscription: Subscription) -> None:
        self._transport = transport
        self._subscription = subscription
        self._joining = asyncio.Lock()
        self.member_id: str | None = None
        self.generation = 0
        self.assigned: tuple[LogId, ...] = ()

    async def join(self) -> None:
        """Become a member; a member that is known already stays what it is."""
        subscription = self._subscription
        fields: dict[str, object] = {
            "client_id": subscription.client_id,
            "topics": subscription.topics,
            "mode": subscription.mode,
            "session_timeout": duration(subscription.session_s),
            "start_position": subscription.start,
            "member_id": self.member_id,
        }
        request = post("groups", subscription.group, "join", fields=fields, is_repeatable=True)
        try:
            joined = await self._transport.read(request, _JOINED)
        except GoQueueError as error:
            if error.code != "member_not_found" or self.member_id is None:
                raise
            self.member_id = None
            await self.join()
            return
        self.member_id = joined.member_id
        self._adopt(joined.generation, joined.assigned_partitions)

    async def beat(self) -> None:
        """Say that we live; adopt what the group decided meanwhile."""
        member_id = self.member_id
        if member_id is None:
            # Lost before, and to join again did not work then.
            await self.join_again(None)
            return
        fields: dict[str, object] = {"member_id": member_id, "generation": self.generation}
        group = self._subscription.group
        try:
            request = post("groups", group, "heartbeat", fields=fields, is_repeatable=True)
            beat = await self._transport.read(request, _BEATS)
        except GoQueueError as error:
            if error.code not in {"group_not_found", "member_not_found"}:
                raise
            await self.join_again(member_id)
            return
        self._adopt(beat.generation, beat.assigned_partitions)

    async def join_again(self, lost_id: str | None) -> None:
        """The broker does not know `lost_id` any more: join, unless that has been done already."""
        async with self._joining:
            if self.member_id == lost_id:
                _log.warning(
                    "group %s has lost this member; it joins again", self._subscription.group
                )
                self.member_id = None
                await self.join()

    async def leave(self) -> None:
        """Give everything back; a member that is gone already is fine."""
        if self.member_id is None:
            return
        fields: dict[str, object] = {"member_id": self.member_id}
        self.member_id = None
        group = self._subscription.group
        try:
            request = post("groups", group, "leave", fields=fields, patience_s=_FAREWELL_S)
            await self._transport.ask(request)
        except GoQueueError as error:
            # Whatever the reason, the session ends by itself in its time.
            _log.info("leaving group %s: %s", group, error)

    def _adopt(self, generation: int, assigned: list[str]) -> None:
        self.generation = generation
        self.assigned = tuple(split_name(name) for name in assigned)


def split_name(name: str) -> LogId:
    """`topic-N`, split at its last hyphen."""
    topic, _, partition = name.rpartition("-")
    if not partition.isdecimal():
        raise GoQueueError("response_invalid", f"{name!r} names no partition")
    return LogId(topic, int(partition))
