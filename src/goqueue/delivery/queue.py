"""Messages of one partition on their way through one group: known, ready, held, resting.

Decides what becomes of each. Nothing here survives a crash: a new queue starts from the position,
and what was held is ready again. Never reads the log or a clock: the broker brings what it surveyed
and the time. What is settled here is journaled by the caller in the same step.

Invariant: a message below the cursor of its lane that is not done is in exactly one place: ready
in its lane, held by one member or by a transaction, resting, dying, or waiting for an earlier one
of its key.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from goqueue.delivery.key_order import KeyOrder
from goqueue.delivery.lanes import LANES, Lanes
from goqueue.delivery.leases import Held, Leases
from goqueue.delivery.position import Position
from goqueue.delivery.priority_index import PriorityIndex
from goqueue.delivery.ranges import Ranges
from goqueue.model import SECOND, Instant, Offset
from goqueue.model.requests import LaneSettings
from goqueue.records import MessageSummary

__all__ = ["IN_FLIGHT_MAX", "RESTING_MAX", "DeliveryQueue", "rest_ns"]

IN_FLIGHT_MAX = 1000
# So many messages of a group and partition may wait to be delivered again: each is kept in memory,
# with its count and its reason.
RESTING_MAX = 100_000
# Enough for the largest poll, so that a poll finds all that it may take.
_READY_MIN = 1000
# What is surveyed for one lane is learned by others in passing, beyond what they need, until there
# are so many (some 3 MB): else each would have the same records surveyed again for itself.
_READY_MAX = 24_000
# A key that is stuck holds up others of its partition only behind this many messages of its own.
_WAITING_MAX = 100_000
_REST_NS_MAX = 60 * SECOND
_DOUBLINGS_MAX = 6
_UNTIMED = Instant(0)
# Beyond every offset: nothing is learned for such a lane.
_NEVER = 1 << 63


def rest_ns(attempt: int) -> int:
    """How long a message rests that was given back: a second, then twice as long, at most 60 s."""
    return min(_REST_NS_MAX, SECOND << min(attempt - 1, _DOUBLINGS_MAX))


class DeliveryQueue:
    """What one group does with one partition right now."""

    def __init__(
        self, position: Position, *, keeps_key_order: bool, lanes: LaneSettings | None = None
    ) -> None:
        self._position = position
        self._done = position.done()
        # From here on no message is done that no lane has learned.
        self._unseen_from = int(self._done.end)
        # From here on nothing of a lane is known. They part only where a census tells what may be
        # skipped, and never where keys keep their order over all lanes.
        self._cursors = [int(position.floor)] * LANES
        self._lanes = Lanes(lanes)
        self._resting: list[tuple[int, MessageSummary]] = []
        self._leases = Leases()
        self._dying: dict[int, MessageSummary] = {}
        # Held by transactions; with the lease that ran when it was taken, if one did.
        self._pinned: dict[int, tuple[MessageSummary, Held | None]] = {}
        # Known before `relearn`, and not to be learned twice.
        self._elsewhere: dict[int, None] = {}
        self._order = KeyOrder() if keeps_key_order else None

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

    @property
    def lanes(self) -> Lanes:
        """What is ready, for those who count it."""
        return self._lanes

    @property
    def has_resting(self) -> bool:
        """Whether a message waits until it may be delivered again."""
        return bool(self._resting)

    @property
    def resting_count(self) -> int:
        """How many messages wait until they may be delivered again."""
        return len(self._resting)

    @property
    def in_flight(self) -> int:
        return len(self._leases)

    def held_by_lane(self) -> list[int]:
        """How many messages of each lane are held."""
        counts = [0] * LANES
        for held in self._leases:
            counts[held.message.priority] += 1
        return counts

    @property
    def loads(self) -> Mapping[str, int]:
        """How many messages each member holds; those that hold none are left out."""
        return self._leases.loads

    def load_of(self, member: str) -> int:
        """How many messages a member holds."""
        return self._leases.load_of(member)

    def missing_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are not done."""
        return self._done.missing_within(first, end)

    # Learning

    def wanted(self, end: int, census: PriorityIndex | None = None) -> Offset | None:
        """Where to survey next, if something below `end` should be: for the first lane that lacks.

        A census tells which offsets hold nothing of a lane.
        """
        if self._order is not None and len(self._order) >= _WAITING_MAX:
            return None
        # What is done already is neither read nor learned, however much it is.
        self._cursors = [
            self._done.next_missing(cursor) if cursor < end else cursor for cursor in self._cursors
        ]
        if census is None or self._order is not None:
            cursor = min(self._cursors)
            return Offset(cursor) if cursor < end and len(self._lanes) < _READY_MIN else None
        self._skip(census)
        for lane, cursor in enumerate(self._cursors):
            if cursor < end and self._lanes.ready(lane) < _READY_MIN:
                return Offset(cursor)
        return None

    def _skip(self, census: PriorityIndex) -> None:
        """Let each lane pass over what holds nothing of it."""
        before = min(self._cursors)
        self._cursors = [int(census.next(lane, at)) for lane, at in enumerate(self._cursors)]
        # What every lane skips is surveyed for none of them: nobody else would see it is done.
        for first, following in census.vacant(before, min(self._cursors)):
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
        self._note_gaps(known, expected, following)
        self._admit([message for message in known if message.offset >= cursors[message.priority]])
        for lane, cursor in enumerate(self._cursors):
            if expected <= cursor < following and cursors[lane] != _NEVER:
                self._cursors[lane] = following

    def _note_gaps(self, known: Sequence[MessageSummary], first: int, following: int) -> None:
        """What is between the messages is done by itself."""
        if known and len(known) == following - first and known[0].offset == first:
            return
        for message in known:
            if message.offset > first:
                self._done.add(first, message.offset)
            first = max(first, message.offset + 1)
        self._done.add(first, following)

    def _admit(self, fresh: list[MessageSummary]) -> None:
        """Let messages into their lanes, unless they are done, elsewhere, dying, or must wait."""
        if fresh and fresh[0].offset < self._unseen_from:
            fresh = [message for message in fresh if message.offset not in self._done]
        is_held = self._position.has_dying or self._position.pins
        if self._order is None and not self._elsewhere and not is_held:
            self._lanes.put_all(fresh)
            return
        for message in fresh:
            offset = message.offset
            if offset in self._elsewhere:
                continue
            if self._order is not None and not self._order.admit(message):
                continue
            if self._position.is_dying(offset):
                self._dying[offset] = message
            elif offset in self._position.pins:
                self._pinned[offset] = (message, None)
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
        elsewhere = [held.message for held in self._leases]
        elsewhere.extend(self._dying.values())
        elsewhere.extend(message for message, _ in self._pinned.values())
        elsewhere.extend(message for _, message in self._resting)
        self._elsewhere = dict.fromkeys(message.offset for message in elsewhere)
        if self._order is not None:
            for message in sorted(elsewhere):
                self._order.admit(message)

    def pass_over(self, offset: int) -> list[Held]:
        """Everything below `offset` is gone or was committed as a whole; what was held of it."""
        self._cursors = [max(cursor, offset) for cursor in self._cursors]
        if offset <= self._done.floor:
            return []
        self._done.raise_floor(offset)
        retired = self._lanes.keep_from(offset)
        leases = self._leases.below(offset)
        for held in leases:
            self._leases.let_go(held)
            retired.append(held.message)
        retired.extend(self._dying.pop(place) for place in list(self._dying) if place < offset)
        retired.extend(self._pinned.pop(place)[0] for place in list(self._pinned) if place < offset)
        retired.extend(message for _, message in self._resting if message.offset < offset)
        self._resting = sorted(entry for entry in self._resting if entry[1].offset >= offset)
        for message in retired:
            self._retire(message)
        return leases

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
    ) -> list[Held]:
        """Hand out what is ready, lane by lane; the first even if it is larger than allowed.

        Without the time no lane is served for having waited long.
        """
        room = min(count_max, IN_FLIGHT_MAX - self._leases.load_of(member))
        if room <= 0:
            return []
        taken = self._lanes.take(room, bytes_max, now)
        return self._leases.add(taken, self._position.attempts_of, member, serial, deadline)

    def held(self, offset: int, serial: int) -> Held | None:
        """The lease that a receipt names, if it is not over."""
        pinned = self._pinned.get(offset) if self._pinned else None
        if pinned is not None and pinned[1] is not None and pinned[1].serial == serial:
            # If its transaction was aborted, the step that gives it back is still to come.
            self.release_pinned((offset,))
        return self._leases.get(offset, serial)

    def extend(self, held: Held, deadline: Instant) -> None:
        """Hold a message until `deadline`, which may also be earlier than before."""
        self._leases.extend(held, deadline)

    def settle(self, settled: Sequence[Held]) -> list[int]:
        """These messages are done with; their offsets in order."""
        for held in settled:
            self._leases.let_go(held)
        offsets: list[int] = sorted([held.offset for held in settled])
        self._done.add_all(offsets)
        if self._order is not None:
            for held in settled:
                self._retire(held.message)
        return offsets

    def give_back(self, held: Held, visible_at: Instant | None = None) -> None:
        """The message will be delivered again, to anyone: now, or when it has rested."""
        self._leases.let_go(held)
        if visible_at is None:
            self._offer(held.message)
        else:
            heappush(self._resting, (visible_at, held.message))

    # Transactions

    def pin(self, leases: Sequence[Held]) -> None:
        """A transaction takes these leases: they neither run out nor are settled by anyone else."""
        for held in leases:
            self._leases.let_go(held)
            self._pinned[held.offset] = (held.message, held)

    def withdraw(self, floor: int) -> None:
        """A transaction holds all below `floor`: what is ready there is handed to nobody."""
        for message in self._lanes.keep_from(floor):
            self._offer(message)

    def settle_pinned(self, offsets: Sequence[int]) -> list[Held]:
        """The transaction has committed: these messages are done with; the leases of some."""
        self._finish_unseen(offsets)
        leases: list[Held] = []
        for offset in offsets:
            entry = self._pinned.pop(offset, None)
            if entry is not None:
                self._retire(entry[0])
                if entry[1] is not None:
                    leases.append(entry[1])
        return leases

    def pinned(self, offset: int) -> Held | None:
        """The lease by which a transaction holds a message, if it was taken in this life."""
        entry = self._pinned.get(offset)
        return None if entry is None else entry[1]

    def pinned_below(self, floor: int) -> list[int]:
        """What transactions hold below an offset."""
        return [offset for offset in self._pinned if offset < floor]

    def release_pinned(self, offsets: Sequence[int]) -> None:
        """A transaction was aborted: what nobody else holds is ready again, leases run on."""
        pins = self._position.pins
        for offset in offsets:
            if offset not in self._pinned or offset in pins or self._position.has_settled(offset):
                continue
            known, held = self._pinned.pop(offset)
            if held is None:
                self._lanes.put_back(known)
            else:
                self._leases.put_back(held)

    def _offer(self, message: MessageSummary) -> None:
        """Make a message ready, unless a transaction holds it."""
        if self._position.pins and message.offset in self._position.pins:
            self._pinned[message.offset] = (message, None)
        else:
            self._lanes.put_back(message)

    # Dying

    def bury(self, held: Held) -> None:
        """The message leaves for the dead letters; `finish` tells that it has arrived."""
        self._leases.let_go(held)
        self._dying[held.offset] = held.message

    def finish(self, offsets: Sequence[int]) -> None:
        """Messages have arrived among the dead letters; in order."""
        self._finish_unseen(offsets)
        for offset in offsets:
            known = self._dying.pop(offset, None)
            if known is not None:
                self._retire(known)

    def free(self, member: str) -> int:
        """A member is gone: all that it held is ready again. How many there were."""
        for offset, (known, pinned) in self._pinned.items():
            if pinned is not None and pinned.member == member:
                # What a transaction holds it goes on holding, but the lease is over.
                self._pinned[offset] = (known, None)
        if not self._leases.load_of(member):
            return 0
        freed = self._leases.of_member(member)
        for held in freed:
            self.give_back(held)
        return len(freed)

    # Time

    def next_deadline(self) -> Instant | None:
        """When `expire` wants to be called."""
        first = self._leases.next_deadline()
        candidates = [] if first is None else [first]
        if self._resting:
            candidates.append(self._resting[0][0])
        return Instant(min(candidates)) if candidates else None

    def expire(self, now: Instant, count_max: int = 1 << 62) -> list[Held]:
        """Leases that ran out, earliest deadline first; each is still held until given back.

        Messages that have rested are ready again. So many of both are dealt with at most: what is
        left is due still.
        """
        while self._resting and self._resting[0][0] <= now and count_max > 0:
            self._offer(heappop(self._resting)[1])
            count_max -= 1
        return self._leases.expired(now, count_max)

    def _retire(self, known: MessageSummary) -> None:
        """Let the next message of the same key through, past those that are done by themselves."""
        if self._order is None or not known.key:
            return
        following = self._order.release(known)
        while following is not None and following.offset in self._done:
            following = self._order.release(following)
        if following is None:
            return
        if self._position.is_dying(following.offset):
            self._dying[following.offset] = following
        else:
            self._offer(following)
