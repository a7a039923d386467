"""The rings of a wheel and their buckets: where timers lie that are not due yet.

Owns the width of the buckets. Never knows the present: the wheel says which bucket is meant.

Invariant: the heap of a ring holds the number of each of its buckets exactly once.
"""

from array import array
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import cast

from goqueue.model import MILLISECOND, Timestamp

__all__ = ["SHIFTS", "TICK_NS", "Bucket", "DueOf", "Pending", "Ring"]

TICK_NS = 10 * MILLISECOND
# How many bits of the tick a bucket of each ring leaves open.
SHIFTS = (0, 8, 14, 20)

# When a timer is due and its number: this sorts in the order in which timers fire.
Pending = tuple[Timestamp, int]

# When a timer is due by its number; None if it is not pending.
DueOf = Callable[[int], Timestamp | None]


class Bucket:
    """Timers in no order. Cancelled ones stay until they are the greater part.

    Two columns of integers: an object for each timer would take several times the memory. The due
    time is here, too, so that emptying a bucket reads on instead of searching all over the index.
    """

    __slots__ = ("dues", "stale", "timers")

    def __init__(self) -> None:
        self.dues = array("q")
        self.timers = array("q")
        self.stale = 0

    @property
    def count(self) -> int:
        """How many timers are pending here."""
        return len(self.timers) - self.stale

    def pour(self, other: "Bucket") -> None:
        """Take in everything of another bucket."""
        self.timers.extend(other.timers)
        self.dues.extend(other.dues)
        self.stale += other.stale

    def living(self, due_of: DueOf) -> list[Pending]:
        """What is pending here, told what is pending at all."""
        # An array cannot say that its integers are times.
        living = cast("list[Pending]", list(zip(self.dues, self.timers, strict=True)))
        if not self.stale:
            return living
        living = [pending for pending in living if due_of(pending[1]) == pending[0]]
        # Cancelled and inserted again for the same time: both entries look alive.
        return living if len(living) == self.count else list(dict.fromkeys(living))

    def sweep(self, due_of: DueOf) -> None:
        """Forget the cancelled."""
        living = self.living(due_of)
        self.timers = array("q", [timer for _, timer in living])
        self.dues = array("q", [due for due, _ in living])
        self.stale = 0


class Ring:
    """Buckets of one width, by number: the ticks that they hold without their last bits."""

    __slots__ = ("_numbers", "buckets", "shift")

    def __init__(self, shift: int) -> None:
        self.shift = shift
        self.buckets: dict[int, Bucket] = {}
        # A heap of the same numbers.
        self._numbers: list[int] = []

    def bucket(self, number: int) -> Bucket:
        """The bucket of this number, begun if need be."""
        return self.buckets.get(number) or self.make(number)

    def make(self, number: int) -> Bucket:
        """Begin a bucket that is not there yet."""
        assert number not in self.buckets
        heappush(self._numbers, number)
        bucket = self.buckets[number] = Bucket()
        return bucket

    def first(self) -> int | None:
        """The number of the earliest bucket that holds something."""
        while self._numbers and not self.buckets[self._numbers[0]].timers:
            self.take(self._numbers[0])
        return self._numbers[0] if self._numbers else None

    def take(self, number: int) -> Bucket:
        """Remove the earliest bucket."""
        earliest = heappop(self._numbers)
        assert earliest == number
        return self.buckets.pop(number)

    def take_all(self) -> Iterable[Bucket]:
        """Remove every bucket."""
        taken = self.buckets.values()
        self.buckets, self._numbers = {}, []
        return taken

    def in_order(self) -> list[Bucket]:
        """The buckets, earliest first."""
        return [self.buckets[number] for number in sorted(self.buckets)]
