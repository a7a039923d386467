"""Dials the other brokers until there is a link on every lane, and again whenever one ends.

One task for each address: it opens the lanes that are missing, the control lane first, and sleeps
while all are there. After a failure it waits with a random, growing delay, so that brokers which
start together do not dial in step.

An address may lead to a broker that another address leads to as well, or to this one: the task then
learns who it is and dials no more for it. Addresses that brokers named are forgotten when they lead
nowhere for a while; those of the settings never are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random

from goqueue.cluster import LinkRefused, RefusalReason
from goqueue.model import PeerLane
from goqueue.runtime.event_log import EventLog

__all__ = ["Dialler"]

_TARGETS_MAX = 128
_DELAY_S_MIN = 0.02
_DELAY_S_MAX = 1.0
_DELAY_GROWTH_MAX = 6
# About a minute of attempts.
_FAILURES_MAX = 100

# Opens one lane at an address; the broker there. Raises OSError, TimeoutError or LinkRefused.
Dial = Callable[[str, PeerLane], Awaitable[str]]


class _Target:
    """An address, and what is known of who is there."""

    def __init__(self, address: str, *, is_kept: bool) -> None:
        self.address = address
        self.is_kept = is_kept
        self.broker = ""
        self.failures = 0
        self.reported = ""
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Dialler:
    """The addresses of other brokers.

    `missing` returns a lane that a broker has no link on, `refused` hears that nothing listens
    where a broker was.
    """

    def __init__(
        self,
        dial: Dial,
        missing: Callable[[str], PeerLane | None],
        refused: Callable[[str], None],
        random: Random,
        log: EventLog,
    ) -> None:
        self._dial = dial
        self._missing = missing
        self._refused = refused
        self._random = random
        self._log = log
        self._targets: dict[str, _Target] = {}

    def add(self, addresses: Iterable[str], *, is_kept: bool) -> None:
        """Dial these addresses from now on."""
        for address in addresses:
            known = self._targets.get(address)
            if known is not None:
                known.is_kept |= is_kept
            elif len(self._targets) < _TARGETS_MAX:
                target = self._targets[address] = _Target(address, is_kept=is_kept)
                loop = asyncio.get_running_loop()
                target.task = loop.create_task(self._run(target), name=f"dial {address}")

    def learn(self, address: str, broker: str) -> None:
        """A broker has connected that says it can be reached there."""
        self.add((address,), is_kept=False)
        if address in self._targets:
            self._targets[address].broker = broker

    def lost(self, broker: str) -> None:
        """A link to a broker has ended."""
        for target in self._targets.values():
            if target.broker == broker:
                target.failures = 0
                target.changed.set()

    async def stop(self) -> None:
        """Dial no more."""
        tasks = [each.task for each in self._targets.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._targets.clear()

    async def _run(self, target: _Target) -> None:
        await asyncio.sleep(self._random.uniform(0, _DELAY_S_MIN))
        while target.is_kept or target.failures < _FAILURES_MAX:
            lane = self._missing(target.broker) if target.broker else PeerLane.CONTROL
            if lane is None:
                target.changed.clear()
                await target.changed.wait()
            elif not await self._try(target, lane):
                break
            elif target.failures:
                await asyncio.sleep(self._delay_s(target.failures))
        if target.failures >= _FAILURES_MAX:
            del self._targets[target.address]

    async def _try(self, target: _Target, lane: PeerLane) -> bool:
        """Dial one lane; False if this address is not to be dialled again."""
        try:
            target.broker = await self._dial(target.address, lane)
        except LinkRefused as refused:
            if refused.reason == RefusalReason.SELF:
                return False
            if refused.reason == RefusalReason.DUPLICATE:
                # There is a link that the other end has dialled.
                target.broker = refused.broker
            else:
                self._report(target, str(refused))
            target.failures += 1
        except ConnectionRefusedError:
            if target.broker:
                self._refused(target.broker)
            self._report(target, "nothing listens there")
            target.failures += 1
        except (OSError, ValueError) as error:
            # A name that cannot be looked up is a ValueError; a timeout is an OSError.
            self._report(target, str(error) or type(error).__name__)
            target.failures += 1
        else:
            target.failures = 0
        return True

    def _report(self, target: _Target, reason: str) -> None:
        """The first failure of a row is worth a line, one for another reason, one each minute."""
        if target.failures % _FAILURES_MAX == 0 or reason != target.reported:
            target.reported = reason
            self._log("peer_unreachable", address=target.address, reason=reason)

    def _delay_s(self, failures: int) -> float:
        bound = min(_DELAY_S_MAX, _DELAY_S_MIN * 2 ** min(failures, _DELAY_GROWTH_MAX))
        return max(_DELAY_S_MIN, self._random.uniform(0, bound))
