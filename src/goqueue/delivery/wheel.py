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
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, nsmallest
from itertools import pairwise

from goqueue.model import MILLISECOND, Timestamp

__all__ = ["TICK_NS", "WHEEL_REACH_NS", "Timer", "Wheel"]

TICK_NS = 10 * MILLISECOND
# How many bits of the tick a bucket of each ring leaves open.
_SHIFTS = (0, 8, 14, 20)
# The coarsest ring has 64 buckets ahead. What is due later still (the clock was put back) has a
# bucket of its own there: buckets go by their absolute number, so no two turns ever share one.
WHEEL_REACH_NS = TICK_NS << 26
_TICK_BITS_MAX = 64

# The number of a timer, chosen by its owner, and when it is due.
Timer = tuple[int, Timestamp]
# The same the other way round, which sorts in the order in which timers fire.
_Pending = tuple[Timestamp, int]


def _tick_of(due: int) -> int:
    """The first tick at or after a time."""
    return -(-due // TICK_NS)


class _Bucket:
    """Numbers of timers in no order. Cancelled ones stay until they are the greater part."""

    __slots__ = ("stale", "timers")

    def __init__(self) -> None:
        self.timers = array("q")
        self.stale = 0


class _Ring:
    """Buckets of one width, by number: the ticks that they hold without their last bits."""

    __slots__ = ("_buckets", "_numbers", "shift")

    def __init__(self, shift: int) -> None:
        self.shift = shift
        self._buckets: dict[int, _Bucket] = {}
        # A heap of the same numbers.
        self._numbers: list[int] = []

    def bucket(self, number: int) -> _Bucket:
        """The bucket of a number, made if need be."""
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = _Bucket()
            heappush(self._numbers, number)
        return bucket

    def first(self) -> int | None:
        """The number of the earliest bucket that holds something."""
        while self._numbers and not self._buckets[self._numbers[0]].timers:
            self.take(self._numbers[0])
        return self._numbers[0] if self._numbers else None

    def take(self, number: int) -> _Bucket:
        """Remove the earliest bucket."""
        earliest = heappop(self._numbers)
        assert earliest == number
        return self._buckets.pop(number)

    def take_all(self) -> Iterable[_Bucket]:
        """Remove every bucket."""
        taken = self._buckets.values()
        self._buckets, self._numbers = {}, []
        return taken

    def in_order(self) -> Iterator[tuple[int, _Bucket]]:
        """The buckets with their numbers, earliest first."""
        for number in sorted(self._buckets):
            yield number, self._buckets[number]


class Wheel:
    """Timers by number; every number is pending at most once."""

    def __init__(self, now: Timestamp) -> None:
        assert now >= 0
        self._tick = now // TICK_NS
        self._dues: dict[int, Timestamp] = {}
        # A heap of timers whose tick is over. Cancelled ones stay until they surface.
        self._ripe: list[_Pending] = []
        self._rings = tuple(_Ring(shift) for shift in _SHIFTS)
        # The ring of a timer by the length of what differs between its tick and the wheel's.
        self._by_length = tuple(
            self._rings[sum(length > shift for shift in _SHIFTS[1:])]
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
        self._place(timer, due)
        self._dues[timer] = due

    def cancel(self, timer: int) -> bool:
        """Whether it was in time: from now on this timer does not fire."""
        due = self._dues.pop(timer, None)
        if due is None:
            return False
        tick = -(-due // TICK_NS)
        if tick > self._tick:
            ring = self._by_length[(tick ^ self._tick).bit_length()]
            bucket = ring.bucket(tick >> ring.shift)
            bucket.stale += 1
            # Searching the bucket each time would make this linear. Sweeping when the stale are
            # more than the rest costs each cancellation a constant share, and bounds the memory.
            if bucket.stale * 2 > len(bucket.timers):
                living = self._living(bucket, tick >> ring.shift, ring.shift)
                bucket.timers = array("q", [other for _, other in living])
                bucket.stale = 0
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
        while True:
            self._fire(fired, limit)
            if len(fired) == limit or not self._turn(tick):
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

    def page(self, skip: int, limit: int) -> list[Timer]:
        """Pending timers in the order in which they will fire; sorts only buckets that it shows."""
        ripe = self._living_ripe()
        shown = nsmallest(skip + limit, ripe)[skip:]
        skip = max(0, skip - len(ripe))
        for ring in self._rings:
            for number, bucket in ring.in_order():
                if len(shown) == limit:
                    break
                count = len(bucket.timers) - bucket.stale
                if count > skip:
                    living = self._living(bucket, number, ring.shift)
                    shown += nsmallest(skip + limit - len(shown), living)[skip:]
                skip = max(0, skip - count)
        return [(timer, due) for due, timer in shown]

    def _place(self, timer: int, due: Timestamp) -> None:
        tick = -(-due // TICK_NS)
        if tick <= self._tick:
            heappush(self._ripe, (due, timer))
            return
        ring = self._by_length[(tick ^ self._tick).bit_length()]
        ring.bucket(tick >> ring.shift).timers.append(timer)

    def _living(self, bucket: _Bucket, number: int, shift: int) -> list[_Pending]:
        """What a bucket holds but for the cancelled."""
        dues = self._dues
        if not bucket.stale:
            return [(dues[timer], timer) for timer in bucket.timers]
        # A number that was cancelled and used again may be here twice, or belong elsewhere now.
        return [
            (due, timer)
            for timer in dict.fromkeys(bucket.timers)
            if (due := dues.get(timer)) is not None and _tick_of(due) >> shift == number
        ]

    def _living_ripe(self) -> list[_Pending]:
        dues = self._dues
        return [(due, timer) for due, timer in dict.fromkeys(self._ripe) if dues.get(timer) == due]

    def _fire(self, fired: list[Timer], limit: int | None) -> None:
        """Hand out what is ripe, until nothing is left or the limit is reached."""
        ripe, dues = self._ripe, self._dues
        is_whole = limit is None or limit - len(fired) >= len(ripe)
        if is_whole:
            # Sorting once is several times faster than asking the heap for everything.
            ripe.sort(reverse=True)
        while ripe and len(fired) != limit:
            due, timer = ripe.pop() if is_whole else heappop(ripe)
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
            if number << ring.shift > tick:
                break
            self._tick = number << ring.shift
            living = self._living(ring.take(number), number, ring.shift)
            if ring.shift:
                for due, timer in living:
                    self._place(timer, due)
            else:
                # Sorted, it is a heap.
                self._ripe = sorted(living)
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
            for poured in ring.take_all():
                into = coarser.bucket(number)
                into.timers.extend(poured.timers)
                into.stale += poured.stale
        self._tick = tick
        ripe, self._ripe = self._living_ripe(), []
        for due, timer in ripe:
            self._place(timer, due)
