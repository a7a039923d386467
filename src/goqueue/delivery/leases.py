"""Who holds which messages of one partition, and until when: one entry for each lease.

A lease is what one poll got of one partition with one delivery count: up to a thousand messages
under one serial number. Which of them are still in flight is one number with a bit for each, in the
order of their offsets, so that to settle a whole lease costs little more than to settle one message
of it. A part of a lease that is extended has a deadline of its own.

Owns the leases of one group on one partition. Knows nothing of why one ends: the queue does. Never
reads a clock.

Invariant: a message is in flight in at most one lease; a member's load is the number of messages
that it has in flight; a message that is in flight has exactly one deadline.
Cost: one dictionary entry and one heap entry for each lease; O(log n) to find messages of it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain, compress, starmap
from operator import attrgetter
from typing import TypeVar

from goqueue.model import Folded, Instant, Range
from goqueue.records import MessageSummary

__all__ = ["Lease", "LeasePart", "LeaseTable"]

T = TypeVar("T")

# Deadlines of leases that are over are dropped when there are so many more of them than leases.
_DEADLINES_MIN = 10_000
_UNLIMITED = 1 << 62
# Of a lease with so many messages or more, those that are over are forgotten when they are most.
_SPARSE_MIN = 64
_SPARSE_SHARE = 4
# From so many ranges on they are first compared with the whole lease.
_SCATTERED_MIN = 8
# From the digits of a binary number to flags.
_FLAGS = bytes(1 if code == ord("1") else 0 for code in range(256))

_offset_of = attrgetter("offset")
_size_of = attrgetter("size")
_context_of = attrgetter("trace_context")


def _as_range(offsets: Sequence[int]) -> Sequence[int]:
    """Sorted offsets as a range, where none is missing between them."""
    first, following = offsets[0], offsets[-1] + 1
    return range(first, following) if following - first == len(offsets) else offsets


def _ones(low: int, count: int) -> int:
    """A number with so many bits set from `low` on."""
    return (1 << count) - 1 << low


def _picked(items: Sequence[T], mask: int) -> Sequence[T]:
    """The items whose bits are set."""
    count = mask.bit_count()
    if count == len(items):
        return items
    if not count:
        return ()
    low = (mask & -mask).bit_length() - 1
    if mask >> low == _ones(0, count):
        return items[low : low + count]
    return list(compress(items, _flags(mask)))


def _flags(mask: int) -> bytes:
    """The bits of a number, the lowest first."""
    return f"{mask:b}".encode()[::-1].translate(_FLAGS)


def _squeezed(mask: int, kept: int) -> int:
    """The bits of a mask at the places that are kept, beside each other."""
    bits = _flags(mask).ljust(kept.bit_length(), b"\0")
    return sum(1 << place for place, bit in enumerate(compress(bits, _flags(kept))) if bit)


def _lowest(mask: int, count: int) -> int:
    """The lowest bits of a mask, at most so many."""
    while mask.bit_count() > count:
        mask &= ~(1 << mask.bit_length() - 1)
    return mask


class Lease:
    """Messages of one partition in the hands of one member, with one delivery count."""

    __slots__ = (
        "_folded",
        "_has_contexts",
        "_is_sorted",
        "_messages",
        "attempt",
        "deadlines",
        "held",
        "in_flight",
        "member",
        "offsets",
        "serial",
    )

    def __init__(
        self,
        messages: Sequence[MessageSummary],
        delivered: Sequence[int],
        attempt: int,
        member: str,
        *,
        serial: int,
        deadline: Instant,
        is_rising: bool,
    ) -> None:
        """`delivered` are the offsets of the messages, both in the order of delivery.

        `is_rising` says that this is the order of the offsets; `serial` is unique in this life.
        """
        self._messages = messages
        # To sort numbers costs a third of sorting messages, at which hardly anybody looks again.
        self.offsets = _as_range(delivered if is_rising else sorted(delivered))
        self._is_sorted = is_rising
        self._folded: Folded | None = None
        self._has_contexts: bool | None = None
        self.attempt = attempt
        self.member = member
        self.serial = serial
        # A bit for each message: in flight, or held by a transaction.
        self.in_flight = _ones(0, len(messages))
        self.held = 0
        # Whose deadline is when. Bits of messages that are over stay until their deadline is.
        self.deadlines: dict[int, int] = {deadline: self.in_flight}

    @property
    def messages(self) -> Sequence[MessageSummary]:
        """The messages in the order of their offsets."""
        if not self._is_sorted:
            self._messages, self._is_sorted = sorted(self._messages, key=_offset_of), True
        return self._messages

    @property
    def folded(self) -> Folded:
        """The offsets in their shorter form."""
        if self._folded is None:
            self._folded = Folded.of(self.offsets)
        return self._folded

    @property
    def size(self) -> int:
        """The bytes of all its messages, be they in flight or not."""
        return sum(map(_size_of, self._messages))

    @property
    def has_trace_contexts(self) -> bool:
        """Whether a message has a trace context, be it in flight or not."""
        if self._has_contexts is None:
            self._has_contexts = any(map(_context_of, self._messages))
        return self._has_contexts

    def find(self, named: Folded) -> int:
        """The messages that are named, as bits, be they in flight or not."""
        # Who settles a scattered lease as a whole names it just as it is known here.
        if named.steps and named.steps == self.folded.steps:
            return _ones(0, len(self.offsets))
        return self.select(named.as_ranges())

    def select(self, ranges: Sequence[Range]) -> int:
        """The messages with these offsets, as bits, be they in flight or not."""
        offsets = self.offsets
        if len(ranges) >= _SCATTERED_MIN and self._are_all(ranges):
            return _ones(0, len(offsets))
        mask = 0
        for first, following in ranges:
            low = bisect_left(offsets, first)
            high = bisect_left(offsets, following, low)
            mask |= _ones(low, high - low)
        return mask

    def _are_all(self, ranges: Sequence[Range]) -> bool:
        """Whether rising ranges name the whole lease: comparing is cheaper than searching."""
        count = sum([following - first for first, following in ranges])
        if count != len(self.offsets):
            return False
        return list(chain.from_iterable(starmap(range, ranges))) == self.offsets

    def bit(self, offset: int) -> int:
        """The bit of one message; 0 if it is none of this lease."""
        place = bisect_left(self.offsets, offset)
        is_ours = place < len(self.offsets) and self.offsets[place] == offset
        return 1 << place if is_ours else 0

    def deadline_of(self, bit: int) -> Instant:
        """The deadline of one message."""
        return next(Instant(at) for at, mask in self.deadlines.items() if mask & bit)

    def is_sparse(self, sparse_min: int) -> bool:
        """Whether most of its messages are over, and there are many."""
        kept = (self.in_flight | self.held).bit_count()
        return len(self.offsets) >= max(sparse_min, _SPARSE_SHARE * kept)

    def forget_over(self) -> None:
        """Keep only what is in flight or held; parts that were made before are void."""
        kept = self.in_flight | self.held
        self._messages = _picked(self.messages, kept)
        self.offsets = _as_range(_picked(self.offsets, kept))
        self._folded = None
        self.deadlines = {
            at: squeezed
            for at, mask in self.deadlines.items()
            if (squeezed := _squeezed(mask & kept, kept))
        }
        self.in_flight, self.held = _squeezed(self.in_flight, kept), _squeezed(self.held, kept)

    def due(self, now: int) -> dict[int, int]:
        """What is in flight although its deadline is over, by that deadline."""
        return {
            at: over
            for at, mask in self.deadlines.items()
            if at <= now and (over := mask & self.in_flight)
        }


class LeasePart:
    """Some messages of one lease."""

    __slots__ = ("lease", "mask")

    def __init__(self, lease: Lease, mask: int) -> None:
        self.lease = lease
        self.mask = mask

    def __len__(self) -> int:
        return self.mask.bit_count()

    @property
    def offsets(self) -> Sequence[int]:
        """The offsets, in order."""
        return _picked(self.lease.offsets, self.mask)

    @property
    def folded(self) -> Folded:
        """The offsets in their shorter form."""
        is_whole = self.mask.bit_count() == len(self.lease.offsets)
        return self.lease.folded if is_whole else Folded.of(self.offsets)

    @property
    def messages(self) -> Sequence[MessageSummary]:
        """The messages, in the order of their offsets."""
        return _picked(self.lease.messages, self.mask)

    def without(self, mask: int) -> "LeasePart":
        return LeasePart(self.lease, self.mask & ~mask)


class LeaseTable:
    """The leases by their serial numbers."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}
        # Deadlines with serials. Those of leases that are over stay until they surface: removing
        # them on every ack would make the common path slow.
        self._deadlines: list[tuple[int, int]] = []
        self._loads: dict[str, int] = {}
        self._in_flight = 0
        self.sparse_min = _SPARSE_MIN
        # Leases of which most is over, by their serials: the next that begins has them tidied up.
        self._sparse: dict[int, None] = {}

    def __len__(self) -> int:
        """How many messages are in flight."""
        return self._in_flight

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    def find(self, offset: int) -> Lease | None:
        """The lease in which a message is in flight; costs by the number of leases."""
        found = (lease for lease in self if lease.bit(offset) & lease.in_flight)
        return next(found, None)

    @property
    def loads(self) -> Mapping[str, int]:
        """How many messages each member has in flight; those that have none are left out."""
        return self._loads

    def load_of(self, member: str) -> int:
        """How many messages a member has in flight."""
        return self._loads.get(member, 0)

    def get(self, serial: int) -> Lease | None:
        """The lease with this number, if it is not over."""
        return self._leases.get(serial)

    def below(self, offset: int) -> list[LeasePart]:
        """What is in flight below an offset."""
        return self._parts((lease, lease.select(((0, offset),))) for lease in self)

    def of_member(self, member: str) -> list[LeasePart]:
        """What a member has in flight."""
        return self._parts((lease, -1) for lease in self if lease.member == member)

    def _parts(self, chosen: Iterable[tuple[Lease, int]]) -> list[LeasePart]:
        return [
            LeasePart(lease, in_flight)
            for lease, mask in chosen
            if (in_flight := mask & lease.in_flight)
        ]

    # Changing

    def add(self, lease: Lease) -> None:
        """Messages are in flight from now on."""
        self._tidy()
        self._forget_over()
        self._leases[lease.serial] = lease
        self._count(lease.member, len(lease.offsets))
        for deadline in lease.deadlines:
            heappush(self._deadlines, (deadline, lease.serial))

    def remove(self, part: LeasePart) -> None:
        """Messages are in flight no longer."""
        lease = part.lease
        lease.in_flight &= ~part.mask
        self._count(lease.member, -len(part))
        self._drop_if_over(lease)
        if lease.is_sparse(self.sparse_min):
            self._sparse[lease.serial] = None

    def _forget_over(self) -> None:
        """Leases that are nearly over must not keep what they began with in memory.

        Done when another begins: then nobody has a part of one in hand.
        """
        for serial in self._sparse:
            lease = self._leases.get(serial)
            if lease is not None and lease.is_sparse(self.sparse_min):
                lease.forget_over()
        self._sparse.clear()

    def hold(self, part: LeasePart) -> None:
        """Messages are held instead of being in flight: `restore` brings them back."""
        part.lease.held |= part.mask
        self.remove(part)

    def restore(self, lease: Lease, bit: int) -> None:
        """A message that was held is in flight again, until its deadline."""
        lease.held &= ~bit
        lease.in_flight |= bit
        self._count(lease.member, 1)
        heappush(self._deadlines, (lease.deadline_of(bit), lease.serial))

    def let_go(self, lease: Lease, bit: int) -> None:
        """A message that was held does not come back to its lease."""
        lease.held &= ~bit
        self._drop_if_over(lease)

    def extend(self, part: LeasePart, deadline: Instant) -> None:
        """Hold messages until `deadline`, which may also be earlier than before."""
        lease, mask = part.lease, part.mask
        deadlines = {
            at: kept
            for at, of_deadline in lease.deadlines.items()
            if (kept := of_deadline & ~mask & (lease.in_flight | lease.held))
        }
        deadlines[deadline] = deadlines.get(deadline, 0) | mask
        lease.deadlines = deadlines
        heappush(self._deadlines, (deadline, lease.serial))
        self._tidy()

    def change_member(self, older: str, member: str) -> None:
        """What one member has in flight is another's from now on."""
        for lease in self:
            if lease.member == older:
                lease.member = member
        load = self._loads.pop(older, 0)
        if load:
            self._loads[member] = self._loads.get(member, 0) + load

    def _count(self, member: str, change: int) -> None:
        self._in_flight += change
        load = self._loads.get(member, 0) + change
        if load:
            self._loads[member] = load
        else:
            del self._loads[member]

    def _drop_if_over(self, lease: Lease) -> None:
        if not lease.in_flight and not lease.held:
            del self._leases[lease.serial]

    # Time

    def next_deadline(self) -> int | None:
        """When the first messages run out."""
        while self._deadlines and not self._is_current(self._deadlines[0]):
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now: Instant, count_max: int = _UNLIMITED) -> list[LeasePart]:
        """What ran out, earliest deadline first, at most so many messages.

        They are in flight still until they are removed, which is to happen in the same turn.
        """
        # A part that was extended to a deadline which it had before is in the heap twice.
        expired: dict[tuple[int, int], LeasePart] = {}
        while self._deadlines and self._deadlines[0][0] <= now and count_max > 0:
            entry = self._deadlines[0]
            lease = self._leases.get(entry[1])
            mask = 0 if lease is None else lease.deadlines.get(entry[0], 0) & lease.in_flight
            if lease is not None and mask and entry not in expired:
                part = LeasePart(lease, _lowest(mask, count_max))
                expired[entry] = part
                count_max -= len(part)
                if part.mask != mask:
                    # The rest is due still.
                    break
            heappop(self._deadlines)
        return list(expired.values())

    def _tidy(self) -> None:
        """Drop the deadlines of leases that ended before them: they could be hours away."""
        if len(self._deadlines) > _DEADLINES_MIN + 2 * len(self._leases):
            self._deadlines = sorted(
                entry for entry in dict.fromkeys(self._deadlines) if self._is_current(entry)
            )

    def _is_current(self, entry: tuple[int, int]) -> bool:
        deadline, serial = entry
        lease = self._leases.get(serial)
        return lease is not None and bool(lease.deadlines.get(deadline, 0) & lease.in_flight)
