"""Who holds which messages of one partition, and until when.

Owns the leases of one group. Knows nothing of why one ends: the queue does. Never reads a clock.

Invariant: a message has at most one lease; a member's load is the number of leases that it has.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from goqueue.model import Instant, Offset
from goqueue.records import MessageSummary

__all__ = ["Lease", "LeaseTable"]

# Deadlines of leases that are over are dropped when there are so many more of them than leases.
_DEADLINES_MIN = 10_000
_UNLIMITED = 1 << 62


class Lease:
    """One message in the hands of one member."""

    __slots__ = ("attempt", "deadline", "member", "message", "offset", "serial")

    # `member` is an id, `serial` the number of the lease in this life of the broker.

    def __init__(
        self, message: MessageSummary, attempt: int, member: str, serial: int, deadline: Instant
    ) -> None:
        self.message = message
        # Of the message: it is asked for more often than all the rest.
        self.offset: Offset = message.offset  # type: ignore[assignment]  # to say so costs a call
        self.attempt = attempt
        self.member = member
        self.serial = serial
        self.deadline = deadline


class LeaseTable:
    """LeaseTable by offset."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}
        # Deadline, serial and offset. Those of leases that are over stay until they surface:
        # removing them on every ack would make the common path slow.
        self._deadlines: list[tuple[int, int, int]] = []
        self._loads: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, offset: int) -> bool:
        return offset in self._leases

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    @property
    def loads(self) -> Mapping[str, int]:
        """How many messages each member holds; those that hold none are left out."""
        return self._loads

    def load_of(self, member: str) -> int:
        """How many messages a member holds."""
        return self._loads.get(member, 0)

    def get(self, offset: int, serial: int) -> Lease | None:
        """The lease with this number, if it is not over."""
        held = self._leases.get(offset)
        return held if held is not None and held.serial == serial else None

    def below(self, offset: int) -> list[Lease]:
        """The leases of everything below an offset."""
        return [held for place, held in self._leases.items() if place < offset]

    def of_member(self, member: str) -> list[Lease]:
        return [held for held in self._leases.values() if held.member == member]

    # Changing

    def add(
        self,
        messages: Sequence[MessageSummary],
        attempts_of: Callable[[int], int],
        member: str,
        serial: int,
        deadline: Instant,
    ) -> list[Lease]:
        """Lease messages to a member, with serials from this one on."""
        self._tidy()
        added: list[Lease] = []
        deadlines = self._deadlines
        for message in messages:
            offset = message.offset
            held = Lease(message, attempts_of(offset) + 1, member, serial, deadline)
            self._leases[offset] = held
            heappush(deadlines, (deadline, serial, offset))
            added.append(held)
            serial += 1
        if added:
            self._loads[member] = self._loads.get(member, 0) + len(added)
        return added

    def restore(self, held: Lease) -> None:
        """A lease that was let go runs on to its deadline."""
        self._leases[held.offset] = held
        self._loads[held.member] = self._loads.get(held.member, 0) + 1
        heappush(self._deadlines, (held.deadline, held.serial, held.offset))

    def extend(self, held: Lease, deadline: Instant) -> None:
        """Hold a message until `deadline`, which may also be earlier than before."""
        held.deadline = deadline
        heappush(self._deadlines, (deadline, held.serial, held.offset))
        self._tidy()

    def remove(self, held: Lease) -> None:
        """A lease is over."""
        del self._leases[held.offset]
        load = self._loads[held.member] - 1
        if load:
            self._loads[held.member] = load
        else:
            del self._loads[held.member]

    # Time

    def next_deadline(self) -> int | None:
        """When the first lease runs out."""
        while self._deadlines and not self._is_current(self._deadlines[0]):
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now: Instant, count_max: int = _UNLIMITED) -> list[Lease]:
        """LeaseTable that ran out, earliest deadline first; each is still held until let go."""
        # A lease that was extended to a deadline which it had before is in the heap twice.
        expired: dict[int, Lease] = {}
        while self._deadlines and self._deadlines[0][0] <= now and len(expired) < count_max:
            entry = heappop(self._deadlines)
            if self._is_current(entry):
                expired[entry[2]] = self._leases[entry[2]]
        return list(expired.values())

    def _tidy(self) -> None:
        """Drop the deadlines of leases that ended before them: they could be hours away."""
        if len(self._deadlines) > _DEADLINES_MIN + 2 * len(self._leases):
            self._deadlines = sorted(entry for entry in self._deadlines if self._is_current(entry))

    def _is_current(self, entry: tuple[int, int, int]) -> bool:
        deadline, serial, offset = entry
        held = self._leases.get(offset)
        return held is not None and held.serial == serial and held.deadline == deadline
