"""The deadlines of one connection, and the one timer that serves them all.

`Alarm` is for deadlines that move often and are met rarely: moving one later costs nothing, because
the timer in the loop stays where it is, finds when it fires that it is early, and is set again.
Only an earlier deadline replaces it. `SendProgress` decides whether a slow reader is too slow,
`ClientProbe` when to look whether a silent client is still there. Both are told the time.
"""

import asyncio
import socket
from collections.abc import Callable

from goqueue.gateways.connection_limits import ByteBudget, HeldBytes
from goqueue.gateways.http.server.application import HttpLimits
from goqueue.gateways.http.server.states import NEVER

__all__ = [
    "TCP_INPUT_ENDED",
    "TCP_RESET",
    "Alarm",
    "ClientProbe",
    "SendProgress",
    "tcp_state_of",
]

# TCP_CLOSE and TCP_CLOSE_WAIT of the kernel's tcp_states.h.
TCP_RESET = 7
TCP_INPUT_ENDED = 8

_PROBE_S = 0.02
_PROBE_S_MAX = 5.0


def _ring_nobody(_: float) -> None:
    """Of an alarm that was stopped."""


class Alarm:
    """Calls `ring` no earlier than the deadline last set, and at most once for it."""

    __slots__ = ("_deadline", "_loop", "_ring", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[float], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._deadline = NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER

    def set(self, deadline: float) -> None:
        self._deadline = deadline
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._fire)
            self._timer_at = deadline

    def stop(self) -> None:
        """Never call `ring` again, and do not refer to its owner any more."""
        self._ring = _ring_nobody
        self._deadline = self._timer_at = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._timer_at = NEVER
        now = self._loop.time()
        deadline = self._deadline
        if now < deadline:
            self.set(deadline)
            return
        self._deadline = NEVER
        self._ring(now)


class SendProgress:
    """How many bytes the client has not read yet, and when it must have read some of them."""

    __slots__ = ("_budget", "_rate_min", "_timeout_s", "_unsent", "deadline")

    def __init__(self, limits: HttpLimits, budget: ByteBudget | HeldBytes) -> None:
        self.deadline = NEVER
        self._timeout_s = limits.write_timeout_s
        self._rate_min = limits.write_bytes_per_s_min
        self._budget = budget
        self._unsent = 0

    def expect(self, unsent: int, now: float) -> None:
        """So much is in the buffer now, and progress is measured from here."""
        self._budget.replace(self._unsent, unsent)
        self._unsent = unsent
        if unsent:
            self.deadline = now + self._timeout_s

    def clear(self) -> None:
        """The client keeps up, or has gone."""
        self._budget.replace(self._unsent, 0)
        self._unsent = 0
        self.deadline = NEVER

    def is_enough(self, unsent: int) -> bool:
        """Whether the client has read enough since progress was last measured."""
        return self._unsent - unsent >= self._rate_min * self._timeout_s


class ClientProbe:
    """When to look whether a client of which the loop hears nothing is still there.

    A client that has closed and one that has only finished sending look the same until something
    is sent to it. Quick answers are given a moment to be that something; then the client is looked
    at, again after the same time, then ever more rarely.

    The loop does not watch a socket after the end of its input, nor while reading is paused. To
    something sent to a client that has gone, its kernel answers with a reset. An interim response
    is all that may be sent before the answer is known, and only clients of HTTP/1.1 understand it;
    one of HTTP/1.0 is given the benefit of the doubt.
    """

    __slots__ = ("_interval_s", "deadline", "is_sent")

    def __init__(self) -> None:
        self.deadline = NEVER
        self._interval_s = _PROBE_S
        # Something was sent for no other reason than to see whether the client resets.
        self.is_sent = False

    def start(self, now: float) -> None:
        self._interval_s = _PROBE_S
        self.deadline = now + _PROBE_S

    def repeat(self, now: float) -> None:
        self.deadline = now + self._interval_s
        self._interval_s = min(self._interval_s * 2, _PROBE_S_MAX)

    def stop(self) -> None:
        self.deadline = NEVER


def tcp_state_of(transport: asyncio.BaseTransport) -> int:
    """What the kernel knows about the connection of a transport."""
    peer: socket.socket = transport.get_extra_info("socket")
    return peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
