"""Settles leased messages: acks are gathered into requests, everything else is a request each.

The first ack leaves at once; those made while it is under way leave together in the next request,
at most 1,000 in one. So one at a time is answered quickly, and many at a time cost the broker one
sync of its disk. An ack is a place in a batch: one small object, and a future only if somebody
waits before the answer is there.

Owns the acks under way and the failures that nobody was told of yet.

Invariant: batches are sent in the order in which they were begun, one at a time, and each is
answered for exactly once. An awaited ack returns only when the broker has it on disk.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence

import msgspec

from goqueue.client.errors import Closed, GoQueueError, refusal
from goqueue.client.http import Request, Transport, post
from goqueue.client.values import duration

__all__ = ["AckBatch", "PendingAck", "Result", "Settlements"]

_log = logging.getLogger("goqueue.client")

_BATCH_MAX = 1000
_FAILURES_KEPT = 100
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


class AckBatch:
    """Acks that travel in one request, and what became of them."""

    __slots__ = ("_errors", "_seen", "_waiters", "error", "is_settled", "receipt_handles")

    def __init__(self) -> None:
        self.receipt_handles: list[str] = []
        self.is_settled = False
        # Why none of them was taken.
        self.error: GoQueueError | None = None
        # Why single ones were not, by their place.
        self._errors: dict[int, GoQueueError] = {}
        # Those that somebody waits for, or was told of.
        self._seen: set[int] = set()
        self._waiters: list[asyncio.Future[None]] = []

    def add(self, receipt_handle: str) -> "PendingAck":
        index = len(self.receipt_handles)
        self.receipt_handles.append(receipt_handle)
        return PendingAck(self, index)

    def settle(self, errors: dict[int, GoQueueError]) -> None:
        """The broker took all but these."""
        self._errors = errors
        self._wake()

    def fail(self, error: GoQueueError) -> None:
        """The broker took none, or nobody knows."""
        self.error = error
        self._wake()

    def check(self, index: int) -> None:
        """Raise if this one was not taken."""
        error = self.error or self._errors.get(index)
        if error is not None:
            self._seen.add(index)
            raise error

    def unseen(self) -> list[GoQueueError]:
        """Failures that nobody was told of and nobody waits for."""
        if self.error is None:
            return [error for index, error in self._errors.items() if index not in self._seen]
        return [self.error] * (len(self.receipt_handles) - len(self._seen))

    async def wait(self, index: int | None = None) -> None:
        """Wait for the answer; whoever waits for an ack will be told of its failure."""
        if index is not None:
            self._seen.add(index)
        if not self.is_settled:
            # A future of its own per waiter: one that is cancelled must not take others along.
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        assert not self.is_settled, "settled twice"
        self.is_settled = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters = []


class PendingAck(msgspec.Struct, frozen=True, eq=False):
    """An ack on its way; await it, now or later, to know that it is durable."""

    _batch: AckBatch
    _index: int

    def __await__(self) -> Generator[object, None, None]:
        if not self._batch.is_settled:
            yield from self._batch.wait(self._index).__await__()
        self._batch.check(self._index)


class Settlements:
    """What one consumer settles; `run` is the task that sends acks.

    Calls `on_stale` when the broker says that a lease is over.
    """

    def __init__(
        self, transport: Transport, group: str, on_stale: Callable[[], None] | None = None
    ) -> None:
        self.group = group
        self._on_stale = on_stale
        self._transport = transport
        self._waiting: deque[AckBatch] = deque()
        self._is_waiting = asyncio.Event()
        # The batch that takes acks, the last of those that wait; and the one under way.
        self._filling: AckBatch | None = None
        self._under_way: AckBatch | None = None
        self._failed: deque[AckBatch] = deque(maxlen=_FAILURES_KEPT)
        self._is_ended = False

    def ack(self, receipt_handle: str) -> PendingAck:
        """Acknowledge a delivery; on the loop of the consumer."""
        if self._is_ended:
            raise Closed("the consumer is closed: its leases are given back")
        batch = self._filling
        if batch is None or len(batch.receipt_handles) >= _BATCH_MAX:
            # Another thread has no loop, and is refused here.
            asyncio.get_running_loop()
            batch = self._filling = AckBatch()
            self._waiting.append(batch)
            self._is_waiting.set()
        return batch.add(receipt_handle)

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
                self._fail(batch, Closed(words))
            self._waiting.clear()

    async def _send(self, batch: AckBatch) -> None:
        receipt_handles = batch.receipt_handles
        request = Request(
            method="POST",
            target="/messages/ack/batch",
            body=msgspec.json.encode({"receipt_handles": receipt_handles}),
            is_repeatable=True,
        )
        try:
            results = (await self._transport.read(request, _RESULTS)).results
        except GoQueueError as error:
            self._fail(batch, error)
            return
        if len(results) != len(receipt_handles):
            words = "not as many answers as acknowledgements"
            self._fail(batch, GoQueueError("response_invalid", words))
            return
        errors = {
            index: refusal(result.code, result.error)
            for index, result in enumerate(results)
            if not result.success
        }
        batch.settle(errors)
        if errors:
            if self._on_stale is not None and any(e.code == _STALE for e in errors.values()):
                self._on_stale()
            self._report(batch)

    def _fail(self, batch: AckBatch, error: GoQueueError) -> None:
        batch.fail(error)
        self._report(batch)

    def _report(self, batch: AckBatch) -> None:
        """Log once per request what nobody waits for; `flush` raises it."""
        unseen = batch.unseen()
        if unseen:
            self._failed.append(batch)
            words = "group %s: %d acknowledgements that nobody awaited failed, the first with %s"
            _log.warning(words, self.group, len(unseen), unseen[0])
