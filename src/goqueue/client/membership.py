"""A member of a consumer group: subscription, join, heartbeat, revocation, drain, leave.

Owns the member id, the generation and the assignment. Joins again when the broker has forgotten the
member. Members are cooperative: only partitions that move are interrupted. Where a group has eager
members already, this one is eager, too.

A heartbeat of a cooperative member waits for news. What it says to give up, the consumer stops to
work on, and then `revoke` says so.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.http import Transport, post
from goqueue.client.values import duration
from goqueue.model import LogId
from goqueue.model.requests import Isolation

if TYPE_CHECKING:
    from goqueue.client.payloads import PayloadReader

__all__ = ["Membership", "OnPartitions", "Subscription", "is_replaced"]

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
    # None: cooperative, or as the members of the group are.
    protocol: str | None = None
    # A static member: its next process takes its place, and it does not leave when it closes.
    instance_id: str | None = None
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
    payloads: "PayloadReader | None" = None

    def chunk_bytes_for(self, partitions: int) -> int:
        """How much to read at a time with so many partitions."""
        share = self.buffer_bytes // (2 * max(partitions, 1))
        return max(min(self.chunk_bytes, share), _CHUNK_BYTES_MIN)


_log = logging.getLogger("goqueue.client")


class _Joined(msgspec.Struct, frozen=True):
    member_id: str
    generation: int
    assigned_partitions: list[str] = []


class _Beat(msgspec.Struct, frozen=True):
    rebalance_required: bool
    generation: int
    assigned_partitions: list[str]


class _Partition(msgspec.Struct, frozen=True):
    topic: str
    partition: int


class _CooperativeBeat(msgspec.Struct, frozen=True):
    generation: int
    partitions_to_revoke: list[_Partition]
    partitions_assigned: list[_Partition]
    rebalance_state: str = ""


# A server that is away notices by itself that a member is gone: closing does not wait for it.
_FAREWELL_S = 2.0
_FORGOTTEN = frozenset({"group_not_found", "member_not_found"})
# Why a revocation may be refused: it is over, or the member is.
_OUTDATED = frozenset({*_FORGOTTEN, "generation_stale", "partition_not_assigned"})

_JOINED = msgspec.json.Decoder(_Joined)
_BEATS = msgspec.json.Decoder(_Beat)
_COOPERATIVE_BEATS = msgspec.json.Decoder(_CooperativeBeat)

_COOPERATIVE, _EAGER = "cooperative", "eager"
# An answer that comes sooner and says nothing new is that of a broker that stops.
_PAUSE_S = 0.05
# How long a join waits for the first partitions.
_FIRST_WAIT_S = 1.0


class Membership:
    """Membership in the group of a subscription."""

    def __init__(self, transport: Transport, subscription: Subscription) -> None:
        self._transport = transport
        self._subscription = subscription
        self._joining = asyncio.Lock()
        self.member_id: str | None = None
        self.generation = 0
        self.assigned: tuple[LogId, ...] = ()
        # Of these, what is to be given up.
        self.to_revoke: tuple[LogId, ...] = ()
        self._protocol = subscription.protocol or _COOPERATIVE
        # Whether members of the group have to give up something first.
        self._is_waited_for = False

    @property
    def is_cooperative(self) -> bool:
        return self._protocol == _COOPERATIVE

    @property
    def kept(self) -> tuple[LogId, ...]:
        """The partitions to work on."""
        gone = self.to_revoke
        return tuple(log for log in self.assigned if log not in gone) if gone else self.assigned

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
            "instance_id": subscription.instance_id,
        }
        group, protocol = subscription.group, (_COOPERATIVE,) if self.is_cooperative else ()
        request = post("groups", group, "join", *protocol, fields=fields, is_repeatable=True)
        try:
            joined = await self._transport.read(request, _JOINED)
        except GoQueueError as error:
            if error.code == "group_mismatch" and self._adapts(error.details.get("protocol")):
                await self.join()
                return
            if error.code != "member_not_found" or self.member_id is None:
                raise
            self.member_id = None
            await self.join()
            return
        self.member_id = joined.member_id
        if self.is_cooperative:
            self.generation = joined.generation
            await self._beat_cooperatively(joined.member_id, 0.0)
            if self._is_waited_for and not self.assigned:
                # Others give up something for this member, as a rule within a moment.
                await self._beat_cooperatively(joined.member_id, _FIRST_WAIT_S)
        else:
            self._adopt(joined.generation, joined.assigned_partitions)

    def _adapts(self, protocol: object) -> bool:
        """Use the protocol of the members that are there, unless the program chose one."""
        is_other = protocol in (_COOPERATIVE, _EAGER) and protocol != self._protocol
        if self._subscription.protocol is not None or not is_other:
            return False
        self._protocol = str(protocol)
        return True

    async def keep_alive(self) -> None:
        """Wait until the next heartbeat is due, and send it; a cooperative member waits in it."""
        clock, beat_s = self._transport.clock, self._subscription.heartbeat_s
        if not self.is_cooperative or self.member_id is None:
            await clock.sleep(beat_s)
            await self.beat()
            return
        before = (self.generation, self.assigned, self.to_revoke)
        asked_at = clock.time()
        try:
            await self.beat(beat_s)
        except GoQueueError:
            await clock.sleep(beat_s)
            raise
        is_news = before != (self.generation, self.assigned, self.to_revoke)
        if not is_news and clock.time() - asked_at < min(_PAUSE_S, beat_s / 2):
            await clock.sleep(beat_s)

    async def beat(self, wait_s: float = 0.0) -> None:
        """Say that we live; adopt what the group decided meanwhile.

        A cooperative member waits for news, for `wait_s` at most.
        """
        member_id = self.member_id
        if member_id is None:
            # Lost before, and to join again did not work then.
            await self.join_again(None)
            return
        try:
            if self.is_cooperative:
                await self._beat_cooperatively(member_id, wait_s)
            else:
                await self._beat_eagerly(member_id)
        except GoQueueError as error:
            if error.code not in _FORGOTTEN or is_replaced(error):
                raise
            await self.join_again(member_id)

    async def _beat_eagerly(self, member_id: str) -> None:
        fields: dict[str, object] = {"member_id": member_id, "generation": self.generation}
        group = self._subscription.group
        request = post("groups", group, "heartbeat", fields=fields, is_repeatable=True)
        beat = await self._transport.read(request, _BEATS)
        self._adopt(beat.generation, beat.assigned_partitions)

    async def _beat_cooperatively(self, member_id: str, wait_s: float) -> None:
        fields: dict[str, object] = {
            "member_id": member_id,
            "generation": self.generation,
            "wait": duration(wait_s) if wait_s else None,
        }
        request = post(
            "groups",
            self._subscription.group,
            "heartbeat",
            _COOPERATIVE,
            fields=fields,
            is_repeatable=True,
            wait_s=wait_s,
        )
        beat = await self._transport.read(request, _COOPERATIVE_BEATS)
        if member_id == self.member_id and beat.generation >= self.generation:
            self.generation = beat.generation
            self.assigned = _logs(beat.partitions_assigned)
            self.to_revoke = _logs(beat.partitions_to_revoke)
        self._is_waited_for = beat.rebalance_state == "pending_revoke"

    async def revoke(self, logs: Sequence[LogId]) -> None:
        """Say that partitions were given up; whatever became of them, a heartbeat tells."""
        member_id = self.member_id
        fields: dict[str, object] = {
            "member_id": member_id,
            "generation": self.generation,
            "revoked_partitions": [
                {"topic": log.topic, "partition": log.partition} for log in logs
            ],
        }
        request = post(
            "groups", self._subscription.group, "revoke", fields=fields, is_repeatable=True
        )
        try:
            await self._transport.ask(request)
        except GoQueueError as error:
            if error.code not in _OUTDATED:
                raise

    async def join_again(self, lost_id: str | None) -> None:
        """The broker does not know `lost_id` any more: join, unless that has been done already."""
        async with self._joining:
            if self.member_id == lost_id:
                _log.warning(
                    "group %s has lost this member; it joins again", self._subscription.group
                )
                self.member_id = None
                self._protocol = self._subscription.protocol or _COOPERATIVE
                self.assigned = self.to_revoke = ()
                await self.join()

    async def drain(self) -> bool:
        """Have nothing more leased to this member; False if the broker was not told."""
        if self.member_id is None:
            return False
        fields: dict[str, object] = {"member_id": self.member_id}
        group = self._subscription.group
        request = post(
            "groups", group, "drain", fields=fields, is_repeatable=True, patience_s=_FAREWELL_S
        )
        try:
            await self._transport.ask(request)
        except GoQueueError as error:
            _log.info("draining group %s: %s", group, error)
            return False
        return True

    async def leave(self) -> None:
        """Give everything back; a member that is gone already is fine."""
        try:
            await self.depart()
        except GoQueueError as error:
            # Whatever the reason, the session ends by itself in its time.
            _log.info("leaving group %s: %s", self._subscription.group, error)

    async def depart(self) -> None:
        """Give everything back; raises if the broker was not told and still counts this member.

        A static member stays until its session ends: its next process may come before that.
        """
        if self.member_id is None or self._subscription.instance_id is not None:
            self.member_id = None
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
        self.to_revoke = ()


def is_replaced(error: GoQueueError) -> bool:
    """Whether another process has taken the place of this static member: then it must not join."""
    return error.code == "member_not_found" and "instance_id" in error.details


def _logs(partitions: list[_Partition]) -> tuple[LogId, ...]:
    return tuple(LogId(each.topic, each.partition) for each in partitions)


def split_name(name: str) -> LogId:
    """`topic-N`, split at its last hyphen."""
    topic, _, partition = name.rpartition("-")
    if not partition.isdecimal():
        raise GoQueueError("response_invalid", f"{name!r} names no partition")
    return LogId(topic, int(partition))
