"""Renews leases while their messages wait or are being handled.

Every lease of a consumer is looked at several times before it can end. Watches weakly: a message
that its program dropped without settling it is not renewed, and comes again when its lease ends.

Invariant: a lease that is over, or that has been in hand for longer than allowed, is never renewed.
"""

import asyncio
import logging
import time
import weakref
from collections.abc import Callable, Iterable

from goqueue.client.consuming.queues.lease import HeldLease
from goqueue.client.consuming.queues.settling import Settlements
from goqueue.client.errors import GoQueueError
from goqueue.client.message import Message

__all__ = ["LeaseRenewer"]

_log = logging.getLogger("goqueue.client")

_BATCH_MAX = 1000
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
