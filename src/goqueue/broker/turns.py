"""Bounded turns: the budget of work, the alarms, and commands that take several turns.

A turn is one call of `Node.handle` or `handle_some`. While it lasts nothing else is served, so work
that grows with users' data is done in steps: a component does as much of it as the budget allows,
keeps the rest in a queue of its own, and sets an alarm for now to be called again. Between two
turns the shell serves sockets.

One unit is one thing visited: a record, a journal entry, a lease, a waiting request. The budget
bounds the work that a turn chooses to do. What a command itself names (its receipts, its messages)
is bounded by the limits on requests; it is counted as well, so that the simulator sees all of it.

Alarms are one heap for everything that has a deadline, so that ten thousand quiet partitions cost
nothing. Invariant: each subject has at most one deadline; older entries of it stay in the heap
until they surface and are then ignored.

A command over thousands of partitions or groups hands in its work as an iterator that yields after
each small step how many units it took. The iterators run in turn, each for a share of the turn's
budget, and continue by an alarm; other commands are served in between. So a step must look up anew
whatever may have gone since the last one: a topic, a group, a partition. What must be decided at
once is never done this way: changes are journaled in the turn that decides them.
"""

import enum
from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TypeVar

import msgspec

from goqueue.broker.outbox import Outbox
from goqueue.model import Instant, LogId, Now, Refused, RequestId, TransactionKey

__all__ = [
    "TURN_UNITS",
    "Alarms",
    "Errand",
    "ForDelays",
    "ForGroup",
    "ForLog",
    "ForPriorityIndex",
    "ForQueue",
    "ForRequest",
    "ForTransaction",
    "Steps",
    "Stepwise",
    "Subject",
    "TurnBudget",
    "take_all",
]

T = TypeVar("T")


def take_all(items: list[T]) -> list[T]:
    """What is in a list; the list stays and is empty then."""
    taken = items.copy()
    items.clear()
    return taken


# About two milliseconds of the slowest kind of unit.
TURN_UNITS = 500


class TurnBudget:
    """Counts units of work within one turn."""

    def __init__(self, units: int = TURN_UNITS) -> None:
        self.units = units
        self.spent = 0

    def begin(self) -> None:
        """A new turn."""
        self.spent = 0

    def spend(self, units: int = 1) -> None:
        """Count work that is done."""
        self.spent += units

    @property
    def left(self) -> int:
        """How many units the turn may still choose to do."""
        return max(0, self.units - self.spent)

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.units


_STALE_MAX = 1024


class ForRequest(msgspec.Struct, frozen=True):
    """A caller has waited long enough."""

    request: RequestId


class ForQueue(msgspec.Struct, frozen=True):
    """A lease or a backoff ends."""

    group: int
    log: LogId


class ForQuota(msgspec.Struct, frozen=True):
    """The tenant of a group may consume again."""

    group: int


class ForGroup(msgspec.Struct, frozen=True):
    """A session ends."""

    group: int


class ForLog(msgspec.Struct, frozen=True):
    """Records of `flush=interval` are to be flushed."""

    log: LogId


class ForJournal(msgspec.Struct, frozen=True):
    """What a journal could not write, or need not write at once, is written."""

    log: LogId


class ForTransaction(msgspec.Struct, frozen=True):
    """A transaction ran too long, or its producer is silent."""

    transaction: TransactionKey


class ForDelays(msgspec.Struct, frozen=True):
    """A delayed message of a partition is due."""

    log: LogId


class ForPriorityIndex(msgspec.Struct, frozen=True):
    """More of a backlog is to be counted, when there is time."""

    log: LogId


class Errand(enum.StrEnum):
    """Work of the node as a whole that continues in a later turn, or is due from time to time."""

    # What a full disk kept from the audit log.
    AUDIT = "audit"
    # Requests of keys that expire while they wait.
    CALLERS = "callers"
    # Elections, heartbeats and registrations of a member of a cluster.
    CLUSTER = "cluster"
    FORWARDING = "forwarding"
    # Markers that there was no time, or no space, to append.
    MARKERS = "markers"
    # Dead-letter moves.
    MOVES = "moves"
    # Groups whose waiting polls are still to be served.
    POLLS = "polls"
    # Queues that follow the decision of a transaction.
    PROGRESS = "progress"
    # Stream reads that wait for what was committed.
    READS = "reads"
    # Groups that need another assignment.
    REBALANCES = "rebalances"
    # Schedules that are due, or whose next tick is to be computed.
    SCHEDULES = "schedules"
    # Snapshots that a start reads.
    START = "start"
    # A journal that is stated again from a new segment on.
    STATEMENTS = "statements"
    # Commands that take more than a turn.
    STEPS = "steps"
    # Tenants that are being deleted.
    TENANTS = "tenants"
    # Retention, compaction, snapshots: once a second.
    UPKEEP = "upkeep"


Subject = (
    ForRequest
    | ForQueue
    | ForGroup
    | ForQuota
    | ForLog
    | ForJournal
    | ForDelays
    | ForPriorityIndex
    | ForTransaction
    | Errand
)


class Alarms:
    """Deadlines by subject."""

    def __init__(self) -> None:
        self._deadlines: dict[Subject, Instant] = {}
        self._heap: list[tuple[int, int, Subject]] = []
        self._serial = 0

    def set(self, subject: Subject, deadline: Instant | None) -> None:
        """Wake for this subject at `deadline` and at no other time; None: not at all."""
        if deadline is None:
            self._deadlines.pop(subject, None)
        elif self._deadlines.get(subject) != deadline:
            self._deadlines[subject] = deadline
            self._serial += 1
            heappush(self._heap, (deadline, self._serial, subject))
            if len(self._heap) > 2 * len(self._deadlines) + _STALE_MAX:
                self._drop_stale()

    def _drop_stale(self) -> None:
        """Long deadlines that were unset early would pile up: polls that are answered at once."""
        self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
        heapify(self._heap)

    def bring_forward(self, subject: Subject, deadline: Instant | None) -> None:
        """Wake for this subject at `deadline`, unless it is due before."""
        if deadline is not None and deadline < self._deadlines.get(subject, deadline + 1):
            self.set(subject, deadline)

    def next_deadline(self) -> Instant | None:
        while self._heap:
            deadline, _, subject = self._heap[0]
            if self._deadlines.get(subject) == deadline:
                return Instant(deadline)
            heappop(self._heap)
        return None

    def due(self, now: Instant, budget: TurnBudget) -> Iterator[Subject]:
        """What is due, earliest first, until the turn has done enough; each is unset.

        A subject that is set again for now comes behind all that is due already, in this turn or in
        a later one, so long work that goes on by an alarm leaves room for the alarms of others.
        """
        serial = self._serial
        while self._heap and self._heap[0][0] <= now and not budget.is_spent:
            deadline, number, subject = self._heap[0]
            if number > serial:
                # Set in this turn: the shell looks at sockets first.
                return
            heappop(self._heap)
            if self._deadlines.get(subject) == deadline:
                del self._deadlines[subject]
                budget.spend()
                yield subject


# One iterator runs for at most so many units before it is the turn of the next.
_SHARE_UNITS = 250

Steps = Iterator[int]


class Stepwise:
    """Runs work of commands over as many turns as it takes."""

    def __init__(self, outbox: Outbox, alarms: Alarms, budget: TurnBudget) -> None:
        self._outbox = outbox
        self._alarms = alarms
        self._budget = budget
        self._running: deque[tuple[RequestId | None, Steps]] = deque()

    def begin(self, request: RequestId | None, steps: Steps, now: Now) -> None:
        """Run work now as far as the turn allows; a refusal by it answers the request."""
        if not self._run(request, steps):
            self._running.append((request, steps))
            self._alarms.bring_forward(Errand.STEPS, now.instant)

    def resume(self, now: Now) -> None:
        """Go on with what was begun in earlier turns."""
        for _ in range(len(self._running)):
            if self._budget.is_spent:
                break
            request, steps = self._running.popleft()
            if not self._run(request, steps):
                self._running.append((request, steps))
        if self._running:
            self._alarms.bring_forward(Errand.STEPS, now.instant)

    def cancel(self, request: RequestId) -> bool:
        """Nobody waits for an answer any more: whether its work was still to be done."""
        left = deque(each for each in self._running if each[0] != request)
        was_running = len(left) != len(self._running)
        self._running = left
        return was_running

    def _run(self, request: RequestId | None, steps: Steps) -> bool:
        """Whether the work is over."""
        share = min(self._budget.left, _SHARE_UNITS)
        try:
            while share > 0:
                units = next(steps)
                self._budget.spend(units)
                share -= units
        except StopIteration:
            return True
        except Refused as refused:
            assert request is not None, "only an answer may be refused"
            self._outbox.answer(request, refused)
            return True
        return False
