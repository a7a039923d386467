"""Moves that wait for their turn on a route, or for a target that does not take them.

`MoveQueue` holds the moves of one route, `MoveBatch` those that left it together. `StalledRoutes`
says when to try a route again, and which stall the operator hears of. None of them begins or ends a
move: `DeadLetterMover` does.

Invariant: the operator hears of one target at most once a minute.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from goqueue.broker.groups.dead_letters import Move, Route
from goqueue.broker.turns import Alarms, Errand
from goqueue.model import SECOND, DeadLettersStalled, Instant, LogId, Now, Offset, Report
from goqueue.transactions import Outcome

__all__ = ["MoveBatch", "MoveQueue", "StalledRoutes"]

# Messages further apart are read one by one: nobody wants what is between them.
_WINDOW = 1000
_RETRY_NS = SECOND
_REPORT_NS = 60 * SECOND
# Targets that are remembered as reported.
_REPORTED_MAX = 1000


class MoveQueue:
    """Moves that wait for the same route; those that somebody waits for come first."""

    __slots__ = ("quiet", "urgent")

    def __init__(self) -> None:
        self.urgent: deque[Move] = deque()
        self.quiet: deque[Move] = deque()

    def __len__(self) -> int:
        return len(self.urgent) + len(self.quiet)

    def add(self, move: Move) -> None:
        (self.quiet if move.answer is None else self.urgent).append(move)

    def put_back(self, moves: Iterable[Move]) -> None:
        """They come first again, in this order."""
        for move in reversed(list(moves)):
            (self.quiet if move.answer is None else self.urgent).appendleft(move)

    def pop_batch(self, count_max: int) -> list[Move]:
        """What is read together with the first, in the order of offsets."""
        waiting = self.urgent or self.quiet
        first = waiting.popleft()
        chosen = {first.offset: first}
        others: list[Move] = []
        for _ in range(min(len(waiting), count_max - 1)):
            move = waiting.popleft()
            if 0 < move.offset - first.offset < _WINDOW and move.offset not in chosen:
                chosen[move.offset] = move
            else:
                others.append(move)
        waiting.extendleft(reversed(others))
        return [chosen[offset] for offset in sorted(chosen)]


class MoveBatch:
    """Moves that are made together."""

    __slots__ = ("contexts", "first", "is_quiet", "moves", "outcome", "route", "target")

    def __init__(self, route: Route, moves: list[Move]) -> None:
        self.route = route
        self.moves = moves
        self.is_quiet = moves[0].answer is None
        # Where the copies stand, and the traces that they are part of.
        self.target: LogId | None = None
        self.first = Offset(0)
        self.contexts: list[bytes] = []
        self.outcome = Outcome.ABORTED


class StalledRoutes:
    """Routes whose target does not take messages, each with the time of the next attempt."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        # In the order of their deadlines, which are all equally far away when they are set.
        self._deadlines: dict[Route, Instant] = {}
        self._reported: dict[str, Instant] = {}

    def __contains__(self, route: Route) -> bool:
        return route in self._deadlines

    def __iter__(self) -> Iterator[Route]:
        return iter(self._deadlines)

    def add(self, route: Route, now: Now) -> None:
        deadline = Instant(now.instant + _RETRY_NS)
        self._deadlines.setdefault(route, deadline)
        self._alarms.bring_forward(Errand.MOVES, deadline)

    def remove(self, route: Route) -> None:
        del self._deadlines[route]

    def next_due(self, now: Now) -> Route | None:
        """The route to try next; None if none is due, and an alarm is set for the first."""
        for route, deadline in self._deadlines.items():
            if deadline <= now.instant:
                return route
            self._alarms.bring_forward(Errand.MOVES, deadline)
            return None
        return None

    def going_to(self, target: str) -> list[Route]:
        return [route for route in self._deadlines if route.target == target]

    def report(self, route: Route, count: int, reason: str, now: Now) -> list[Report]:
        """What the operator hears of a stall, unless it was heard within the last minute."""
        reported_at = self._reported.get(route.target)
        if reported_at is not None and now.instant - reported_at < _REPORT_NS:
            return []
        self._reported.pop(route.target, None)
        self._reported[route.target] = now.instant
        if len(self._reported) > _REPORTED_MAX:
            del self._reported[next(iter(self._reported))]
        stalled = DeadLettersStalled(topic=route.target, count=count, reason=reason)
        return [Report(report=stalled)]
