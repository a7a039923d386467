"""Leases, as their holder knows them.

Time is that of `time.monotonic`, which threads share. The end is reckoned from when the poll was
sent, so it is never later than the broker's.
"""

import asyncio
import logging
import time

import msgspec

from goqueue.client.consuming.queues.settling import Settlements
from goqueue.client.consuming.subscription import Subscription
from goqueue.client.errors import GoQueueError
from goqueue.client.transport import Transport, get
from goqueue.client.values import duration, nanoseconds
from goqueue.model import Refused, parse_duration

__all__ = ["Grant", "HeldLease", "LeaseTimes"]

_log = logging.getLogger("goqueue.client")

# The default of the contract, for topics that this key may not describe.
_DEFAULT_LEASE_S = 30.0
_KNOWN_S_MAX = 60.0


class _Config(msgspec.Struct, frozen=True):
    visibility_timeout: str


class _Topic(msgspec.Struct, frozen=True):
    config: _Config


_TOPICS = msgspec.json.Decoder(_Topic)


class LeaseTimes:
    """How long leases last: as the subscription says, else as each of its topics does."""

    def __init__(self, transport: Transport, subscription: Subscription) -> None:
        self._transport = transport
        self._subscription = subscription
        default_s = subscription.visibility_s or _DEFAULT_LEASE_S
        self._by_topic = dict.fromkeys(subscription.topics, default_s)
        self._stale_at = 0.0
        self.shortest_s = default_s

    def of(self, topic: str) -> float:
        return self._by_topic.get(topic, self.shortest_s)

    async def refresh(self) -> None:
        """Ask the topics, once a minute: their settings may be altered."""
        now = time.monotonic()
        if self._subscription.visibility_s is not None or now < self._stale_at:
            return
        self._stale_at = now + _KNOWN_S_MAX
        for topic in self._by_topic:
            try:
                known = await self._transport.read(get("topics", topic), _TOPICS)
                lease_ns = parse_duration(known.config.visibility_timeout)
            except (GoQueueError, Refused) as error:
                _log.info("how long leases of %s last is unknown: %s", topic, error)
            else:
                self._by_topic[topic] = lease_ns / 1_000_000_000
        self.shortest_s = min(self._by_topic.values())


class Grant(msgspec.Struct, frozen=True, eq=False):
    """What the leases of one topic in one poll have in common."""

    settling: Settlements
    lease_s: float
    polled_at: float


class HeldLease:
    """A lease from its poll to its settlement. Dropping it, with its message, ends renewals."""

    __slots__ = (
        "__weakref__",
        "begun_at",
        "delivery_count",
        "expires_at",
        "is_over",
        "lease_s",
        "receipt_handle",
        "settling",
        "until",
    )

    def __init__(self, receipt_handle: str, delivery_count: int, until: str, grant: Grant) -> None:
        self.receipt_handle = receipt_handle
        self.delivery_count = delivery_count
        self.until = until
        self.settling = grant.settling
        self.lease_s = grant.lease_s
        self.expires_at = grant.polled_at + grant.lease_s
        # When its message was handed out; None while it waits.
        self.begun_at: float | None = None
        # Settled, on its way to that, or lost: nothing to renew or to give back.
        self.is_over = False

    @property
    def group(self) -> str:
        return self.settling.group

    @property
    def deadline(self) -> int:
        """When the lease ends, in nanoseconds since 1970; few ask, so it is read when asked for."""
        return nanoseconds(self.until)

    def begin(self, now: float) -> bool:
        """Hand out the message, if the lease is live."""
        if self.is_over or now >= self.expires_at:
            return False
        self.begun_at = now
        return True

    def is_due(self, now: float) -> bool:
        """Whether a third of the lease has passed since it was granted or renewed."""
        return not self.is_over and self.expires_at - now <= self.lease_s * 2 / 3

    def renew(self, expires_at: float, until: str) -> None:
        """The broker extended it."""
        self.expires_at = max(self.expires_at, expires_at)
        self.until = until or self.until

    def ack(self) -> "asyncio.Future[None]":
        self.is_over = True
        return self.settling.ack(self.receipt_handle)

    async def nack(self, delay_s: float | None, reason: str) -> None:
        delay = None if delay_s is None else duration(delay_s)
        await self._settle("nack", {"delay": delay, "reason": reason or None})

    async def reject(self, reason: str) -> None:
        await self._settle("reject", {"reason": reason or None})

    async def extend(self, timeout_s: float) -> None:
        asked_at = time.monotonic()
        self.until = await self.settling.extend(self.receipt_handle, timeout_s)
        self.expires_at = asked_at + timeout_s

    def end(self) -> None:
        """Somebody else settles it: no more renewals."""
        self.is_over = True

    async def _settle(self, route: str, fields: dict[str, object]) -> None:
        self.is_over = True
        try:
            await self.settling.settle(route, self.receipt_handle, fields)
        except BaseException:
            # Still ours, unless the broker says otherwise when it is renewed.
            self.is_over = False
            raise
