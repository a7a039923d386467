"""Acknowledgements and the like, on their way to the broker.

Acknowledgements are gathered: the first one leaves at once, those that come while it is under way
leave together in the next request. So one at a time is answered quickly, and many at a time cost
one request per thousand.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Self

import msgspec

from goqueue.client.errors import Closed, GoQueueError, refusal
from goqueue.client.transport import Request, Transport, post
from goqueue.client.values import duration

__all__ = ["Result", "Settlements"]

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
        self, route: tuple[str, ...], fields: dict[str, object], patience_s: float
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
