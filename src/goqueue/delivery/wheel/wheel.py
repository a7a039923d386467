"""Timers that wait for a moment of the wall clock: a hierarchical wheel.

Four rings: 256 buckets of 10 ms, 64 of 2.56 s, 64 of 2.73 min, 64 of 2.91 h. A timer lies in the
finest ring whose present turn holds its tick, and moves to finer ones as its time comes near. The
bucket, not a look at each timer, decides what is due: a timer fires with the first tick at or after
its time, so never early and by the wheel itself less than a tick late.

Owns which timers are pending. Never reads a clock: it is told the time, and follows it backwards,
too. Never calls anybody: what fires is returned.

Invariant: a pending timer is in exactly one place. Its tick is over: it is ripe. Else it is in the
bucket that its time and the wheel's tick name; everything in a finer ring is earlier than
everything in a coarser one.
"""

from array import array
from collections.abc import Iterable
from heapq import heappop, heappush, nsmallest
from itertools import pairwise
from typing import cast

from goqueue.delivery.wheel.ring import SHIFTS, TICK_NS, Pending, Ring
from goqueue.delivery.wheel.sieve import sift
from goqueue.model import Timestamp

__all__ = ["WHEEL_REACH_NS", "Timer", "Wheel"]

# The coarsest ring has 64 buckets ahead. What is due later still (the clock was put back) has
# buckets of its own there: they go by their absolute number, so no two turns ever share one.
WHEEL_REACH_NS = TICK_NS << 26
_TICK_BITS_MAX = 64
_DUE_MAX = (1 << 63) - 1

# The number of a timer, chosen by its owner, and when it is due.
Timer = tuple[int, Timestamp]


def _tick_of(due: int) -> int:
    """The first tick at or after a time."""
    return -(-due // TICK_NS)


def _smallest(count: int, pending: list[Pending]) -> list[Pending]:
    """The first of what is pending, in order."""
    if count * 8 < len(pending):
        return nsmallest(count, pending)
    pending.sort()
    return pending[:count]


class Wheel:
    """Timers by number; every number is pending at most once."""

    def __init__(self, now: Timestamp) -> None:
        assert now >= 0
        self._tick = now // TICK_NS
        self._dues: dict[int, Timestamp] = {}
        # A heap of timers whose tick is over. Cancelled ones stay until they surface.
        self._ripe: list[Pending] = []
        self._rings = tuple(Ring(shift) for shift in SHIFTS)
        # The ring of a timer by the length of what differs between its tick and the wheel's.
        self._by_length = tuple(
            self._rings[sum(length > shift for shift in SHIFTS[1:])]
            for length in range(_TICK_BITS_MAX)
        )

    def __len__(self) -> int:
        """How many timers are pending."""
        return len(self._dues)

    def due_of(self, timer: int) -> Timestamp | None:
        """When a pending timer is due."""
        return self._dues.get(timer)

    def insert(self, timer: int, due: Timestamp) -> None:
        """Begin to wait. What is due already fires with the next call of `advance`."""
        assert timer not in self._dues
        assert due <= _DUE_MAX
        self._place(((due, timer),))
        self._dues[timer] = due

    def insert_all(self, timers: "array[int]", dues: "array[int]") -> None:
        """Begin to wait for many; none of them is pending, and no number is there twice."""
        count = len(self._dues) + len(timers)
        # An array cannot say that its integers are times.
        self._dues.update(cast("Iterable[Timer]", zip(timers, dues, strict=True)))
        assert len(self._dues) == count
        for place in sift(self._rings, self._tick, dues, timers):
            heappush(self._ripe, (Timestamp(dues[place]), timers[place]))

    def cancel(self, timer: int) -> bool:
        """Whether it was in time: from now on this timer does not fire."""
        due = self._dues.pop(timer, None)
        if due is None:
            return False
        tick = _tick_of(due)
        if tick > self._tick:
            ring = self._by_length[(tick ^ self._tick).bit_length()]
            bucket = ring.buckets[tick >> ring.shift]
            bucket.stale += 1
            # Searching the bucket each time would make this linear. Sweeping it when only a quarter
            # is alive costs each cancellation a constant share, and bounds the memory.
            if bucket.stale * 4 > len(bucket.timers) * 3:
                bucket.sweep(self._dues)
        return True

    def advance(self, now: Timestamp, limit: int | None = None) -> list[Timer]:
        """Fire what is due, in order of due time and number; at most `limit` of it, if given.

        A clock that went back takes the wheel with it: what is ahead of it again waits again.
        """
        assert now >= 0
        tick = now // TICK_NS
        if tick < self._tick:
            self._turn_back(tick)
        fired: list[Timer] = []
        while len(fired) != limit and (self._ripe or self._turn(tick)):
            self._fire(fired, limit)
        return fired

    def next_deadline(self) -> Timestamp | None:
        """When to advance next: a timer fires then, or a bucket of a coarser ring is opened."""
        while self._ripe:
            due, timer = self._ripe[0]
            if self._dues.get(timer) == due:
                return Timestamp(_tick_of(due) * TICK_NS)
            heappop(self._ripe)
        for ring in self._rings:
            number = ring.first()
            if number is not None:
                return Timestamp((number << ring.shift) * TICK_NS)
        return None

    def next_due(self) -> Timestamp | None:
        """When the first timer is due; looks at no more than one bucket."""
        ripe = self._living_ripe()
        if ripe:
            return min(ripe)[0]
        for ring in self._rings:
            for bucket in ring.in_order():
                if bucket.count:
                    return bucket.first_due(self._dues)
        return None

    def page(self, skip: int, limit: int) -> list[Timer]:
        """Pending timers in the order in which they will fire; sorts only buckets that it shows."""
        ripe = self._living_ripe()
        shown = _smallest(skip + limit, ripe)[skip:]
        skip = max(0, skip - len(ripe))
        for ring in self._rings:
            for bucket in ring.in_order():
                if len(shown) == limit:
                    break
                if bucket.count > skip:
                    living = bucket.living(self._dues)
                    shown += _smallest(skip + limit - len(shown), living)[skip:]
                skip = max(0, skip - bucket.count)
        return [(timer, due) for due, timer in shown]

    def _place(self, pending: Iterable[Pending]) -> None:
        """Put timers where they belong as seen from the wheel's present tick."""
        # The loop of every insert and every cascade: calls are written out.
        present, by_length = self._tick, self._by_length
        for due, timer in pending:
            tick = -(-due // TICK_NS)
            if tick <= present:
                heappush(self._ripe, (due, timer))
            else:
                ring = by_length[(tick ^ present).bit_length()]
                number = tick >> ring.shift
                bucket = ring.buckets.get(number) or ring.make(number)
                bucket.timers.append(timer)
                bucket.dues.append(due)

    def _living_ripe(self) -> list[Pending]:
        dues = self._dues
        return [(due, timer) for due, timer in dict.fromkeys(self._ripe) if dues.get(timer) == due]

    def _fire(self, fired: list[Timer], limit: int | None) -> None:
        """Hand out what is ripe, or as much of it as the limit leaves room for."""
        ripe, dues = self._ripe, self._dues
        if limit is None or limit - len(fired) >= len(ripe):
            # Sorting once is several times faster than asking the heap for everything.
            self._ripe = []
            ripe.sort()
        else:
            ripe = [heappop(ripe) for _ in range(limit - len(fired))]
        for due, timer in ripe:
            if dues.get(timer) == due:
                del dues[timer]
                fired.append((timer, due))

    def _turn(self, tick: int) -> bool:
        """Go on to the next bucket that begins by `tick` and empty it; False if there is none.

        To be called when nothing is ripe. Finer rings are earlier, so the first that holds
        something knows; nothing is passed over when the wheel then goes where that bucket begins.
        """
        for ring in self._rings:
            number = ring.first()
            if number is None:
                continue
            begin = number << ring.shift
            if begin > tick:
                break
            living = ring.take(number).living(self._dues)
            last = begin + (1 << ring.shift) - 1
            if last <= tick:
                # All of it is over, after a pause also in a coarse ring. Sorted, it is a heap.
                living.sort()
                self._tick, self._ripe = last, living
            else:
                self._tick = begin
                self._place(living)
            return True
        self._tick = tick
        return False

    def _turn_back(self, tick: int) -> None:
        """Follow a clock that went back.

        Where it left the present turn of a ring, this turn is ahead again: one bucket of the next
        coarser ring. So whole buckets are poured together, and no timer is looked at.
        """
        for ring, coarser in pairwise(self._rings):
            number = self._tick >> coarser.shift
            if number == tick >> coarser.shift:
                break
            bucket = coarser.make(number)
            for poured in ring.take_all():
                bucket.pour(poured)
        self._tick = tick
        ripe, self._ripe = self._living_ripe(), []
        self._place(ripe)
