"""The delayed messages of one partition: which wait, which were delivered, which were cancelled.

A delayed message is a record that every reader skips; when it is due it is appended once more, and
that second record is its delivery. All of this is a function of the log: what this module knows is
rebuilt by passing over it, and a snapshot only saves the passing.

Owns the wheel of the partition. Never appends: the broker is told what is due, and tells what came
of it.

Invariant: a message is pending exactly as long as neither its delivery nor its cancellation is in
the log; while one of them is on its way there it is *leaving* and does not fire again.
What is due beyond the reach of the wheel has no timer before it comes near: see `FarDelays`.
Memory: 24 bytes for each delayed record in the log, and the timers of those that are due within the
reach of the wheel.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Sequence
from itertools import compress
from operator import lt

import msgspec

from goqueue.delivery.delays_copy import DelaysCopy, DelaysStated, read_column
from goqueue.delivery.far_delays import FarDelays
from goqueue.delivery.ranges import Ranges
from goqueue.delivery.wheel import WHEEL_REACH_NS, Wheel
from goqueue.model import Offset, Priority, Timestamp, TransactionKey
from goqueue.model.requests import DelayState

__all__ = ["Delayed", "Delays"]

_PENDING = -1
_CANCELLED = -2
_EXPIRED = -3
# Part of a transaction that is open, or of one that was aborted: nobody knows of it.
_HELD = -4
_ABORTED = -5
_PRIORITY_BITS = 3
# By priority, the outcome of what is pending.
_WAITING = tuple(_PENDING << _PRIORITY_BITS | priority for priority in range(1 << _PRIORITY_BITS))
# What is due later than this from now has no timer.
REACH_NS = WHEEL_REACH_NS
# So many blocks of far messages are looked through at once: about a millisecond.
_BLOCKS_AT_ONCE = 4
# So many entries of a snapshot are taken in at once: about two milliseconds.
_RESTORED_AT_ONCE = 4_096
# Above every offset: nothing of the log can be lost any more.
_NEVER_LOST = 1 << 63


class Delayed(msgspec.Struct, frozen=True, kw_only=True):
    """One delayed message."""

    offset: Offset
    due: Timestamp
    priority: Priority
    state: DelayState
    delivered_offset: Offset | None = None


class Delays:
    """Delayed messages by their first offset."""

    def __init__(self, now: Timestamp, reach_ns: int | None = None) -> None:
        self._wheel = Wheel(now)
        self._reach_ns = REACH_NS if reach_ns is None else reach_ns
        self._now = now
        self._far = FarDelays()
        # How many entries were dropped: the numbers of entries count from the first of all.
        self._dropped = 0
        self._offsets = array("q")
        self._dues = array("q")
        # The offset of the delivery or a negative number, and the priority in the lowest bits.
        self._outcomes = array("q")
        # Records that are no messages: cancellations.
        self._controls = array("q")
        # Both of them, for queues that begin.
        self._hidden = Ranges()
        self._leaving: dict[int, None] = {}
        self._held: dict[TransactionKey, list[int]] = {}
        self._first_needed = 0
        self._changes = 0
        # A statement that is being made.
        self._copy: DelaysCopy | None = None
        self._delivered_count = 0
        self._cancelled_count = 0

    def __len__(self) -> int:
        """How many messages are pending."""
        return len(self._wheel) + len(self._leaving) + self._far.count

    @property
    def far_count(self) -> int:
        """How many messages are due beyond the reach of the wheel."""
        return self._far.count

    @property
    def delivered_count(self) -> int:
        return self._delivered_count

    @property
    def cancelled_count(self) -> int:
        return self._cancelled_count

    @property
    def changes(self) -> int:
        """How much has changed since the last statement."""
        return self._changes

    # What the log says

    def add(self, offset: int, due: int, priority: int) -> None:
        """A delayed record was committed; they come in the order of their offsets."""
        if self._offsets and offset <= self._offsets[-1]:
            return
        self._changes += 1
        self._offsets.append(offset)
        self._hidden.add(offset, offset + 1)
        self._dues.append(due)
        self._outcomes.append(_PENDING << _PRIORITY_BITS | priority)
        self._wait(len(self._offsets) - 1)

    def add_all(self, offsets: "array[int]", dues: "array[int]", priorities: "array[int]") -> None:
        """Delayed records were committed together; as `add` for each, in columns."""
        known = bisect_right(offsets, self._offsets[-1]) if self._offsets else 0
        if known:
            offsets, dues, priorities = offsets[known:], dues[known:], priorities[known:]
        if not offsets:
            return
        self._changes += len(offsets)
        self._offsets.extend(offsets)
        self._hidden.add_all(offsets)
        self._dues.extend(dues)
        lanes = priorities.tobytes()
        if lanes.count(lanes[:1]) == len(lanes):
            # Mostly they are of one lane, and are then not looked at one by one.
            self._outcomes.extend(array("q", [_WAITING[lanes[0]]]) * len(lanes))
        else:
            self._outcomes.extend(array("q", [_WAITING[lane] for lane in lanes]))
        if max(dues) <= self._now + self._reach_ns:
            self._wheel.insert_all(offsets, dues)
        else:
            for index in range(len(self._offsets) - len(offsets), len(self._offsets)):
                self._wait(index)

    def hold(self, holder: TransactionKey, offsets: Iterable[int]) -> None:
        """Messages that were added are part of an open transaction: they do not wait yet."""
        held = [offset for offset in offsets if self._change(offset, _PENDING, _HELD)]
        for offset in held:
            self._withdraw(offset)
        if held:
            self._held.setdefault(holder, []).extend(held)

    def release(self, holder: TransactionKey, *, is_commit: bool) -> None:
        """A transaction has ended: its messages wait from now on, or never were."""
        outcome = _PENDING if is_commit else _ABORTED
        for offset in self._held.pop(holder, ()):
            if self._change(offset, _HELD, outcome) and is_commit:
                self._wait(self._index_of(offset))

    def release_all(self, committed: Iterable[TransactionKey]) -> None:
        """Every open transaction has ended: these were committed, all others aborted."""
        for holder in committed:
            self.release(holder, is_commit=True)
        for holder in list(self._held):
            self.release(holder, is_commit=False)

    def deliver(self, offset: int, delivered_offset: int) -> None:
        """The message was appended once more, and that is committed."""
        if self._end(offset, delivered_offset):
            self._delivered_count += 1

    def cancel(self, offset: int, control_offset: int) -> None:
        """The cancellation of a message is committed; it takes an offset of its own."""
        self.pass_control(control_offset)
        if self._end(offset, _CANCELLED):
            self._cancelled_count += 1

    def pass_control(self, offset: int) -> None:
        """A control record was committed: it is no message."""
        if not self._controls or offset > self._controls[-1]:
            self._controls.append(offset)
            self._hidden.add(offset, offset + 1)

    def expire(self, offset: int) -> None:
        """The record of a message cannot be read any more: there is nothing to deliver."""
        self._end(offset, _EXPIRED)

    def _end(self, offset: int, outcome: int) -> bool:
        if not self._change(offset, _PENDING, outcome):
            return False
        self._withdraw(offset)
        return True

    def _wait(self, index: int) -> None:
        """Let the message of an entry wait, with a timer or among those that are due much later."""
        due = self._dues[index]
        if due - self._now > self._reach_ns:
            self._far.add(self._dropped + index, due)
        else:
            self._wheel.insert(self._offsets[index], Timestamp(due))

    def _withdraw(self, offset: int) -> None:
        """A message that was pending is so no longer."""
        if self._leaving.pop(offset, 0) is not None and not self._wheel.cancel(offset):
            self._far.remove()

    def _change(self, offset: int, before: int, after: int) -> bool:
        """Give a message another outcome; False if the one that it has is not this."""
        index = self._index(offset)
        if index is None or self._outcomes[index] >> _PRIORITY_BITS != before:
            return False
        self._changes += 1
        if self._copy is not None:
            self._copy.keep_outcome(index)
        priority = self._outcomes[index] & ((1 << _PRIORITY_BITS) - 1)
        self._outcomes[index] = after << _PRIORITY_BITS | priority
        return True

    def drop_below(self, start: int) -> None:
        """The log begins later now. What was pending before that was damaged, and is gone."""
        count = bisect_left(self._offsets, start)
        controls = bisect_left(self._controls, start)
        if count or controls:
            # It goes by places, which others have now.
            self._copy = None
        if count:
            for index in range(min(self._first_needed, count), count):
                if self._outcomes[index] >> _PRIORITY_BITS == _PENDING:
                    self._withdraw(self._offsets[index])
            del self._offsets[:count], self._dues[:count], self._outcomes[:count]
            self._dropped += count
            self._first_needed = max(0, self._first_needed - count)
        del self._controls[:controls]
        self._hidden.raise_floor(start)

    # Time

    def next_deadline(self) -> Timestamp | None:
        """When to ask what is due: then something is, or far messages come near."""
        deadline, far = self._wheel.next_deadline(), self._far.first_due()
        if far is None:
            return deadline
        near = Timestamp(max(0, far - self._reach_ns // 2))
        return near if deadline is None else min(deadline, near)

    def next_due(self) -> Timestamp | None:
        """When the first message is due; the first block of far ones is looked through for it."""
        dues = [self._due_of(offset) for offset in self._leaving]
        first = self._wheel.next_due()
        if first is not None:
            dues.append(first)
        while (far := self._far.first_due()) is not None and far < min(dues, default=far + 1):
            # The first of a block may have been cancelled: then it is not the first any more.
            entries = self._far.pop_block()
            for index in self._far_entries(entries):
                self._far.lower(self._dropped + index, self._dues[index])
            if self._far.first_due() == far:
                dues.append(far)
        return min(dues, default=None)

    def _far_entries(self, entries: range) -> list[int]:
        """The places of those that are pending and have no timer, of a range of entries."""
        first = max(0, entries.start - self._dropped)
        end = min(len(self._offsets), entries.stop - self._dropped)
        leaving, due_of = self._leaving, self._wheel.due_of
        return [
            index
            for index in range(first, end)
            if self._outcomes[index] >> _PRIORITY_BITS == _PENDING
            and self._offsets[index] not in leaving
            and due_of(self._offsets[index]) is None
        ]

    def _bring_near(self, now: Timestamp) -> bool:
        """Give far messages timers as they come near; False if more of them are due already."""
        for _ in range(_BLOCKS_AT_ONCE):
            first = self._far.first_due()
            if first is None or first > now + self._reach_ns // 2:
                return True
            for index in self._far_entries(self._far.pop_block()):
                due = self._dues[index]
                if due > now + self._reach_ns:
                    self._far.lower(self._dropped + index, due)
                else:
                    self._far.remove()
                    self._wheel.insert(self._offsets[index], Timestamp(due))
        first = self._far.first_due()
        return first is None or first > now

    def due(self, now: Timestamp, limit: int) -> list[Offset]:
        """Messages whose time has come, earliest first; each is leaving from now on.

        After a long absence so many far messages may be due that some get no timer yet: then
        nothing is, so that the order is kept, and the deadline is now.
        """
        self._now = now
        if not self._bring_near(now):
            return []
        fired = [Offset(offset) for offset, _ in self._wheel.advance(now, limit)]
        self._leaving.update(dict.fromkeys(fired))
        return fired

    def leave(self, offset: int) -> bool:
        """Take a message out of what waits to cancel it; False if it does not wait."""
        index = self._index(offset)
        is_pending = index is not None and self._outcomes[index] >> _PRIORITY_BITS == _PENDING
        if not is_pending or offset in self._leaving:
            return False
        self._withdraw(offset)
        self._leaving[offset] = None
        return True

    def stay(self, offset: int) -> None:
        """What was to be appended for a message was not: it waits again."""
        if self._leaving.pop(offset, 0) is None:
            self._wait(self._index_of(offset))

    # Asking

    def find(self, offset: int) -> Delayed | None:
        index = self._index(offset)
        if index is None or self._outcomes[index] >> _PRIORITY_BITS in {_HELD, _ABORTED}:
            return None
        return self._delayed(index)

    @property
    def leaving_count(self) -> int:
        """How many messages are on their way to the log."""
        return len(self._leaving)

    def is_leaving(self, offset: int) -> bool:
        return offset in self._leaving

    def pending(self, count: int) -> list[tuple[int, int]]:
        """The first messages that are pending, as due time and offset."""
        found = [(int(self._due_of(offset)), offset) for offset in self._leaving]
        found += [(int(due), offset) for offset, due in self._wheel.page(0, count)]
        for entries in self._far.blocks():
            places = self._far_entries(entries)
            found += [(self._dues[index], self._offsets[index]) for index in places]
        found.sort()
        return found[:count]

    # Pages: by place in the columns

    @property
    def entry_count(self) -> int:
        """How many delayed records are known, whatever became of them."""
        return len(self._offsets)

    @property
    def pending_from(self) -> int:
        """Nothing before this place waits."""
        return self._first_needed

    def dues_of(self, first: int, count: int) -> Sequence[int]:
        """When messages are or were due, of `count` entries from `first`."""
        return self._dues[first : first + count] or (0,)

    def waiting_within(self, first: int, count: int, low: int, high: int) -> list[tuple[int, int]]:
        """Messages that wait and are due from `low` to `high`, of `count` entries from `first`."""
        pending = _PENDING << _PRIORITY_BITS
        entries = slice(first, first + count)
        dues, outcomes = self._dues[entries], self._outcomes[entries]
        return [
            (due, offset)
            for due, outcome, offset in zip(dues, outcomes, self._offsets[entries], strict=True)
            if pending <= outcome < 0 and low <= due <= high
        ]

    def needed_from(self, durable: int = _NEVER_LOST) -> Offset | None:
        """The first offset that is still needed: its message is pending, or would be again.

        A delivery at or above `durable` may be lost with the end of the log, and then only the
        first record is left to deliver the message from.
        """
        outcomes = self._outcomes
        while self._first_needed < len(outcomes):
            outcome = outcomes[self._first_needed] >> _PRIORITY_BITS
            if outcome in {_PENDING, _HELD} or outcome >= durable:
                return Offset(self._offsets[self._first_needed])
            self._first_needed += 1
        return None

    def hidden_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are no messages: delayed ones, and cancellations."""
        return sum(
            max(0, bisect_left(column, end) - bisect_left(column, first))
            for column in (self._offsets, self._controls)
        )

    def skip_hidden(self, offset: Offset) -> Offset:
        """The first offset from this one on that may be a message."""
        columns = (self._offsets, self._controls)
        places = [bisect_left(column, offset) for column in columns]
        is_hidden = True
        while is_hidden:
            is_hidden = False
            for number, column in enumerate(columns):
                # The columns have no offset in common, and each rises.
                while places[number] < len(column) and column[places[number]] == offset:
                    places[number] += 1
                    offset = Offset(offset + 1)
                    is_hidden = True
        return offset

    @property
    def hidden(self) -> Ranges:
        """The offsets that are no messages, or are gone."""
        return self._hidden

    def _index(self, offset: int) -> int | None:
        index = bisect_left(self._offsets, offset)
        is_there = index < len(self._offsets) and self._offsets[index] == offset
        return index if is_there else None

    def _index_of(self, offset: int) -> int:
        index = self._index(offset)
        assert index is not None
        return index

    def _due_of(self, offset: int) -> Timestamp:
        return Timestamp(self._dues[self._index_of(offset)])

    def _delayed(self, index: int) -> Delayed:
        outcome = self._outcomes[index] >> _PRIORITY_BITS
        state = DelayState.DELIVERED
        if outcome == _PENDING:
            state = DelayState.PENDING
        elif outcome == _CANCELLED:
            state = DelayState.CANCELLED
        elif outcome == _EXPIRED:
            state = DelayState.EXPIRED
        return Delayed(
            offset=Offset(self._offsets[index]),
            due=Timestamp(self._dues[index]),
            priority=Priority(self._outcomes[index] & ((1 << _PRIORITY_BITS) - 1)),
            state=state,
            delivered_offset=Offset(outcome) if outcome >= 0 else None,
        )

    # Snapshots

    def stated(self, topic: int, upto: int) -> DelaysStated:
        """A copy of all of it, for a snapshot."""
        copy = self.begin_copy()
        while copy.copy_block():
            pass
        self.end_copy(copy)
        return copy.stated(topic, upto)

    def begin_copy(self) -> DelaysCopy:
        """Begin a statement of what is now; one that was begun before is abandoned."""
        columns = (self._offsets, self._dues, self._outcomes, self._controls)
        held = [(*holder, list(offsets)) for holder, offsets in self._held.items()]
        self._copy = DelaysCopy(columns, held, self._changes)
        return self._copy

    def is_copied_by(self, copy: DelaysCopy) -> bool:
        """Whether this statement was not abandoned."""
        return self._copy is copy

    @property
    def is_copied(self) -> bool:
        """Whether a statement is being made."""
        return self._copy is not None

    def end_copy(self, copy: DelaysCopy) -> None:
        """A statement is complete: what changed since it began counts for the next."""
        assert self._copy is copy
        self._copy = None
        self._changes -= copy.changes

    def restore(self, stated: DelaysStated) -> bool:
        """Become what was stated; must be empty before. False: that makes no sense, and nothing is.

        A snapshot that is damaged costs time and no more.
        """
        restored: list[bool] = []

        def steps() -> Generator[int, None, None]:
            restored.append((yield from self.restore_in_steps(stated)))

        for _ in steps():
            pass
        return restored[0]

    def restore_in_steps(self, stated: DelaysStated) -> Generator[int, None, bool]:
        """As `restore`; yields after each block how many entries it passed over."""
        columns = [stated.offsets, stated.dues, stated.outcomes, stated.controls]
        read = [each for each in map(read_column, columns) if each is not None]
        if len(read) != len(columns):
            return False
        offsets, dues, outcomes, controls = read
        if len(offsets) != len(dues) or len(offsets) != len(outcomes):
            return False
        for first in range(0, max(len(offsets), len(controls)), _RESTORED_AT_ONCE):
            # One more, so that the blocks are compared with each other, too.
            entries = slice(first, first + _RESTORED_AT_ONCE + 1)
            if not (_rises(offsets[entries]) and _rises(controls[entries])):
                return False
            if min(dues[entries], default=0) < 0:
                return False
            yield _RESTORED_AT_ONCE
        self._offsets, self._dues = offsets, dues
        self._outcomes, self._controls = outcomes, controls
        self._held = {
            TransactionKey(producer, number): list(each) for producer, number, each in stated.held
        }
        for first in range(0, max(len(offsets), len(controls)), _RESTORED_AT_ONCE):
            entries = slice(first, first + _RESTORED_AT_ONCE)
            self._hidden.add_all(offsets[entries])
            self._hidden.add_all(controls[entries])
            self._place_all(first)
            yield _RESTORED_AT_ONCE
        return True

    def _place_all(self, first: int) -> None:
        """Count what is over among the next entries, and let the others wait."""
        entries = slice(first, first + _RESTORED_AT_ONCE)
        pending, cancelled = _PENDING << _PRIORITY_BITS, _CANCELLED << _PRIORITY_BITS
        offsets, dues = self._offsets[entries], self._dues[entries]
        outcomes = self._outcomes[entries]
        self._delivered_count += sum([outcome >= 0 for outcome in outcomes])
        self._cancelled_count += sum([cancelled <= outcome < pending for outcome in outcomes])
        waits = [pending <= outcome < 0 for outcome in outcomes]
        if max(dues, default=0) <= self._now + self._reach_ns:
            timers, times = compress(offsets, waits), compress(dues, waits)
            self._wheel.insert_all(array("q", timers), array("q", times))
        else:
            for index in compress(range(first, first + len(waits)), waits):
                self._wait(index)


def _rises(column: "array[int]") -> bool:
    return all(map(lt, column, column[1:]))
