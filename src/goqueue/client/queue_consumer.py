"""Consumes a topic as a queue: a member that leases messages ahead of their handler.

How far ahead: a lease runs while its message waits, so no more is leased than can be handled within
a third of a lease at the measured pace. It starts at one and at most doubles with each poll. Where
the program set no limit and the handler takes almost no time, more than the default is leased: a
poll then costs more than the handling, and other members do not wait.

Owns the member, the messages that wait, and the acknowledgements. Renews the leases of messages
that wait or are being handled, and returns only messages whose lease is live. Closing releases
messages that were not started, without counting a delivery.

Invariant: never more messages ahead than the limit. `pop` may be called from another thread;
everything else belongs to the loop.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from goqueue.client.ack_sender import AckSender
from goqueue.client.clock import Clock
from goqueue.client.errors import Closed, GoQueueError
from goqueue.client.http import Transport, post
from goqueue.client.leased_records import LeaseTerms, read_leased
from goqueue.client.leases import HeldLease, LeaseRenewer, LeaseTimes
from goqueue.client.membership import Membership, Subscription, is_replaced
from goqueue.client.message import Message
from goqueue.client.retries import is_worth_retrying
from goqueue.client.tasks import AsyncOnce, Tasks
from goqueue.client.values import duration
from goqueue.model import REBALANCE_HEADER, LogId

if TYPE_CHECKING:
    from goqueue.client.payloads import PayloadReader

__all__ = ["PrefetchWindow", "QueueConsumer"]

_SHARE_OF_LEASE = 1 / 3
# A slower message counts more than a faster one: to lease too few ahead costs a round trip.
_WEIGHT_OF_SLOWER = 0.5
_WEIGHT_OF_FASTER = 0.25
# How many are leased ahead at most of ordinary work, where the program does not say; and how many
# more of work that is done within the time given.
_USUAL = 100
_QUICK_MAX = 2000
_QUICK_S = 0.1
_POLL_MAX = 1000


class PrefetchWindow:
    """Learns the pace from how long after a message was handed out the next one is asked for.

    With several workers that is the time between two messages of all of them together.
    """

    __slots__ = ("_handed", "_handling_s", "_limit", "_quick_limit", "_since", "_size")

    def __init__(self, limit: int | None) -> None:
        self._limit = _USUAL if limit is None else min(limit, _POLL_MAX)
        self._quick_limit = _QUICK_MAX if limit is None else self._limit
        self._size = min(1, self._limit)
        self._handling_s: float | None = None
        # How many were handed out since anybody asked, and when the last one was.
        self._handed = 0
        self._since = 0.0

    def ask(self, now: float) -> None:
        """A worker wants its next message: it is done with the last one."""
        if not self._handed:
            return
        sample_s = (now - self._since) / self._handed
        self._handed = 0
        known_s = self._handling_s
        if known_s is None:
            self._handling_s = sample_s
        elif sample_s > known_s:
            self._handling_s = known_s + _WEIGHT_OF_SLOWER * (sample_s - known_s)
        else:
            self._handling_s = known_s + _WEIGHT_OF_FASTER * (sample_s - known_s)

    def hand(self, now: float) -> None:
        """A worker gets a message, or one more, and is busy from now on."""
        self._handed += 1
        self._since = now

    def grow(self, lease_s: float, now: float) -> int:
        """The size for the next poll."""
        self._size = min(max(2 * self._size, 1), self.fitting(lease_s, now))
        return self._size

    def fitting(self, lease_s: float, now: float) -> int:
        """How many of those that wait can be handled in time, as far as is known."""
        # While everybody is busy the pace may have changed: nobody has asked for so long.
        busy_s = now - self._since if self._handed else 0.0
        pace_s = max(self._handling_s or 0.0, busy_s)
        limit, quick_limit = self._limit, self._quick_limit
        if self._handling_s is None:
            limit = quick_limit = min(1, limit)
        budget_s = lease_s * _SHARE_OF_LEASE
        if pace_s * limit > budget_s:
            return int(budget_s / pace_s)
        if pace_s * quick_limit <= _QUICK_S:
            return quick_limit
        return max(limit, int(_QUICK_S / pace_s))


_log = logging.getLogger("goqueue.client")

_PAUSE_S = 0.05
# How long to wait for messages in hand of partitions that move: less than the group does.
_GIVE_UP_S = 50.0
_GIVE_UP_TICK_S = 0.02
_REBALANCE = REBALANCE_HEADER.lower().encode()
# How long the answer to a poll may be under way: of a broker that ends it because the member stops,
# and of one that was not told. A poll that has waited for longer than that finds nothing, so it can
# be given up without losing a lease.
_DRAIN_S = 2.0
_POLL_GRACE_S = 0.1


class QueueConsumer:
    """`async for message in consumer`; joins with the first message asked for.

    Several tasks may take messages from one consumer.
    """

    def __init__(self, transport: Transport, tasks: Tasks, subscription: Subscription) -> None:
        self._transport = transport
        self._clock = transport.clock
        self._time = transport.clock.time
        self._tasks = tasks
        self._subscription = subscription
        self._membership = Membership(transport, subscription)
        self._settling = AckSender(transport, subscription.group, self._distrust_leases)
        self._times = LeaseTimes(transport, subscription)
        self._window = PrefetchWindow(subscription.prefetch)
        self._renewer = LeaseRenewer(self._settling, subscription.max_handling_s, self._shed)
        self._ready: deque[Message] = deque()
        # Leases that are not to be handed out, and that nobody was told of yet.
        self._unwanted: deque[HeldLease] = deque()
        self._given_up: dict[LogId, None] = {}
        self._failure: GoQueueError | None = None
        self._has_more = asyncio.Event()
        self._has_room = asyncio.Event()
        # How many messages workers wait for, and how few may be left before the next poll.
        self._wanted = 0
        self._low = 0
        self._polled_at = 0.0
        self._is_poll_under_way = False
        self._background: list[asyncio.Task[None]] = []
        self._polling: asyncio.Task[None] | None = None
        self._beginning = AsyncOnce(self._begin)
        self._retiring = AsyncOnce(self._retire)
        self._is_stopping = False
        self._is_closed = False

    async def __aenter__(self) -> "QueueConsumer":
        await self._beginning.run()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> "QueueConsumer":
        return self

    async def __anext__(self) -> Message:
        while True:
            if self._ready and len(self._ready) <= self._low and not self._has_room.is_set():
                # Let the next poll leave, and acks that wait: a program that awaits nothing else
                # would handle all that is left first. Before a message is in hand, because this
                # may be cancelled.
                self._has_room.set()
                await asyncio.sleep(0)
            message = self.pop()
            if message is not None:
                if not self._ready:
                    self._has_room.set()
                return message
            await self._wait_for_more()

    async def take(self, count_max: int = 1000) -> list[Message]:
        """At least one message, and what else is at hand; empty when closed or stopped."""
        taken: list[Message] = []
        while not taken:
            message = self.pop()
            while message is not None:
                taken.append(message)
                message = self._pop(self._time()) if len(taken) < count_max else None
            if not taken and not await self.wait_for_more(count_max):
                return []
        self.refill()
        return taken

    def pop(self) -> Message | None:
        """The next message whose lease is live, if one is at hand; for any thread.

        Whoever calls is done with what it was handed before.
        """
        now = self._time()
        self._window.ask(now)
        return self._pop(now)

    def _pop(self, now: float) -> Message | None:
        ready = self._ready
        while ready and not self._is_stopping:
            try:
                message = ready.popleft()
            except IndexError:
                # Another thread was faster.
                break
            lease = message.lease
            assert isinstance(lease, HeldLease), "what was polled has a lease"
            if lease.begin(now):
                self._window.hand(now)
                return message
            self._unwanted.append(lease)
        return None

    @property
    def clock(self) -> Clock:
        """What the time in hand of its messages is measured by."""
        return self._clock

    @property
    def is_low(self) -> bool:
        """Whether to poll for more."""
        return len(self._ready) <= self._low

    def refill(self) -> None:
        """Poll if not much is left."""
        if len(self._ready) <= self._low:
            self._has_room.set()

    async def wait_for_more(self, count_max: int = 1) -> bool:
        """Wait for messages; False when there will be none, because of a close or a stop."""
        try:
            await self._wait_for_more(count_max)
        except StopAsyncIteration:
            return False
        return True

    @property
    def is_stopped(self) -> bool:
        """Whether it hands out nothing more."""
        return self._is_stopping

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    async def flush(self) -> None:
        """Wait until all acks so far are durable; raise the first failure that was not awaited."""
        await self._settling.flush()

    def stop(self) -> None:
        """Hand out nothing more, and give back at once what was not begun.

        The messages in hand may still be settled; `close` is still to be called. On the loop of
        the consumer, such as by `loop.add_signal_handler(signal.SIGTERM, consumer.stop)`.
        """
        if self._is_stopping:
            return
        self._end_waiting()
        with contextlib.suppress(Closed):
            self._tasks.start(self._retiring.run())

    async def wait_until_stopped(self) -> None:
        """`stop`, and wait until what was not begun is given back and nothing more is leased."""
        self._end_waiting()
        await self._retiring.run()

    async def close(self) -> None:
        """Give back what was not begun, wait for the acknowledgements under way, leave the group.

        What is in hand and not settled goes to other members at once, and counts as delivered.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._end_waiting()
        await self._retiring.run()
        if self._background:
            settling, *others = self._background
            await self._settling.drain()
            for task in (settling, *others):
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        await self._membership.leave()

    def give_up(self) -> None:
        """Close without a word to the broker, where leases and session end in their time."""
        self._is_closed = True
        self._end_waiting()
        for task in (*self._background, self._polling):
            if task is not None:
                task.cancel()

    def _end_waiting(self) -> None:
        self._is_stopping = True
        self._has_more.set()
        self._has_room.set()

    async def _retire(self) -> None:
        """Lease nothing more, and give back what waits.

        The broker ends a poll that waits. Given up from here, it would go on waiting there until
        the broker notices, and get what is given back: leased to nobody, and counted as delivered.
        """
        polling = self._polling
        if polling is not None:
            if self._is_poll_under_way:
                is_drained = await self._membership.drain()
                grace_s = self._polled_at + _POLL_GRACE_S - time.monotonic()
                await self._clock.wait_briefly(polling, _DRAIN_S if is_drained else max(grace_s, 0))
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        while self._ready:
            with contextlib.suppress(IndexError):
                self._discard(self._ready.pop())
        await self._release()

    async def _wait_for_more(self, count_max: int = 1) -> None:
        await self._beginning.run()
        prefetch = self._subscription.prefetch
        wanted = max(min(count_max, _USUAL if prefetch is None else prefetch), 1)
        self._wanted += wanted
        self._has_room.set()
        try:
            while not self._ready:
                if self._is_stopping:
                    raise StopAsyncIteration
                if self._failure is not None:
                    raise self._failure
                self._has_more.clear()
                await self._has_more.wait()
        finally:
            self._wanted -= wanted
        if self._is_stopping:
            raise StopAsyncIteration

    async def _begin(self) -> None:
        if self._is_stopping:
            return
        await self._membership.join()
        if self.is_stopped:
            # Closed meanwhile, when there was no member yet that could have left.
            await self._membership.leave()
            return
        start = self._tasks.start
        self._polling = start(self._keep_polling())
        self._background = [
            start(self._settling.run()),
            start(self._keep_alive()),
            start(self._renewer.run()),
        ]

    async def _keep_alive(self) -> None:
        while True:
            member_id = self._membership.member_id
            try:
                await self._membership.keep_alive()
            except GoQueueError as error:
                _log.warning("heartbeat of group %s: %s", self._subscription.group, error)
            self._forget_leases_of(member_id)
            self._give_up()
            await self._times.refresh()

    def _give_up(self) -> None:
        """Begin to give up partitions that are to move and are not being given up yet."""
        logs = [log for log in self._membership.to_revoke if log not in self._given_up]
        if logs:
            self._given_up.update(dict.fromkeys(logs))
            with contextlib.suppress(Closed):
                self._tasks.start(self._revoke(logs))

    async def _revoke(self, logs: list[LogId]) -> None:
        """Give back what waits, wait for what is in hand, and tell the group.

        Leases run on when partitions move, so nothing that is in hand is delivered again. To wait
        for it keeps the order of handling; not for longer than the group waits.
        """
        try:
            self._discard_given_up()
            await self._release()
            deadline = self._time() + _GIVE_UP_S
            while self._time() < deadline and self._renewer.holds_any(logs):
                await self._clock.sleep(_GIVE_UP_TICK_S)
            await self._membership.revoke(logs)
        except GoQueueError as error:
            # The next heartbeat names them again.
            _log.warning("giving up partitions of group %s: %s", self._subscription.group, error)
        finally:
            for log in logs:
                self._given_up.pop(log, None)

    def _discard_given_up(self) -> None:
        """Give back what waits of partitions that move; other threads may pop meanwhile."""
        kept: list[Message] = []
        with contextlib.suppress(IndexError):
            while True:
                message = self._ready.pop()
                if LogId(message.topic, message.partition) in self._given_up:
                    self._discard(message)
                else:
                    kept.append(message)
        self._ready.extendleft(kept)
        if kept:
            self._has_more.set()
        self._has_room.set()

    def _forget_leases_of(self, member_id: str | None) -> None:
        """With a member go its leases: what waits here belongs to others by now."""
        if self._membership.member_id != member_id:
            self._ready.clear()
            self._has_room.set()

    def _shed(self, now: float) -> None:
        """Give back what waits for too long: workers turned out to be slower than they were."""
        with contextlib.suppress(IndexError):
            oldest = self._ready[0].lease
            if isinstance(oldest, HeldLease) and oldest.is_due(now):
                count = self._window.fitting(oldest.grant.lease_s, now)
                while len(self._ready) > count:
                    self._discard(self._ready.pop())
        if self._unwanted:
            with contextlib.suppress(Closed):
                self._tasks.start(self._release())

    def _distrust_leases(self) -> None:
        """A lease ended early, as all do when a node restarts: what waits is leased anew."""
        while self._ready:
            with contextlib.suppress(IndexError):
                self._discard(self._ready.pop())
        if self._unwanted:
            with contextlib.suppress(Closed):
                self._tasks.start(self._release())
        self._has_room.set()

    def _discard(self, message: Message) -> None:
        assert isinstance(message.lease, HeldLease), "what was polled has a lease"
        message.lease.end()
        self._unwanted.append(message.lease)

    async def _release(self) -> None:
        """Tell the broker about leases that nobody will use; those that ended do no harm."""
        unwanted = [self._unwanted.popleft() for _ in range(len(self._unwanted))]
        if unwanted:
            await self._settling.release(unwanted)

    async def _keep_polling(self) -> None:
        try:
            await self._times.refresh()
            await self._poll_ahead()
        finally:
            # Whoever waits is told, also when the whole connection breaks down.
            self._failure = self._failure or Closed("polling has ended")
            self._has_more.set()

    async def _poll_ahead(self) -> None:
        while not self._is_stopping:
            room = self._room()
            if room <= 0:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            await self._settling.wait_for_room()
            member_id = self._membership.member_id
            try:
                if member_id is None:
                    # Lost before, and to join again did not work then.
                    await self._membership.join_again(None)
                if self.is_stopped:
                    return
                self._ready.extend(await self._poll(room))
                if self._given_up:
                    self._discard_given_up()
                # Half of what there is, not of what there might be: where messages come no faster
                # than they are handled, each poll would bring a single one.
                self._low = len(self._ready) // 2
            except GoQueueError as error:
                if not await self._is_mended(error, member_id):
                    return
            if self._ready:
                self._has_more.set()

    def _room(self) -> int:
        """How many messages to poll for: those that workers wait for, and those ahead of them."""
        count = len(self._ready)
        if count > self._low and self._wanted <= count:
            return 0
        size = self._window.grow(self._times.shortest_s, self._time())
        return min(max(size, self._wanted) - count, _POLL_MAX)

    async def _poll(self, room: int) -> list[Message]:
        subscription = self._subscription
        visibility_s = subscription.visibility_s
        # Leases are reckoned from when the poll was sent, so it must not wait for most of one.
        wait_s = min(subscription.wait_s, self._times.shortest_s / 3)
        fields: dict[str, object] = {
            "member_id": self._membership.member_id,
            "timeout": duration(wait_s),
            "max_messages": room,
            "visibility_timeout": None if visibility_s is None else duration(visibility_s),
        }
        # Repeated although it leases: what the lost answer leased comes again with its lease's end.
        request = post(
            "groups",
            subscription.group,
            "poll",
            "records",
            fields=fields,
            is_repeatable=True,
            wait_s=wait_s,
        )
        # The answer needs real time to get here.
        self._polled_at = time.monotonic()
        polled_at = self._time()
        self._is_poll_under_way = True
        try:
            response = await self._transport.ask(request)
        finally:
            self._is_poll_under_way = False
        if not response.body and _REBALANCE in response.headers:
            # The heartbeat that waits is told, too: nothing is paused for it.
            return []
        if not response.body:
            is_early = self._time() - polled_at < min(_PAUSE_S, wait_s / 2)
            if is_early and not self._is_stopping:
                # A broker that is stopping answers at once: do not ask it in a tight loop.
                await self._clock.pause(_PAUSE_S)
            return []
        terms = LeaseTerms(self._settling, self._times.of, response.asked_at)
        messages = read_leased(response.body, terms)
        self._renewer.watch(messages, self._times.shortest_s)
        payloads = self._subscription.payloads
        return messages if payloads is None else await self._attach(payloads, messages)

    async def _attach(self, payloads: "PayloadReader", messages: list[Message]) -> list[Message]:
        try:
            return await payloads.attach(messages)
        except BaseException:
            # Given back with the next tick, or by `_retire`, which cancels polling.
            for message in messages:
                self._discard(message)
            raise

    async def _is_mended(self, error: GoQueueError, member_id: str | None) -> bool:
        """Whether polling can go on after this error."""
        if error.code in {"group_not_found", "member_not_found"} and not is_replaced(error):
            try:
                await self._membership.join_again(member_id)
                self._forget_leases_of(member_id)
                return True
            except GoQueueError as refused:
                error = refused
        if not is_worth_retrying(error, is_repeatable=True):
            self._failure = error
            return False
        _log.warning("polling for group %s: %s; trying again", self._subscription.group, error)
        await self._clock.pause(_PAUSE_S)
        return True
