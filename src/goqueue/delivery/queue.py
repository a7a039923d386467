"""The messages of one partition that one group has not settled: the queue machine.

Decides which state each message is in (see `MessageState`) and what may be leased next. Nothing
here survives a crash: a new queue starts from the position, and what was in flight is available
again. Never reads the log or a clock: the broker brings what it read ahead, and the time. What is
settled here is journaled by the caller in the same turn.

Invariant: a message below the cursor of its lane that is not settled is in exactly one place: ready
in its lane, behind an earlier one of its key, leased, in backoff, dead-lettering, or held by a
transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from goqueue.delivery.key_order import KeyOrder
from goqueue.delivery.lanes import LANES, Lanes
from goqueue.delivery.leases import Lease, LeasePart, LeaseTable
from goqueue.delivery.message_state import MessageState
from goqueue.delivery.position import Position
from goqueue.delivery.priority_index import PriorityIndex
from goqueue.delivery.ranges import Ranges
from goqueue.model import SECOND, Folded, Instant, Offset
from goqueue.model.requests import LaneSettings
from goqueue.records import MessageSummary

__all__ = [
    "BACKOFF_MAX",
    "IN_FLIGHT_MAX",
    "RECEIVED_MAX",
    "DeliveryQueue",
    "NewLease",
    "backoff_ns",
]

IN_FLIGHT_MAX = 1000
# The same for all clients together that receive without joining.
RECEIVED_MAX = 100_000
# So many messages of a group and partition may wait to be delivered again: each is kept in memory,
# with its count and its reason.
BACKOFF_MAX = 100_000
# Enough for the largest poll, so that a poll finds all that it may take.
_READY_MIN = 1000
# What is surveyed for one lane is learned by others in passing, beyond what they need, until there
# are so many (some 3 MB): else each would have the same records surveyed again for itself.
_READY_MAX = 24_000
# A key that is stuck holds up others of its partition only behind this many messages of its own.
_WAITING_MAX = 100_000
_BACKOFF_NS_MAX = 60 * SECOND
_DOUBLINGS_MAX = 6
_UNTIMED = Instant(0)
# Beyond every offset: nothing is learned for such a lane.
_NEVER = 1 << 63

_offset_of = attrgetter("offset")


def backoff_ns(attempt: int) -> int:
    """The backoff of a nacked message: one second, doubled with each attempt, at most 60 s."""
    return min(_BACKOFF_NS_MAX, SECOND << min(attempt - 1, _DOUBLINGS_MAX))


class NewLease(NamedTuple):
    """A lease that has just begun, and its offsets in the order in which they are delivered."""

    lease: Lease
    offsets: Sequence[int]


class _OfAttempt(NamedTuple):
    """Messages that were delivered equally often, and their offsets in the same order."""

    attempts: int
    messages: list[MessageSummary]
    offsets: list[int]


class _HeldMessage(NamedTuple):
    """A message that a transaction holds, with the lease that ran when it was added, if one did."""

    message: MessageSummary
    lease: Lease | None


class DeliveryQueue:
    """What one group does with one partition right now."""

    def __init__(
        self, position: Position, *, keeps_key_order: bool, lanes: LaneSettings | None = None
    ) -> None:
        self._position = position
        self._done = position.done()
        # From here on no message is done that no lane has learned.
        self._unseen_from = int(self._done.end)
        # From here on nothing of a lane is known. They part only where a priority index tells what
        # may be skipped, and never where keys keep their order over all lanes.
        self._cursors = [int(position.floor)] * LANES
        self._lanes = Lanes(lanes)
        # A heap of what is in backoff, by the instant at which that ends.
        self._backoff: list[tuple[int, MessageSummary]] = []
        self._leases = LeaseTable()
        self._dead_lettering: dict[int, MessageSummary] = {}
        self._held: dict[int, _HeldMessage] = {}
        # Known before `relearn`, and not to be learned twice.
        self._elsewhere: dict[int, None] = {}
        self._order = KeyOrder() if keeps_key_order else None

    def state_of(self, offset: int) -> MessageState:
        """The state of a message; costs by the number of leases and of messages in backoff."""
        if offset in self._done:
            return MessageState.SETTLED
        if self._leases.find(offset) is not None:
            return MessageState.IN_FLIGHT
        if offset in self._dead_lettering or self._position.is_dead_lettering(offset):
            return MessageState.DEAD_LETTERING
        if offset in self._held:
            return MessageState.HELD
        if any(message.offset == offset for _, message in self._backoff):
            return MessageState.BACKOFF
        if offset in self._position.holds:
            # It is not read yet, and goes to those that are held when it is.
            return MessageState.HELD
        return MessageState.AVAILABLE

    @property
    def keeps_key_order(self) -> bool:
        return self._order is not None

    @property
    def cursor(self) -> Offset:
        """Below this everything is known."""
        return Offset(min(self._cursors))

    @property
    def floor(self) -> Offset:
        """The lowest offset that is not done."""
        return self._done.floor

    @property
    def is_ready(self) -> bool:
        """Whether a lease might find something."""
        return len(self._lanes) > 0

    def has_nothing_within(self, start: int, end: int) -> bool:
        """Whether all of a log with these ends is known, and nothing of it is ready."""
        return min(self._cursors) >= end and self._done.floor >= start and not len(self._lanes)

    @property
    def lanes(self) -> Lanes:
        """What is ready, for those who count it."""
        return self._lanes

    @property
    def backoff_count(self) -> int:
        """How many messages are in backoff."""
        return len(self._backoff)

    @property
    def in_flight(self) -> int:
        return len(self._leases)

    def in_flight_by_lane(self) -> list[int]:
        """How many messages of each lane are in flight."""
        counts = [0] * LANES
        for lease in self._leases:
            for message in LeasePart(lease, lease.in_flight).messages:
                counts[message.priority] += 1
        return counts

    @property
    def loads(self) -> Mapping[str, int]:
        """How many messages each member has in flight; those that have none are left out."""
        return self._leases.loads

    def load_of(self, member: str) -> int:
        """How many messages a member has in flight."""
        return self._leases.load_of(member)

    def missing_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are not done."""
        return self._done.missing_within(first, end)

    # Learning

    def wanted(self, end: int, priority_index: PriorityIndex | None = None) -> Offset | None:
        """Where to survey next, if something below `end` should be: for the first lane that lacks.

        A priority_index tells which offsets hold nothing of a lane.
        """
        if self._order is not None and len(self._order) >= _WAITING_MAX:
            return None
        # What is done already is neither read nor learned, however much it is.
        self._cursors = [
            self._done.next_missing(cursor) if cursor < end else cursor for cursor in self._cursors
        ]
        if priority_index is None or self._order is not None:
            cursor = min(self._cursors)
            return Offset(cursor) if cursor < end and len(self._lanes) < _READY_MIN else None
        self._skip(priority_index)
        for lane, cursor in enumerate(self._cursors):
            if cursor < end and self._lanes.ready(lane) < _READY_MIN:
                return Offset(cursor)
        return None

    def _skip(self, priority_index: PriorityIndex) -> None:
        """Let each lane pass over what holds nothing of it."""
        before = min(self._cursors)
        self._cursors = [
            int(priority_index.next(lane, at)) for lane, at in enumerate(self._cursors)
        ]
        # What every lane skips is surveyed for none of them: nobody else would see it is done.
        for first, following in priority_index.vacant(before, min(self._cursors)):
            self._done.add(first, following)

    def learn(
        self, known: Sequence[MessageSummary], next_offset: int, first: int | None = None
    ) -> None:
        """Take in the messages from `first` (the cursor) up to `next_offset`; all others are done.

        A lane that has not come to `first` yet learns nothing: it would learn it twice.
        """
        expected = self.cursor if first is None else first
        cursors = [
            cursor if cursor >= expected and not self._is_full(lane) else _NEVER
            for lane, cursor in enumerate(self._cursors)
        ]
        following = max(known[-1].offset + 1 if known else 0, expected, next_offset)
        self._settle_gaps(known, expected, following)
        self._admit([message for message in known if message.offset >= cursors[message.priority]])
        for lane, cursor in enumerate(self._cursors):
            if expected <= cursor < following and cursors[lane] != _NEVER:
                self._cursors[lane] = following

    def _settle_gaps(self, known: Sequence[MessageSummary], first: int, following: int) -> None:
        """What is between the messages is done by itself."""
        if known and len(known) == following - first and known[0].offset == first:
            return
        for message in known:
            if message.offset > first:
                self._done.add(first, message.offset)
            first = max(first, message.offset + 1)
        self._done.add(first, following)

    def _admit(self, fresh: list[MessageSummary]) -> None:
        """Let messages into their lanes that are available and need not wait for their key."""
        if fresh and fresh[0].offset < self._unseen_from:
            fresh = [message for message in fresh if message.offset not in self._done]
        is_held = self._position.has_dead_lettering or self._position.holds
        if self._order is None and not self._elsewhere and not is_held:
            self._lanes.put_all(fresh)
            return
        for message in fresh:
            offset = message.offset
            if offset in self._elsewhere:
                continue
            if self._order is not None and not self._order.admit(message):
                continue
            if self._position.is_dead_lettering(offset):
                self._dead_lettering[offset] = message
            elif offset in self._position.holds:
                self._held[offset] = _HeldMessage(message, None)
            else:
                self._lanes.put(message)

    def _is_full(self, lane: int) -> bool:
        """Whether a lane has all that it may keep in memory; it looks again when it has less."""
        is_enough = len(self._lanes) >= _READY_MAX and self._lanes.ready(lane) >= _READY_MIN
        return self._order is None and is_enough

    def hide(self, first: int, count: int = 1) -> None:
        """Records beside each other that are no messages: they are done by themselves."""
        self._finish_unseen(range(first, first + count))

    def hide_all(self, hidden: Ranges) -> None:
        """As `hide`, for all that was known when the queue began."""
        self._done.add_set(hidden)
        self._unseen_from = max(self._unseen_from, self._done.end)

    def _finish_unseen(self, offsets: Sequence[int]) -> None:
        """These, in order, are done with; their lanes may not have come to them yet."""
        self._done.add_all(offsets)
        if offsets:
            self._unseen_from = max(self._unseen_from, offsets[-1] + 1)

    def relearn(self) -> None:
        """Forget what is ready and was never handed out: some of it may be gone from the log."""
        ready = self._lanes.clear()
        if self._order is not None:
            ready.extend(self._order.clear())
        if not ready:
            return
        lowest = min(message.offset for message in ready)
        self._unseen_from = max(self._unseen_from, *self._cursors)
        self._cursors = [min(cursor, lowest) for cursor in self._cursors]
        elsewhere: list[MessageSummary] = []
        for lease in self._leases:
            elsewhere.extend(LeasePart(lease, lease.in_flight).messages)
        elsewhere.extend(self._dead_lettering.values())
        elsewhere.extend(entry.message for entry in self._held.values())
        elsewhere.extend(message for _, message in self._backoff)
        self._elsewhere = dict.fromkeys(message.offset for message in elsewhere)
        if self._order is not None:
            for message in sorted(elsewhere, key=_offset_of):
                self._order.admit(message)

    def settle_below(self, offset: int) -> list[LeasePart]:
        """Any state → settled, below `offset`: committed past, or gone. What was in flight."""
        self._cursors = [max(cursor, offset) for cursor in self._cursors]
        if offset <= self._done.floor:
            return []
        self._done.raise_floor(offset)
        retired = self._lanes.keep_from(offset)
        ended = self._leases.below(offset)
        for part in ended:
            self._leases.remove(part)
            retired.extend(part.messages)
        retired.extend(
            self._dead_lettering.pop(place)
            for place in list(self._dead_lettering)
            if place < offset
        )
        retired.extend(
            self._take_held(place).message for place in list(self._held) if place < offset
        )
        retired.extend(message for _, message in self._backoff if message.offset < offset)
        self._backoff = sorted(entry for entry in self._backoff if entry[1].offset >= offset)
        for message in retired:
            self._release_key(message)
        return ended

    # Leasing

    def lease(
        self,
        member: str,
        count_max: int,
        bytes_max: int,
        deadline: Instant,
        serial: int,
        *,
        now: Instant = _UNTIMED,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> list[NewLease]:
        """Hand out what is ready, lane by lane; the first even if it is larger than allowed.

        One lease, with the serial that is given, or several with those after it: all messages of a
        lease were delivered equally often. Without the time no lane is served for having waited.
        """
        room = min(count_max, in_flight_max - self._leases.load_of(member))
        if room <= 0:
            return []
        taken = self._lanes.take(room, bytes_max, now)
        if not taken.messages:
            return []
        begun: list[NewLease] = []
        for attempts, messages, offsets in self._by_attempts(taken.messages):
            lease = Lease(
                messages,
                offsets,
                attempts + 1,
                member,
                serial=serial,
                deadline=deadline,
                is_rising=taken.is_rising,
            )
            self._leases.add(lease)
            begun.append(NewLease(lease, lease.offsets if taken.is_rising else offsets))
            serial += 1
        return begun

    def _by_attempts(self, taken: list[MessageSummary]) -> Iterable[_OfAttempt]:
        """What is taken, in its order, cut where the number of earlier deliveries changes."""
        position = self._position
        offsets = list(map(_offset_of, taken))
        if not position.has_attempts_of(offsets):
            yield _OfAttempt(0, taken, offsets)
            return
        for attempts, group in groupby(taken, lambda message: position.attempts_of(message.offset)):
            messages = list(group)
            yield _OfAttempt(attempts, messages, list(map(_offset_of, messages)))

    def find_lease(self, serial: int, named: Folded) -> LeasePart | None:
        """What is in flight of the messages that a lease is asked for; None if it is over."""
        lease = self._leases.get(serial)
        if lease is None:
            return None
        mask = lease.find(named)
        if mask & lease.held:
            # If their transaction was aborted, the step that releases them is still to come.
            self.release_held(LeasePart(lease, mask & lease.held).offsets)
        return LeasePart(lease, mask & lease.in_flight)

    def extend(self, part: LeasePart, deadline: Instant) -> None:
        """Lease messages until `deadline`, which may also be earlier than before."""
        self._leases.extend(part, deadline)

    def ack(self, parts: Sequence[LeasePart]) -> Sequence[int]:
        """In flight → settled. The offsets in order."""
        for part in parts:
            self._leases.remove(part)
        if len(parts) == 1:
            offsets = parts[0].offsets
        else:
            offsets = sorted([offset for part in parts for offset in part.offsets])
        self._done.add_all(offsets)
        if self._order is not None:
            for part in parts:
                for message in part.messages:
                    self._release_key(message)
        return offsets

    def release(self, part: LeasePart) -> None:
        """In flight → available: not begun, or expired, or its member is gone."""
        self._leases.remove(part)
        for message in part.messages:
            self._offer(message)

    def nack(self, part: LeasePart, visible_at: Instant) -> None:
        """In flight → backoff, until `visible_at`."""
        self._leases.remove(part)
        for message in part.messages:
            heappush(self._backoff, (visible_at, message))

    def reject(self, part: LeasePart) -> None:
        """In flight → dead-lettering; `settle_dead_letters` ends it."""
        self._leases.remove(part)
        for message in part.messages:
            self._dead_lettering[message.offset] = message

    def settle_dead_letters(self, offsets: Sequence[int]) -> None:
        """Dead-lettering → settled: the copies are committed; in order."""
        self._finish_unseen(offsets)
        for offset in offsets:
            message = self._dead_lettering.pop(offset, None)
            if message is not None:
                self._release_key(message)

    def cancel_dead_letter(self, offset: int) -> None:
        """Dead-lettering → available: there is no place for the copy."""
        message = self._dead_lettering.pop(offset, None)
        if message is not None:
            self._offer(message)

    def release_member(self, member: str) -> int:
        """A member is gone: what it has in flight is available. How many messages those were."""
        for offset, entry in list(self._held.items()):
            if entry.lease is not None and entry.lease.member == member:
                # The transaction still holds the message, but the lease is over.
                self._held[offset] = _HeldMessage(self._take_held(offset).message, None)
        if not self._leases.load_of(member):
            return 0
        parts = self._leases.of_member(member)
        for part in parts:
            self.release(part)
        return sum(map(len, parts))

    def change_member(self, older: str, member: str) -> None:
        """A member takes the place of an older one, with all that it has in flight."""
        for entry in self._held.values():
            if entry.lease is not None and entry.lease.member == older:
                entry.lease.member = member
        self._leases.change_member(older, member)

    # Transactions

    def hold(self, part: LeasePart) -> None:
        """In flight → held: a transaction adds these, which then neither expire nor are acked."""
        for message in part.messages:
            self._held[message.offset] = _HeldMessage(message, part.lease)
        self._leases.hold(part)

    def hold_below(self, floor: int) -> None:
        """Available → held, all below `floor`: a transaction adds an offset."""
        for message in self._lanes.keep_from(floor):
            self._offer(message)

    def ack_held(self, offsets: Sequence[int]) -> list[LeasePart]:
        """Held → settled: the transaction has committed. The leases by which some were held."""
        self._finish_unseen(offsets)
        masks: dict[Lease, int] = {}
        for offset in offsets:
            if offset in self._held:
                entry = self._take_held(offset)
                self._release_key(entry.message)
                if entry.lease is not None:
                    masks[entry.lease] = masks.get(entry.lease, 0) | entry.lease.bit(offset)
        return [LeasePart(lease, mask) for lease, mask in masks.items()]

    def _take_held(self, offset: int) -> _HeldMessage:
        """A transaction holds a message no longer, nor does it come back to its lease."""
        entry = self._held.pop(offset)
        if entry.lease is not None:
            self._leases.let_go(entry.lease, entry.lease.bit(offset))
        return entry

    def release_held(self, offsets: Sequence[int]) -> None:
        """Held → in flight, where a lease runs on, else available: the transaction was aborted.

        What another transaction holds as well stays held.
        """
        holds = self._position.holds
        for offset in offsets:
            if offset not in self._held or offset in holds or self._position.has_settled(offset):
                continue
            entry = self._held.pop(offset)
            if entry.lease is None:
                self._lanes.put_back(entry.message)
            else:
                self._leases.restore(entry.lease, entry.lease.bit(offset))

    def held_lease(self, offset: int) -> Lease | None:
        """The lease by which a transaction holds a message, if it was added in this life."""
        entry = self._held.get(offset)
        return None if entry is None else entry.lease

    def held_below(self, floor: int) -> list[int]:
        """What transactions hold below an offset."""
        return [offset for offset in self._held if offset < floor]

    def _offer(self, message: MessageSummary) -> None:
        """Make a message available, unless a transaction holds it."""
        if self._position.holds and message.offset in self._position.holds:
            self._held[message.offset] = _HeldMessage(message, None)
        else:
            self._lanes.put_back(message)

    # Time

    def next_deadline(self) -> Instant | None:
        """When `expire` wants to be called."""
        first = self._leases.next_deadline()
        candidates = [] if first is None else [first]
        if self._backoff:
            candidates.append(self._backoff[0][0])
        return Instant(min(candidates)) if candidates else None

    def expire(self, now: Instant, count_max: int = 1 << 62) -> list[LeasePart]:
        """What ran out, earliest deadline first; in flight until it is released or rejected.

        Messages whose backoff is over are available. At most `count_max` of both are dealt with:
        what is left is due still.
        """
        while self._backoff and self._backoff[0][0] <= now and count_max > 0:
            self._offer(heappop(self._backoff)[1])
            count_max -= 1
        return self._leases.expired(now, count_max)

    def _release_key(self, message: MessageSummary) -> None:
        """A message is settled: the next of its key is available, past those that are done."""
        if self._order is None or not message.key:
            return
        following = self._order.release(message)
        while following is not None and following.offset in self._done:
            following = self._order.release(following)
        if following is None:
            return
        if self._position.is_dead_lettering(following.offset):
            self._dead_lettering[following.offset] = following
        else:
            self._offer(following)
