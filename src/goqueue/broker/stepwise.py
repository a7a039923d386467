"""Answers that take more work than one turn may do.

A command over thousands of partitions or groups hands in its work as an iterator that yields after
each small step how many units it took. The iterators are run in turn, each for a share of the
turn's budget, and go on by an alarm; other commands are served in between. So a step must look
anew at whatever may have gone since the last one: a topic, a group, a partition.

Never used for what must be decided at once: changes are journaled in the turn that decides them.
"""

from collections import deque
from collections.abc import Iterator

from goqueue.broker.alarms import Alarms, Errand
from goqueue.broker.budget import TurnBudget
from goqueue.broker.outbox import Outbox
from goqueue.model import Now, Refused, RequestId

__all__ = ["STEPS_ERRAND", "Steps", "Stepwise"]

STEPS_ERRAND = Errand("steps")
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
            self._alarms.bring_forward(STEPS_ERRAND, now.instant)

    def resume(self, now: Now) -> None:
        """Go on with what was begun in earlier turns."""
        for _ in range(len(self._running)):
            if self._budget.is_spent:
                break
            request, steps = self._running.popleft()
            if not self._run(request, steps):
                self._running.append((request, steps))
        if self._running:
            self._alarms.bring_forward(STEPS_ERRAND, now.instant)

    def give_up(self, request: RequestId) -> bool:
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
