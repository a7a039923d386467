"""A member of a consumer group: subscription, join, heartbeat, leave.

Owns the member id, the generation and the assignment. Joins again when the broker has forgotten the
member.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.http import Transport, post
from goqueue.client.values import duration
from goqueue.model import LogId
from goqueue.model.requests import Isolation

__all__ = ["Membership", "OnPartitions", "Subscription"]

KIB = 1024
MIB = 1024 * KIB

_CHUNK_BYTES_MIN = 16 * KIB

# Called with the partitions that come or go; must not wait.
OnPartitions = Callable[[Sequence[LogId]], None]


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A group, its topics, and how to read them.

    `prefetch` bounds how many messages of a queue are leased ahead of their turn; how many are
    depends on how long they take. None is 100, and up to 1000 of what is handled in a moment.
    Leases are renewed, those of messages in hand for `max_handling_s`. A stream reads at most two
    chunks ahead in each partition, of `chunk_bytes` or less: all of them together stay about
    within `buffer_bytes`.
    """

    group: str
    topics: tuple[str, ...]
    client_id: str = "python"
    mode: str | None = None
    start: str = "earliest"
    session_s: float = 30.0
    heartbeat_s: float = 3.0
    wait_s: float = 30.0
    # Queues
    prefetch: int | None = None
    visibility_s: float | None = None
    max_handling_s: float = 3600.0
    # Streams
    commit_interval_s: float | None = None
    chunk_bytes: int = MIB
    buffer_bytes: int = 64 * MIB
    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    isolation: Isolation = Isolation.READ_COMMITTED

    def chunk_bytes_for(self, partitions: int) -> int:
        """How much to read at a time with so many partitions."""
        share = self.buffer_bytes // (2 * max(partitions, 1))
        return max(min(self.chunk_bytes, share), _CHUNK_BYTES_MIN)


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
_FORGOTTEN = frozenset({"group_not_found", "member_not_found"})

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
            if error.code not in _FORGOTTEN:
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
        try:
            await self.depart()
        except GoQueueError as error:
            # Whatever the reason, the session ends by itself in its time.
            _log.info("leaving group %s: %s", self._subscription.group, error)

    async def depart(self) -> None:
        """Give everything back; raises if the broker was not told and still counts this member."""
        if self.member_id is None:
            return
        fields: dict[str, object] = {"member_id": self.member_id}
        self.member_id = None
        group = self._subscription.group
        request = post("groups", group, "leave", fields=fields, patience_s=_FAREWELL_S)
        try:
            await self._transport.ask(request)
        except GoQueueError as error:
            if error.code not in _FORGOTTEN:
                raise

    def _adopt(self, generation: int, assigned: list[str]) -> None:
        self.generation = generation
        self.assigned = tuple(split_name(name) for name in assigned)


def split_name(name: str) -> LogId:
    """`topic-N`, split at its last hyphen."""
    topic, _, partition = name.rpartition("-")
    if not partition.isdecimal():
        raise GoQueueError("response_invalid", f"{name!r} names no partition")
    return LogId(topic, int(partition))
