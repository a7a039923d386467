"""Leases as their holder knows them, and their renewal.

Times are those of the clock of the connection, which threads share. The end of a lease is computed
from the moment the poll was sent, so it is never later than the broker's.

A renewer extends leases while their messages wait or are being handled. It checks every lease of a
consumer several times before it can expire, and holds messages by weak references: one that the
program dropped is not renewed.

Invariant: a lease that has expired, or whose message has been handled for longer than allowed, is
never renewed.
"""

import asyncio
import logging
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from goqueue.client.ack_sender import AckBatch, AckSender, PendingAck
from goqueue.client.errors import GoQueueError
from goqueue.client.http import Transport, get
from goqueue.client.membership import Subscription
from goqueue.client.message import Message
from goqueue.client.values import Headers, Value, duration, nanoseconds
from goqueue.model import LogId, Refused, parse_duration

__all__ = ["Grant", "HeldLease", "LeaseRenewer", "LeaseTimes"]

_log = logging.getLogger("goqueue.client")

# How many leases one request renews.
_BATCH_MAX = 1000
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
        now = self._transport.clock.time()
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
    """What messages that were leased together have in common."""

    settling: AckSender
    lease_s: float
    delivery_count: int


class HeldLease(msgspec.Struct, weakref=True, eq=False):
    """The lease of one message, from its poll to its settlement.

    Dropping it, with its message, ends renewals.
    """

    grant: Grant
    # What the broker calls the lease of this message and of others.
    handle: str
    offset: int
    expires_at: float
    until: str
    # When its message was handed out; None while it waits.
    begun_at: float | None = None
    # Settled, on its way to that, or lost: nothing to renew or to give back.
    is_over: bool = False
    # The broker ended it before its holder did.
    is_lost: bool = False
    # The acks that its own went with. Not its `PendingAck`, which holds the lease: a cycle for each
    # message would be left to the garbage collector.
    batch: AckBatch | None = None

    @property
    def receipt_handle(self) -> str:
        """What names this delivery where messages are settled one by one."""
        topic, partition, rest = self.handle.split(":", 2)
        return f"{topic}:{partition}:{self.offset}:{rest}"

    @property
    def delivery_count(self) -> int:
        return self.grant.delivery_count

    @property
    def group(self) -> str:
        return self.grant.settling.group

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
        return not self.is_over and self.expires_at - now <= self.grant.lease_s * 2 / 3

    def renew(self, expires_at: float, until: str) -> None:
        """The broker extended it."""
        self.expires_at = max(self.expires_at, expires_at)
        self.until = until or self.until

    def ack(self) -> PendingAck:
        self.is_over = True
        pending = self.grant.settling.ack(self)
        self.batch = pending.batch
        return pending

    @property
    def pending_ack(self) -> PendingAck | None:
        """Its ack, if it was acked."""
        return None if self.batch is None else PendingAck(self.batch, self)

    async def nack(self, delay_s: float | None, reason: str) -> None:
        delay = None if delay_s is None else duration(delay_s)
        await self._settle("nack", {"delay": delay, "reason": reason or None})

    async def reject(self, reason: str) -> None:
        await self._settle("reject", {"reason": reason or None})

    async def extend(self, timeout_s: float) -> None:
        asked_at = self.grant.settling.clock.time()
        settled = await self.grant.settling.settle(
            "extend", [self], {"timeout": duration(timeout_s)}
        )
        settled.check(self)
        self.until = settled.new_deadline
        self.expires_at = asked_at + timeout_s

    async def reply(self, reply_to: str, value: Value, headers: Headers | None) -> bool:
        return await self.grant.settling.reply(reply_to, value, headers)

    def end(self) -> None:
        """Somebody else settles it: no more renewals."""
        self.is_over = True

    def lose(self) -> None:
        """The broker ended it."""
        self.is_over = self.is_lost = True

    async def _settle(self, how: str, fields: Mapping[str, object]) -> None:
        self.is_over = True
        try:
            (await self.grant.settling.settle(how, [self], fields)).check(self)
        except BaseException:
            # Still ours, unless the broker says otherwise when it is renewed.
            self.is_over = False
            raise


def _log_of(lease: HeldLease) -> LogId:
    topic, partition, _ = lease.handle.split(":", 2)
    return LogId(topic, int(partition))


_TICKS_PER_LEASE = 6
_TICK_S_MIN, _TICK_S_MAX = 0.01, 5.0
_REFERENCES_MIN = 4000


class LeaseRenewer:
    """The leases of one consumer; `run` is its task. Calls `on_tick` before it renews."""

    def __init__(
        self, settling: AckSender, max_handling_s: float, on_tick: Callable[[float], None]
    ) -> None:
        self._settling = settling
        self._clock = settling.clock
        self._max_handling_s = max_handling_s
        self._on_tick = on_tick
        self._watched: list[weakref.ref[HeldLease]] = []
        self._compaction_at = _REFERENCES_MIN
        self._tick_s = _TICK_S_MAX
        self._is_new = asyncio.Event()
        self._has_any = asyncio.Event()
        self._was_blocked = False

    def watch(self, messages: Iterable[Message], lease_s: float) -> None:
        """Renew the leases of these, the shortest of which lasts for `lease_s`."""
        leases = (message.lease for message in messages)
        self._watched += [weakref.ref(each) for each in leases if isinstance(each, HeldLease)]
        if len(self._watched) >= self._compaction_at:
            self._living()
        self._has_any.set()
        tick_s = min(max(lease_s / _TICKS_PER_LEASE, _TICK_S_MIN), _TICK_S_MAX)
        if tick_s < self._tick_s:
            self._tick_s = tick_s
            self._is_new.set()

    def holds_any(self, logs: Collection[LogId]) -> bool:
        """Whether a message of one of these partitions is in hand, or waits."""
        return any(_log_of(lease) in logs for lease in self._living())

    async def run(self) -> None:
        while True:
            self._report_blocking(await self._sleep())
            now = self._clock.time()
            self._on_tick(now)
            await self._renew(now)

    async def _sleep(self) -> float:
        """A tick, begun anew when ticks become shorter; by how much it was longer.

        While there is no lease there is none: a test may let months pass.
        """
        while not self._watched:
            self._has_any.clear()
            await self._has_any.wait()
        while True:
            self._is_new.clear()
            tick_s, began_at = self._tick_s, self._clock.time()
            try:
                async with self._clock.timeout(tick_s):
                    await self._is_new.wait()
            except TimeoutError:
                return self._clock.time() - began_at - tick_s

    async def _renew(self, now: float) -> None:
        due: dict[float, list[HeldLease]] = {}
        for lease in self._living():
            if lease.is_due(now) and self._is_allowed(lease, now):
                due.setdefault(lease.grant.lease_s, []).append(lease)
        for lease_s, leases in due.items():
            for first in range(0, len(leases), _BATCH_MAX):
                await self._renew_batch(leases[first : first + _BATCH_MAX], lease_s)

    async def _renew_batch(self, leases: list[HeldLease], lease_s: float) -> None:
        asked_at = self._clock.time()
        try:
            settled = await self._settling.settle(
                "extend", leases, {"timeout": duration(lease_s)}, patience_s=self._tick_s
            )
        except GoQueueError as error:
            # The next tick tries again, and comes before the leases end.
            _log.warning("renewing leases of group %s: %s", self._settling.group, error)
            return
        lost = []
        for lease in leases:
            if settled.error_of(lease) is None:
                lease.renew(asked_at + lease_s, settled.new_deadline)
            elif not lease.is_over:
                lease.lose()
                lost.append(lease)
        if lost:
            _log.warning(
                "group %s: %d leases ended before their messages were settled, such as %s",
                self._settling.group,
                len(lost),
                lost[0].receipt_handle,
            )

    def _is_allowed(self, lease: HeldLease, now: float) -> bool:
        if lease.begun_at is None or now - lease.begun_at < self._max_handling_s:
            return True
        if self._max_handling_s > 0:
            _log.warning(
                "group %s: %s has been in hand for %.0f s; its lease is not renewed any more",
                self._settling.group,
                lease.receipt_handle,
                now - lease.begun_at,
            )
        # Its holder may still settle it in time.
        self._watched = [each for each in self._watched if each() is not lease]
        return False

    def _living(self) -> list[HeldLease]:
        """What is still to be settled; the rest is forgotten."""
        found = ((each, each()) for each in self._watched)
        pairs = [(each, lease) for each, lease in found if lease is not None and not lease.is_over]
        self._watched = [each for each, _ in pairs]
        self._compaction_at = max(_REFERENCES_MIN, 2 * len(pairs))
        return [lease for _, lease in pairs]

    def _report_blocking(self, late_s: float) -> None:
        """AsyncOnce: a handler that blocks the event loop does so again."""
        if late_s > 2 * self._tick_s and not self._was_blocked:
            self._was_blocked = True
            _log.warning(
                "the event loop of this program did not run for %.1f s, and leases cannot be "
                "renewed meanwhile: use connect_sync, or asyncio.to_thread for blocking work",
                late_s,
            )
