"""Acknowledgements and the like, on their way to the broker.

Acknowledgements are gathered: the first one leaves at once, those that come while it is under way
leave together in the next request. So one at a time is answered quickly, and many at a time cost
one request per thousand.
"""

import asyncio
from collections import deque

import msgspec

from goqueue.client.errors import Closed, GoQueueError, refusal
from goqueue.client.transport import Request, Transport, post
from goqueue.client.values import duration, nanoseconds

__all__ = ["Leased", "Settling"]

_BATCH_MAX = 1000


class _Result(msgspec.Struct, frozen=True):
    success: bool
    error: str = ""
    code: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[_Result]


_RESULTS = msgspec.json.Decoder(_Results)

Waiting = tuple[str, "asyncio.Future[None]"]


class Leased(msgspec.Struct, frozen=True, eq=False):
    """The lease of one delivery."""

    receipt_handle: str
    delivery_count: int
    until: str
    settling: "Settling"

    @property
    def group(self) -> str:
        return self.settling.group

    @property
    def deadline(self) -> int:
        """When the lease ends, in nanoseconds since 1970; few ask, so it is read when asked for."""
        return nanoseconds(self.until)

    def ack(self) -> "asyncio.Future[None]":
        return self.settling.ack(self.receipt_handle)

    async def nack(self, delay_s: float | None, reason: str) -> None:
        delay = None if delay_s is None else duration(delay_s)
        fields: dict[str, object] = {"delay": delay, "reason": reason or None}
        await self.settling.settle("nack", self.receipt_handle, fields)

    async def reject(self, reason: str) -> None:
        await self.settling.settle("reject", self.receipt_handle, {"reason": reason or None})

    async def extend(self, timeout_s: float) -> None:
        fields: dict[str, object] = {"timeout": duration(timeout_s)}
        await self.settling.settle("visibility", self.receipt_handle, fields)


class Settling:
    """Gathers acknowledgements of one consumer; `run` is its task."""

    def __init__(self, transport: Transport, group: str) -> None:
        self.group = group
        self._transport = transport
        self._waiting: deque[Waiting] = deque()
        self._is_waiting = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_ended = False

    def ack(self, receipt_handle: str) -> "asyncio.Future[None]":
        if self._is_ended:
            raise Closed("the consumer is closed: its leases are given back")
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((receipt_handle, answer))
        self._is_waiting.set()
        self._is_idle.clear()
        return answer

    async def settle(self, route: str, receipt_handle: str, fields: dict[str, object]) -> None:
        """Settle a single delivery in another way."""
        request = post(
            "messages",
            route,
            fields={"receipt_handle": receipt_handle, **fields},
            is_repeatable=route == "visibility",
        )
        await self._transport.ask(request)

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
        for (_, answer), result in zip(batch, results, strict=True):
            if answer.done():
                continue
            if result.success:
                answer.set_result(None)
            else:
                answer.set_exception(refusal(result.code, result.error))

    def _fail(self, batch: list[Waiting], error: GoQueueError) -> None:
        for _, answer in batch:
            if not answer.done():
                answer.set_exception(error)
