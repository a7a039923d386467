"""When a schedule ticks: two questions about a rule, answered without enumeration.

A rule is an interval from a start, or a cron expression in a zone; both within an optional start
and end. `next_after` is the first tick after a time, `last_upto` the last one at or before it. Both
are pure functions: of the same rule, zone and time always the same.

Where a cron expression matches every hour it follows elapsed time: what a gap skips does not tick,
what an overlap repeats ticks twice. Otherwise each local time that it names ticks once: inside a
gap when that ends, in an overlap the first time.

Invariant: ticks are strictly ordered, and `last_upto(next_after(t)) == next_after(t)`.

Cost: a search for a matching day (microseconds; months that do not match are passed over), and a
bisection over the times of that day. Next to a transition of the zone each step asks the zone.
"""

from collections.abc import Callable
from operator import attrgetter

import msgspec

from goqueue.model import SECOND, Timestamp
from goqueue.schedules.cron import CronExpression
from goqueue.schedules.zones import DAY, Moments, Zone, resolve

__all__ = ["CronRule", "IntervalRule", "Rule", "Ticks"]

_first = attrgetter("first")
_last = attrgetter("last")


class IntervalRule(msgspec.Struct, frozen=True):
    """A tick every so many nanoseconds, the first at `start`."""

    every_ns: int
    start: int

    def next_after(self, time: int) -> int | None:
        if time < self.start:
            return self.start
        return self.start + ((time - self.start) // self.every_ns + 1) * self.every_ns

    def last_upto(self, time: int) -> int | None:
        if time < self.start:
            return None
        return self.start + (time - self.start) // self.every_ns * self.every_ns


class CronRule:
    """Ticks at the local times that an expression matches."""

    def __init__(self, expression: CronExpression, zone: Zone) -> None:
        self._expression = expression
        self._zone = zone

    def next_after(self, time: int) -> int | None:
        second = time // SECOND
        day = self._expression.next_day(max(0, self._local_day(second) - 1))
        while day is not None:
            found = self._first_of_day(day, second)
            if found is not None:
                # Where an overlap spans midnight, the next day may begin before this one ends.
                following = self._expression.next_day(day + 1) == day + 1
                other = self._first_of_day(day + 1, second) if following else None
                return SECOND * (found if other is None else min(found, other))
            day = self._expression.next_day(day + 1)
        return None

    def last_upto(self, time: int) -> int | None:
        second = time // SECOND
        day = self._expression.last_day(self._local_day(second) + 1)
        while day is not None:
            found = self._last_of_day(day, second)
            if found is not None:
                preceding = self._expression.last_day(day - 1) == day - 1
                other = self._last_of_day(day - 1, second) if preceding else None
                return SECOND * (found if other is None else max(found, other))
            day = self._expression.last_day(day - 1)
        return None

    def _local_day(self, second: int) -> int:
        return (second + self._zone.offset_at(second)) // DAY

    def _first_of_day(self, day: int, second: int) -> int | None:
        """The first tick of a local day that is after a moment."""
        expression, midnight = self._expression, day * DAY
        offset = self._offset_of(midnight)
        if offset is not None:
            index = expression.count_upto(second + offset - midnight)
            is_found = index < expression.count
            return midnight + expression.second_of(index) - offset if is_found else None
        found: list[int] = []
        for which in (_first, _last) if expression.is_every_hour else (_first,):
            index = self._count_upto(midnight, which, second)
            while index < expression.count and self._is_skipped(midnight, index):
                index += 1
            if index < expression.count:
                found.append(which(self._moments(midnight, index)))
        return min(found, default=None)

    def _last_of_day(self, day: int, second: int) -> int | None:
        """The last tick of a local day that is not after a moment."""
        expression, midnight = self._expression, day * DAY
        offset = self._offset_of(midnight)
        if offset is not None:
            index = expression.count_upto(second + offset - midnight) - 1
            return midnight + expression.second_of(index) - offset if index >= 0 else None
        found: list[int] = []
        for which in (_first, _last) if expression.is_every_hour else (_first,):
            index = self._count_upto(midnight, which, second) - 1
            while index >= 0 and self._is_skipped(midnight, index):
                index -= 1
            if index >= 0:
                found.append(which(self._moments(midnight, index)))
        return max(found, default=None)

    def _offset_of(self, midnight: int) -> int | None:
        """The offset during a local day; None if it changes then, or next to it."""
        offset = self._zone.offset_at(midnight - DAY)
        return offset if offset == self._zone.offset_at(midnight + 2 * DAY) else None

    def _moments(self, midnight: int, index: int) -> Moments:
        return resolve(self._zone, midnight + self._expression.second_of(index))

    def _is_skipped(self, midnight: int, index: int) -> bool:
        """Whether a time of day does not tick, because clocks never show it."""
        return self._expression.is_every_hour and self._moments(midnight, index).is_gap

    def _count_upto(self, midnight: int, which: Callable[[Moments], int], second: int) -> int:
        """How many times of a day, by one of their occurrences, are not after a moment."""
        low, high = 0, self._expression.count
        while low < high:
            middle = (low + high) // 2
            if which(self._moments(midnight, middle)) > second:
                high = middle
            else:
                low = middle + 1
        return low


Rule = IntervalRule | CronRule


class Ticks:
    """The ticks of a rule between a start and an end."""

    def __init__(self, rule: Rule, start: Timestamp | None, end: Timestamp | None) -> None:
        self._rule = rule
        self._start = start
        self._end = end

    def next_after(self, time: Timestamp) -> Timestamp | None:
        """The first tick after a time; None if there is no more."""
        tick = self._rule.next_after(time if self._start is None else max(time, self._start - 1))
        return None if tick is None or self._is_over(tick) else Timestamp(tick)

    def last_upto(self, time: Timestamp) -> Timestamp | None:
        """The last tick at or before a time; None if there was none."""
        tick = self._rule.last_upto(time if self._end is None else min(time, self._end))
        is_early = tick is None or (self._start is not None and tick < self._start)
        return None if tick is None or is_early else Timestamp(tick)

    def _is_over(self, tick: int) -> bool:
        return self._end is not None and tick > self._end
