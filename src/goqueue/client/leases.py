"""Leased messages: acks in batches, renewal, and what is given back.

Acknowledgements and the like, on their way to the broker.

Acknowledgements are gathered: the first one leaves at once, those that come while it is under way
leave together in the next request. So one at a time is answered quickly, and many at a time cost
one request per thousand.

Leases, as their holder knows them.

Time is that of `time.monotonic`, which threads share. The end is reckoned from when the poll was
sent, so it is never later than the broker's.

Renews leases while their messages wait or are being handled.

Every lease of a consumer is looked at several times before it can end. Watches weakly: a message
that its program dropped without settling it is not renewed, and comes again when its lease ends.

Invariant: a lease that is over, or that has been in hand for longer than allowed, is never renewed.
"""

import asyncio
import logging
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from typing import Self

import msgspec

from goqueue.client.errors import Closed, GoQueueError, refusal
from goqueue.client.http import Request, Transport, get, post
from goqueue.client.membership import Subscription
from goqueue.client.message import Message
from goqueue.client.values import duration, nanoseconds
from goqueue.model import Refused, parse_duration

__all__ = ["Grant", "HeldLease", "LeaseRenewer", "LeaseTimes", "Result", "Settlements"]

_log = logging.getLogger("goqueue.client")

_BATCH_MAX = 1000
_STALE = "receipt_stale"
# Closing does not wait for a server that is away: its leases end by themselves.
_FAREWELL_S = 2.0


class Result(msgspec.Struct, frozen=True):
    """What became of one receipt of many."""

    success: bool
    error: str = ""
    code: str = ""
    new_deadline: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[Result]


class _Extended(msgspec.Struct, frozen=True):
    new_deadline: str


_RESULTS = msgspec.json.Decoder(_Results)
_EXTENDED = msgspec.json.Decoder(_Extended)


class _Answer(asyncio.Future[None]):
    """The answer to one acknowledgement; knows whether somebody waits for it."""

    is_awaited = False

    def add_done_callback(
        self, function: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        self.is_awaited = True
        super().add_done_callback(function, context=context)


Waiting = tuple[str, _Answer]


class Settlements:
    """Gathers acknowledgements of one consumer; `run` is its task.

    Calls `on_stale` when the broker says that a lease is over.
    """

    def __init__(
        self, transport: Transport, group: str, on_stale: Callable[[], None] | None = None
    ) -> None:
        self.group = group
        self._on_stale = on_stale
        self._transport = transport
        self._waiting: deque[Waiting] = deque()
        self._is_waiting = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_ended = False

    def ack(self, receipt_handle: str) -> "asyncio.Future[None]":
        if self._is_ended:
            raise Closed("the consumer is closed: its leases are given back")
        answer = _Answer(loop=asyncio.get_running_loop())
        self._waiting.append((receipt_handle, answer))
        self._is_waiting.set()
        self._is_idle.clear()
        return answer

    async def ack_all(self, receipt_handles: Sequence[str]) -> list[Result]:
        """Acknowledge deliveries by one request, at most 1000; what became of each."""
        fields: dict[str, object] = {"receipt_handles": receipt_handles}
        results = await self._settle_all(("ack", "batch"), fields, None)
        if len(results) != len(receipt_handles):
            words = "not as many answers as acknowledgements"
            raise GoQueueError("response_invalid", words, is_outcome_unknown=True)
        return results

    async def settle(self, route: str, receipt_handle: str, fields: dict[str, object]) -> None:
        """Settle a single delivery in another way."""
        given = {"receipt_handle": receipt_handle, **fields}
        await self._transport.ask(post("messages", route, fields=given))

    async def extend(self, receipt_handle: str, timeout_s: float) -> str:
        """Keep a single delivery; until when."""
        fields: dict[str, object] = {
            "receipt_handle": receipt_handle,
            "timeout": duration(timeout_s),
        }
        request = post("messages", "visibility", fields=fields, is_repeatable=True)
        return (await self._transport.read(request, _EXTENDED)).new_deadline

    async def extend_all(
        self, receipt_handles: Sequence[str], timeout_s: float, *, patience_s: float
    ) -> list[Result]:
        """Keep deliveries, at most 1000; what became of each."""
        fields: dict[str, object] = {
            "receipt_handles": receipt_handles,
            "timeout": duration(timeout_s),
        }
        return await self._settle_all(("visibility", "batch"), fields, patience_s)

    async def release(self, receipt_handles: Sequence[str]) -> None:
        """Give deliveries back that were not begun: they do not count.

        What cannot be given back becomes free with its lease, or when the member leaves.
        """
        for first in range(0, len(receipt_handles), _BATCH_MAX):
            batch = receipt_handles[first : first + _BATCH_MAX]
            try:
                await self._settle_all(("release",), {"receipt_handles": batch}, _FAREWELL_S)
            except GoQueueError as error:
                _log.info("giving back messages of group %s: %s", self.group, error)
                return

    async def _settle_all(
        self, route: tuple[str, ...], fields: dict[str, object], patience_s: float | None
    ) -> list[Result]:
        request = post("messages", *route, fields=fields, is_repeatable=True, patience_s=patience_s)
        return (await self._transport.read(request, _RESULTS)).results

    async def drain(self) -> None:
        """Wait until every acknowledgement was answered."""
        await self._is_idle.wait()

    async def run(self) -> None:
        batch: list[Waiting] = []
        try:
            while True:
                await self._is_waiting.wait()
                count = min(len(self._waiting), _BATCH_MAX)
                batch = [self._waiting.popleft() for _ in range(count)]
                if not self._waiting:
                    self._is_waiting.clear()
                await self._send(batch)
                batch = []
                if not self._waiting:
                    self._is_idle.set()
        finally:
            self._is_ended = True
            words = "the consumer was closed before the acknowledgement was answered"
            self._fail([*batch, *self._waiting], Closed(words))
            self._waiting.clear()
            self._is_idle.set()

    async def _send(self, batch: list[Waiting]) -> None:
        body = {"receipt_handles": [receipt_handle for receipt_handle, _ in batch]}
        request = Request(
            method="POST",
            target="/messages/ack/batch",
            body=msgspec.json.encode(body),
            is_repeatable=True,
        )
        try:
            results = (await self._transport.read(request, _RESULTS)).results
        except GoQueueError as error:
            self._fail(batch, error)
            return
        if len(results) != len(batch):
            words = "not as many answers as acknowledgements"
            self._fail(batch, GoQueueError("response_invalid", words))
            return
        if self._on_stale is not None and any(each.code == _STALE for each in results):
            self._on_stale()
        failed = []
        for (_, answer), result in zip(batch, results, strict=True):
            if answer.done():
                continue
            if result.success:
                answer.set_result(None)
            else:
                answer.set_exception(refusal(result.code, result.error))
                failed.append(answer)
        self._report(failed)

    def _fail(self, batch: list[Waiting], error: GoQueueError) -> None:
        failed = [answer for _, answer in batch if not answer.done()]
        for answer in failed:
            answer.set_exception(error)
        self._report(failed)

    def _report(self, failed: list[_Answer]) -> None:
        """Say once what nobody waits for; asyncio would print a traceback for each."""
        unseen = [answer for answer in failed if not answer.is_awaited]
        # Whoever awaits one later gets its error all the same.
        errors = [answer.exception() for answer in unseen]
        if errors:
            words = "group %s: %d acknowledgements that nobody awaited failed, the first with %s"
            _log.warning(words, self.group, len(errors), errors[0])


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


_TICKS_PER_LEASE = 6
_TICK_S_MIN, _TICK_S_MAX = 0.01, 5.0
_REFERENCES_MIN = 4000


class LeaseRenewer:
    """The leases of one consumer; `run` is its task. Calls `on_tick` before it renews."""

    def __init__(
        self, settling: Settlements, max_handling_s: float, on_tick: Callable[[float], None]
    ) -> None:
        self._settling = settling
        self._max_handling_s = max_handling_s
        self._on_tick = on_tick
        self._watched: list[weakref.ref[HeldLease]] = []
        self._compaction_at = _REFERENCES_MIN
        self._tick_s = _TICK_S_MAX
        self._is_new = asyncio.Event()
        self._was_blocked = False

    def watch(self, messages: Iterable[Message], lease_s: float) -> None:
        """Renew the leases of these, the shortest of which lasts for `lease_s`."""
        leases = (message.lease for message in messages)
        self._watched += [weakref.ref(each) for each in leases if isinstance(each, HeldLease)]
        if len(self._watched) >= self._compaction_at:
            self._living()
        tick_s = min(max(lease_s / _TICKS_PER_LEASE, _TICK_S_MIN), _TICK_S_MAX)
        if tick_s < self._tick_s:
            self._tick_s = tick_s
            self._is_new.set()

    async def run(self) -> None:
        while True:
            self._report_blocking(await self._sleep())
            now = time.monotonic()
            self._on_tick(now)
            await self._renew(now)

    async def _sleep(self) -> float:
        """A tick, begun anew when ticks become shorter; by how much it was longer."""
        while True:
            self._is_new.clear()
            tick_s, began_at = self._tick_s, time.monotonic()
            try:
                async with asyncio.timeout(tick_s):
                    await self._is_new.wait()
            except TimeoutError:
                return time.monotonic() - began_at - tick_s

    async def _renew(self, now: float) -> None:
        due: dict[float, list[HeldLease]] = {}
        for lease in self._living():
            if lease.is_due(now) and self._is_allowed(lease, now):
                due.setdefault(lease.lease_s, []).append(lease)
        for lease_s, leases in due.items():
            for first in range(0, len(leases), _BATCH_MAX):
                await self._renew_batch(leases[first : first + _BATCH_MAX], lease_s)

    async def _renew_batch(self, leases: list[HeldLease], lease_s: float) -> None:
        asked_at = time.monotonic()
        try:
            results = await self._settling.extend_all(
                [lease.receipt_handle for lease in leases], lease_s, patience_s=self._tick_s
            )
        except GoQueueError as error:
            # The next tick tries again, and comes before the leases end.
            _log.warning("renewing leases of group %s: %s", self._settling.group, error)
            return
        lost = []
        for lease, result in zip(leases, results, strict=True):
            if result.success:
                lease.renew(asked_at + lease_s, result.new_deadline)
            elif not lease.is_over:
                lease.end()
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
