"""When the node wants to be woken, and why.

One heap for everything that has a deadline, so that ten thousand quiet partitions cost nothing.

Invariant: each subject has at most one deadline; older entries of it stay in the heap until they
surface and are then ignored.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import msgspec

from goqueue.broker.budget import TurnBudget
from goqueue.model import Instant, LogId, RequestId

__all__ = [
    "Alarms",
    "Errand",
    "ForCensus",
    "ForDelays",
    "ForGroup",
    "ForLog",
    "ForQueue",
    "ForRequest",
    "ForTransaction",
    "Subject",
]


_STALE_MAX = 1024


class ForRequest(msgspec.Struct, frozen=True):
    """A caller has waited long enough."""

    request: RequestId


class ForQueue(msgspec.Struct, frozen=True):
    """A lease or a rest ends."""

    group: int
    log: LogId


class ForGroup(msgspec.Struct, frozen=True):
    """A session ends."""

    group: int


class ForLog(msgspec.Struct, frozen=True):
    """Records of `flush=interval` are to be flushed."""

    log: LogId


class ForTransaction(msgspec.Struct, frozen=True):
    """A transaction ran too long, or its producer is silent."""

    producer: int
    number: int


class ForDelays(msgspec.Struct, frozen=True):
    """A delayed message of a partition is due."""

    log: LogId


class ForCensus(msgspec.Struct, frozen=True):
    """More of a backlog is to be counted, when there is time."""

    log: LogId


class Errand(msgspec.Struct, frozen=True):
    """Something that the node does from time to time."""

    name: str


Subject = (
    ForRequest | ForQueue | ForGroup | ForLog | ForDelays | ForCensus | ForTransaction | Errand
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
