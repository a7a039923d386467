"""Messages of one partition on their way through one group: known, ready, held, resting.

Owns every lease. Nothing here survives a crash: a new queue starts from the position, and what was
held is ready again. Never reads the log or a clock: the broker brings what it surveyed and the
time. What is settled here is journaled by the caller in the same step.

Invariant: a message below the cursor that is not done is in exactly one place: ready (fresh or
returned), held by one member, resting, dying, or waiting for an earlier one of its key.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from goqueue.delivery.key_order import KeyOrder, Known
from goqueue.delivery.position import Position
from goqueue.delivery.ranges import Ranges, runs
from goqueue.model import Instant, Offset

__all__ = ["IN_FLIGHT_MAX", "DeliveryQueue", "Held"]

IN_FLIGHT_MAX = 1000
# Enough for the largest poll, so that a poll finds all that it may take.
_READY_MIN = 1000
# Deadlines of leases that are over are dropped when there are so many more of them than leases.
_DEADLINES_MIN = 10_000
# A key that is stuck holds up others of its partition only behind this many messages of its own.
_WAITING_MAX = 100_000


class Held:
    """One message in the hands of one member."""

    __slots__ = ("attempt", "deadline", "known", "member", "serial")

    # `member` is an id, `serial` the number of the lease in this life of the broker.

    def __init__(
        self, known: Known, attempt: int, member: str, serial: int, deadline: Instant
    ) -> None:
        self.known = known
        self.attempt = attempt
        self.member = member
        self.serial = serial
        self.deadline = deadline

    @property
    def offset(self) -> Offset:
        return Offset(self.known[0])


class DeliveryQueue:
    """What one group does with one partition right now."""

    def __init__(self, position: Position, *, keeps_key_order: bool) -> None:
        self._position = position
        self._done = Ranges(position.floor, position.settled)
        self._cursor = int(position.floor)
        self._fresh: deque[Known] = deque()
        self._returned: list[Known] = []
        self._resting: list[tuple[int, Known]] = []
        self._held: dict[int, Held] = {}
        self._dying: dict[int, Known] = {}
        self._deadlines: list[tuple[int, int, int]] = []
        self._loads: dict[str, int] = {}
        # Known before `relearn`, and not to be learned twice.
        self._elsewhere: dict[int, None] = {}
        self._order = KeyOrder() if keeps_key_order else None

    @property
    def keeps_key_order(self) -> bool:
        return self._order is not None

    @property
    def cursor(self) -> Offset:
        """From here on nothing is known yet."""
        return Offset(self._cursor)

    @property
    def floor(self) -> Offset:
        """The lowest offset that is not done."""
        return self._done.floor

    @property
    def is_ready(self) -> bool:
        """Whether a lease might find something."""
        return bool(self._fresh or self._returned)

    @property
    def has_resting(self) -> bool:
        """Whether a message waits until it may be delivered again."""
        return bool(self._resting)

    @property
    def in_flight(self) -> int:
        return len(self._held)

    def load_of(self, member: str) -> int:
        """How many messages a member holds."""
        return self._loads.get(member, 0)

    def done_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are done."""
        return self._done.count_within(first, end)

    # Learning

    def wants(self, end: int) -> bool:
        """Whether what lies between the cursor and `end` should be surveyed."""
        if self._cursor >= end or len(self._fresh) + len(self._returned) >= _READY_MIN:
            return False
        return self._order is None or len(self._order) < _WAITING_MAX

    def learn(self, known: Sequence[Known], next_offset: int) -> None:
        """Take in the visible messages from the cursor on; what is not among them is done."""
        expected = self._cursor
        for message in known:
            offset = message[0]
            if offset < expected:
                continue
            if offset != expected:
                self._done.add(expected, offset)
            expected = offset + 1
            if offset in self._done or offset in self._elsewhere:
                continue
            if self._order is not None and not self._order.admit(message):
                continue
            if self._position.is_dying(offset):
                self._dying[offset] = message
            else:
                self._fresh.append(message)
        if expected < next_offset:
            self._done.add(expected, next_offset)
        self._cursor = max(expected, next_offset)

    def hide(self, offset: int) -> None:
        """A record that is no message: it is done by itself."""
        self._done.add(offset, offset + 1)

    def relearn(self) -> None:
        """Forget what is ready and was never handed out: some of it may be gone from the log."""
        ready = [*self._fresh, *self._returned]
        if self._order is not None:
            ready.extend(self._order.clear())
        if not ready:
            return
        self._fresh.clear()
        self._returned.clear()
        self._cursor = min(message[0] for message in ready)
        elsewhere = [held.known for held in self._held.values()]
        elsewhere.extend(self._dying.values())
        elsewhere.extend(message for _, message in self._resting)
        self._elsewhere = dict.fromkeys(message[0] for message in elsewhere)
        if self._order is not None:
            for message in sorted(elsewhere):
                self._order.admit(message)

    def pass_over(self, offset: int) -> None:
        """Everything below `offset` is gone or was committed as a whole."""
        self._cursor = max(self._cursor, offset)
        if offset <= self._done.floor:
            return
        self._done.raise_floor(offset)
        for held in [held for place, held in self._held.items() if place < offset]:
            self._let_go(held)
            self._retire(held.known)
        for place in [place for place in self._dying if place < offset]:
            self._retire(self._dying.pop(place))
        for message in [*self._fresh, *self._returned, *(entry for _, entry in self._resting)]:
            if message[0] < offset:
                self._retire(message)
        self._fresh = deque(message for message in self._fresh if message[0] >= offset)
        self._returned = sorted(message for message in self._returned if message[0] >= offset)
        self._resting = sorted(entry for entry in self._resting if entry[1][0] >= offset)

    # Leasing

    def lease(
        self, member: str, count_max: int, bytes_max: int, deadline: Instant, serial: int
    ) -> list[Held]:
        """Hand out what is ready, earliest first; the first even if it is larger than allowed."""
        load = self._loads.get(member, 0)
        room = min(count_max, IN_FLIGHT_MAX - load)
        leased: list[Held] = []
        self._tidy_deadlines()
        while room > len(leased) and (self._fresh or self._returned):
            known = self._next()
            if leased and known[1] > bytes_max:
                heappush(self._returned, known)
                break
            bytes_max -= known[1]
            attempt = self._position.attempts_of(known[0]) + 1
            held = Held(known, attempt, member, serial + len(leased), deadline)
            self._held[known[0]] = held
            heappush(self._deadlines, (deadline, held.serial, known[0]))
            leased.append(held)
        if leased:
            self._loads[member] = load + len(leased)
        return leased

    def _next(self) -> Known:
        if not self._returned:
            return self._fresh.popleft()
        if self._fresh and self._fresh[0] < self._returned[0]:
            return self._fresh.popleft()
        return heappop(self._returned)

    def held(self, offset: int, serial: int) -> Held | None:
        """The lease that a receipt names, if it is not over."""
        held = self._held.get(offset)
        return held if held is not None and held.serial == serial else None

    def extend(self, held: Held, deadline: Instant) -> None:
        """Hold a message until `deadline`, which may also be earlier than before."""
        held.deadline = deadline
        heappush(self._deadlines, (deadline, held.serial, held.known[0]))
        self._tidy_deadlines()

    def settle(self, settled: Sequence[Held]) -> None:
        """These messages are done with."""
        for held in settled:
            self._let_go(held)
        for first, following in runs(sorted(held.known[0] for held in settled)):
            self._done.add(first, following)
        if self._order is not None:
            for held in settled:
                self._retire(held.known)

    def give_back(self, held: Held, visible_at: Instant | None = None) -> None:
        """The message will be delivered again, to anyone: now, or when it has rested."""
        self._let_go(held)
        if visible_at is None:
            heappush(self._returned, held.known)
        else:
            heappush(self._resting, (visible_at, held.known))

    def bury(self, held: Held) -> None:
        """The message leaves for the dead letters; `finish` tells that it has arrived."""
        self._let_go(held)
        self._dying[held.known[0]] = held.known

    def finish(self, offset: int) -> None:
        """A message has arrived among the dead letters."""
        known = self._dying.pop(offset, None)
        self._done.add(offset, offset + 1)
        if known is not None:
            self._retire(known)

    def free(self, member: str) -> int:
        """A member is gone: all that it held is ready again. How many there were."""
        if not self._loads.get(member):
            return 0
        freed = [held for held in self._held.values() if held.member == member]
        for held in freed:
            self.give_back(held)
        return len(freed)

    # Time

    def next_deadline(self) -> Instant | None:
        """When `expire` wants to be called."""
        while self._deadlines and not self._is_current(self._deadlines[0]):
            # Settled leases stay in the heap until they surface: removing them on every ack
            # would make the common path slow.
            heappop(self._deadlines)
        candidates = [heap[0][0] for heap in (self._deadlines, self._resting) if heap]
        return Instant(min(candidates)) if candidates else None

    def expire(self, now: Instant) -> list[Held]:
        """Leases that ran out, earliest deadline first; each is still held until given back.

        Messages that have rested are ready again.
        """
        while self._resting and self._resting[0][0] <= now:
            heappush(self._returned, heappop(self._resting)[1])
        # A lease that was extended to a deadline which it had before is in the heap twice.
        expired: dict[int, Held] = {}
        while self._deadlines and self._deadlines[0][0] <= now:
            entry = heappop(self._deadlines)
            if self._is_current(entry):
                expired[entry[2]] = self._held[entry[2]]
        return list(expired.values())

    def _tidy_deadlines(self) -> None:
        """Drop the deadlines of leases that ended before them: they could be hours away."""
        if len(self._deadlines) > _DEADLINES_MIN + 2 * len(self._held):
            self._deadlines = sorted(entry for entry in self._deadlines if self._is_current(entry))

    def _is_current(self, entry: tuple[int, int, int]) -> bool:
        deadline, serial, offset = entry
        held = self._held.get(offset)
        return held is not None and held.serial == serial and held.deadline == deadline

    def _let_go(self, held: Held) -> None:
        del self._held[held.known[0]]
        load = self._loads[held.member] - 1
        if load:
            self._loads[held.member] = load
        else:
            del self._loads[held.member]

    def _retire(self, known: Known) -> None:
        """Let the next message of the same key through, past those that are done by themselves."""
        if self._order is None or not known[3]:
            return
        following = self._order.release(known)
        while following is not None and following[0] in self._done:
            following = self._order.release(following)
        if following is None:
            return
        if self._position.is_dying(following[0]):
            self._dying[following[0]] = following
        else:
            heappush(self._returned, following)
