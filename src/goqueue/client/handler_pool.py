"""The handler of some topics at work: a consumer, and slots that take messages from it.

A slot works on one message at a time: it decodes, calls, and settles. There are as many as the
handler's concurrency: tasks of the loop for an async function, with a thread each for a plain one.
The consumer leases ahead by the pace of all slots, renews what waits and what is in hand, and sends
acks together; the order of messages with a key is kept by the broker, which delivers the next one
of a key when the last one is settled. So slots need not know of each other.

Crash points of one message, with what the broker does:
- before the handler returns: its lease ends, the message is delivered again, and that counts;
- after it returned, before its ack is durable: the same; the handler runs twice;
- with a transaction, before the commit is decided: what was published is never seen, and the
  message is delivered again when its lease ends or its transaction times out; after: it is done.

Invariant: every message that a slot takes is acked, nacked, rejected or released, or its lease is
left to end, and the log says why. A slot never ends by what a handler raises.
"""

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import NamedTuple

from goqueue.client import handler_call, handler_thread
from goqueue.client.connection import Connection
from goqueue.client.delivery_ledger import DeliveryLedger, WorkInHand
from goqueue.client.errors import (
    GoQueueError,
    NotAllowed,
    ProducerFenced,
    TransactionAborted,
    TransactionOutcomeUnknown,
)
from goqueue.client.handler_call import Given, Middleware, PayloadInvalid
from goqueue.client.handler_thread import HandlerThread
from goqueue.client.message import Message
from goqueue.client.queue_consumer import QueueConsumer
from goqueue.client.retry_policy import Reject, RetryLater, reason_of
from goqueue.client.sync import SyncConnection
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.sync.transaction import SyncTransaction
from goqueue.client.tracing import find_telemetry
from goqueue.client.transaction import Transaction
from goqueue.client.values import GroupMode
from goqueue.client.worker import HandlerSpec
from goqueue.client.worker_telemetry import Outcome, WorkerTelemetry

__all__ = ["HandlerPool", "PoolContext"]

_log = logging.getLogger("goqueue.worker")

# How long a task that was cancelled may take to end before the log names it.
_HEED_S = 5.0
_LOOK_S_MIN = 0.02
# A lease is renewed for longer than its handler may take, so that its failure can be settled.
_SETTLE_S = 60.0
_MODES: dict[bool, GroupMode] = {True: "key_ordered", False: "shared"}
_LOOP = "dead_letter_loop"
_OWN_FILES = frozenset({__file__, handler_call.__file__, handler_thread.__file__})


class PoolContext(NamedTuple):
    """What the handlers of one worker share."""

    q: Connection
    threads: LoopThread
    middleware: tuple[Middleware, ...]
    telemetry: WorkerTelemetry
    # Names the slots of this handler as transactional producers.
    producer_prefix: str
    # Whether an earlier life of this worker had the same prefix.
    is_named: bool
    # Called with what a pool cannot go on after.
    on_failure: Callable[[BaseException], None]


class _Slot:
    """One message at a time."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.task: asyncio.Task[None] | None = None
        # When the handler was called; None between two calls.
        self.began_at: float | None = None
        self.is_timed_out = False
        # When it was cancelled; None again when that was reported, because the call goes on.
        self.cancelled_at: float | None = None
        self.work: WorkInHand | None = None
        self.thread: HandlerThread | None = None
        # What the thread is asked for; None while it is asked for nothing.
        self.answer: asyncio.Future[None] | None = None

    def end_call(self) -> None:
        """The call has ended, in whatever way: the next one has its full time."""
        self.began_at = self.cancelled_at = self.work = None
        if self.is_timed_out:
            self.is_timed_out = False
            if self.task is not None and self.task.cancelling():
                self.task.uncancel()


class HandlerPool:
    """`open`, then a task for each of `slots`; `stop`, and `close` when the tasks have ended."""

    def __init__(self, spec: HandlerSpec, context: PoolContext) -> None:
        self._spec = spec
        self._context = context
        self._q = context.q
        self._call = spec.call
        self._telemetry = context.telemetry
        self._is_plain = spec.call.is_async and not spec.is_transactional and not context.middleware
        sync_q = SyncConnection(context.q, context.threads)
        self._given = Given(context.q if spec.call.is_async else sync_q)
        self._ledger = DeliveryLedger()
        self._chance = random.SystemRandom()
        self._consumer: QueueConsumer | None = None
        self._slots = [_Slot(number) for number in range(spec.concurrency)]
        self._stuck: list[HandlerThread] = []
        self._interrupted: list[WorkInHand] = []
        self._max_deliveries: dict[str, int] = {}

    @property
    def in_hand(self) -> int:
        return len(self._ledger)

    def describe(self) -> str:
        spec = self._spec
        kind = "tasks" if spec.call.is_async else "threads"
        order = ", by key" if spec.is_ordered else ""
        once = ", in transactions" if spec.is_transactional else ""
        return (
            f"{', '.join(spec.topics)} by {spec.call.name} ({spec.concurrency} {kind}{order}{once})"
        )

    # From start to end

    async def open(self) -> None:
        """Check the topics, take over what an earlier life left, and join the group."""
        spec = self._spec
        await self._read_limits()
        if spec.is_transactional and self._context.is_named:
            for slot in self._slots:
                await self._q.take_over(self._producer_of(slot), timeout_s=spec.timeout_s)
        consumer = self._q.consume(
            spec.topics,
            group=spec.group,
            mode=_MODES[spec.is_ordered],
            max_handling_s=spec.timeout_s + _SETTLE_S,
            serializer=spec.serializer,
        )
        self._consumer = await consumer.__aenter__()

    def start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """The tasks of the slots."""
        for slot in self._slots:
            slot.task = tasks.create_task(self._work(slot))
        return [slot.task for slot in self._slots if slot.task is not None]

    def stop(self) -> None:
        """Take no more messages, and give back what was not begun."""
        if self._consumer is not None:
            self._consumer.stop()

    async def close(self) -> None:
        """Release what was interrupted, wait for the acks under way, leave the group."""
        for slot in self._slots:
            if slot.thread is not None:
                slot.thread.end()
        leases = [work.lease for work in self._interrupted if not work.lease.is_over]
        for lease in leases:
            lease.end()
        if self._consumer is not None:
            # What is released while a poll waits would come back to this very member.
            await self._consumer.wait_until_stopped()
        if leases:
            await leases[0].grant.settling.release(leases)
        self._ledger.abandon()
        if self._consumer is not None:
            await self._consumer.close()

    def give_up(self) -> None:
        """There is no more time to close: keep nothing that would hold up the connection."""
        self._ledger.abandon()
        if self._consumer is not None:
            self._consumer.give_up()

    async def watch(self) -> None:
        """End calls that take too long, by the clock of their leases.

        Sleeps until the first call could be over: what begins meanwhile has its full time.
        """
        assert self._consumer is not None, "the pool is open"
        clock = self._consumer.clock
        while True:
            now = clock.time()
            await clock.sleep(max(self._next_expiry(now) - now, _LOOK_S_MIN))
            self._expire(clock.time())

    def _next_expiry(self, now: float) -> float:
        timeout_s = self._spec.timeout_s
        ends = [
            slot.began_at + timeout_s
            for slot in self._slots
            if slot.began_at is not None and not slot.is_timed_out
        ]
        ends += [
            slot.cancelled_at + _HEED_S for slot in self._slots if slot.cancelled_at is not None
        ]
        return min(ends, default=now + timeout_s)

    def _expire(self, now: float) -> None:
        for slot in self._slots:
            began_at = slot.began_at
            if slot.cancelled_at is not None and now - slot.cancelled_at >= _HEED_S:
                self._report_unheeded(slot)
            if began_at is None or slot.is_timed_out or now - began_at < self._spec.timeout_s:
                continue
            slot.is_timed_out = True
            if slot.answer is not None and slot.thread is not None:
                if not slot.answer.done():
                    slot.answer.set_exception(self._timeout())
                    self._replace_thread(slot, slot.thread)
            else:
                assert slot.task is not None, "it is at work"
                slot.cancelled_at = now
                slot.task.cancel()

    def _report_unheeded(self, slot: _Slot) -> None:
        """Once for a call: it holds its slot until it returns, and nothing can end it."""
        slot.cancelled_at = None
        _log.error(
            "%s: %s goes on although it was cancelled after %g s; it keeps one of %d slots until "
            "it returns: let it pass on asyncio.CancelledError",
            "?" if slot.work is None else _named(slot.work),
            self._call.name,
            self._spec.timeout_s,
            self._spec.concurrency,
        )

    def holders(self) -> list[str]:
        """What slots are still at work on, for whoever waits for their end."""
        works = [slot.work for slot in self._slots if slot.work is not None]
        return [f"{self._call.name} with {_named(work)}" for work in works]

    def _replace_thread(self, slot: _Slot, thread: HandlerThread) -> None:
        """Nothing can end a thread: it is left to itself, as long as there are not too many."""
        thread.end()
        slot.thread = None
        self._stuck = [each for each in (*self._stuck, thread) if each.is_alive]
        if len(self._stuck) > self._spec.concurrency:
            words = f"{len(self._stuck)} threads are stuck in {self._call.name}"
            self._context.on_failure(GoQueueError("handler_stuck", words))

    async def _read_limits(self) -> None:
        for topic in self._spec.topics:
            try:
                config = (await self._q.topics.describe(topic)).config
            except NotAllowed as error:
                _log.info("the settings of %s are unknown: %s", topic, error)
                continue
            limit, attempts = config.max_deliveries, self._spec.retry.attempts
            self._max_deliveries[topic] = limit
            if limit and attempts is not None and attempts > limit:
                words = "%s: %d attempts are not possible, because max_deliveries of %s is %d"
                _log.warning(words, self._call.name, attempts, topic, limit)

    def _producer_of(self, slot: _Slot) -> str:
        return f"{self._context.producer_prefix}.{slot.number}"

    # One message

    async def _work(self, slot: _Slot) -> None:
        consumer, ledger = self._consumer, self._ledger
        assert consumer is not None, "the pool is open"
        try:
            async for message in consumer:
                work = ledger.begin(message)
                if work is not None:
                    await self._handle(slot, work)
        except GoQueueError as error:
            # The consumer's: what a handler raises does not come here.
            self._context.on_failure(error)

    async def _handle(self, slot: _Slot, work: WorkInHand) -> None:
        error: BaseException | None = None
        slot.began_at = began_at = work.lease.begun_at
        slot.work = work
        try:
            if self._is_plain and find_telemetry() is None:
                await self._call.start(work.message, self._given)
            else:
                await self._call_wrapped(slot, work)
        except asyncio.CancelledError as cancelled:
            assert slot.task is not None, "it is at work"
            if not slot.is_timed_out and slot.task.cancelling():
                self._interrupted.append(work)
                _log.warning("%s: interrupted by the stop, and released", _named(work))
                self._record(work, Outcome.RELEASED)
                raise
            # Too slow, or the handler's own: it awaited something that was cancelled.
            error = self._timeout() if slot.is_timed_out else cancelled
        except SystemExit as ended:
            # A library's way to say that it was misused; it must not end the other handlers.
            error = RuntimeError(f"the handler called sys.exit({ended.code!r})")
        except Exception as raised:  # noqa: BLE001 - whatever a handler raises is settled
            error = raised
        except (GeneratorExit, KeyboardInterrupt):
            # Python's, for this coroutine or the whole program.
            raise
        except BaseException as raised:  # noqa: BLE001 - as of a thread; Timeout of gevent is one
            error = RuntimeError(f"the handler raised {reason_of(raised)}")
            error.__cause__ = raised
        finally:
            slot.end_call()
            self._ledger.end(work)
        if self._telemetry.is_measured and began_at is not None:
            seconds = work.lease.grant.settling.clock.time() - began_at
            self._telemetry.measure(self._spec.group, work.message.topic, seconds, error)
        if error is not None and work.is_acked and not self._spec.is_transactional:
            words = "%s: the handler failed after it had acked its message, which is done"
            _log.warning(words, _named(work), exc_info=_trace(error))
            error = None
        if error is None:
            is_acked = self._ledger.ack(work)
            self._record(work, Outcome.ACKED if is_acked else Outcome.LOST)
        else:
            await self._settle_failure(work, error)

    async def _call_wrapped(self, slot: _Slot, work: WorkInHand) -> None:
        """With whatever stands around the handler: a span, a transaction, middleware."""
        message = work.message
        with message.span():
            if not self._spec.is_transactional:
                await self._call_through(slot, message, self._given)
                return
            name, timeout_s = self._producer_of(slot), self._spec.timeout_s
            async with self._q.transaction(name, timeout_s=timeout_s) as tx:
                await self._call_through(slot, message, self._given_with(tx))
                # The commit has a time of its own: interrupted, nobody would know its outcome.
                slot.began_at = None
                await tx.ack(work.message)

    def _given_with(self, tx: Transaction) -> Given:
        if self._call.is_async:
            return Given(self._given.q, tx)
        return Given(self._given.q, SyncTransaction(self._context.threads, tx))

    async def _call_through(self, slot: _Slot, message: Message, given: Given) -> None:
        """Through the middleware to the handler."""
        following: Callable[[], Awaitable[None]] = partial(self._call_handler, slot, message, given)
        for middleware in reversed(self._context.middleware):
            following = partial(middleware, message, following)
        await following()

    async def _call_handler(self, slot: _Slot, message: Message, given: Given) -> None:
        if self._call.is_async:
            await self._call.start(message, given)
            return
        if slot.thread is None:
            slot.thread = HandlerThread(f"{self._call.name}-{slot.number}")
        slot.answer = slot.thread.call(partial(self._call_in_thread, message, given))
        try:
            await slot.answer
        finally:
            slot.answer = None

    def _call_in_thread(self, message: Message, given: Given) -> None:
        result = self._call.start(message, given)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"{self._call.name} returned something to await: use async def")

    def _timeout(self) -> TimeoutError:
        return TimeoutError(f"the handler took longer than {self._spec.timeout_s:g} s")

    # What becomes of a failure

    async def _settle_failure(self, work: WorkInHand, error: BaseException) -> None:
        lease = work.lease
        if isinstance(error, TransactionOutcomeUnknown):
            _log.warning("%s: %s", _named(work), error)
            self._record(work, Outcome.LOST, error)
            return
        if isinstance(error, ProducerFenced) and self._spec.is_transactional:
            self._context.on_failure(error)
        # A transaction that was aborted took its message along: that is settled all the same.
        if lease.is_lost or (lease.is_over and not isinstance(error, TransactionAborted)):
            words = "%s: the handler failed after its message was settled or its lease was lost"
            _log.warning(words, _named(work), exc_info=_trace(error))
            self._record(work, Outcome.LOST, error)
            return
        try:
            outcome = await self._return(work, error)
        except GoQueueError as refused:
            words = "%s, delivery %d: %s; its failure could not be settled: %s"
            delivery, reason = work.message.delivery_count, _reason(error)
            _log.warning(words, _named(work), delivery, reason, refused, exc_info=_trace(error))
            outcome = Outcome.LOST
        self._record(work, outcome, error)

    async def _return(self, work: WorkInHand, error: BaseException) -> Outcome:
        """Nack or reject the message; log what became of it once that is known."""
        message, retry, reason = work.message, self._spec.retry, _reason(error)
        delivery = message.delivery_count
        wait_s: float | None = None
        if isinstance(error, TransactionAborted | asyncio.CancelledError):
            # Not what the handler raised: retried whatever the policy says about exceptions.
            wait_s = retry.wait_s(RetryLater(), delivery, self._chance)
        elif not isinstance(error, PayloadInvalid):
            wait_s = retry.wait_s(error, delivery, self._chance)
        if wait_s is not None:
            await message.nack(delay_s=wait_s, reason=reason)
        else:
            await self._reject(message, reason)
        limit = self._max_deliveries.get(message.topic, 0)
        place, trace = _named(work), _trace(error)
        if wait_s is None or (limit and delivery >= limit):
            words = "%s, delivery %d: to the dead letters: %s"
            _log.error(words, place, delivery, reason, exc_info=trace)
            return Outcome.DEAD_LETTERED
        words = "%s, delivery %d: again in %.1f s: %s"
        _log.warning(words, place, delivery, wait_s, reason, exc_info=trace)
        return Outcome.RETRIED

    async def _reject(self, message: Message, reason: str) -> None:
        try:
            await message.reject(reason)
        except GoQueueError as error:
            if error.code != _LOOP:
                raise
            # There are no dead letters of dead letters: it stays, and comes again.
            await message.nack(delay_s=self._spec.retry.wait_s_max, reason=reason)

    def _record(
        self, work: WorkInHand, outcome: Outcome, error: BaseException | None = None
    ) -> None:
        self._telemetry.record(self._spec.group, work.message.topic, outcome, error)


def _reason(error: BaseException) -> str:
    if isinstance(error, PayloadInvalid):
        return f"the payload is invalid: {error.sentence}"
    return reason_of(error)


def _trace(error: BaseException) -> BaseException | None:
    """The failure as it is logged: without the frames between the worker and its handler.

    They are the same for every message, and hide the one line that the reader looks for.
    """
    if isinstance(error, Reject | RetryLater | PayloadInvalid):
        # Meant, or not the handler's: the reason says it all.
        return None
    kept: TracebackType | None = None
    frames = []
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename not in _OWN_FILES:
            frames.append(at)
        at = at.tb_next
    for each in reversed(frames):
        kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return error if kept is None else error.with_traceback(kept)


def _named(work: WorkInHand) -> str:
    message = work.message
    return f"{message.topic} {message.partition}:{message.offset}"
