"""Which TLS handshake may begin, of all that clients have asked for.

Bounds the handshakes under way, those of one address, and the starts per second, for all listeners
of a node together. What is over a bound waits here; addresses take turns, so a client waits for as
many handshakes as there are other addresses, not as there are other sockets. When the waiting room
is full, an address that has more than an equal share of it loses its newest socket to one that has
less: otherwise one flood would keep everybody out. When everybody in it has one socket, the
listeners accept nothing more.

Pure: told the time, never touches a socket.

Invariant: every socket that was put is returned once, by `start`, by `put` or by `drop`.

Cost: a few dictionary accesses; making room in a full waiting room looks at every address in it.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import socket

__all__ = ["HandshakeLimits", "HandshakeQueue", "WaitingSocket"]


class HandshakeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of all handshakes together."""

    handshakes_max: int = 64
    handshakes_per_address_max: int = 8
    starts_per_s_max: int = 400
    # So many begin at once after a pause: each takes the loop a millisecond.
    starts_burst_max: int = 8
    # Sockets that were accepted and have not begun.
    waiting_max: int = 1024
    handshake_timeout_s: float = 5.0
    # Each takes the loop 50 µs with what follows: 64 of them kept other requests waiting for 3 ms.
    accepts_per_turn_max: int = 16


# Gets the socket and its address; starts the handshake.
Begin = Callable[["socket.socket", str], None]


class WaitingSocket:
    """A socket that was accepted, and what begins its handshake."""

    __slots__ = ("address", "begin", "peer")

    def __init__(self, peer: "socket.socket", address: str, begin: Begin) -> None:
        self.peer = peer
        self.address = address
        self.begin = begin


class HandshakeQueue:
    """Which handshake may begin next; told the time. All listeners of a node share one."""

    def __init__(self, limits: HandshakeLimits) -> None:
        self.limits = limits
        self._waiting: dict[str, deque[WaitingSocket]] = {}
        # The addresses that may begin one, in the order of their turns.
        self._turns: dict[str, None] = {}
        self._running: Counter[str] = Counter()
        self._waiting_count = 0
        self._running_count = 0
        # Each start moves it on; it is at most a burst ahead of the clock.
        self._start_at = 0.0

    @property
    def waiting_count(self) -> int:
        return self._waiting_count

    @property
    def running_count(self) -> int:
        return self._running_count

    @property
    def is_full(self) -> bool:
        """Whether nothing can be put without something leaving."""
        return self._waiting_count >= self.limits.waiting_max

    @property
    def is_saturated(self) -> bool:
        """Whether it is full, and no address has more than one socket to lose."""
        return len(self._waiting) >= self.limits.waiting_max

    def count_of(self, address: str) -> int:
        """Sockets of one address that wait or are in their handshake."""
        return len(self._waiting.get(address, ())) + self._running[address]

    def put(self, arrived: WaitingSocket) -> WaitingSocket | None:
        """Let a socket wait for its turn; the one that has to leave for it, perhaps itself."""
        leaving = None
        if self.is_full:
            leaving = self._make_room(arrived)
            if leaving is arrived:
                return arrived
        address = arrived.address
        self._waiting.setdefault(address, deque()).append(arrived)
        self._waiting_count += 1
        if self._running[address] < self.limits.handshakes_per_address_max:
            self._turns.setdefault(address)
        return leaving

    def _make_room(self, arrived: WaitingSocket) -> WaitingSocket:
        share = max(1, self.limits.waiting_max // (len(self._waiting) + 1))
        if len(self._waiting.get(arrived.address, ())) >= share:
            return arrived
        longest = max(self._waiting, key=lambda address: len(self._waiting[address]))
        if len(self._waiting[longest]) <= len(self._waiting.get(arrived.address, ())) + 1:
            return arrived
        return self._take(longest, newest=True)

    def _take(self, address: str, *, newest: bool = False) -> WaitingSocket:
        queue = self._waiting[address]
        taken = queue.pop() if newest else queue.popleft()
        self._waiting_count -= 1
        if not queue:
            del self._waiting[address]
            self._turns.pop(address, None)
        return taken

    def start(self, now: float) -> WaitingSocket | None:
        """The socket whose handshake begins now, counted as running; None if none may."""
        limits = self.limits
        if not self._turns or self._running_count >= limits.handshakes_max:
            return None
        if self.delay_s(now) > 0:
            return None
        self._start_at = max(self._start_at, now - self._burst_s) + 1 / limits.starts_per_s_max
        address = next(iter(self._turns))
        del self._turns[address]
        taken = self._take(address)
        self._running_count += 1
        self._running[address] += 1
        has_more = address in self._waiting
        if has_more and self._running[address] < limits.handshakes_per_address_max:
            self._turns[address] = None
        return taken

    @property
    def _burst_s(self) -> float:
        """How far starts may run ahead; half a start more, so that rounding does not cost one."""
        return (self.limits.starts_burst_max - 0.5) / self.limits.starts_per_s_max

    def delay_s(self, now: float) -> float:
        """How long the rate of starts keeps the next one waiting."""
        return max(0.0, self._start_at - now)

    @property
    def waits_for_time(self) -> bool:
        """Whether only the rate of starts keeps the next handshake waiting."""
        return bool(self._turns) and self._running_count < self.limits.handshakes_max

    def cancel(self, address: str) -> None:
        """What was started did not begin: another one may start in its place."""
        self._start_at -= 1 / self.limits.starts_per_s_max
        self.end(address)

    def end(self, address: str) -> None:
        """A handshake is over, well or not."""
        self._running_count -= 1
        self._running[address] -= 1
        if not self._running[address]:
            del self._running[address]
        if address in self._waiting:
            self._turns.setdefault(address)

    def drop(self, begin: Begin) -> list[WaitingSocket]:
        """Take out everything that one listener put, because it stops."""
        dropped: list[WaitingSocket] = []
        for address, queue in list(self._waiting.items()):
            # A listener has one `begin`, of which each access makes another bound method.
            kept = deque(each for each in queue if each.begin != begin)
            dropped += (each for each in queue if each.begin == begin)
            self._waiting_count -= len(queue) - len(kept)
            if kept:
                self._waiting[address] = kept
            else:
                del self._waiting[address]
                self._turns.pop(address, None)
        return dropped
