"""Timers that wait for a moment of the wall clock: a hierarchical wheel.

Four rings: 256 buckets of 10 ms, 64 of 2.56 s, 64 of 2.73 min, 64 of 2.91 h. A timer lies in the
finest ring whose present turn holds its tick, and moves to finer ones as its time comes near. The
bucket, not a look at each timer, decides what is due: a timer fires with the first tick at or after
its time, so never early and by the wheel itself less than a tick late.

Owns which timers are pending. Never reads a clock: it is told the time, and follows it backwards,
too. Never calls anybody: what fires is returned.

A bucket that is opened may hold a million timers: it is poured into finer ones a few thousand at a
time, and nothing fires meanwhile, since any of them may be the first.

Invariant: a pending timer is in exactly one place. Its tick is over: it is ripe. Else it is in the
bucket that its time and the wheel's tick name, or on its way there in the bucket that is poured;
everything in a finer ring is earlier than everything in a coarser one.
"""

from array import array
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, nsmallest
from itertools import pairwise

from goqueue.delivery.wheel.due_table import DueTable
from goqueue.delivery.wheel.ring import SHIFTS, TICK_NS, Bucket, Pending, Ring
from goqueue.delivery.wheel.sieve import first_pending, sift
from goqueue.model import Timestamp

__all__ = ["WHEEL_REACH_NS", "Timer", "Wheel"]

# The coarsest ring has 64 buckets ahead. What is due later still (the clock was put back) has
# buckets of its own there: they go by their absolute number, so no two turns ever share one.
WHEEL_REACH_NS = TICK_NS << 26
_TICK_BITS_MAX = 64
# How many timers of a bucket that is opened are placed at once: a few milliseconds at most.
POURED_AT_ONCE = 4_000
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
        self._dues = DueTable()
        # A heap of timers whose tick is over. Cancelled ones stay until they surface.
        self._ripe: list[Pending] = []
        self._pour: _Pour | None = None
        self._rings = tuple(Ring(shift) for shift in SHIFTS)
        # The ring of a timer by the length of what differs between its tick and the wheel's.
        self._by_length = tuple(
            self._rings[sum(length > shift for shift in SHIFTS[1:])]
            for length in range(_TICK_BITS_MAX)
        )

    def __len__(self) -> int:
        """How many timers are pending."""
        return len(self._dues)

    @property
    def is_opening(self) -> bool:
        """Whether a bucket is being poured: nothing fires before that is over."""
        return self._pour is not None

    def due_of(self, timer: int) -> Timestamp | None:
        """When a pending timer is due."""
        return self._dues.get(timer)

    def insert(self, timer: int, due: Timestamp) -> None:
        """Begin to wait. What is due already fires with the next call of `advance`."""
        assert due <= _DUE_MAX
        self._dues.add(timer, due)
        self._place(((due, timer),))

    def insert_all(self, timers: "array[int]", dues: "array[int]") -> None:
        """Begin to wait for many; none of them is pending, and their numbers rise."""
        self._dues.add_all(timers, dues)
        for place in sift(self._rings, self._tick, dues, timers):
            heappush(self._ripe, (Timestamp(dues[place]), timers[place]))

    def cancel(self, timer: int) -> bool:
        """Whether it was in time: from now on this timer does not fire."""
        due = self._dues.pop(timer)
        if due is None:
            return False
        tick = _tick_of(due)
        if tick > self._tick:
            bucket = self._bucket_of(tick)
            bucket.stale += 1
            if self._pour is not None:
                # It may still be on its way here: then it never comes.
                self._pour.withdraw((due, timer))
                return True
            # Searching the bucket each time would make this linear. Sweeping it when only a quarter
            # is alive costs each cancellation a constant share, and bounds the memory.
            if bucket.stale * 4 > len(bucket.timers) * 3:
                bucket.sweep(self._dues.get)
        return True

    def advance(self, now: Timestamp, limit: int | None = None) -> list[Timer]:
        """Fire what is due, in order of due time and number; at most `limit` of it, if given.

        A clock that went back takes the wheel with it: what is ahead of it again waits again.
        """
        assert now >= 0
        tick = now // TICK_NS
        if tick < self._tick:
            self._pour_out(None)
            self._turn_back(tick)
        at_once = None if limit is None else POURED_AT_ONCE
        fired: list[Timer] = []
        while self._pour_out(at_once) and len(fired) != limit and (self._ripe or self._turn(tick)):
            if self._pour is None:
                self._fire(fired, limit)
        return fired

    def next_deadline(self) -> Timestamp | None:
        """When to advance next: a timer fires then, or a bucket of a coarser ring is opened."""
        if self._pour is not None:
            # At once: any of those that are poured may be overdue.
            return Timestamp(0)
        ripe = self._first_ripe()
        if ripe is not None:
            return Timestamp(_tick_of(ripe) * TICK_NS)
        for ring in self._rings:
            number = ring.first()
            if number is not None:
                return Timestamp((number << ring.shift) * TICK_NS)
        return None

    def next_due(self) -> Timestamp | None:
        """When the first timer is due; looks at no more than one bucket, and the one poured."""
        firsts: list[Timestamp] = []
        if self._pour is not None:
            bucket = self._pour.bucket
            firsts.append(Timestamp(first_pending(bucket.dues, bucket.timers, self._dues.get)))
        firsts.append(self._first_placed())
        return min((first for first in firsts if first >= 0), default=None)

    def _first_placed(self) -> Timestamp:
        """When the first is due of those that are where they belong; -1 if there is none."""
        ripe = self._first_ripe()
        if ripe is not None:
            return ripe
        for ring in self._rings:
            for bucket in ring.in_order():
                due_of = self._dues.get if bucket.stale else None
                first = first_pending(bucket.dues, bucket.timers, due_of)
                if first >= 0:
                    return Timestamp(first)
        return Timestamp(-1)

    def page(self, skip: int, limit: int) -> list[Timer]:
        """Pending timers in the order in which they will fire; sorts only buckets that it shows."""
        self._pour_out(None)
        ripe = self._living_ripe()
        shown = _smallest(skip + limit, ripe)[skip:]
        skip = max(0, skip - len(ripe))
        for ring in self._rings:
            for bucket in ring.in_order():
                if len(shown) == limit:
                    break
                if bucket.count > skip:
                    living = bucket.living(self._dues.get)
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

    def _first_ripe(self) -> Timestamp | None:
        while self._ripe:
            due, timer = self._ripe[0]
            if self._dues.get(timer) == due:
                return due
            heappop(self._ripe)
        return None

    def _living_ripe(self) -> list[Pending]:
        due_of = self._dues.get
        return [(due, timer) for due, timer in dict.fromkeys(self._ripe) if due_of(timer) == due]

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
                dues.pop(timer)
                fired.append((timer, due))

    def _turn(self, tick: int) -> bool:
        """Go on to the next bucket that begins by `tick` and open it; False if there is none.

        To be called when nothing is ripe, and nothing is poured. Finer rings are earlier, so the
        first that holds something knows; nothing is passed over when the wheel then goes where that
        bucket begins.
        """
        for ring in self._rings:
            number = ring.first()
            if number is None:
                continue
            begin = number << ring.shift
            if begin > tick:
                break
            last = begin + (1 << ring.shift) - 1
            # After a pause all of it may be over, also in a coarse ring.
            self._tick = last if last <= tick else begin
            self._pour = _Pour(ring.take(number))
            return True
        self._tick = tick
        return False

    def _pour_out(self, limit: int | None) -> bool:
        """Place timers of the bucket that was opened, at most `limit`; whether that was all."""
        pour = self._pour
        if pour is None:
            return True
        dues, timers = pour.take(limit)
        if pour.is_whole:
            for place in sift(self._rings, self._tick, dues, timers):
                heappush(self._ripe, (Timestamp(dues[place]), timers[place]))
        else:
            self._place(self._sort_out(pour, dues, timers))
        if pour.is_over:
            self._pour = None
        return pour.is_over

    def _sort_out(
        self, pour: "_Pour", dues: "array[int]", timers: "array[int]"
    ) -> Iterator[Pending]:
        """Those that are pending, of timers that were taken out of a bucket."""
        for due, timer in zip(dues, timers, strict=True):
            if self._dues.get(timer) != due:
                if pour.was_withdrawn((Timestamp(due), timer)):
                    self._bucket_of(_tick_of(due)).stale -= 1
            elif pour.is_first(timer):
                yield Timestamp(due), timer

    def _bucket_of(self, tick: int) -> Bucket:
        """Where a timer of this tick belongs, which is not over."""
        ring = self._by_length[(tick ^ self._tick).bit_length()]
        return ring.bucket(tick >> ring.shift)

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


class _Pour:
    """A bucket whose timers are placed anew, and what was cancelled meanwhile."""

    __slots__ = ("_placed", "_taken", "_withdrawn", "bucket")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._taken = 0
        self._withdrawn: dict[Pending, int] = {}
        # Where timers were cancelled some may be here twice: cancelled, and inserted again for the
        # same time.
        self._placed = DueTable()

    @property
    def is_whole(self) -> bool:
        """Whether every timer here is pending, once."""
        return not self.bucket.stale and not self._withdrawn

    @property
    def is_over(self) -> bool:
        return self._taken == len(self.bucket.timers)

    def take(self, limit: int | None) -> tuple["array[int]", "array[int]"]:
        """The next due times and timers."""
        end = len(self.bucket.timers)
        if limit is not None:
            end = min(end, self._taken + limit)
        places = slice(self._taken, end)
        self._taken = end
        return self.bucket.dues[places], self.bucket.timers[places]

    def withdraw(self, pending: Pending) -> None:
        """A timer was cancelled that may be here still, or not."""
        self._withdrawn[pending] = self._withdrawn.get(pending, 0) + 1

    def was_withdrawn(self, pending: Pending) -> bool:
        """Whether a timer was cancelled since this began and before it was placed."""
        count = 0 if pending[1] in self._placed else self._withdrawn.pop(pending, 0)
        if count > 1:
            self._withdrawn[pending] = count - 1
        return count > 0

    def is_first(self, timer: int) -> bool:
        """Whether a timer is not placed yet."""
        if timer in self._placed:
            return False
        self._placed.add(timer, Timestamp(0))
        return True
