"""The broker of a test: the simulator's process, with its time from a clock that is moved.

`sim.Process` is the real node over the real storage and files in memory. Here it is what the event
pump is to a real node: it takes commands from a gateway, lets everything that follows from them
end at once, and wakes the node when its clock shows the time of its next deadline.

Invariant: between two callbacks of the loop nothing of the node is under way but what waits for
time or for another command. So no answer is early: what was to be synced was synced before it.

The work of a callback is not bounded as in a real node: nobody else is kept waiting by it.
"""

import asyncio
from collections import Counter, deque
from random import Random

from goqueue.broker import NodeEvent
from goqueue.model import HOUR, Asked, Caller, Left, Refused, RequestId
from goqueue.model.requests import Command, Reply
from goqueue.runtime import SystemZones
from goqueue.sim import DiskClock, Faults, NodeSwarm, Process, SimulatedFileSystem, Trace
from goqueue.testing.clock import ManualClock, Timer

__all__ = ["NodeFailed", "ProcessBroker"]

_RECEIPT_KEY = bytes(32)
# A clock may be moved by years, and upkeep every second would be most of the work.
_UPKEEP_IDLE_NS = 24 * HOUR


class NodeFailed(RuntimeError):
    """The node has ended by itself, which it does only for a bug; please report it."""


class ProcessBroker:
    """One node and its files; belongs to the loop on which it was made."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        # The chance of faults that are never armed.
        chance = Random(0)  # noqa: S311 - no secret
        self._files = SimulatedFileSystem(chance, Faults())
        self._process = Process(
            self._files,
            chance,
            Trace(),
            self._answer,
            NodeSwarm.calm(),
            clock=DiskClock(chance, lambda: clock.read().instant),
            zones=SystemZones(),
        )
        self._process.upkeep_idle_ns = _UPKEEP_IDLE_NS
        self._events: deque[NodeEvent] = deque()
        self._waiting: dict[RequestId, tuple[Command, asyncio.Future[Reply]]] = {}
        self._next_request = 1
        self._is_scheduled = False
        self._timer: Timer | None = None
        self._timer_at: int | None = None
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin a life over the files that are there; what was under way is forgotten."""
        self._events.clear()
        self._waiting.clear()
        self._files.restart()
        self._process.begin(_RECEIPT_KEY)
        self._resume()

    def stop(self) -> None:
        """End in order: nothing is left to recover."""
        now = self._clock.read()
        self._process.stop(now)
        self._process.settle(now)
        self._process.storage.close()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def waiting(self) -> Counter[str]:
        """The commands that wait, by kind."""
        return Counter(type(command).__name__ for command, _ in self._waiting.values())

    def check(self) -> None:
        """Raise if the node has failed."""
        if self.failure is not None:
            raise NodeFailed(f"the node has failed: {self.failure!r}") from self.failure

    async def ask(self, command: Command, caller: Caller) -> Reply:
        """The reply to a command; raises Refused. To interrupt it withdraws the command."""
        self.check()
        request = RequestId(self._next_request)
        self._next_request += 1
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[request] = command, answer
        self._clock.idle.report(type(command).__name__)
        self._schedule(Asked(request=request, command=command, caller=caller))
        try:
            return await answer
        finally:
            # Still there: the caller was interrupted.
            if self._waiting.pop(request, None) is not None:
                self._schedule(Left(request=request))

    def _schedule(self, event: NodeEvent) -> None:
        """Handle an event soon, together with all others that come until then."""
        self._events.append(event)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._resume)

    def _wake(self) -> None:
        """The clock shows the time of the next deadline; called in the thread that moves it."""
        self._clock.post(self._loop, self._woken)

    def _woken(self) -> None:
        self._timer = self._timer_at = None
        self._resume()

    def _resume(self) -> None:
        self._is_scheduled = False
        if self.failure is not None:
            return
        now = self._clock.read()
        try:
            if self._events:
                self._process.node.hasten_upkeep(now)
                self._process.settle(now)
            while self._events:
                self._process.take(self._events.popleft(), now)
            self._process.settle(now)
            assert self._process.halted is None, self._process.halted
        except BaseException as bug:
            self._fail(bug)
            raise
        self._set_timer()

    def _set_timer(self) -> None:
        deadline = self._process.deadline
        if deadline == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, deadline
        if deadline is not None:
            self._timer = self._clock.call_at(deadline, self._wake)

    def _answer(self, request: RequestId, reply: Reply | Refused) -> None:
        _, answer = self._waiting.pop(request, (None, None))
        if answer is None or answer.done():
            return
        if isinstance(reply, Refused):
            answer.set_exception(reply)
        else:
            answer.set_result(reply)

    def _fail(self, bug: BaseException) -> None:
        self.failure = bug
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NodeFailed(f"the node has failed: {bug!r}"))
        self._waiting.clear()
