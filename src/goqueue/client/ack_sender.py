"""Sends acks in batches; a nack, reject, extension or release is a request of its own.

A request names leases by their handles, and messages by ranges of offsets, or by their steps where
they are scattered; its answer lists only what was refused. So its size, and the work on it, grow
with the number of leases and of gaps.

The first ack leaves at once; those made while it is under way leave together in the next request,
at most 10,000 in one. So one at a time is answered quickly, and many at a time cost the broker one
sync of its disk. An ack is a place in a batch: one small object, and a future only if somebody
waits before the answer is there.

Owns the acks under way and the failures that nobody was told of yet.

Invariant: batches are sent in the order in which they were begun, one at a time, and each is
answered for exactly once. An awaited ack returns only when the broker has it on disk.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from goqueue.client.errors import Closed, GoQueueError, refusal
from goqueue.client.http import Transport, post
from goqueue.client.values import Headers, Value
from goqueue.model import Folded, Range

__all__ = [
    "AckBatch",
    "AckSender",
    "LeasedOffset",
    "PendingAck",
    "SettleOutcome",
]

_log = logging.getLogger("goqueue.client")

# How many leases and how many messages one request may name.
_LEASES_MAX = 1000
_ACKS_MAX = 10_000
# How many requests full of acks may wait. A program that awaits none is not faster than the broker.
_BATCHES_MAX = 2
# To settle a second time what was settled is no harm.
_REPEATABLE = frozenset({"ack", "extend", "release"})
_FAILURES_KEPT = 100
_STALE = "receipt_stale"
# Closing does not wait for a server that is away: its leases end by themselves.
_FAREWELL_S = 2.0
_NO_FIELDS: Mapping[str, object] = {}


class LeasedOffset(Protocol):
    """One message of a lease."""

    @property
    def handle(self) -> str: ...

    @property
    def offset(self) -> int: ...


class _Named(msgspec.Struct, frozen=True, omit_defaults=True):
    handle: str
    offsets: list[Range] | None = None
    steps: list[int] | None = None


class _Refused(msgspec.Struct, frozen=True):
    handle: str
    offsets: list[Range]
    code: str
    error: str


class _Reply(msgspec.Struct, frozen=True):
    count: int
    refused: list[_Refused] = []
    new_deadline: str = ""


_REPLIES = msgspec.json.Decoder(_Reply)

Errors = dict[tuple[str, int], GoQueueError]


class SettleOutcome(msgspec.Struct, frozen=True, eq=False):
    """What became of leased messages: the broker did it to all but those that it refused."""

    errors: Errors
    new_deadline: str = ""

    def error_of(self, lease: LeasedOffset) -> GoQueueError | None:
        return self.errors.get((lease.handle, lease.offset)) if self.errors else None

    def check(self, lease: LeasedOffset) -> None:
        error = self.error_of(lease)
        if error is not None:
            raise error


def _named(handle: str, offsets: Iterable[int]) -> tuple[_Named, int]:
    """Messages of a lease, given in any order, and how many they are."""
    folded = Folded.of(sorted(set(offsets)))
    return _Named(handle, folded.ranges or None, folded.steps or None), len(folded)


class AckBatch:
    """Acks that travel in one request, and what became of them."""

    __slots__ = ("_outcome", "_seen", "_waiters", "count", "is_settled", "offsets")

    def __init__(self) -> None:
        # Offsets by the handle of their lease.
        self.offsets: dict[str, list[int]] = {}
        self.count = 0
        self.is_settled = False
        # What the broker took, or why it took nothing.
        self._outcome: SettleOutcome | GoQueueError = SettleOutcome({})
        # Those that somebody waits for, or was told of.
        self._seen: set[tuple[str, int]] = set()
        self._waiters: list[asyncio.Future[None]] = []

    def settle(self, outcome: SettleOutcome | GoQueueError) -> None:
        """The answer came, or none will."""
        assert not self.is_settled, "settled twice"
        self._outcome = outcome
        self.is_settled = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters = []

    def has_refused(self, lease: LeasedOffset) -> bool:
        return self._error_of(lease) is not None

    def _error_of(self, lease: LeasedOffset) -> GoQueueError | None:
        outcome = self._outcome
        return outcome.error_of(lease) if isinstance(outcome, SettleOutcome) else outcome

    def check(self, lease: LeasedOffset) -> None:
        """Raise if this one was not taken."""
        error = self._error_of(lease)
        if error is not None:
            self._seen.add((lease.handle, lease.offset))
            raise error

    def unseen(self) -> list[GoQueueError]:
        """Failures that nobody was told of and nobody waits for."""
        if isinstance(self._outcome, SettleOutcome):
            errors = self._outcome.errors
            return [error for which, error in errors.items() if which not in self._seen]
        return [self._outcome] * (self.count - len(self._seen))

    async def wait(self, lease: LeasedOffset | None = None) -> None:
        """Wait for the answer; whoever waits for an ack will be told of its failure."""
        if lease is not None:
            self._seen.add((lease.handle, lease.offset))
        if not self.is_settled:
            # A future of its own per waiter: one that is cancelled must not take others along.
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter


class PendingAck(msgspec.Struct, frozen=True, eq=False):
    """An ack on its way; await it, now or later, to know that it is durable."""

    batch: AckBatch
    _lease: LeasedOffset

    @property
    def is_settled(self) -> bool:
        """Whether the answer is there, or none will be."""
        return self.batch.is_settled

    @property
    def is_refused(self) -> bool:
        """Whether it was settled and is not durable, or not known to be."""
        return self.batch.has_refused(self._lease)

    def __await__(self) -> Generator[object, None, None]:
        if not self.batch.is_settled:
            yield from self.batch.wait(self._lease).__await__()
        self.batch.check(self._lease)


class AckSender:
    """Settles the leased messages of one consumer; `run` is the task that sends acks.

    Calls `on_stale` when the broker says that a lease is over.
    """

    def __init__(
        self, transport: Transport, group: str, on_stale: Callable[[], None] | None = None
    ) -> None:
        self.group = group
        self._on_stale = on_stale
        self._transport = transport
        self.clock = transport.clock
        self._waiting: deque[AckBatch] = deque()
        self._is_waiting = asyncio.Event()
        # The batch that takes acks, the last of those that wait; and the one under way.
        self._filling: AckBatch | None = None
        self._under_way: AckBatch | None = None
        self._failed: deque[AckBatch] = deque(maxlen=_FAILURES_KEPT)
        self._is_ended = False

    def ack(self, lease: LeasedOffset) -> PendingAck:
        """Acknowledge a message; on the loop of the consumer."""
        batch = self._filling
        if batch is None or batch.count >= _ACKS_MAX:
            batch = self._begin()
        handle = lease.handle
        offsets = batch.offsets.get(handle)
        if offsets is None:
            if len(batch.offsets) >= _LEASES_MAX:
                batch = self._begin()
            offsets = batch.offsets[handle] = []
        offsets.append(lease.offset)
        batch.count += 1
        return PendingAck(batch, lease)

    def _begin(self) -> AckBatch:
        if self._is_ended:
            raise Closed("the consumer is closed: its leases are given back")
        # Another thread has no loop, and is refused here.
        asyncio.get_running_loop()
        batch = self._filling = AckBatch()
        self._waiting.append(batch)
        self._is_waiting.set()
        return batch

    async def settle(
        self,
        how: str,
        leases: Iterable[LeasedOffset],
        fields: Mapping[str, object] = _NO_FIELDS,
        *,
        patience_s: float | None = None,
    ) -> SettleOutcome:
        """Settle leased messages, at most 1000, by one request."""
        offsets: dict[str, list[int]] = {}
        for lease in leases:
            offsets.setdefault(lease.handle, []).append(lease.offset)
        return await self._settle(how, offsets, fields, patience_s)

    async def _settle(
        self,
        how: str,
        offsets: dict[str, list[int]],
        fields: Mapping[str, object] = _NO_FIELDS,
        patience_s: float | None = None,
    ) -> SettleOutcome:
        named = [_named(handle, each) for handle, each in offsets.items()]
        request = post(
            "groups",
            self.group,
            "leases",
            how,
            fields={"leases": [lease for lease, _ in named], **fields},
            # A nack whose answer was lost may have counted: the lease is over then, and so is this.
            is_repeatable=how in _REPEATABLE,
            patience_s=patience_s,
        )
        reply = await self._transport.read(request, _REPLIES)
        errors: Errors = {}
        for refused in reply.refused:
            error = refusal(refused.code, refused.error)
            for first, following in refused.offsets:
                errors |= {(refused.handle, offset): error for offset in range(first, following)}
        asked = sum(count for _, count in named)
        if reply.count + len(errors) != asked:
            words = f"the answer tells of {reply.count + len(errors)} messages instead of {asked}"
            raise GoQueueError("response_invalid", words, is_outcome_unknown=True)
        return SettleOutcome(errors, reply.new_deadline)

    async def reply(self, reply_to: str, value: Value, headers: Headers | None) -> bool:
        """Reply to whoever waits for it; False if nobody does."""
        from goqueue.client.request_reply import send_reply

        return await send_reply(self._transport, reply_to, value, headers)

    async def release(self, leases: Sequence[LeasedOffset]) -> None:
        """Give messages back that were not begun: the delivery does not count.

        What cannot be given back becomes free with its lease, or when the member leaves.
        """
        for first in range(0, len(leases), _LEASES_MAX):
            batch = leases[first : first + _LEASES_MAX]
            try:
                await self.settle("release", batch, patience_s=_FAREWELL_S)
            except GoQueueError as error:
                _log.info("giving back messages of group %s: %s", self.group, error)
                return

    async def wait_for_room(self) -> None:
        """Wait while so many acks wait that no more messages should be leased."""
        while len(self._waiting) >= _BATCHES_MAX:
            await self._waiting[0].wait()

    async def drain(self) -> None:
        """Wait until every ack was answered, those made meanwhile included."""
        last = self._last()
        while last is not None and not last.is_settled:
            await last.wait()
            last = self._last()

    def _last(self) -> AckBatch | None:
        return self._waiting[-1] if self._waiting else self._under_way

    async def flush(self) -> None:
        """Wait for the acks made so far, and raise the first failure that nobody was told of."""
        last = self._last()
        if last is not None:
            await last.wait()
        unseen = [error for batch in self._failed for error in batch.unseen()]
        self._failed.clear()
        for error in unseen:
            raise error

    async def run(self) -> None:
        try:
            while True:
                while not self._waiting:
                    self._is_waiting.clear()
                    await self._is_waiting.wait()
                batch = self._under_way = self._waiting.popleft()
                if batch is self._filling:
                    self._filling = None
                await self._send(batch)
                self._under_way = None
        finally:
            self._is_ended = True
            left = [] if self._under_way is None else [self._under_way]
            words = "the consumer was closed before the acknowledgement was answered"
            for batch in (*left, *self._waiting):
                batch.settle(Closed(words))
                self._report(batch)
            self._waiting.clear()
            self._filling = None

    async def _send(self, batch: AckBatch) -> None:
        try:
            settled = await self._settle("ack", batch.offsets)
        except GoQueueError as error:
            batch.settle(error)
            self._report(batch)
            return
        batch.settle(settled)
        if settled.errors:
            self._report(batch)
            is_stale = any(error.code == _STALE for error in settled.errors.values())
            if is_stale and self._on_stale is not None:
                self._on_stale()

    def _report(self, batch: AckBatch) -> None:
        """Log once per request what nobody waits for; `flush` raises it."""
        unseen = batch.unseen()
        if unseen:
            self._failed.append(batch)
            words = "group %s: %d acks that nobody awaited failed, the first with %s"
            _log.warning(words, self.group, len(unseen), unseen[0])
